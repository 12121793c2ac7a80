#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"

void fd_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

struct status file_open_read(const char *path, int *ret_fd)
{
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return status_errno(errno, "cannot open '%s'", path);

    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        fd_close(fd);
        FAIL(STATUS_FAILED, "cannot open '%s': it is a folder, expected a file", path);
    }
    *ret_fd = fd;
    return OK;
}

struct status file_size(int fd, const char *path, uint64_t *ret_size_bytes)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return status_errno(errno, "cannot tell the size of '%s'", path);
    if (!S_ISREG(info.st_mode))
        FAIL(STATUS_FAILED, "'%s' is not a regular file", path);
    *ret_size_bytes = (uint64_t)info.st_size;
    return OK;
}

struct status file_length(const char *path, uint64_t *ret_size_bytes)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return status_errno(errno, "cannot read '%s'", path);
    *ret_size_bytes = (uint64_t)info.st_size;
    return OK;
}

struct status file_read_at(int fd, const char *path, void *bytes, size_t length, uint64_t offset)
{
    if (offset > INT64_MAX || length > INT64_MAX - offset)
        FAIL(STATUS_CORRUPT, "'%s' cannot have %zu bytes at offset %" PRIu64, path, length, offset);
    uint8_t *p = bytes;
    size_t done = 0;
    while (done < length) {
        ssize_t count = pread(fd, p + done, length - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return status_errno(errno, "cannot read '%s' at offset %" PRIu64, path, offset + done);
        if (count == 0)
            FAIL(STATUS_CORRUPT,
                 "'%s' is cut short: expected %zu bytes at offset %" PRIu64 ", found %zu", path,
                 length, offset, done);
        done += (size_t)count;
    }
    return OK;
}

struct status file_read_all(const char *path, size_t ceiling_bytes, struct buffer *content)
{
    CLEANUP(fd_close) int fd = -1;
    TRY(file_open_read(path, &fd));
    content->length = 0;
    struct stat info;
    if (fstat(fd, &info) == 0 && (uint64_t)info.st_size < ceiling_bytes)
        TRY(buffer_reserve(content, (size_t)info.st_size + 1));

    for (;;) { /* to the end and not to st_size: pipes and /proc have none */
        if (content->length == content->capacity)
            TRY(buffer_reserve(content, content->length + 4096));
        ssize_t count =
            read(fd, content->data + content->length, content->capacity - content->length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return status_errno(errno, "cannot read '%s'", path);
        if (count == 0)
            return OK;
        content->length += (size_t)count;
        if (content->length > ceiling_bytes)
            FAIL(STATUS_CORRUPT, "'%s' is longer than the %zu bytes it may have", path,
                 ceiling_bytes);
    }
}

bool file_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

struct status file_hold(const char *path, int *ret_fd)
{
    *ret_fd = -1;
    TRY(disk_create(path, O_APPEND, ret_fd));
    if (file_lock(*ret_fd))
        return OK;
    fd_close(*ret_fd);
    *ret_fd = -1;
    return OK;
}

struct status file_rename(const char *from, const char *to)
{
    return disk_rename(from, to);
}

struct status file_link(const char *from, const char *to)
{
    return disk_link(from, to);
}

struct status file_remove(const char *path)
{
    return disk_remove_file(path);
}

struct status file_map_open(const char *path, struct file_map *ret_map)
{
    CLEANUP(fd_close) int fd = -1;
    uint64_t size_bytes;
    TRY(file_open_read(path, &fd));
    TRY(file_size(fd, path, &size_bytes));
    if (size_bytes == 0) {
        *ret_map = (struct file_map){(const uint8_t *)"", 0};
        return OK;
    }
    void *data = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return status_errno(errno, "cannot map '%s'", path);
    *ret_map = (struct file_map){data, size_bytes};
    return OK;
}

void file_map_done(struct file_map *map)
{
    if (map->size_bytes)
        munmap((void *)map->data, map->size_bytes);
    *map = (struct file_map){0};
}
