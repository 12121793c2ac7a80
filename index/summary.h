#ifndef HEADRACE_INDEX_SUMMARY_H
#define HEADRACE_INDEX_SUMMARY_H

/* What an index holds, in numbers. */

#include <stdint.h>

#include "base/status.h"
#include "index/index.h"

struct index_summary {
    uint64_t records, record_bytes;
    uint64_t crc_unknown, size_unknown, lossy;
    uint64_t encodings[ENCODINGS]; /* records of each */
    uint64_t classes, empty_classes;
    uint64_t least_per_class, most_per_class; /* of the classes that have records */
    uint64_t least_bytes, most_bytes;         /* of a record */
    uint64_t pixels;                          /* of the images whose size is known */
    uint16_t most_width, most_height;
};

/* Looks at every record's entry, at no shard. */
struct status index_summarise(const struct index *index, struct index_summary *ret_summary);

const char *shard_kind_name(enum shard_kind kind);
const char *record_encoding_name(uint8_t encoding);

#endif
