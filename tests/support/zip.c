#include "tests/support/zip.h"

#include <string.h>

#include "base/deflate.h"

void zip_writer_done(struct zip_writer *writer)
{
    buffer_done(&writer->bytes);
    buffer_done(&writer->directory);
}

static struct status append_fields(struct buffer *to, const uint32_t *values, const char *widths)
{
    for (size_t i = 0; widths[i]; i++)
        TRY(widths[i] == '2' ? buffer_append_le16(to, (uint16_t)values[i])
                             : buffer_append_le32(to, values[i]));
    return OK;
}

static struct status append_data(struct buffer *to, enum zip_form form, const void *bytes,
                                 size_t length)
{
    if (form == ZIP_DEFLATED) {
        TRY(buffer_append_u8(to, 1)); /* the last block, stored */
        TRY(buffer_append_le16(to, (uint16_t)length));
        TRY(buffer_append_le16(to, (uint16_t)~length));
    }
    return buffer_append(to, bytes, length);
}

struct status zip_add(struct zip_writer *writer, const char *name, enum zip_form form,
                      unsigned mode, const void *bytes, size_t length)
{
    bool is_64 = form == ZIP_STORED_64;
    uint32_t offset = (uint32_t)writer->bytes.length, name_length = (uint32_t)strlen(name);
    uint32_t method = form == ZIP_DEFLATED ? 8 : 0, size = is_64 ? UINT32_MAX : (uint32_t)length;
    uint32_t packed = form == ZIP_DEFLATED ? size + 5 : size;
    uint32_t crc = crc32_update(0, bytes, length), extra = is_64 ? 28 : 0;
    const uint32_t local[] = {0x04034b50, 20, 0, method, 0, crc, packed, size, name_length, 0};
    TRY(append_fields(&writer->bytes, local, "4222444422"));
    TRY(buffer_append(&writer->bytes, name, name_length));
    TRY(append_data(&writer->bytes, form, bytes, length));

    struct buffer *directory = &writer->directory;
    const uint32_t entry[] = {0x02014b50, 20 | 3 << 8, 20,         0,
                              method,     0,           crc,        packed,
                              size,       name_length, extra,      0,
                              0,          0,           mode << 16, is_64 ? UINT32_MAX : offset};
    TRY(append_fields(directory, entry, "4222244442222244"));
    TRY(buffer_append(directory, name, name_length));
    writer->count++;
    if (!is_64)
        return OK;
    TRY(buffer_append_le16(directory, 1));
    TRY(buffer_append_le16(directory, 24));
    TRY(buffer_append_le64(directory, length));
    TRY(buffer_append_le64(directory, length));
    return buffer_append_le64(directory, offset);
}

static struct status append_end64(struct zip_writer *writer, uint64_t start)
{
    struct buffer *to = &writer->bytes;
    uint64_t end = to->length;
    TRY(buffer_append_le32(to, 0x06064b50));
    TRY(buffer_append_le64(to, 44));
    TRY(buffer_append_le32(to, 45 | 45 << 16));
    TRY(buffer_append_le64(to, 0)); /* disks */
    TRY(buffer_append_le64(to, writer->count));
    TRY(buffer_append_le64(to, writer->count));
    TRY(buffer_append_le64(to, writer->directory.length));
    TRY(buffer_append_le64(to, start));
    TRY(buffer_append_le32(to, 0x07064b50));
    TRY(buffer_append_le32(to, 0));
    TRY(buffer_append_le64(to, end));
    return buffer_append_le32(to, 1);
}

struct status zip_end(struct zip_writer *writer, bool is_64, const char *comment)
{
    uint32_t start = (uint32_t)writer->bytes.length, count = (uint32_t)writer->count;
    uint32_t size = (uint32_t)writer->directory.length;
    TRY(buffer_append(&writer->bytes, writer->directory.data, writer->directory.length));
    if (is_64)
        TRY(append_end64(writer, start));
    const uint32_t end[] = {0x06054b50,
                            0,
                            0,
                            is_64 ? UINT16_MAX : count,
                            is_64 ? UINT16_MAX : count,
                            is_64 ? UINT32_MAX : size,
                            is_64 ? UINT32_MAX : start,
                            (uint32_t)strlen(comment)};
    TRY(append_fields(&writer->bytes, end, "42222442"));
    return buffer_append(&writer->bytes, comment, strlen(comment));
}
