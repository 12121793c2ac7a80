/* Opens mutated bytes as an index and asks everything of it. The CRCs are made right first where
 * they have a place, so that the parsers behind them are reached. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "index/format.h"
#include "index/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void section_sign(uint8_t *bytes, size_t size, uint8_t *entry)
{
    uint64_t offset = load_le64(entry + 8), length = load_le64(entry + 16);
    if (offset > size || length > size - offset || offset % INDEX_ALIGNMENT)
        return;
    uint64_t crcs = index_align(offset + length), chunks = index_chunks(length);
    if (crcs > size || 4 * chunks > size - crcs)
        return;
    for (uint64_t i = 0; i < chunks; i++) {
        uint64_t begin = i * INDEX_CHUNK_BYTES, left = length - begin;
        store_le32(bytes + crcs + 4 * i,
                   crc32c_update(0, bytes + offset + begin,
                                 left < INDEX_CHUNK_BYTES ? left : INDEX_CHUNK_BYTES));
    }
    store_le32(entry + 24, crc32c_update(0, bytes + crcs, 4 * chunks));
}

static void sign(uint8_t *bytes, size_t size)
{
    if (size < INDEX_HEADER_BYTES)
        return;
    uint64_t count = load_le32(bytes + 12);
    store_le64(bytes + 16, size);
    if (count > INDEX_MAX_SECTIONS || INDEX_HEADER_BYTES + count * INDEX_ENTRY_BYTES > size)
        return;
    for (uint64_t i = 0; i < count; i++)
        section_sign(bytes, size, bytes + INDEX_HEADER_BYTES + i * INDEX_ENTRY_BYTES);
    store_le32(bytes + INDEX_HEADER_CRCS,
               crc32c_update(0, bytes + INDEX_HEADER_BYTES, count * INDEX_ENTRY_BYTES));
    store_le32(bytes + INDEX_HEADER_CRCS + 4, crc32c_update(0, bytes, INDEX_HEADER_CRCS + 4));
}

static void ask(struct index *index)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    const int32_t *labels;
    status_ignore(index_labels(index, &labels));
    status_ignore(index_check_sections(index));
    for (uint64_t i = 0; i < index_count(index) && i < 1000; i++) {
        struct record record;
        const char *name;
        status_ignore(index_record(index, i, &record));
        status_ignore(index_name(index, i, &name));
        status_ignore(index_read(index, i, &bytes));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(index_close) struct index *index = NULL;
    int fd = memfd_create("index", MFD_CLOEXEC);
    char path[64];
    status_ignore(buffer_append(&bytes, data, size));
    if (size > 0 && data[size - 1] % 2)
        sign(bytes.data, bytes.length);
    if (fd < 0 || write(fd, bytes.data, bytes.length) != (ssize_t)bytes.length)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct status status = index_open(path, &index);
    if (status.code == STATUS_DONE)
        ask(index);
    status_clear(&status);
    close(fd);
    return 0;
}
