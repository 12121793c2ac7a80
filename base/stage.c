#include "base/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"

static const char partial_suffix[] = ".partial";
static const char flat_partial_name[] = ".images.partial";
/* Few enough syncs to cost nothing, many enough that a kill loses seconds; a small file takes as
 * long as so many bytes. */
static const uint64_t publish_bytes = (uint64_t)1 << 30;
static const uint64_t file_bytes = 16 << 10;

struct stage {
    char *dest;
    char *made; /* what of `dest` is to go again while it is empty (folder_make), or NULL */
    int lock_fd;
    uint64_t block_bytes; /* of its file system */
    pthread_mutex_t mutex;
    struct stage_unit *finished;
    uint64_t finished_bytes;
};

struct stage_unit {
    struct stage *stage;
    struct stage_unit *next;
    char *final_path, *partial_path;
    bool has_partial;
    struct folder_list present; /* what the published folder holds */
    bool *is_seen;              /* of `present` */
    uint64_t written_bytes;
    int fd; /* of the file being written */
    char *file_path;
};

/* --- Stage --- */

/* The lock belongs to the folder itself, so no file is left behind. */
static struct status lock(struct stage *stage)
{
    stage->lock_fd = open(stage->dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stage->lock_fd < 0)
        return status_errno(errno, "cannot open folder '%s'", stage->dest);
    if (!file_lock(stage->lock_fd))
        FAIL(STATUS_FAILED,
             "another headrace is writing to '%s'; wait for it, or choose another folder",
             stage->dest);
    return OK;
}

static void stage_measure(struct stage *stage)
{
    struct statvfs info;
    stage->block_bytes = fstatvfs(stage->lock_fd, &info) || !info.f_frsize ? 1 : info.f_frsize;
}

static bool is_leftover(const char *name)
{
    size_t length = strlen(name), suffix = sizeof partial_suffix - 1;
    return *name == '.' && length > suffix && strcmp(name + length - suffix, partial_suffix) == 0;
}

static struct status remove_leftovers(const struct stage *stage)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(folder_list_read(stage->dest, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(memory_free) char *path = NULL;
        if (!is_leftover(list.entries[i].name))
            continue;
        TRY(path_join(stage->dest, list.entries[i].name, &path));
        TRY(folder_remove(path));
    }
    return OK;
}

struct status stage_open(const char *dest, struct stage **ret_stage)
{
    CLEANUP(stage_close) struct stage *stage = NULL;
    CLEANUP(memory_free) char *made = NULL;
    TRY(memory_alloc(1, sizeof *stage, &stage));
    stage->lock_fd = -1;
    pthread_mutex_init(&stage->mutex, NULL);
    TRY(string_copy(dest, &stage->dest));
    TRY(folder_make(dest, &made));
    TRY(lock(stage));
    stage->made = MOVE(made); /* not where another process writes */
    stage_measure(stage);
    TRY(remove_leftovers(stage));
    *ret_stage = MOVE(stage);
    return OK;
}

static void free_units(struct stage_unit *unit)
{
    while (unit) {
        struct stage_unit *next = unit->next;
        stage_unit_free(unit);
        unit = next;
    }
}

void stage_close(struct stage *stage)
{
    if (!stage)
        return;
    free_units(stage->finished);
    folder_unmake(stage->dest, stage->made); /* while it is locked */
    fd_close(stage->lock_fd);
    pthread_mutex_destroy(&stage->mutex);
    memory_free(stage->dest);
    memory_free(stage->made);
    memory_free(stage);
}

struct status stage_has_unit(const struct stage *stage, const char *name, bool *ret_has)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(path_join(stage->dest, name, &path));
    *ret_has = path_exists(path);
    return OK;
}

/* --- Space --- */

void stage_need_add(struct stage_need *need, const struct stage *stage, uint64_t size_bytes)
{
    uint64_t last = size_bytes % stage->block_bytes;
    need->bytes += size_bytes + (last ? stage->block_bytes - last : 0);
    need->files++;
}

void stage_need_guess(struct stage_need *need, const struct stage *stage, uint64_t bytes,
                      uint64_t files)
{
    need->bytes += bytes + files * stage->block_bytes / 2;
    need->files += files;
}

/* A file system that does not say what it has is met at the first write that fails. */
static struct stage_need stage_room(const struct stage *stage)
{
    struct statvfs info;
    struct stage_need room = {UINT64_MAX, UINT64_MAX};
    if (fstatvfs(stage->lock_fd, &info))
        return room;
    room.bytes = (uint64_t)info.f_bavail * info.f_frsize;
    if (info.f_files)
        room.files = info.f_favail;
    return room;
}

bool stage_has_room(const struct stage *stage, const struct stage_need *need)
{
    struct stage_need room = stage_room(stage);
    return need->bytes <= room.bytes && need->files <= room.files;
}

struct status stage_check_space(const struct stage *stage, const struct stage_need *need)
{
    struct stage_need room = stage_room(stage);
    char needed[16], there[16];
    if (need->bytes > room.bytes)
        FAIL(STATUS_NO_SPACE,
             "'%s' needs %s, its file system has %s free; free some or choose another folder",
             stage->dest, format_bytes(need->bytes, needed), format_bytes(room.bytes, there));
    if (need->files > room.files)
        FAIL(STATUS_NO_SPACE,
             "'%s' needs %" PRIu64 " files, its file system has inodes for %" PRIu64
             "; pack the archive in place instead (headrace pack --in-place), or choose another "
             "folder",
             stage->dest, need->files, room.files);
    return OK;
}

/* --- Publishing --- */

static struct status publish_files(const struct stage_unit *unit)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(folder_list_read(unit->partial_path, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(memory_free) char *from = NULL;
        CLEANUP(memory_free) char *to = NULL;
        TRY(path_join(unit->partial_path, list.entries[i].name, &from));
        TRY(path_join(unit->final_path, list.entries[i].name, &to));
        TRY(disk_rename(from, to));
    }
    return folder_sync(unit->final_path);
}

static struct status publish_unit(struct stage_unit *unit)
{
    if (!unit->has_partial)
        return OK;
    if (path_exists(unit->final_path)) {
        TRY(publish_files(unit));
        TRY(disk_remove_folder(unit->partial_path));
    } else {
        TRY(disk_rename(unit->partial_path, unit->final_path));
    }
    unit->has_partial = false;
    return OK;
}

static struct status publish_units(struct stage *stage, struct stage_unit *units)
{
    TRY(disk_sync_all(stage->lock_fd, stage->dest));
    for (struct stage_unit *unit = units; unit; unit = unit->next)
        TRY(publish_unit(unit));
    return folder_sync(stage->dest);
}

struct status stage_publish(struct stage *stage)
{
    pthread_mutex_lock(&stage->mutex);
    struct stage_unit *units = stage->finished;
    stage->finished = NULL;
    stage->finished_bytes = 0;
    pthread_mutex_unlock(&stage->mutex);
    if (!units)
        return OK;
    struct status status = publish_units(stage, units);
    free_units(units);
    return status;
}

/* --- Units --- */

struct status stage_unit_open(struct stage *stage, const char *name, struct stage_unit **ret_unit)
{
    CLEANUP(stage_unit_free) struct stage_unit *unit = NULL;
    TRY(memory_alloc(1, sizeof *unit, &unit));
    unit->stage = stage;
    unit->fd = -1;
    TRY(path_join(stage->dest, name, &unit->final_path));
    if (*name)
        TRY(string_format(&unit->partial_path, "%s/.%s%s", stage->dest, name, partial_suffix));
    else
        TRY(path_join(stage->dest, flat_partial_name, &unit->partial_path));
    if (path_exists(unit->final_path))
        TRY(folder_list_read(unit->final_path, &unit->present));
    TRY(memory_alloc(unit->present.count, sizeof *unit->is_seen, &unit->is_seen));
    *ret_unit = MOVE(unit);
    return OK;
}

const char *stage_unit_path(const struct stage_unit *unit)
{
    return unit->final_path;
}

void stage_unit_free(struct stage_unit *unit)
{
    if (!unit)
        return;
    fd_close(unit->fd);
    if (unit->has_partial)
        status_ignore(folder_remove(unit->partial_path));
    folder_list_done(&unit->present);
    memory_free(unit->is_seen);
    memory_free(unit->final_path);
    memory_free(unit->partial_path);
    memory_free(unit->file_path);
    memory_free(unit);
}

static int entry_compare(const void *name, const void *entry)
{
    return strcmp(name, ((const struct folder_entry *)entry)->name);
}

static struct status fail_twice(const struct stage_unit *unit, const char *name)
{
    FAIL(STATUS_CORRUPT, "the archive has %s twice for '%s'", name, unit->final_path);
}

struct status stage_unit_keeps(struct stage_unit *unit, const char *name, uint64_t size_bytes,
                               bool *ret_keeps)
{
    const struct folder_list *present = &unit->present;
    const struct folder_entry *entry = NULL;
    *ret_keeps = false;
    if (present->count)
        entry = bsearch(name, present->entries, present->count, sizeof *entry, entry_compare);
    if (!entry)
        return OK;
    bool *is_seen = &unit->is_seen[entry - present->entries];
    if (*is_seen)
        return fail_twice(unit, name);
    *is_seen = true;
    CLEANUP(memory_free) char *path = NULL;
    struct stat info;
    TRY(path_join(unit->final_path, name, &path));
    *ret_keeps =
        stat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == size_bytes;
    return OK;
}

struct status stage_unit_begin(struct stage_unit *unit, const char *name)
{
    if (!unit->has_partial) {
        if (path_exists(unit->partial_path)) /* of a finished unit of the same name */
            return fail_twice(unit, "a class");
        unit->has_partial = true;
        TRY(disk_make_folder(unit->partial_path));
    }
    memory_free(unit->file_path);
    unit->file_path = NULL;
    TRY(path_join(unit->partial_path, name, &unit->file_path));
    unit->written_bytes += file_bytes;
    struct status status = disk_create(unit->file_path, O_EXCL | O_NOFOLLOW, &unit->fd);
    if (status.code == STATUS_IO && path_exists(unit->file_path)) {
        status_clear(&status);
        return fail_twice(unit, name);
    }
    return status;
}

struct status stage_unit_write(struct stage_unit *unit, const void *bytes, size_t length)
{
    unit->written_bytes += length;
    return disk_write(unit->fd, unit->file_path, bytes, length);
}

struct status stage_unit_end(struct stage_unit *unit)
{
    int fd = unit->fd;
    unit->fd = -1;
    return disk_close(fd, unit->file_path);
}

uint64_t stage_unit_extra(const struct stage_unit *unit)
{
    uint64_t count = 0;
    for (size_t i = 0; i < unit->present.count; i++)
        count += unit->present.entries[i].is_file && unit->present.entries[i].name[0] != '.' &&
                 !unit->is_seen[i];
    return count;
}

struct status stage_unit_finish(struct stage_unit *unit)
{
    struct stage *stage = unit->stage;
    if (!unit->has_partial) {
        stage_unit_free(unit);
        return OK;
    }
    folder_list_done(&unit->present);
    pthread_mutex_lock(&stage->mutex);
    unit->next = stage->finished;
    stage->finished = unit;
    stage->finished_bytes += unit->written_bytes;
    bool is_enough = stage->finished_bytes >= publish_bytes;
    pthread_mutex_unlock(&stage->mutex);
    return is_enough ? stage_publish(stage) : OK;
}
