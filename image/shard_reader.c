#include "image/shard_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/memory.h"

/* A file that stays open. */
struct open_file {
    int fd;
    struct stat state; /* when it was opened */
};

static void open_file_free(struct open_file *file)
{
    if (file)
        fd_close(file->fd);
    memory_free(file);
}
CLEANUP_POINTER(open_file_free, struct open_file)

struct shard_reader {
    const struct source_shard *shards;
    size_t count;
    struct open_file *_Atomic *files; /* of each shard, NULL while it is not open */
};

struct status shard_reader_open(const struct source_shard *shards, size_t count,
                                struct shard_reader **ret_reader)
{
    CLEANUP(shard_reader_close) struct shard_reader *reader = NULL;
    TRY(memory_alloc(1, sizeof *reader, &reader));
    reader->shards = shards;
    TRY(memory_alloc(count, sizeof *reader->files, &reader->files));
    reader->count = count;
    *ret_reader = MOVE(reader);
    return OK;
}

void shard_reader_close(struct shard_reader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < reader->count; i++)
        open_file_free(reader->files[i]);
    memory_free(reader->files);
    memory_free(reader);
}

/* Opens a file and compares its size with the one that was recorded. */
static struct status open_checked(const char *path, uint64_t expected_bytes, int *ret_fd)
{
    CLEANUP(fd_close) int fd = -1;
    uint64_t size_bytes;
    TRY(file_open_read(path, &fd));
    TRY(file_size(fd, path, &size_bytes));
    if (size_bytes != expected_bytes)
        FAIL(STATUS_CORRUPT,
             "%s has %" PRIu64 " bytes where %" PRIu64
             " were recorded: it was changed or replaced; pack it again",
             path, size_bytes, expected_bytes);
    *ret_fd = fd;
    fd = -1;
    return OK;
}

static struct status file_state(int fd, const char *path, struct stat *ret_state)
{
    if (fstat(fd, ret_state) < 0)
        return status_errno(errno, "cannot look at '%s'", path);
    return OK;
}

/* The file of a shard that is one. Two threads may both open it; the second closes its own again.
 */
static struct status shard_file(struct shard_reader *reader, uint32_t shard,
                                const struct open_file **ret_file)
{
    struct open_file *file = atomic_load_explicit(&reader->files[shard], memory_order_acquire);
    if (!file) {
        const struct source_shard *entry = &reader->shards[shard];
        CLEANUP(open_file_free) struct open_file *opened = NULL;
        TRY(memory_alloc(1, sizeof *opened, &opened));
        opened->fd = -1;
        TRY(open_checked(entry->path, entry->size_bytes, &opened->fd));
        TRY(file_state(opened->fd, entry->path, &opened->state));
        if (atomic_compare_exchange_strong(&reader->files[shard], &file, opened))
            file = MOVE(opened);
    }
    *ret_file = file;
    return OK;
}

struct status shard_state(struct shard_reader *reader, uint32_t shard, struct stat *ret_state)
{
    const struct source_shard *entry = &reader->shards[shard];
    const struct open_file *file;
    if (shard_is_folder(entry)) {
        if (stat(entry->path, ret_state) < 0)
            return status_errno(errno, "cannot look at '%s'", entry->path);
        return OK;
    }
    TRY(shard_file(reader, shard, &file));
    *ret_state = file->state;
    return OK;
}

static struct status folder_read(const struct source_shard *shard, const struct shard_range *range,
                                 void *bytes)
{
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(fd_close) int fd = -1;
    TRY(shard_record_path(shard, range->class_name, range->name, &path));
    TRY(open_checked(path, range->length, &fd));
    return file_read_at(fd, path, bytes, range->length, 0);
}

static struct status file_range_read(struct shard_reader *reader, const struct shard_range *range,
                                     void *bytes)
{
    const char *path = reader->shards[range->shard].path;
    const struct open_file *file;
    struct stat now;
    TRY(shard_file(reader, range->shard, &file));
    TRY(file_read_at(file->fd, path, bytes, range->length, range->offset));
    if (range->crc_known)
        return OK;
    TRY(file_state(file->fd, path, &now));
    if (now.st_mtim.tv_sec != file->state.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != file->state.st_mtim.tv_nsec)
        FAIL(STATUS_CORRUPT,
             "'%s' was written to since it was first read, so that records of two versions would "
             "be mixed; start again",
             path);
    return OK;
}

struct status shard_read(struct shard_reader *reader, const struct shard_range *range, void *bytes)
{
    const struct source_shard *shard = &reader->shards[range->shard];
    if (shard->remote)
        return shard->remote->read(shard->remote, range, bytes);
    if (shard_is_folder(shard))
        TRY(folder_read(shard, range, bytes));
    else
        TRY(file_range_read(reader, range, bytes));
    if (!range->crc_known)
        return OK;
    uint32_t crc = crc32c_update(0, bytes, range->length);
    if (crc != range->crc32c)
        FAIL(STATUS_CORRUPT,
             "'%s': the %" PRIu64 " bytes at offset %" PRIu64
             " are damaged: their CRC is %08x, expected %08x",
             shard->path, range->length, range->offset, crc, range->crc32c);
    return OK;
}

struct status shard_read_buffer(struct shard_reader *reader, const struct shard_range *range,
                                struct buffer *bytes)
{
    bytes->length = 0; /* so that growing copies nothing */
    TRY(buffer_reserve(bytes, range->length + SHARD_PADDING));
    bytes->length = range->length;
    memset(bytes->data + range->length, 0, SHARD_PADDING);
    return shard_read(reader, range, bytes->data);
}

void shard_read_ahead(struct shard_reader *reader, uint32_t shard, uint64_t offset, uint64_t length)
{
    const struct open_file *file;
    if (shard_is_folder(&reader->shards[shard]) || reader->shards[shard].remote)
        return;
    struct status status = shard_file(reader, shard, &file);
    if (status.code == STATUS_DONE)
        posix_fadvise(file->fd, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
    status_ignore(status);
}
