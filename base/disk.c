#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"

enum call_kind { CALL_CREATE, CALL_WRITE, CALL_SYNC, CALL_RENAME, CALL_FOLDER, CALL_REMOVE };

static struct {
    bool active;
    bool kill;
    int error;
    uint64_t at_call;
    atomic_uint_fast64_t calls;
    atomic_uint failing_kinds; /* a bit per call_kind */
} fault;
static pthread_once_t fault_once = PTHREAD_ONCE_INIT;

static bool fault_parse(const char *text)
{
    static const struct {
        const char *prefix;
        int error; /* 0: kill */
    } whats[] = {
        {"kill:", 0}, {"ENOSPC:", ENOSPC}, {"EDQUOT:", EDQUOT}, {"EIO:", EIO}, {"EACCES:", EACCES}};
    for (size_t i = 0; i < ARRAY_LENGTH(whats); i++) {
        size_t length = strlen(whats[i].prefix);
        if (strncmp(text, whats[i].prefix, length) != 0)
            continue;
        fault.error = whats[i].error;
        fault.kill = whats[i].error == 0;
        return number_parse_u64(text + length, &fault.at_call) && fault.at_call > 0;
    }
    return false;
}

static void fault_set(const char *text)
{
    fault.active = text != NULL;
    fault.kill = false;
    atomic_store(&fault.calls, 0);
    atomic_store(&fault.failing_kinds, 0);
    if (text && !fault_parse(text)) {
        /* A test that injects nothing would prove nothing: all calls fail. */
        log_error("the fault to inject is '%s', expected for instance kill:3 or ENOSPC:1", text);
        fault.kill = false;
        fault.error = EINVAL;
        fault.at_call = 0;
        atomic_store(&fault.failing_kinds, ~0u);
    }
}

static void fault_init(void)
{
    fault_set(getenv("HEADRACE_FAULT"));
}

void disk_set_fault(const char *text)
{
    pthread_once(&fault_once, fault_init);
    fault_set(text);
}

uint64_t disk_fault_calls(void)
{
    return atomic_load(&fault.calls);
}

/* Counts a call; the error that it has to fail with, or 0. */
static int fault_check(enum call_kind kind)
{
    pthread_once(&fault_once, fault_init);
    if (!fault.active)
        return 0;
    if (atomic_fetch_add(&fault.calls, 1) + 1 == fault.at_call) {
        if (fault.kill)
            raise(SIGKILL);
        atomic_fetch_or(&fault.failing_kinds, 1u << kind);
    }
    return atomic_load(&fault.failing_kinds) >> kind & 1 ? fault.error : 0;
}

static struct status call_failed(int error, const char *action, const char *path)
{
    struct status status = status_errno(error, "cannot %s '%s'", action, path);
    if (status.code != STATUS_NO_SPACE)
        return status;
    struct status advised =
        status_make(STATUS_NO_SPACE, "%s; free some space, then run the same command again",
                    status.message);
    status_clear(&status);
    return advised;
}

static struct status open_with(const char *path, int flags, int *ret_fd)
{
    int error = fault_check(CALL_CREATE), fd = -1;
    if (!error) {
        do
            fd = open(path, O_CREAT | O_CLOEXEC | flags, 0666);
        while (fd < 0 && errno == EINTR);
        error = fd < 0 ? errno : 0;
    }
    if (error == ELOOP && flags & O_NOFOLLOW)
        FAIL(STATUS_IO, "'%s' is a symbolic link, expected a file or nothing; remove it", path);
    if (error)
        return call_failed(error, "create", path);
    *ret_fd = fd;
    return OK;
}

struct status disk_create(const char *path, int flags, int *ret_fd)
{
    return open_with(path, O_WRONLY | flags, ret_fd);
}

struct status disk_open(const char *path, int *ret_fd)
{
    return open_with(path, O_RDWR | O_NOFOLLOW, ret_fd);
}

struct status disk_allocate(int fd, const char *path, uint64_t size_bytes)
{
    struct stat before = {0};
    int error = fault_check(CALL_WRITE);
    if (!error && fstat(fd, &before) < 0)
        error = errno;
    bool is_longer = (uint64_t)before.st_size > size_bytes;
    if (!error && is_longer && ftruncate(fd, (off_t)size_bytes) < 0)
        error = errno;
    if (!error && size_bytes > 0)
        error = posix_fallocate(fd, 0, (off_t)size_bytes);
    if (!error)
        return OK;
    if (!is_longer && ftruncate(fd, before.st_size) < 0) /* what was got is given back */
        error = errno;
    return call_failed(error, "make room for", path);
}

struct status disk_write(int fd, const char *path, const void *bytes, size_t length)
{
    int error = fault_check(CALL_WRITE);
    const char *p = bytes;
    while (!error && length > 0) {
        ssize_t written = write(fd, p, length);
        if (written < 0) {
            error = errno == EINTR ? 0 : errno;
            continue;
        }
        p += written;
        length -= (size_t)written;
    }
    return error ? call_failed(error, "write", path) : OK;
}

struct status disk_write_at(int fd, const char *path, const void *bytes, size_t length,
                            uint64_t offset)
{
    int error = fault_check(CALL_WRITE);
    const char *p = bytes;
    while (!error && length > 0) {
        ssize_t written = pwrite(fd, p, length, (off_t)offset);
        if (written < 0) {
            error = errno == EINTR ? 0 : errno;
            continue;
        }
        p += written;
        length -= (size_t)written;
        offset += (uint64_t)written;
    }
    return error ? call_failed(error, "write", path) : OK;
}

struct status disk_close(int fd, const char *path)
{
    /* An interrupted close has closed the file all the same, on Linux. */
    if (close(fd) < 0 && errno != EINTR)
        return call_failed(errno, "close", path);
    return OK;
}

static struct status sync_with(int (*call)(int), int fd, const char *path)
{
    int error = fault_check(CALL_SYNC);
    if (!error) {
        int result;
        do
            result = call(fd);
        while (result < 0 && errno == EINTR);
        /* Some file systems do not sync folders at all and say EINVAL: nothing is left to do there.
         */
        error = result < 0 && errno != EINVAL ? errno : 0;
    }
    return error ? call_failed(error, "sync", path) : OK;
}

struct status disk_sync(int fd, const char *path)
{
    return sync_with(fsync, fd, path);
}

struct status disk_sync_all(int fd, const char *path)
{
    return sync_with(syncfs, fd, path);
}

/* Failures of calls with two names say both. */
static struct status pair_failed(int error, const char *action, const char *from, const char *to)
{
    return status_context(call_failed(error, action, to), "from '%s'", from);
}

struct status disk_rename(const char *from, const char *to)
{
    int error = fault_check(CALL_RENAME);
    if (!error && rename(from, to) < 0)
        error = errno;
    return error ? pair_failed(error, "rename to", from, to) : OK;
}

struct status disk_link(const char *from, const char *to)
{
    int error = fault_check(CALL_CREATE);
    if (!error && link(from, to) < 0)
        error = errno;
    return error ? pair_failed(error, "link to", from, to) : OK;
}

struct status disk_make_folder(const char *path)
{
    int error = fault_check(CALL_FOLDER);
    if (!error && mkdir(path, 0777) < 0)
        error = errno;
    struct stat info;
    if (error == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        error = 0;
    if (error == EEXIST)
        FAIL(STATUS_IO, "'%s' exists and is not a folder", path);
    return error ? call_failed(error, "create folder", path) : OK;
}

static struct status remove_with(int (*call)(const char *), const char *path)
{
    int error = fault_check(CALL_REMOVE);
    if (!error && call(path) < 0)
        error = errno;
    return error && error != ENOENT ? call_failed(error, "remove", path) : OK;
}

struct status disk_remove_file(const char *path)
{
    return remove_with(unlink, path);
}

struct status disk_remove_folder(const char *path)
{
    return remove_with(rmdir, path);
}
