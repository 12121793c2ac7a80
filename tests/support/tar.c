#include "tests/support/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void header_finish(uint8_t *header)
{
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
}

static void header_fill(uint8_t *header, const char *name, char type, const char *target,
                        size_t length)
{
    memset(header, 0, TAR_BLOCK);
    memcpy(header, name, strnlen(name, 100));
    memcpy(header + 100, "0000644\0000000000\0000000000", 24);
    snprintf((char *)header + 124, 12, "%011zo", length);
    memcpy(header + 136, "00000000000", 11);
    header[156] = (uint8_t)type;
    if (target)
        memcpy(header + 157, target, strnlen(target, 100));
    memcpy(header + 257, "ustar\00000", 8);
    header_finish(header);
}

static struct status data_append(struct buffer *tar, const void *bytes, size_t length)
{
    TRY(buffer_append(tar, bytes, length));
    return buffer_resize(tar, (tar->length + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK);
}

struct status tar_add(struct buffer *tar, const char *name, char type, const char *target,
                      const void *bytes, size_t length)
{
    uint8_t header[TAR_BLOCK];
    header_fill(header, name, type, target, length);
    TRY(buffer_append(tar, header, sizeof header));
    return data_append(tar, bytes, length);
}

struct status tar_add_file(struct buffer *tar, const char *name, const void *bytes, size_t length)
{
    return tar_add(tar, name, TAR_FILE, NULL, bytes, length);
}

struct status tar_add_pax_file(struct buffer *tar, const char *name, const void *bytes,
                               size_t length)
{
    char record[1024];
    /* The record's length counts its own digits: three of them for names of usual length. */
    int size = snprintf(record, sizeof record, "%03zu path=%s\n", strlen(name) + 10, name);
    TRY(tar_add(tar, "PaxHeaders/member", 'x', NULL, record, (size_t)size));
    return tar_add_file(tar, "member", bytes, length);
}

struct status tar_add_gnu_file(struct buffer *tar, const char *name, const void *bytes,
                               size_t length)
{
    TRY(tar_add(tar, "././@LongLink", 'L', NULL, name, strlen(name) + 1));
    return tar_add_file(tar, name, bytes, length);
}

struct status tar_add_binary_size(struct buffer *tar, const char *name, uint64_t size_bytes)
{
    uint8_t header[TAR_BLOCK];
    header_fill(header, name, TAR_FILE, NULL, 0);
    memset(header + 124, 0, 12);
    header[124] = 0x80;
    for (size_t i = 0; i < 8; i++)
        header[135 - i] = (uint8_t)(size_bytes >> (8 * i));
    header_finish(header);
    return buffer_append(tar, header, sizeof header);
}

struct status tar_add_binary_size_file(struct buffer *tar, const char *name, const void *bytes,
                                       size_t length)
{
    TRY(tar_add_binary_size(tar, name, length));
    return data_append(tar, bytes, length);
}

struct status tar_add_pax_size(struct buffer *tar, const char *name, uint64_t size_bytes)
{
    uint8_t header[TAR_BLOCK];
    char record[64], digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, size_bytes);
    int size = snprintf(record, sizeof record, "%02d size=%s\n", length + 9, digits);
    TRY(tar_add(tar, "PaxHeaders/member", 'x', NULL, record, (size_t)size));
    header_fill(header, name, TAR_FILE, NULL, 0);
    return buffer_append(tar, header, sizeof header);
}

struct status tar_end(struct buffer *tar, size_t multiple_bytes)
{
    size_t length = tar->length + 2 * (size_t)TAR_BLOCK;
    return buffer_resize(tar, (length + multiple_bytes - 1) / multiple_bytes * multiple_bytes);
}
