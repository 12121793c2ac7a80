#ifndef HEADRACE_INDEX_LOADER_STATISTICS_H
#define HEADRACE_INDEX_LOADER_STATISTICS_H

/* What a loader did in an epoch, so that a person sees what a device waits for. */

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
    uint64_t memory_bytes; /* most that was held: batches, and scratch by its bound */
};

/* "loader: read 3 %, decode 88 %, waited for batches 12 s of 300 s": shares of its threads' time.
 */
const char *loader_statistics_text(const struct loader_statistics *statistics, char text[128]);
/* Adds images, bytes, bad_records, threads, seconds, read_seconds … to an object. */
void loader_statistics_store(const struct loader_statistics *statistics, struct json *object);

#endif
