#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/progress.h"

/* Makes one folder unless it is there; the first that is made is noted. */
static struct status level_make(const char *path, char **first)
{
    if (path_is_folder(path))
        return OK;
    if (!*first)
        TRY(string_copy(path, first));
    return disk_make_folder(path);
}

static struct status levels_make(const char *path, char **first)
{
    CLEANUP(memory_free) char *prefix = NULL;
    TRY(string_copy(path, &prefix));
    for (char *end = prefix + 1; *prefix && *end; end++) {
        if (*end != '/')
            continue;
        *end = '\0';
        TRY(level_make(prefix, first));
        *end = '/';
    }
    return level_make(path, first);
}

struct status folder_make(const char *path, char **ret_first)
{
    CLEANUP(memory_free) char *first = NULL;
    struct status status = path_is_folder(path) ? OK : levels_make(path, &first);
    if (status.code != STATUS_DONE)
        folder_unmake(path, first);
    else
        *ret_first = MOVE(first);
    return status;
}

struct status folder_create(const char *path)
{
    CLEANUP(memory_free) char *first = NULL;
    return folder_make(path, &first);
}

/* Cuts the last component off a path; false where that is `first`, or all there is. */
static bool level_leave(char *path, const char *first)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    char *slash = strrchr(path, '/');
    if (length <= strlen(first) || !slash || slash == path)
        return false;
    *slash = '\0';
    return true;
}

void folder_unmake(const char *path, const char *first)
{
    CLEANUP(memory_free) char *level = NULL;
    if (!first)
        return;
    struct status status = string_copy(path, &level);
    while (status.code == STATUS_DONE) {
        if (path_exists(level))
            status = disk_remove_folder(level);
        if (!level_leave(level, first))
            break;
    }
    status_ignore(status); /* one that was filled meanwhile stays */
}

struct status folder_check_writable(const char *path, char **ret_nearest)
{
    CLEANUP(memory_free) char *nearest = NULL;
    TRY(string_copy(path, &nearest));
    while (!path_exists(nearest)) {
        CLEANUP(memory_free) char *below = MOVE(nearest);
        for (size_t length = strlen(below); length > 1 && below[length - 1] == '/'; length--)
            below[length - 1] = '\0';
        TRY(path_folder(below, &nearest));
    }
    if (!path_is_folder(nearest))
        FAIL(STATUS_IO, "'%s' exists and is not a folder", nearest);
    if (faccessat(AT_FDCWD, nearest, W_OK | X_OK, AT_EACCESS))
        return status_errno(errno, "cannot create files in '%s'", nearest);
    *ret_nearest = MOVE(nearest);
    return OK;
}

static void fts_end(FTS *walk)
{
    if (walk)
        fts_close(walk);
}
CLEANUP_POINTER(fts_end, FTS)

static struct status entry_remove(const FTSENT *entry)
{
    switch (entry->fts_info) {
    case FTS_D: /* met again, as FTS_DP, when it is empty */
        return OK;
    case FTS_DP:
        return disk_remove_folder(entry->fts_path);
    case FTS_DNR:
    case FTS_ERR:
        return status_errno(entry->fts_errno, "cannot read '%s'", entry->fts_path);
    case FTS_NS:
        if (entry->fts_errno == ENOENT)
            return OK;
        return status_errno(entry->fts_errno, "cannot read '%s'", entry->fts_path);
    default:
        return disk_remove_file(entry->fts_path);
    }
}

struct status folder_remove(const char *path)
{
    char *roots[] = {(char *)path, NULL};
    CLEANUP(fts_end) FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (!walk)
        return status_errno(errno, "cannot read '%s'", path);
    FTSENT *entry;
    while (errno = 0, (entry = fts_read(walk)))
        TRY(entry_remove(entry));
    if (errno)
        return status_errno(errno, "cannot read '%s'", path);
    return OK;
}

static struct status folder_open(const char *path, int *ret_fd)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return status_errno(errno, "cannot open folder '%s'", path);
    *ret_fd = fd;
    return OK;
}

struct status folder_sync(const char *path)
{
    CLEANUP(fd_close) int fd = -1;
    TRY(folder_open(path, &fd));
    return disk_sync(fd, path);
}

struct status folder_sync_tree(const char *path)
{
    CLEANUP(fd_close) int fd = -1;
    TRY(folder_open(path, &fd));
    return disk_sync_all(fd, path);
}

struct status folder_require_space(const char *path, uint64_t needed_bytes)
{
    struct statvfs info;
    char needed[16], there[16];
    if (statvfs(path, &info) < 0)
        return status_errno(errno, "cannot tell the free space of '%s'", path);
    uint64_t free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    if (free_bytes < needed_bytes)
        FAIL(STATUS_NO_SPACE,
             "%s are needed, but the disk of '%s' has only %s free; free some space, or choose "
             "another folder",
             format_bytes(needed_bytes, needed), path, format_bytes(free_bytes, there));
    return OK;
}

static void dir_end(DIR *dir)
{
    if (dir)
        closedir(dir);
}
CLEANUP_POINTER(dir_end, DIR)

static struct folder_entry entry_describe(DIR *dir, const struct dirent *found)
{
    struct folder_entry entry = {
        .is_folder = found->d_type == DT_DIR,
        .is_file = found->d_type == DT_REG,
    };
    struct stat info;
    if ((found->d_type == DT_LNK || found->d_type == DT_UNKNOWN) &&
        fstatat(dirfd(dir), found->d_name, &info, 0) == 0) {
        entry.is_folder = S_ISDIR(info.st_mode);
        entry.is_file = S_ISREG(info.st_mode);
    }
    return entry;
}

/* Entries in the order of the directory; their names stand in `names`, one after the other. */
static struct status entries_read(DIR *dir, const char *path, struct folder_list *list,
                                  struct buffer *names)
{
    size_t capacity = 0;
    const struct dirent *found;
    while (errno = 0, (found = readdir(dir))) {
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)
            continue;
        TRY(memory_grow(list->count + 1, sizeof *list->entries, &list->entries, &capacity));
        list->entries[list->count++] = entry_describe(dir, found);
        TRY(buffer_append(names, found->d_name, strlen(found->d_name) + 1));
    }
    if (errno)
        return status_errno(errno, "cannot read folder '%s'", path);
    return OK;
}

static int entry_compare(const void *a, const void *b)
{
    return strcmp(((const struct folder_entry *)a)->name, ((const struct folder_entry *)b)->name);
}

struct status folder_list_read(const char *path, struct folder_list *ret_list)
{
    CLEANUP(dir_end) DIR *dir = opendir(path);
    if (!dir)
        return status_errno(errno, "cannot open folder '%s'", path);
    CLEANUP(folder_list_done) struct folder_list list = {0};
    CLEANUP(buffer_done) struct buffer names = {0};
    TRY(entries_read(dir, path, &list, &names));

    const char *name = (const char *)names.data;
    for (size_t i = 0; i < list.count; i++) {
        list.entries[i].name = name;
        name += strlen(name) + 1;
    }
    if (list.count)
        qsort(list.entries, list.count, sizeof *list.entries, entry_compare);
    list.names = (char *)MOVE(names.data);
    *ret_list = list;
    list = (struct folder_list){0};
    return OK;
}

void folder_list_done(struct folder_list *list)
{
    memory_free(list->entries);
    memory_free(list->names);
    *list = (struct folder_list){0};
}
