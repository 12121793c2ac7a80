#ifndef HEADRACE_BASE_DISK_H
#define HEADRACE_BASE_DISK_H

/* The system calls that change the disk, one function each, for base/'s own file layer: EINTR is
 * retried, short writes are continued, failures name the path, and faults are injected here.
 *
 * HEADRACE_FAULT=WHAT:K in the environment acts at the K-th of these calls (from 1): `kill` ends
 * the process with SIGKILL before the call; ENOSPC, EDQUOT, EIO or EACCES fail it and all later
 * calls of its kind. */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Opens for writing; `flags` are those of open(2) beside O_WRONLY | O_CREAT. */
struct status disk_create(const char *path, int flags, int *ret_fd);
/* Opens for reading and writing; made where it is missing. Fails with STATUS_IO for a symbolic
 * link.
 */
struct status disk_open(const char *path, int *ret_fd);
/* Cuts a file or lengthens it by zeros, and has the disk keep room for all of it. What fails leaves
 * a longer file as long as it was. */
struct status disk_allocate(int fd, const char *path, uint64_t size_bytes);
struct status disk_write(int fd, const char *path, const void *bytes, size_t length);
struct status disk_write_at(int fd, const char *path, const void *bytes, size_t length,
                            uint64_t offset);
/* Closes a written file: some file systems (NFS) tell only now that a write failed. */
struct status disk_close(int fd, const char *path);
struct status disk_sync(int fd, const char *path);
/* Syncs the whole file system that `fd` lies on. */
struct status disk_sync_all(int fd, const char *path);
struct status disk_rename(const char *from, const char *to);
struct status disk_link(const char *from, const char *to);
/* One folder, whose parent exists. Fails with STATUS_NOT_FOUND if it does not. One that exists is
 * fine. */
struct status disk_make_folder(const char *path);
/* A missing one is fine. */
struct status disk_remove_file(const char *path);
struct status disk_remove_folder(const char *path);

/* Sets the fault as HEADRACE_FAULT does and counts from 1 again; NULL: none. For tests within one
 * process. */
void disk_set_fault(const char *text);
/* How many of these calls there were since then; 0 where no fault is set. */
uint64_t disk_fault_calls(void);

#endif
