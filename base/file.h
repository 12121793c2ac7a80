#ifndef HEADRACE_BASE_FILE_H
#define HEADRACE_BASE_FILE_H

/* Files and folders. Every call that touches the disk for the program's own outputs goes through
 * here, so that faults can be injected in one place.
 *
 * Atomic writing: file_writer_open(path) creates a temporary file beside `path`;
 * file_writer_commit() syncs it, renames it onto `path` and syncs the folder. Without a commit
 * (failure, scope cleanup) the temporary file is removed; a kill leaves at most a file named
 * `.NAME.tmp.PID`, never something half-written under the final name. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"

/* A file descriptor that closes with its scope. -1: none. */
static inline void fd_close_scope(int *fd);
void fd_close(int fd);
static inline void fd_close_scope(int *fd)
{
    fd_close(*fd);
}

struct status file_open_read(const char *path, int *ret_fd);
struct status file_size(int fd, const char *path, uint64_t *ret_size_bytes);
/* Reads exactly `length` bytes at `offset`. A file that ends before fails with STATUS_CORRUPT and
 * says how many bytes were there. `path` is for messages. */
struct status file_read_at(int fd, const char *path, void *bytes, size_t length, uint64_t offset);
/* Reads a whole file of at most `ceiling_bytes` (replacing the buffer's content). */
struct status file_read_all(const char *path, size_t ceiling_bytes, struct buffer *content);

struct file_writer;
struct status file_writer_open(const char *path, struct file_writer **ret_writer);
struct status file_writer_write(struct file_writer *writer, const void *bytes, size_t length);
/* Writes at an absolute offset (for headers filled in last); does not move the append position. */
struct status file_writer_write_at(struct file_writer *writer, const void *bytes, size_t length,
                                   uint64_t offset);
/* Bytes appended so far. */
uint64_t file_writer_position(const struct file_writer *writer);
/* Syncs the data and makes the name appear. The writer still has to be freed. */
struct status file_writer_commit(struct file_writer *writer);
/* As commit, but only syncs: file_writer_publish() renames later. For sets of files that must appear together:
 * prepare all, then publish all. */
struct status file_writer_prepare(struct file_writer *writer);
struct status file_writer_publish(struct file_writer *writer);
/* Removes the temporary file unless it was committed. NULL is fine. */
void file_writer_free(struct file_writer *writer);
CLEANUP_POINTER(file_writer_free, struct file_writer)

/* Writes a whole file atomically. */
struct status file_write_atomic(const char *path, const void *bytes, size_t length);

bool path_exists(const char *path);
bool path_is_folder(const char *path);
/* "a/b" on the heap. An absolute or empty `name` replaces `folder`. */
struct status path_join(const char *folder, const char *name, char **ret_path);
/* The last component, borrowed from `path`; trailing slashes are not skipped. */
const char *path_base(const char *path);
/* Everything before the last component ("." if there is none), on the heap. */
struct status path_folder(const char *path, char **ret_folder);
/* `path` as seen from `folder` when it lies below it, else absolute; on the heap. */
struct status path_relative(const char *path, const char *folder, char **ret_path);
/* The real absolute path of something that exists, on the heap. */
struct status path_real(const char *path, char **ret_path);

/* Creates a folder and its missing parents; one that exists is fine. */
struct status folder_create(const char *path);
/* Removes a folder and all below it, links not followed; a missing one is fine. */
struct status folder_remove(const char *path);
/* Syncs a folder's entries to disk. */
struct status folder_sync(const char *path);
struct status file_rename(const char *from, const char *to);
/* Removes a file; a missing one is fine. */
struct status file_remove(const char *path);

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

/* A whole file mapped read-only. */
struct file_map {
    const uint8_t *data;
    uint64_t size_bytes;
};
struct status file_map_open(const char *path, struct file_map *ret_map);
void file_map_done(struct file_map *map);
CLEANUP_VALUE(file_map_done, struct file_map)

#endif
