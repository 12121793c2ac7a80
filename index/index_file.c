#include "index/index_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/memory.h"

/* What is fetched at once: as much as comes within a deadline over a slow line. */
enum { PIECE_BYTES = 8 << 20 };

void index_file_done(struct index_file *file)
{
    file_map_done(&file->map);
    memory_free(file->fetched);
    *file = (struct index_file){0};
}

/* Where the index stands in a packed shard, by the shard's last 64 bytes. */
static struct status trailer_find(const char *path, const uint8_t footer[PACKED_HEADER_BYTES],
                                  uint64_t file_bytes, uint64_t *ret_offset, uint64_t *ret_size)
{
    uint64_t offset = load_le64(footer + 8), size = load_le64(footer + 16), end;
    if (memcmp(footer, PACKED_TRAILER_MAGIC, 8) != 0 ||
        crc32c_update(0, footer, PACKED_CRC) != load_le32(footer + PACKED_CRC) ||
        offset % INDEX_ALIGNMENT || !size_add(offset, size, &end) ||
        end != file_bytes - PACKED_HEADER_BYTES)
        FAIL(STATUS_CORRUPT, "'%s' is a packed shard whose last 64 bytes are damaged or missing",
             path);
    *ret_offset = offset;
    *ret_size = size;
    return OK;
}

/* Of a file whose first bytes are in file->header. */
static bool is_packed(const struct index_file *file)
{
    return file->file_bytes >= 2 * PACKED_HEADER_BYTES &&
           memcmp(file->header, PACKED_HEADER_MAGIC, 8) == 0;
}

static struct status map_open(const char *path, struct index_file *file)
{
    uint64_t offset;
    TRY(file_map_open(path, &file->map));
    file->data = file->map.data;
    file->size_bytes = file->file_bytes = file->map.size_bytes;
    memcpy(file->header, file->data,
           file->size_bytes < sizeof file->header ? file->size_bytes : sizeof file->header);
    file->is_packed = is_packed(file);
    if (!file->is_packed)
        return OK;
    TRY(trailer_find(path, file->data + file->file_bytes - PACKED_HEADER_BYTES, file->file_bytes,
                     &offset, &file->size_bytes));
    file->data += offset;
    return OK;
}

static struct status range_read(struct remote_file *remote, uint64_t offset, uint64_t length,
                                void *bytes)
{
    const struct shard_range range = {.offset = offset, .length = length};
    return remote_file_read(remote, &range, bytes);
}

static struct status fetch(const char *path, struct remote_file *remote, struct index_file *file)
{
    uint8_t footer[PACKED_HEADER_BYTES];
    uint64_t offset = 0;
    TRY(range_read(remote, 0, sizeof file->header, file->header));
    file->size_bytes = file->file_bytes = remote_file_size(remote);
    file->is_packed = is_packed(file);
    if (file->is_packed) {
        TRY(range_read(remote, file->file_bytes - sizeof footer, sizeof footer, footer));
        TRY(trailer_find(path, footer, file->file_bytes, &offset, &file->size_bytes));
    } else if (memcmp(file->header, INDEX_MAGIC, 8) != 0) {
        FAIL(STATUS_CORRUPT, "'%s' is not an index: it does not begin as one does", path);
    }
    if (file->size_bytes > INDEX_REMOTE_BYTES)
        FAIL(STATUS_UNSUPPORTED,
             "'%s' has an index of %" PRIu64 " bytes; from a server at most %" PRIu64 " are taken",
             path, file->size_bytes, INDEX_REMOTE_BYTES);
    TRY(memory_reserve(file->size_bytes + 1, &file->fetched, &file->fetched_bytes));
    for (uint64_t done = 0; done < file->size_bytes;) {
        uint64_t left = file->size_bytes - done, piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        TRY(range_read(remote, offset + done, piece, file->fetched + done));
        done += piece;
    }
    file->data = file->fetched;
    return OK;
}

struct status index_file_open(const char *path, struct remote_file *remote,
                              struct index_file *ret_file)
{
    CLEANUP(index_file_done) struct index_file file = {0};
    TRY(remote ? fetch(path, remote, &file) : map_open(path, &file));
    *ret_file = file;
    file = (struct index_file){0};
    return OK;
}
