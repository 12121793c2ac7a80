#ifndef HEADRACE_TRAIN_CUDA_LAYOUT_H
#define HEADRACE_TRAIN_CUDA_LAYOUT_H

/* Which tensors of a program share memory: those that are never alive at the same time. */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A tensor from the op that first touches it to the one that last does, both included. */
struct tensor_life {
    uint64_t bytes; /* 0: none */
    size_t first, last;
    uint64_t offset; /* layout_assign sets it: a multiple of LAYOUT_ALIGNMENT */
};

enum { LAYOUT_ALIGNMENT = 256 };
static inline uint64_t layout_aligned(uint64_t bytes)
{
    return (bytes + LAYOUT_ALIGNMENT - 1) / LAYOUT_ALIGNMENT * LAYOUT_ALIGNMENT;
}

/* Places the tensors in one block; *ret_bytes is its size. The largest ones are placed first, each
 * at the lowest offset that no tensor of the same time holds (Pisarchyk and Lee, "Efficient memory
 * management for deep neural net inference", 2020, "greedy by size"). */
struct status layout_assign(struct tensor_life *lives, size_t count, uint64_t *ret_bytes);

#endif
