#ifndef HEADRACE_BASE_BYTES_H
#define HEADRACE_BASE_BYTES_H

/* Little-endian numbers in byte strings, and two cursors: a reader that never leaves its bounds
 * and a growing buffer with a ceiling. */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/scope.h"
#include "base/status.h"

static inline uint16_t load_le16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t load_le32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t load_le64(const void *p)
{
    return load_le32(p) | (uint64_t)load_le32((const uint8_t *)p + 4) << 32;
}

static inline void store_le16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void store_le32(void *p, uint32_t v)
{
    store_le16(p, (uint16_t)v);
    store_le16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}

/* At once: of single bytes, compilers make vectors first and one store last. */
static inline void store_le64(void *p, uint64_t v)
{
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

/* A growing byte string. Zero it to start (or set ceiling_bytes first); 0 means a ceiling of 1 GiB.
 * Growing past the ceiling fails with STATUS_NO_MEMORY, so that no hostile length is ever believed.
 */
struct buffer {
    uint8_t *data;
    size_t length;
    size_t capacity;
    size_t ceiling_bytes;
};

void buffer_done(struct buffer *buffer);
CLEANUP_VALUE(buffer_done, struct buffer)

/* Makes room for `capacity` bytes in all; the length stays. */
struct status buffer_reserve(struct buffer *buffer, size_t capacity);
/* Sets the length; new bytes are zero. */
struct status buffer_resize(struct buffer *buffer, size_t length);
struct status buffer_append(struct buffer *buffer, const void *bytes, size_t length);
struct status buffer_append_u8(struct buffer *buffer, uint8_t value);
struct status buffer_append_le16(struct buffer *buffer, uint16_t value);
struct status buffer_append_le32(struct buffer *buffer, uint32_t value);
struct status buffer_append_le64(struct buffer *buffer, uint64_t value);
/* Appends printf-like text without its terminating zero. */
struct status buffer_append_text(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
struct status buffer_append_text_va(struct buffer *buffer, const char *format, va_list arguments)
    PRINTF_LIKE(2, 0);
/* The content as a zero-terminated string, borrowed until the next change. */
struct status buffer_text(struct buffer *buffer, const char **ret_text);

/* A cursor over borrowed bytes. A read past the end gives 0, sets `overrun` and moves nothing, so
 * that a parser may read a whole header and check once. */
struct reader {
    const uint8_t *data;
    size_t length;
    size_t position;
    bool overrun;
};

static inline struct reader reader_make(const void *data, size_t length)
{
    return (struct reader){data, length, 0, false};
}

/* The next `count` bytes, borrowed, or NULL (and overrun) if there are fewer. */
const uint8_t *reader_take(struct reader *reader, size_t count);
uint8_t reader_u8(struct reader *reader);
uint16_t reader_le16(struct reader *reader);
uint32_t reader_le32(struct reader *reader);
uint64_t reader_le64(struct reader *reader);
static inline size_t reader_left(const struct reader *reader)
{
    return reader->length - reader->position;
}

#endif
