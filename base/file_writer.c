#include "base/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/file.h"
#include "base/memory.h"

struct file_writer {
    char *path;
    char *temporary_path; /* NULL once renamed */
    char *folder;
    int fd;
    uint64_t position;
    uint64_t flushed; /* up to here the kernel was asked to start writing */
    bool prepared;
};

/* Long files are sent to the disk while they grow, so that the final sync has little left to wait
 * for. */
static const uint64_t flush_step_bytes = (uint64_t)16 << 20;

static struct status writer_name(struct file_writer *writer, const char *path)
{
    const char *base = path_base(path);
    if (base[0] == '\0')
        FAIL(STATUS_FAILED, "cannot write '%s': the name of a file is missing", path);
    if (path_is_folder(path))
        FAIL(STATUS_FAILED, "cannot write '%s': it is a folder, expected the name of a file", path);
    CLEANUP(memory_free) char *temporary_base = NULL;
    TRY(string_copy(path, &writer->path));
    TRY(path_folder(path, &writer->folder));
    TRY(string_format(&temporary_base, ".%s.tmp.%ld", base, (long)getpid()));
    return path_join(writer->folder, temporary_base, &writer->temporary_path);
}

struct status file_writer_open(const char *path, struct file_writer **ret_writer)
{
    CLEANUP(file_writer_free) struct file_writer *writer = NULL;
    TRY(memory_alloc(1, sizeof *writer, &writer));
    writer->fd = -1;
    TRY(writer_name(writer, path));
    TRY(disk_create(writer->temporary_path, O_TRUNC | O_NOFOLLOW, &writer->fd));
    *ret_writer = MOVE(writer);
    return OK;
}

struct status file_writer_write(struct file_writer *writer, const void *bytes, size_t length)
{
    TRY(disk_write_at(writer->fd, writer->path, bytes, length, writer->position));
    writer->position += length;
    if (writer->position - writer->flushed >= flush_step_bytes) {
        sync_file_range(writer->fd, (off_t)writer->flushed,
                        (off_t)(writer->position - writer->flushed), SYNC_FILE_RANGE_WRITE);
        writer->flushed = writer->position;
    }
    return OK;
}

struct status file_writer_write_at(struct file_writer *writer, const void *bytes, size_t length,
                                   uint64_t offset)
{
    return disk_write_at(writer->fd, writer->path, bytes, length, offset);
}

uint64_t file_writer_position(const struct file_writer *writer)
{
    return writer->position;
}

struct status file_writer_prepare(struct file_writer *writer)
{
    TRY(disk_sync(writer->fd, writer->path));
    int result = close(writer->fd);
    writer->fd = -1;
    if (result < 0 && errno != EINTR)
        return status_errno(errno, "cannot write '%s'", writer->path);
    writer->prepared = true;
    return OK;
}

struct status file_writer_publish(struct file_writer *writer)
{
    if (!writer->prepared)
        FAIL(STATUS_FAILED, "cannot publish '%s': it was not synced", writer->path);
    TRY(disk_rename(writer->temporary_path, writer->path));
    memory_free(MOVE(writer->temporary_path));
    return folder_sync(writer->folder);
}

struct status file_writer_commit(struct file_writer *writer)
{
    TRY(file_writer_prepare(writer));
    return file_writer_publish(writer);
}

void file_writer_free(struct file_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0 || writer->prepared) {
        fd_close(writer->fd);
        if (writer->temporary_path)
            status_ignore(disk_remove_file(writer->temporary_path));
    }
    memory_free(writer->path);
    memory_free(writer->temporary_path);
    memory_free(writer->folder);
    memory_free(writer);
}

struct status file_write_atomic(const char *path, const void *bytes, size_t length)
{
    CLEANUP(file_writer_free) struct file_writer *writer = NULL;
    TRY(file_writer_open(path, &writer));
    TRY(file_writer_write(writer, bytes, length));
    return file_writer_commit(writer);
}

static struct status write_once(const char *path, int flags, const void *bytes, size_t length)
{
    CLEANUP(fd_close) int fd = -1;
    TRY(disk_create(path, flags, &fd));
    return disk_write(fd, path, bytes, length);
}

struct status file_write_plain(const char *path, const void *bytes, size_t length)
{
    return write_once(path, O_TRUNC, bytes, length);
}

struct status file_append(const char *path, const void *bytes, size_t length)
{
    return write_once(path, O_APPEND, bytes, length);
}
