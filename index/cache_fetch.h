#ifndef HEADRACE_INDEX_CACHE_FETCH_H
#define HEADRACE_INDEX_CACHE_FETCH_H

/* Filling a cache ahead of time. */

#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"
#include "index/cache.h"
#include "index/index.h"

struct cache_fetch_options {
    uint64_t part, parts; /* runs of the index's records; parts >= 1, part below it */
    unsigned threads;     /* reads at once; 0: as many as hide a network's latency */
    unsigned converters;  /* threads that make `dct` of what came as `jpeg`; 0: it stays */
};

struct cache_fetch_report {
    uint64_t records, fetched, fetched_bytes;
    uint64_t held;      /* were there, or are brought by another process */
    uint64_t no_room;   /* did not fit */
    uint64_t converted; /* became `dct` */
};

/* Brings a part's records into the cache, until nothing more fits, and converts them. Fails with
 * the first record that cannot be read, and when it is asked to stop. `progress` may be NULL. */
struct status cache_fetch(struct index *index, struct cache *cache,
                          const struct cache_fetch_options *options, struct progress *progress,
                          struct cache_fetch_report *ret_report);

#endif
