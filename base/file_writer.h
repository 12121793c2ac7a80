#ifndef HEADRACE_BASE_FILE_WRITER_H
#define HEADRACE_BASE_FILE_WRITER_H

/* Atomic writing: file_writer_open(path) creates a temporary file beside `path`;
 * file_writer_commit() syncs it, renames it onto `path` and syncs the folder. Without a commit
 * (failure, scope cleanup) the temporary file is removed; a kill leaves at most a file named
 * `.NAME.tmp.PID`, never something half-written under the final name, and the next writer of that
 * path removes it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

struct file_writer;
/* Fails for a path that cannot be that of a file: something else than a file, such as a folder or a
 * device, or one in a folder that is not there. */
struct status file_writer_check(const char *path);
/* Fails when another process is writing `path`, where the file system can lock. */
struct status file_writer_open(const char *path, struct file_writer **ret_writer);
struct status file_writer_write(struct file_writer *writer, const void *bytes, size_t length);
/* Writes at an absolute offset (for headers filled in last); does not move the append position.
 * Threads may write disjoint ranges at once. */
struct status file_writer_write_at(struct file_writer *writer, const void *bytes, size_t length,
                                   uint64_t offset);
/* Bytes appended so far. */
uint64_t file_writer_position(const struct file_writer *writer);
/* Syncs the data and makes the name appear. The writer still has to be freed. */
struct status file_writer_commit(struct file_writer *writer);
/* As commit, but only syncs: file_writer_publish() renames later. For sets of files that must
 * appear together: prepare all, then publish all. */
struct status file_writer_prepare(struct file_writer *writer);
struct status file_writer_publish(struct file_writer *writer);
/* Closes a prepared file, for sets of more files than a process may hold open. From then on another
 * process takes it for a leftover: guard the set by one writer that stays open. */
void file_writer_park(struct file_writer *writer);
/* Whether what was prepared stands under the final name already, byte for byte. */
struct status file_writer_matches(const struct file_writer *writer, bool *ret_matches);
/* Whether there are temporary files for `path`, of writers that were killed or are at work. */
struct status file_writer_find_leftovers(const char *path, bool *ret_found);
/* Removes what killed writers of `path` left, and counts it. */
struct status file_writer_sweep(const char *path, size_t *ret_count);
/* Removes the temporary file unless it was committed. NULL is fine. */
void file_writer_free(struct file_writer *writer);
CLEANUP_POINTER(file_writer_free, struct file_writer)

/* Writes a whole file atomically. */
struct status file_write_atomic(const char *path, const void *bytes, size_t length);

/* Writes a whole file under its own name, neither atomic nor synced: for files in a folder that
 * itself appears by rename (folder_sync_tree before it). */
struct status file_write_plain(const char *path, const void *bytes, size_t length);

/* Appends to a file, created where it is missing; not synced. */
struct status file_append(const char *path, const void *bytes, size_t length);

#endif
