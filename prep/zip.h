#ifndef HEADRACE_PREP_ZIP_H
#define HEADRACE_PREP_ZIP_H

/* Reading zip files by the directory at their end: stored and deflated members, zip64. The
 * directory is walked, not kept, so memory does not grow with the number of members. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

/* Read-only once opened, so threads may share it. */
struct zip_file {
    char *path;
    int fd;
    uint64_t size_bytes;
    uint64_t directory_offset, directory_bytes, member_count;
};

/* Whether a regular file begins as zip files do. A missing or unreadable one does not. */
bool zip_recognise(const char *path);
/* Finds the directory. Fails with STATUS_CORRUPT where there is none, as in a download that broke
 * off, and with STATUS_UNSUPPORTED for one of several parts. */
struct status zip_open(const char *path, struct zip_file **ret_zip);
void zip_close(struct zip_file *zip);
CLEANUP_POINTER(zip_close, struct zip_file)

/* What is needed to read a member's bytes. */
struct zip_place {
    uint64_t header_offset;
    uint64_t size_bytes, packed_bytes;
    uint32_t crc;
    uint16_t method; /* 0 stored, 8 deflated; others can be listed, not read */
    bool is_encrypted;
};

struct zip_member {
    const char *name; /* the whole path; borrowed during the call */
    bool is_regular;  /* no folder, no link */
    struct zip_place place;
};

/* Calls `fn` for each member in the directory's order and ends with its first failure. Each place
 * lies within the file. Fails with STATUS_CORRUPT, naming the byte, for a damaged directory. */
typedef struct status zip_member_fn(const struct zip_member *member, void *context);
struct status zip_walk(const struct zip_file *zip, zip_member_fn *fn, void *context);

/* Reads members one after the other; borrows the file. For one thread. */
struct zip_reader;
struct status zip_reader_open(const struct zip_file *zip, struct zip_reader **ret_reader);
void zip_reader_close(struct zip_reader *reader);
CLEANUP_POINTER(zip_reader_close, struct zip_reader)
/* Goes to a member; `name` is the last part of its path, which its own header has to repeat. */
struct status zip_reader_begin(struct zip_reader *reader, const struct zip_place *place,
                               const char *name);
/* The next piece of its bytes, borrowed until the next call; length 0 when all was read. Their
 * number and CRC are checked: STATUS_CORRUPT, naming the file, the member and its offset. */
struct status zip_reader_data(struct zip_reader *reader, const void **ret_bytes,
                              size_t *ret_length);

#endif
