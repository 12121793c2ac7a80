#include "train/cuda/layout.h"

#include <stdlib.h>

#include "base/memory.h"

/* Larger ones first; equal ones by birth and then as they stand, so that the order is one. */
static int placing_order(const void *a, const void *b)
{
    const struct tensor_life *first = *(struct tensor_life *const *)a;
    const struct tensor_life *second = *(struct tensor_life *const *)b;
    if (first->bytes != second->bytes)
        return first->bytes > second->bytes ? -1 : 1;
    if (first->first != second->first)
        return first->first < second->first ? -1 : 1;
    return first < second ? -1 : 1;
}

static int offset_order(const void *a, const void *b)
{
    const struct tensor_life *first = *(struct tensor_life *const *)a;
    const struct tensor_life *second = *(struct tensor_life *const *)b;
    return first->offset < second->offset ? -1 : first->offset > second->offset;
}

/* The lowest offset at which `life` fits between `busy`, which are ordered by offset. */
static uint64_t offset_find(const struct tensor_life *life, struct tensor_life *const *busy,
                            size_t busy_count)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < busy_count; i++) {
        if (busy[i]->offset >= offset + life->bytes)
            break;
        uint64_t end = busy[i]->offset + layout_aligned(busy[i]->bytes);
        if (end > offset)
            offset = end;
    }
    return offset;
}

struct status layout_assign(struct tensor_life *lives, size_t count, uint64_t *ret_bytes)
{
    CLEANUP(memory_free) struct tensor_life **order = NULL;
    CLEANUP(memory_free) struct tensor_life **busy = NULL;
    TRY(memory_alloc(count, sizeof *order, &order));
    TRY(memory_alloc(count, sizeof *busy, &busy));
    size_t tensors = 0;
    for (size_t i = 0; i < count; i++)
        if (lives[i].bytes)
            order[tensors++] = &lives[i];
    qsort(order, tensors, sizeof *order, placing_order);

    *ret_bytes = 0;
    for (size_t i = 0; i < tensors; i++) {
        struct tensor_life *life = order[i];
        size_t busy_count = 0;
        for (size_t j = 0; j < i; j++)
            if (order[j]->first <= life->last && life->first <= order[j]->last)
                busy[busy_count++] = order[j];
        qsort(busy, busy_count, sizeof *busy, offset_order);
        life->offset = offset_find(life, busy, busy_count);
        if (life->offset + layout_aligned(life->bytes) > *ret_bytes)
            *ret_bytes = life->offset + layout_aligned(life->bytes);
    }
    return OK;
}
