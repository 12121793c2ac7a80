#ifndef HEADRACE_INDEX_READ_AHEAD_H
#define HEADRACE_INDEX_READ_AHEAD_H

/* Reading ahead into the page cache in the order of the files, while batches are made in their own.
 *
 * Steps are taken in blocks of about READ_AHEAD_RECORDS records, or of a window (order.h). The
 * records of a block are sorted by place, neighbours are joined, and the ranges are announced to
 * the kernel evenly over the block before: so a disk sees one sweep a block, and a window order
 * long reads. A thread of its own does so, since announcing may block when the device is busy. What
 * a batch holds does not depend on it. */

#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "index/index.h"
#include "index/order.h"

#define READ_AHEAD_RECORDS 1024
/* Neighbours with less than this between them are read in one go. */
#define READ_AHEAD_GAP_BYTES (256 << 10)

/* One range of a shard. */
struct read_range {
    uint32_t shard;
    uint64_t offset, length;
};

/* The ranges of what `slots` slots from `first_slot` on of each of the steps `first` … `end` - 1
 * will read, in the order of the files; records whose place is damaged are left out. Appends to
 * *ranges, which holds *capacity of them. */
struct status read_ranges_list(const struct index *index, const struct order *order,
                               uint32_t first_slot, uint32_t slots, uint64_t first, uint64_t end,
                               struct read_range **ranges, size_t *capacity, size_t *ret_count);

struct read_ahead;

/* Starts the thread, which waits. `index` is borrowed; slots as above. */
struct status read_ahead_open(struct index *index, uint32_t first_slot, uint32_t slots,
                              struct read_ahead **ret_ahead);
void read_ahead_close(struct read_ahead *ahead);
CLEANUP_POINTER(read_ahead_close, struct read_ahead)

/* Goes to another epoch: steps `first` … `end` - 1 of `order`, whose epoch is set. */
void read_ahead_start(struct read_ahead *ahead, const struct order *order, uint64_t first,
                      uint64_t end);
/* Step `step` has begun. */
void read_ahead_advance(struct read_ahead *ahead, uint64_t step);

#endif
