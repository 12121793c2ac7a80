#ifndef HEADRACE_INDEX_SECTIONS_H
#define HEADRACE_INDEX_SECTIONS_H

/* The sections of a mapped index: their places are proved when it is opened, their content is
 * checked 64 KiB at a time when it is first touched. */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "index/format.h"

struct section {
    const uint8_t *data;
    uint64_t size_bytes;
    uint64_t offset; /* in the index, for messages */
    uint32_t crcs_crc;
    atomic_uint_least64_t
        *checked; /* a bit per chunk; one more, behind the last, for the table of CRCs */
};

struct sections {
    const char *path; /* of the file, borrowed, for messages */
    uint64_t record_count, class_hash;
    uint32_t class_count, shard_count;
    struct section section[SECTION_END]; /* by kind */
};

/* Checks the header and the directory of the index that begins at `data`, and that every section
 * lies within its `size_bytes`. O(1) in the number of records. Both stay borrowed. Fails with
 * STATUS_CORRUPT, or STATUS_UNSUPPORTED for what a later version wrote. sections_done either way.
 */
struct status sections_open(const char *path, const uint8_t *data, uint64_t size_bytes,
                            struct sections *ret_sections);
void sections_done(struct sections *sections);
CLEANUP_VALUE(sections_done, struct sections)

/* Checks the chunks that `length` bytes at `offset` of a section touch, unless they were before.
 * Thread-safe. The range lies in the section. */
struct status sections_check(const struct sections *sections, enum index_section kind,
                             uint64_t offset, uint64_t length);
/* Checks all of it. */
struct status sections_check_all(const struct sections *sections, enum index_section kind);

const char *section_name(enum index_section kind);

#endif
