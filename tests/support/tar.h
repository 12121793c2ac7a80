#ifndef HEADRACE_TESTS_SUPPORT_TAR_H
#define HEADRACE_TESTS_SUPPORT_TAR_H

/* Writes tar archives into memory, good and bad ones, header by header. */

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define TAR_BLOCK 512

/* Type flags of ustar. */
#define TAR_FILE '0'
#define TAR_HARD_LINK '1'
#define TAR_LINK '2'
#define TAR_FIFO '6'
#define TAR_FOLDER '5'

/* Appends a member: header, data, padding. `name` is cut to 100 bytes; `target` is that of links,
 * or NULL. */
struct status tar_add(struct buffer *tar, const char *name, char type, const char *target,
                      const void *bytes, size_t length);
struct status tar_add_file(struct buffer *tar, const char *name, const void *bytes, size_t length);
/* The same with the name in a pax header, or in GNU's long-name member. */
struct status tar_add_pax_file(struct buffer *tar, const char *name, const void *bytes,
                               size_t length);
struct status tar_add_gnu_file(struct buffer *tar, const char *name, const void *bytes,
                               size_t length);
/* The same with the size as a base-256 number. */
struct status tar_add_binary_size_file(struct buffer *tar, const char *name, const void *bytes,
                                       size_t length);
/* Headers alone, with the size in base-256 or in a pax header: the data have to follow. */
struct status tar_add_binary_size(struct buffer *tar, const char *name, uint64_t size_bytes);
struct status tar_add_pax_size(struct buffer *tar, const char *name, uint64_t size_bytes);
/* Two blocks of zeros, then zeros up to a multiple of `multiple_bytes`. */
struct status tar_end(struct buffer *tar, size_t multiple_bytes);

#endif
