#ifndef HEADRACE_INDEX_CHECK_H
#define HEADRACE_INDEX_CHECK_H

/* Verifying an index and what it points at. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "index/index.h"

struct check_options {
    bool read; /* read every record and hold it against its CRC */
    /* decode every image too (implies read), hold its size against the stored one, and make the
     * original files of `dct` records */
    bool decode;
    unsigned threads;
};

/* Something that is wrong. */
struct check_finding {
    uint64_t record; /* CHECK_NO_RECORD: the index or a shard as a whole */
    char *where;     /* "CLASS/NAME", or a file's path */
    char *what;      /* of a record: its number, its file, and what is wrong with it */
};
#define CHECK_NO_RECORD UINT64_MAX

struct check_report {
    uint64_t records; /* looked at */
    uint64_t read_bytes;
    uint64_t crc_unknown;           /* records without a CRC */
    uint64_t lossy;                 /* records that are not the original images */
    struct check_finding *findings; /* in record order, those without a record first */
    size_t finding_count, finding_capacity;
    uint64_t *class_counts; /* records of each class; as many as the index has classes */
};
void check_report_done(struct check_report *report);
CLEANUP_VALUE(check_report_done, struct check_report)

/* Checks all sections, the order and uniqueness of the records, that they lie within their shards,
 * the shards' headers and trailers, and, as asked for, the records themselves. A shard that cannot
 * be read at all is one finding, with how many records it has. What is wrong goes into the report
 * (filled with zeros before); the call itself fails only with STATUS_NO_MEMORY and STATUS_STOPPED.
 * Damaged sections end the check early: what they say of the records is worth nothing. */
struct status index_check(struct index *index, const struct check_options *options,
                          struct check_report *report);

#endif
