#include "train/cuda/bucket.h"

#include <stdlib.h>

#include "base/memory.h"

static const uint64_t most_elements = (25u << 20) / sizeof(float);
enum { PARTS = 8 };

/* By parameter: the last op that writes its gradient, or reads it as it is on this device. */
static void last_ops_find(const struct program *program, size_t *ret_last_ops)
{
    for (size_t i = 0; i < program->op_count; i++)
        for (int t = 0; t < TENSOR_COUNT; t++) {
            const struct operand *operand = &program->ops[i].operands[t];
            if (operand->place == PLACE_GRADIENT)
                ret_last_ops[operand->index] = i;
        }
}

static int op_order(const void *a, const void *b)
{
    const struct bucket *first = a, *second = b;
    if (first->last_op != second->last_op)
        return first->last_op < second->last_op ? -1 : 1;
    return first->begin < second->begin ? -1 : 1;
}

static struct status bucket_push(struct bucket_list *list, const struct bucket *bucket)
{
    TRY(memory_grow(list->count + 1, sizeof *list->buckets, &list->buckets, &list->capacity));
    list->buckets[list->count++] = *bucket;
    return OK;
}

static struct status arena_cut(const struct param_map *map, const size_t *last_ops,
                               struct bucket_list *list)
{
    const uint64_t part = map->trained / PARTS;
    const uint64_t least = part < most_elements ? part : most_elements;
    struct bucket bucket = {0};
    for (uint32_t s = 0; s < map->segment_count; s++) {
        const uint32_t param = map->segment_params[s];
        const struct arena_segment *segment = &map->segments[s];
        bucket.end = (uint64_t)(segment->first_block + segment->block_count) * KERNEL_BLOCK;
        if (last_ops[param] > bucket.last_op)
            bucket.last_op = last_ops[param];
        if (bucket.end - bucket.begin < least && s + 1 < map->segment_count)
            continue;
        TRY(bucket_push(list, &bucket));
        bucket = (struct bucket){.begin = bucket.end};
    }
    return OK;
}

struct status bucket_list_make(const struct program *program, const struct param_map *map,
                               struct bucket_list *ret_list)
{
    CLEANUP(memory_free) size_t *last_ops = NULL;
    TRY(memory_alloc(map->network->param_count, sizeof *last_ops, &last_ops));
    last_ops_find(program, last_ops);
    *ret_list = (struct bucket_list){0};
    TRY(arena_cut(map, last_ops, ret_list));
    qsort(ret_list->buckets, ret_list->count, sizeof *ret_list->buckets, op_order);
    return OK;
}

void bucket_list_done(struct bucket_list *list)
{
    memory_free(list->buckets);
    *list = (struct bucket_list){0};
}
