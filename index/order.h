#ifndef HEADRACE_INDEX_ORDER_H
#define HEADRACE_INDEX_ORDER_H

/* Which record stands where: the position of every record in every batch of every epoch, computed
 * at once from (seed, epoch), whatever the number of ranks, workers or restarts.
 *
 * ORDER_WINDOW is for disks and networks that want long reads. Records stand by class, so shuffling
 * within runs of neighbours would give batches of few classes. Instead the records are cut into
 * chunks of ORDER_CHUNK_RECORDS neighbours, from a place that is drawn anew each epoch; the chunks
 * are permuted; as many as make a window stand together, and the records of a window are permuted
 * among themselves: a shuffle buffer filled from random places, but one whose every position is
 * computed at once. The last window takes what is left, so it is up to twice as long. */

#include <stdbool.h>
#include <stdint.h>

#include "base/permutation.h"

enum order_kind {
    ORDER_SHUFFLE = 0, /* a permutation of all records, another one each epoch */
    ORDER_WINDOW,      /* chunks of neighbours permuted, and records within windows of chunks */
    ORDER_SEQUENTIAL,  /* the index's own order */
};
extern const char *const order_kind_names[]; /* as options take them; ends in NULL */

/* Two megabytes of ImageNet: read in about the time in which a disk finds its place. */
#define ORDER_CHUNK_RECORDS 16
/* Chunks of 256 places, half a gigabyte of ImageNet: a batch of 256 has images of 150 classes,
 * where a full shuffle has 226. */
#define ORDER_WINDOW_RECORDS 4096

struct order {
    enum order_kind kind;
    uint64_t records;
    uint32_t global_batch;
    bool wraps; /* the last batch goes on at the order's start; else its rest stays empty */
    uint64_t seed;
    uint64_t epoch;
    struct permutation permutation; /* of the records, or of the whole chunks */

    /* ORDER_WINDOW */
    uint64_t chunk, window_chunks; /* records of a chunk, chunks of a window */
    uint64_t first;                /* record at which the first chunk begins */
    uint64_t window_seed;
};

#define ORDER_NO_RECORD UINT64_MAX

/* Starts at epoch 0; records and global_batch must not be 0. `window` is the length of a window in
 * records, rounded down to whole chunks, 0: ORDER_WINDOW_RECORDS; other kinds do not use it. */
struct order order_make(enum order_kind kind, uint64_t window, uint64_t records,
                        uint32_t global_batch, bool wraps, uint64_t seed);
void order_set_epoch(struct order *order, uint64_t epoch);
/* Batches of an epoch, the last short one counted unless `drop_last`. */
uint64_t order_steps(const struct order *order, bool drop_last);
/* The record at `slot` of global batch `step`, or ORDER_NO_RECORD where the last batch is empty. */
uint64_t order_record(const struct order *order, uint64_t step, uint32_t slot);
/* Where a record stands in the epoch, counted from its first slot on: the inverse of order_record,
 * for positions below order->records. */
uint64_t order_position(const struct order *order, uint64_t record);

#endif
