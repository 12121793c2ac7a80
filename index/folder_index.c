#include "index/folder_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "image/folder_source.h"
#include "index/writer.h"

static const char provenance[] = "{\"source\":\"class-folders\"}";

static bool is_newer(const struct stat *a, const struct stat *b)
{
    if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
        return a->st_mtim.tv_sec > b->st_mtim.tv_sec;
    return a->st_mtim.tv_nsec >= b->st_mtim.tv_nsec;
}

/* Whether a name was added to or taken from the root or a folder in it since the index was written.
 */
static struct status has_changed(const char *root, const char *index, bool *ret_changed)
{
    struct stat index_info, info;
    CLEANUP(folder_list_done) struct folder_list list = {0};
    *ret_changed = true;
    if (stat(index, &index_info) != 0 || stat(root, &info) != 0 || is_newer(&info, &index_info))
        return OK;
    TRY(folder_list_read(root, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(memory_free) char *path = NULL;
        TRY(path_join(root, list.entries[i].name, &path));
        if (stat(path, &info) != 0 || (S_ISDIR(info.st_mode) && is_newer(&info, &index_info)))
            return OK;
    }
    *ret_changed = false;
    return OK;
}

bool folder_index_is_own(const struct index *index)
{
    return strcmp(index_provenance(index), provenance) == 0 && index_shard_count(index) == 1 &&
           index_shard(index, 0)->kind == SHARD_FOLDER;
}

/* Whether an index is this folder's and as it would be made now. */
static struct status is_current(const struct index *index, const char *root,
                                const struct class_table *classes, bool *ret_current)
{
    CLEANUP(memory_free) char *real_root = NULL;
    CLEANUP(memory_free) char *real_shard = NULL;
    bool changed;
    *ret_current = false;
    if (!folder_index_is_own(index) || !path_exists(index_shard(index, 0)->path))
        return OK;
    TRY(path_real(root, &real_root));
    TRY(path_real(index_shard(index, 0)->path, &real_shard));
    TRY(has_changed(root, index_path(index), &changed));
    *ret_current =
        !changed && strcmp(real_root, real_shard) == 0 &&
        (!classes || class_table_hash(classes) == class_table_hash(index_classes(index)));
    return OK;
}

/* A file that an index may have. */
struct place {
    char *path;    /* NULL: none */
    bool writable; /* nothing is there, or an index of ours */
};

static void place_done(struct place *place)
{
    memory_free(place->path);
}
CLEANUP_VALUE(place_done, struct place)

/* The index in a place if it serves; else *ret_index stays NULL. */
static struct status current_open(struct place *place, const char *root,
                                  const struct class_table *classes, struct index **ret_index)
{
    CLEANUP(index_close) struct index *index = NULL;
    bool current = false;
    place->writable = place->path && !path_exists(place->path);
    if (!place->path || place->writable)
        return OK;
    struct status status = index_open(place->path, &index);
    if (status.code == STATUS_DONE) {
        place->writable = folder_index_is_own(index);
        status = is_current(index, root, classes, &current);
    }
    if (status.code != STATUS_DONE)
        log_note("%s; %s is listed anew", status_message(&status), root);
    status_ignore(status);
    if (current)
        *ret_index = MOVE(index);
    return OK;
}

/* Without the slashes at the end. */
static struct status root_trim(const char *root, char **ret_root)
{
    TRY(string_copy(root, ret_root));
    for (size_t length = strlen(root); length > 1 && (*ret_root)[length - 1] == '/'; length--)
        (*ret_root)[length - 1] = '\0';
    return OK;
}

/* CACHE/headrace/NAME-HASH.idx, the hash being that of the folder's real path; NULL where no home
 * is known. */
static struct status cache_path(const char *root, char **ret_path)
{
    CLEANUP(memory_free) char *real_root = NULL;
    CLEANUP(memory_free) char *folder = NULL;
    uint8_t digest[SHA256_BYTES];
    *ret_path = NULL;
    TRY(path_cache_folder(&folder));
    if (!folder)
        return OK;
    TRY(path_real(root, &real_root));
    digest_sha256_bytes(real_root, strlen(real_root), digest);
    return string_format(ret_path, "%s/%s-%016llx.idx", folder, path_base(real_root),
                         (unsigned long long)load_le64(digest));
}

static struct status index_make(const struct source *source, const char *path)
{
    CLEANUP(memory_free) char *folder = NULL;
    TRY(path_folder(path, &folder));
    TRY(folder_create(folder));
    TRY(index_write(source, provenance, path));
    log_note("%zu images in %zu classes: their index is %s", source->item_count,
             class_table_count(source->classes), path);
    return OK;
}

/* An index in a folder, whose file is gone once it is mapped; it is called after the root. */
static struct status fleeting_open(const struct source *source, const char *root,
                                   const char *folder, struct index **ret_index)
{
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(memory_free) char *path = NULL;
    TRY(string_format(&path, "%s/headrace-%ld-%p.idx", folder, (long)getpid(),
                      (const void *)source));
    TRY(index_write(source, provenance, path));
    struct status status = index_open(path, &index);
    status_ignore(file_remove(path));
    TRY(status);
    TRY(index_rename(index, root));
    *ret_index = MOVE(index);
    return OK;
}

/* The same in the folder for temporary files, else in memory; the first one's error is told. */
static struct status temporary_open(const struct source *source, const char *root,
                                    struct index **ret_index)
{
    const char *folder = getenv("TMPDIR");
    struct status status =
        fleeting_open(source, root, folder && *folder ? folder : P_tmpdir, ret_index);
    if (status.code == STATUS_DONE)
        return OK;
    struct status in_memory = fleeting_open(source, root, "/dev/shm", ret_index);
    bool is_open = in_memory.code == STATUS_DONE;
    status_ignore(is_open ? status : in_memory);
    return is_open ? OK : status;
}

/* Lists the folder and keeps the index in the first place that takes it. */
static struct status anew_open(const char *root, const struct class_table *classes,
                               unsigned threads, const struct place *const places[2],
                               struct index **ret_index)
{
    CLEANUP(source_free) struct source *source = NULL;
    TRY(folder_source_open(root, classes, threads, &source));
    for (size_t i = 0; i < 2; i++) {
        if (!places[i]->writable)
            continue;
        struct status status = index_make(source, places[i]->path);
        if (status.code == STATUS_DONE)
            return index_open(places[i]->path, ret_index);
        status_ignore(status);
    }
    return temporary_open(source, root, ret_index);
}

struct status folder_index_open(const char *root, const struct class_table *classes,
                                unsigned threads, struct index **ret_index)
{
    CLEANUP(memory_free) char *trimmed = NULL;
    CLEANUP(place_done) struct place beside = {0};
    CLEANUP(place_done) struct place cached = {0};
    TRY(root_trim(root, &trimmed));
    TRY(string_format(&beside.path, "%s.idx", trimmed));
    TRY(cache_path(trimmed, &cached.path));
    struct index *index = NULL;
    TRY(current_open(&beside, trimmed, classes, &index));
    if (!index)
        TRY(current_open(&cached, trimmed, classes, &index));
    cached.writable = cached.path; /* whatever lies there is ours, if broken */
    if (!index)
        return anew_open(trimmed, classes, threads, (const struct place *[]){&beside, &cached},
                         ret_index);
    *ret_index = index;
    return OK;
}
