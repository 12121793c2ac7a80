#ifndef HEADRACE_INDEX_LOADER_H
#define HEADRACE_INDEX_LOADER_H

/* Batches from an index: one pool of threads reads, decodes, crops and normalises ahead into a ring
 * of slots.
 *
 * Everything a batch holds is a pure function of (index, seed, epoch, step, options): not of the
 * number of threads, ranks or restarts. Training: global batch `step` takes positions step·B …
 * step·B+B−1 of the epoch's order (order.h); the last one, if short, goes on at the order's start,
 * so every record is seen at least once and no batch is smaller (or is left out: drop_last).
 * Evaluation: index order, each record exactly once; the last batch is filled up with label −1. A
 * rank takes its contiguous slice of each global batch. */

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "image/crop.h"
#include "image/pixels.h"
#include "image/tensor.h"
#include "index/cache.h"
#include "index/index.h"
#include "index/loader_statistics.h"
#include "index/order.h"

enum loader_mode { LOADER_TRAIN = 0, LOADER_EVAL };
enum loader_on_error {
    LOADER_FAIL = 0, /* a bad record ends the run */
    LOADER_SKIP,     /* its slot is black, its label −1; it is named once and counted */
};
extern const char *const loader_on_error_names[]; /* ends in NULL */

struct loader_options {
    enum loader_mode mode;
    uint32_t global_batch; /* over all ranks; a multiple of world_size */
    uint32_t rank, world_size;
    uint32_t image_size;           /* training crop */
    uint32_t val_resize, val_crop; /* evaluation */
    struct crop_options crop;
    enum order_kind order; /* of training */
    uint64_t window;       /* records of ORDER_WINDOW's windows; 0: ORDER_WINDOW_RECORDS */
    enum pixels pixels;
    struct tensor_format format;
    uint64_t seed;
    unsigned threads;      /* 0: cores_available() */
    unsigned slots;        /* batches ahead; 0: as many as keep the threads busy, at least 2 */
    uint64_t memory_bytes; /* ceiling of batches and scratch; 0: loader_memory.h's usual sizes */
    bool background;       /* threads give way to others that compute on the same cores */
    bool drop_last;
    enum loader_on_error on_error;
    struct cache *cache;      /* borrowed; NULL: none, but what is read ahead of URLs, in memory */
    const int32_t *label_map; /* NULL, or for each of the index's classes the label to give out (−1
                                 is refused) */
};
void loader_options_init(struct loader_options *options);

/* One record's place in a batch. */
struct batch_sample {
    uint64_t record;
    struct crop crop;
};

/* A batch, borrowed from the ring until batch_release. */
struct batch {
    uint64_t epoch, step;
    uint32_t count;               /* slots of this rank: global_batch / world_size */
    uint32_t valid;               /* of them with a label >= 0 */
    void *images;                 /* (count, H, W, 3) or (count, 3, H, W); 64-byte aligned */
    int32_t *labels;              /* (count) */
    struct batch_sample *samples; /* (count) */
};

struct loader;

/* Bytes that a loader with these options takes at most beyond the page cache, while the caller
 * holds one batch at a time. */
struct status loader_forecast(const struct loader_options *options, uint64_t *ret_bytes);

/* `index` is borrowed and must outlive the loader. */
struct status loader_open(struct index *index, const struct loader_options *options,
                          struct loader **ret_loader);
/* Stops the threads and ends their reads, however long a server takes; loader_next fails from then
 * on. Batches that the caller holds stay valid, and may still be released, until loader_close. */
void loader_stop(struct loader *loader);
/* Stops the threads; batches not yet released become invalid. */
void loader_close(struct loader *loader);
CLEANUP_POINTER(loader_close, struct loader)

/* Steps of an epoch. */
uint64_t loader_steps(const struct loader *loader);
/* Begins an epoch at a step (resume); drops what was prefetched, and waits for reads of it that are
 * under way. STATUS_STOPPED where the calling thread is to give that up (stop.h): what remains is
 * another start, or the end. */
struct status loader_start(struct loader *loader, uint64_t epoch, uint64_t first_step);
/* The next batch in order, or NULL after the epoch's last. Waits for it. Fails with a worker's
 * error, or when the caller holds too many batches. */
struct status loader_next(struct loader *loader, struct batch **ret_batch);
/* Waits up to `wait_ms` for what loader_next would wait for: *ret_ready is false where that takes
 * longer. For callers who have to look at something else meanwhile. Fails when the caller holds too
 * many batches. */
struct status loader_wait(struct loader *loader, unsigned wait_ms, bool *ret_ready);
void batch_release(struct batch *batch);

/* Since loader_start. */
void loader_statistics(const struct loader *loader, struct loader_statistics *ret_statistics);

/* What training sees at a global position, computed anew (replay): the record and its crop. Probes
 * the record's size if the index does not know it. */
struct status loader_sample(struct loader *loader, uint64_t epoch, uint64_t step, uint32_t slot,
                            struct batch_sample *ret_sample);

#endif
