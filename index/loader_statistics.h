#ifndef HEADRACE_INDEX_LOADER_STATISTICS_H
#define HEADRACE_INDEX_LOADER_STATISTICS_H

/* What a loader did in an epoch, so that a person sees what a device waits for. */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

/* Since loader_start. */
struct loader_statistics {
    uint64_t images, bytes, bad_records;
    unsigned threads;
    double seconds; /* until the latest batch was taken */
    double read_seconds,
        decode_seconds;    /* summed over threads; decode includes resampling and normalising */
    double wait_seconds;   /* time loader_next had to wait */
    uint64_t memory_bytes; /* most that was held: batches, and what images took of scratch */
    bool has_cache;        /* or memory that is read ahead into: the next four are set */
    uint64_t fetched,
        fetched_bytes;         /* records read from the shards; the others were in the cache */
    uint64_t converted;        /* records that became `dct` in the cache, of all epochs */
    double fetch_wait_seconds; /* that threads waited for records on their way, added up */
};

/* "loader: read 3 %, decode 88 %, waited for batches 12 s of 300 s": shares of its threads' time;
 * then "; cache: 880 of 1000 in it, 14 MB fetched, 120 made dct". */
enum { LOADER_STATISTICS_TEXT_BYTES = 256 };
const char *loader_statistics_text(const struct loader_statistics *statistics,
                                   char text[LOADER_STATISTICS_TEXT_BYTES]);
/* Adds images, bytes, bad_records, threads, seconds, read_seconds … to an object. */
void loader_statistics_store(const struct loader_statistics *statistics, struct json *object);

#endif
