#ifndef HEADRACE_TRAIN_REFERENCE_SLOTS_H
#define HEADRACE_TRAIN_REFERENCE_SLOTS_H

/* Tensors that are not needed at the same time share memory: a tensor with a known life is given a
 * slot, and a slot is as large as the largest tensor it holds. */

#include <stddef.h>

#include "base/status.h"

struct tensor_life {
    size_t count;     /* elements; 0: no tensor */
    int birth, death; /* first and last moment of use */
    size_t slot;      /* the result */
};

/* Gives every tensor a slot. `ret_slots` has room for `count` entries and gets the slots' sizes in
 * elements. */
struct status reference_slots_assign(struct tensor_life *lives, size_t count, size_t *ret_slots,
                                     size_t *ret_slot_count);

#endif
