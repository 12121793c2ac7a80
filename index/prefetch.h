#ifndef HEADRACE_INDEX_PREFETCH_H
#define HEADRACE_INDEX_PREFETCH_H

/* Brings records into a cache (cache.h) in the order in which a loader will need them, with many
 * reads at once, so that none of them waits for the next one's latency. It takes the place of
 * read_ahead.h where records come from far away.
 *
 * The places of a process are counted through the epoch: place p is slot first_slot + p % slots of
 * step p / slots. Reads are begun in that order, at most PREFETCH_AHEAD places before the one that
 * was asked for last, and no sooner than there is room: what is needed sooner never goes for them.
 * In a full cache they begin late, at a small share of its records before: what is read early takes
 * the place of what was used, and would have been there in the next epoch. The share grows while
 * records are waited for, up to half.
 * What a batch holds does not depend on any of this. */

#include <stdint.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"
#include "index/cache.h"
#include "index/index.h"
#include "index/order.h"

#define PREFETCH_AHEAD 1024

struct prefetch_options {
    const struct order *order; /* of any epoch */
    uint64_t steps;            /* of an epoch */
    uint32_t first_slot, slots;
    bool counts_passes; /* epochs all have the same order: each start is the next one */
    unsigned threads;   /* reads at once; 0: as many as hide a network's latency */
    unsigned decoders;  /* threads that wait for records, whose cache is to make `dct` of `jpeg`;
                           0: it keeps what comes */
};

struct prefetch;

/* Starts the threads, which wait. `index` and `cache` are borrowed. */
struct status prefetch_open(struct index *index, struct cache *cache,
                            const struct prefetch_options *options, struct prefetch **ret_prefetch);
/* Ends reads that were begun. No prefetch_read runs any more. */
void prefetch_close(struct prefetch *prefetch);
CLEANUP_POINTER(prefetch_close, struct prefetch)

/* Goes to another epoch: steps `first` … of `order`, whose epoch is set. No prefetch_read runs. */
void prefetch_start(struct prefetch *prefetch, const struct order *order, uint64_t first);

/* The record that stands at a place, replacing the content of `bytes`, as index_read gives it,
 * with the same failures; but its encoding is the cache's. Thread-safe. */
struct status prefetch_read(struct prefetch *prefetch, uint64_t place, uint64_t record,
                            struct buffer *bytes, uint8_t *ret_encoding);

/* Since prefetch_start. */
struct prefetch_statistics {
    uint64_t fetched, fetched_bytes; /* records that were read from the shards */
    uint64_t converted;              /* since prefetch_open */
    double wait_seconds;             /* for records on their way, added up over threads */
};
struct prefetch_statistics prefetch_statistics(struct prefetch *prefetch);

#endif
