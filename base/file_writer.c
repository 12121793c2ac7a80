#include "base/file_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
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

static struct status fail_busy(const char *path)
{
    FAIL(STATUS_FAILED, "another headrace is writing '%s'; wait for it, or choose another name",
         path);
}

/* ".NAME.tmp." on the heap: how all temporary files for `path` begin. */
static struct status temporary_prefix(const char *path, char **ret_prefix)
{
    return string_format(ret_prefix, ".%s.tmp.", path_base(path));
}

struct status file_writer_check(const char *path)
{
    CLEANUP(memory_free) char *folder = NULL;
    struct stat info;
    if (path_base(path)[0] == '\0')
        FAIL(STATUS_FAILED, "cannot write '%s': the name of a file is missing", path);
    if (path_is_folder(path))
        FAIL(STATUS_FAILED, "cannot write '%s': it is a folder, expected the name of a file", path);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* the rename would replace it */
        FAIL(STATUS_FAILED,
             "cannot write '%s': it is no regular file but a device, a pipe or a socket; give "
             "another name",
             path);
    TRY(path_folder(path, &folder));
    if (!path_exists(folder))
        FAIL(STATUS_NOT_FOUND, "cannot write '%s': there is no folder '%s'", path, folder);
    return OK;
}

static struct status writer_name(struct file_writer *writer, const char *path)
{
    CLEANUP(memory_free) char *prefix = NULL;
    CLEANUP(memory_free) char *name = NULL;
    TRY(file_writer_check(path));
    TRY(string_copy(path, &writer->path));
    TRY(path_folder(path, &writer->folder));
    TRY(temporary_prefix(path, &prefix));
    TRY(string_format(&name, "%s%ld", prefix, (long)getpid()));
    return path_join(writer->folder, name, &writer->temporary_path);
}

/* A temporary file whose lock can be had belongs to no process any more and is removed; one that
 * is locked is being written. Where files cannot be locked, nothing is known and all is left. */
static struct status leftover_remove(const char *leftover, const char *path, size_t *count)
{
    CLEANUP(fd_close) int fd = open(leftover, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return OK;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *count += 1;
        return disk_remove_file(leftover);
    }
    return errno == EWOULDBLOCK ? fail_busy(path) : OK;
}

/* Calls `visit` for each temporary file for `path`. */
static struct status leftovers_visit(const char *path,
                                     struct status (*visit)(const char *leftover, void *context),
                                     void *context)
{
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *prefix = NULL;
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(path_folder(path, &folder));
    TRY(temporary_prefix(path, &prefix));
    TRY(folder_list_read(folder, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(memory_free) char *leftover = NULL;
        if (strncmp(list.entries[i].name, prefix, strlen(prefix)) != 0)
            continue;
        TRY(path_join(folder, list.entries[i].name, &leftover));
        TRY(visit(leftover, context));
    }
    return OK;
}

/* What is to be removed. */
struct removal {
    const char *path, *own;
    size_t count;
};

static struct status removal_visit(const char *leftover, void *context)
{
    struct removal *removal = context;
    if (removal->own && strcmp(leftover, removal->own) == 0)
        return OK;
    return leftover_remove(leftover, removal->path, &removal->count);
}

/* Removes the leftovers for `path`, except `own` (NULL: none). */
static struct status leftovers_remove(const char *path, const char *own, size_t *ret_count)
{
    struct removal removal = {.path = path, .own = own};
    struct status status = leftovers_visit(path, removal_visit, &removal);
    *ret_count = removal.count;
    return status;
}

static struct status found_visit(const char *leftover, void *context)
{
    (void)leftover;
    *(bool *)context = true;
    return OK;
}

struct status file_writer_find_leftovers(const char *path, bool *ret_found)
{
    *ret_found = false;
    return leftovers_visit(path, found_visit, ret_found);
}

struct status file_writer_sweep(const char *path, size_t *ret_count)
{
    return leftovers_remove(path, NULL, ret_count);
}

/* Creates the temporary file. One of this process's number that a killed process left makes room.
 */
static struct status temporary_create(struct file_writer *writer)
{
    size_t count;
    if (path_exists(writer->temporary_path))
        TRY(file_writer_sweep(writer->path, &count));
    return status_context(disk_create(writer->temporary_path, O_EXCL | O_NOFOLLOW, &writer->fd),
                          "cannot write '%s'", writer->path);
}

/* From here to its end the file is locked. Between the two calls another process may have taken it
 * for a leftover: then it has no name any more. */
static struct status temporary_lock(struct file_writer *writer)
{
    struct stat info;
    size_t count;
    if (!file_lock(writer->fd))
        return fail_busy(writer->path);
    if (fstat(writer->fd, &info) == 0 && info.st_nlink == 0)
        return fail_busy(writer->path);
    return leftovers_remove(writer->path, writer->temporary_path, &count);
}

struct status file_writer_open(const char *path, struct file_writer **ret_writer)
{
    CLEANUP(file_writer_free) struct file_writer *writer = NULL;
    TRY(memory_alloc(1, sizeof *writer, &writer));
    writer->fd = -1;
    TRY(writer_name(writer, path));
    TRY(temporary_create(writer));
    TRY(temporary_lock(writer));
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
    writer->prepared = true;
    return OK;
}

void file_writer_park(struct file_writer *writer)
{
    fd_close(writer->fd); /* it was synced: nothing is left that could fail */
    writer->fd = -1;
}

struct status file_writer_matches(const struct file_writer *writer, bool *ret_matches)
{
    CLEANUP(file_map_done) struct file_map new_file = {0};
    CLEANUP(file_map_done) struct file_map old_file = {0};
    *ret_matches = false;
    if (!path_exists(writer->path))
        return OK;
    TRY(file_map_open(writer->temporary_path, &new_file));
    TRY(file_map_open(writer->path, &old_file));
    *ret_matches = new_file.size_bytes == old_file.size_bytes &&
                   memcmp(new_file.data, old_file.data, new_file.size_bytes) == 0;
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
