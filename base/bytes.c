#include "base/bytes.h"

#include <stdio.h>

#include "base/memory.h"

static const size_t default_ceiling_bytes = (size_t)1 << 30;

void buffer_done(struct buffer *buffer)
{
    memory_free(buffer->data);
    *buffer = (struct buffer){.ceiling_bytes = buffer->ceiling_bytes};
}

struct status buffer_reserve(struct buffer *buffer, size_t capacity)
{
    if (capacity <= buffer->capacity)
        return OK;
    size_t ceiling = buffer->ceiling_bytes ? buffer->ceiling_bytes : default_ceiling_bytes;
    if (capacity > ceiling)
        FAIL(STATUS_NO_MEMORY, "%zu bytes are more than the limit of %zu", capacity, ceiling);

    size_t grown = buffer->capacity + buffer->capacity / 2 + 64;
    if (grown < capacity)
        grown = capacity;
    if (grown > ceiling)
        grown = ceiling;
    TRY(memory_resize(grown, 1, &buffer->data));
    buffer->capacity = grown;
    return OK;
}

/* Makes room for `length` more bytes. */
static struct status buffer_reserve_more(struct buffer *buffer, size_t length)
{
    size_t total;
    if (__builtin_add_overflow(buffer->length, length, &total))
        FAIL(STATUS_NO_MEMORY, "a length of %zu more bytes overflows", length);
    return buffer_reserve(buffer, total);
}

struct status buffer_resize(struct buffer *buffer, size_t length)
{
    TRY(buffer_reserve(buffer, length));
    if (length > buffer->length)
        memset(buffer->data + buffer->length, 0, length - buffer->length);
    buffer->length = length;
    return OK;
}

struct status buffer_append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (length == 0)
        return OK;
    TRY(buffer_reserve_more(buffer, length));
    memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    return OK;
}

struct status buffer_append_u8(struct buffer *buffer, uint8_t value)
{
    return buffer_append(buffer, &value, 1);
}

struct status buffer_append_le16(struct buffer *buffer, uint16_t value)
{
    uint8_t bytes[2];
    store_le16(bytes, value);
    return buffer_append(buffer, bytes, sizeof bytes);
}

struct status buffer_append_le32(struct buffer *buffer, uint32_t value)
{
    uint8_t bytes[4];
    store_le32(bytes, value);
    return buffer_append(buffer, bytes, sizeof bytes);
}

struct status buffer_append_le64(struct buffer *buffer, uint64_t value)
{
    uint8_t bytes[8];
    store_le64(bytes, value);
    return buffer_append(buffer, bytes, sizeof bytes);
}

struct status buffer_append_text_va(struct buffer *buffer, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0)
        FAIL(STATUS_FAILED, "cannot format a text");
    TRY(buffer_reserve_more(buffer, (size_t)length + 1));
    vsnprintf((char *)buffer->data + buffer->length, (size_t)length + 1, format, arguments);
    buffer->length += (size_t)length;
    return OK;
}

struct status buffer_append_text(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    struct status status = buffer_append_text_va(buffer, format, arguments);
    va_end(arguments);
    return status;
}

struct status buffer_text(struct buffer *buffer, const char **ret_text)
{
    TRY(buffer_reserve_more(buffer, 1));
    buffer->data[buffer->length] = '\0';
    *ret_text = (const char *)buffer->data;
    return OK;
}

const uint8_t *reader_take(struct reader *reader, size_t count)
{
    if (count > reader_left(reader)) {
        reader->overrun = true;
        return NULL;
    }
    const uint8_t *bytes = reader->data + reader->position;
    reader->position += count;
    return bytes;
}

uint8_t reader_u8(struct reader *reader)
{
    const uint8_t *bytes = reader_take(reader, 1);
    return bytes ? bytes[0] : 0;
}

uint16_t reader_le16(struct reader *reader)
{
    const uint8_t *bytes = reader_take(reader, 2);
    return bytes ? load_le16(bytes) : 0;
}

uint32_t reader_le32(struct reader *reader)
{
    const uint8_t *bytes = reader_take(reader, 4);
    return bytes ? load_le32(bytes) : 0;
}

uint64_t reader_le64(struct reader *reader)
{
    const uint8_t *bytes = reader_take(reader, 8);
    return bytes ? load_le64(bytes) : 0;
}
