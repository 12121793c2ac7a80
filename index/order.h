#ifndef HEADRACE_INDEX_ORDER_H
#define HEADRACE_INDEX_ORDER_H

/* Which record stands where: the position of every record in every batch of every epoch, computed
 * at once from (seed, epoch), whatever the number of ranks, workers or restarts. */

#include <stdbool.h>
#include <stdint.h>

#include "base/permutation.h"

enum order_kind {
    ORDER_SHUFFLE = 0, /* a permutation of all records, another one each epoch */
    ORDER_INDEX,       /* the index's own order */
};

struct order {
    enum order_kind kind;
    uint64_t records;
    uint32_t global_batch;
    bool wraps; /* the last batch goes on at the order's start; else its rest stays empty */
    uint64_t seed;
    uint64_t epoch;
    struct permutation permutation;
};

#define ORDER_NO_RECORD UINT64_MAX

/* Starts at epoch 0; records and global_batch must not be 0. */
struct order order_make(enum order_kind kind, uint64_t records, uint32_t global_batch, bool wraps,
                        uint64_t seed);
void order_set_epoch(struct order *order, uint64_t epoch);
/* Batches of an epoch, the last short one counted unless `drop_last`. */
uint64_t order_steps(const struct order *order, bool drop_last);
/* The record at `slot` of global batch `step`, or ORDER_NO_RECORD where the last batch is empty. */
uint64_t order_record(const struct order *order, uint64_t step, uint32_t slot);

#endif
