#ifndef HEADRACE_BASE_FILE_H
#define HEADRACE_BASE_FILE_H

/* Files: reading, mapping, renaming. Every call that touches the disk for the program's own outputs
 * goes through here and the headers included below, so that faults can be injected in one place
 * (base/disk.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/file_writer.h"
#include "base/folder.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/status.h"

/* A file descriptor that closes with its scope. -1: none. */
void fd_close(int fd);
static inline void fd_close_scope(int *fd)
{
    fd_close(*fd);
}

/* Fails for a folder too. */
struct status file_open_read(const char *path, int *ret_fd);
/* The size of a regular file; anything else fails. */
struct status file_size(int fd, const char *path, uint64_t *ret_size_bytes);
/* The same by its path, without opening it. */
struct status file_length(const char *path, uint64_t *ret_size_bytes);
/* Reads exactly `length` bytes at `offset`. A file that ends before fails with STATUS_CORRUPT and
 * says how many bytes were there. `path` is for messages. */
struct status file_read_at(int fd, const char *path, void *bytes, size_t length, uint64_t offset);
/* Reads a whole file of at most `ceiling_bytes` (replacing the buffer's content). A longer one
 * fails with STATUS_CORRUPT. */
struct status file_read_all(const char *path, size_t ceiling_bytes, struct buffer *content);

/* Locks an open file or folder for as long as it is open: false where another process holds it.
 * File systems that cannot lock are used without. */
bool file_lock(int fd);
/* Opens a file, made where it is missing, and locks it; *ret_fd is -1 where another process holds
 * it. */
struct status file_hold(const char *path, int *ret_fd);

struct status file_rename(const char *from, const char *to);
/* A second name (hard link) for a file. */
struct status file_link(const char *from, const char *to);
/* Removes a file; a missing one is fine. */
struct status file_remove(const char *path);

/* A whole file mapped read-only. */
struct file_map {
    const uint8_t *data; /* not NULL, even for an empty file */
    uint64_t size_bytes;
};
struct status file_map_open(const char *path, struct file_map *ret_map);
void file_map_done(struct file_map *map);
CLEANUP_VALUE(file_map_done, struct file_map)

#endif
