#include "train/reference/slots.h"

#include <stdlib.h>

#include "base/memory.h"

static int birth_compare(const void *a, const void *b)
{
    const struct tensor_life *first = *(struct tensor_life *const *)a;
    const struct tensor_life *second = *(struct tensor_life *const *)b;
    if (first->birth != second->birth)
        return first->birth < second->birth ? -1 : 1;
    return first < second ? -1 : 1;
}

/* A free slot for a tensor: the smallest that is large enough, else the largest, else a new one. */
static size_t slot_choose(const struct tensor_life *life, const size_t *slots,
                          const int *busy_until, size_t slot_count)
{
    size_t best = slot_count;
    for (size_t i = 0; i < slot_count; i++) {
        if (busy_until[i] >= life->birth)
            continue;
        bool fits = slots[i] >= life->count;
        if (best == slot_count ||
            (slots[best] < life->count ? slots[i] > slots[best] : fits && slots[i] < slots[best]))
            best = i;
    }
    return best;
}

struct status reference_slots_assign(struct tensor_life *lives, size_t count, size_t *ret_slots,
                                     size_t *ret_slot_count)
{
    CLEANUP(memory_free) struct tensor_life **order = NULL;
    CLEANUP(memory_free) int *busy_until = NULL;
    TRY(memory_alloc(count, sizeof *order, &order));
    TRY(memory_alloc(count, sizeof *busy_until, &busy_until));
    size_t tensors = 0, slot_count = 0;
    for (size_t i = 0; i < count; i++)
        if (lives[i].count)
            order[tensors++] = &lives[i];
    qsort(order, tensors, sizeof *order, birth_compare);

    for (size_t i = 0; i < tensors; i++) {
        struct tensor_life *life = order[i];
        life->slot = slot_choose(life, ret_slots, busy_until, slot_count);
        if (life->slot == slot_count)
            ret_slots[slot_count++] = 0;
        if (ret_slots[life->slot] < life->count)
            ret_slots[life->slot] = life->count;
        busy_until[life->slot] = life->death;
    }
    *ret_slot_count = slot_count;
    return OK;
}
