#ifndef HEADRACE_BASE_FOLDER_H
#define HEADRACE_BASE_FOLDER_H

/* Folders: making, removing, listing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

/* Creates a folder and its missing parents; one that exists is fine. */
struct status folder_create(const char *path);
/* The same, and tells what has to go if nothing comes of it: *ret_first is the topmost folder that
 * was missing, on the heap, or NULL where `path` was there. */
struct status folder_make(const char *path, char **ret_first);
/* Removes what folder_make made, as far as it is empty still. A `first` of NULL removes nothing. */
void folder_unmake(const char *path, const char *first);
/* Whether this user may create files in a folder, or the folder itself where it is missing, without
 * doing so. *ret_nearest is the folder, or the nearest of its parents that is there, on the heap.
 */
struct status folder_check_writable(const char *path, char **ret_nearest);
/* Removes a folder and all below it, links not followed; a missing one is fine. */
struct status folder_remove(const char *path);
/* Syncs a folder's entries to disk. */
struct status folder_sync(const char *path);
/* Syncs all that was written to the file system a folder lies on: for trees of many small files,
 * before the rename that makes the tree appear. */
struct status folder_sync_tree(const char *path);

/* Fails with STATUS_NO_SPACE, saying how much is needed and there, when the file system of an
 * existing folder has less than `needed_bytes` free for this user. */
struct status folder_require_space(const char *path, uint64_t needed_bytes);

/* The names in a folder, sorted byte-wise, without "." and "..". */
struct folder_entry {
    const char *name;
    bool is_folder; /* links followed */
    bool is_file;   /* regular, links followed */
};
struct folder_list {
    struct folder_entry *entries;
    size_t count;
    char *names; /* memory behind the entries' names */
};
struct status folder_list_read(const char *path, struct folder_list *ret_list);
void folder_list_done(struct folder_list *list);
CLEANUP_VALUE(folder_list_done, struct folder_list)

#endif
