#include "train/cuda/param_map.h"

#include <string.h>

#include "base/memory.h"

/* How many parameters of a node stand together, from its first_param on. */
static unsigned node_params(const struct node *node)
{
    switch (node->kind) {
    case NODE_CONV:
        return 1;
    case NODE_BN:
        return 4;
    case NODE_FC:
        return 2;
    default:
        return 0;
    }
}

static uint64_t block_end(uint64_t count)
{
    return (count + KERNEL_BLOCK - 1) / KERNEL_BLOCK * KERNEL_BLOCK;
}

static void param_measure(const struct param_map *map, const struct node *node, size_t i)
{
    const struct param *param = &map->network->params[i];
    struct param_place *place = &map->params[i];
    place->count = param->count;
    place->in = (uint32_t)param->shape[1];
    if (param->kind == PARAM_CONV_WEIGHT) {
        if (map->network->nodes[node->inputs[0]].kind == NODE_INPUT)
            place->in = INPUT_CHANNELS;
        place->count = param->count / param->shape[1] * place->in;
    } else if (param->kind == PARAM_FC_WEIGHT) {
        place->count = columns_padded((uint32_t)param->shape[0]) * param->shape[1];
    } else if (param->kind == PARAM_FC_BIAS) {
        place->count = columns_padded((uint32_t)param->shape[0]);
    }
}

/* Places the parameters that are trained, or those that are not, from `offset` on. */
static uint64_t params_place(struct param_map *map, bool trained, uint64_t offset)
{
    const struct network *network = map->network;
    for (size_t n = network->node_count; n-- > 0;) {
        const struct node *node = &network->nodes[n];
        for (unsigned j = 0; j < node_params(node); j++) {
            size_t i = (size_t)node->first_param + j;
            if (param_is_trained(&network->params[i]) != trained)
                continue;
            param_measure(map, node, i);
            map->params[i].offset = offset;
            offset += block_end(map->params[i].count);
            if (trained)
                map->segment_params[map->segment_count++] = (uint32_t)i;
        }
    }
    return offset;
}

static void segments_fill(struct param_map *map)
{
    for (uint32_t s = 0; s < map->segment_count; s++) {
        const struct param_place *place = &map->params[map->segment_params[s]];
        struct arena_segment *segment = &map->segments[s];
        segment->adapts = param_is_weight(map->network->params[map->segment_params[s]].kind);
        segment->first_block = (uint32_t)(place->offset / KERNEL_BLOCK);
        segment->block_count = (uint32_t)(block_end(place->count) / KERNEL_BLOCK);
        for (uint32_t b = 0; b < segment->block_count; b++)
            map->block_segments[segment->first_block + b] = s;
    }
}

struct status param_map_open(const struct network *network, struct param_map **ret_map)
{
    CLEANUP(param_map_close) struct param_map *map = NULL;
    TRY(memory_alloc(1, sizeof *map, &map));
    map->network = network;
    TRY(memory_alloc(network->param_count, sizeof *map->params, &map->params));
    TRY(memory_alloc(network->param_count, sizeof *map->segments, &map->segments));
    TRY(memory_alloc(network->param_count, sizeof *map->segment_params, &map->segment_params));
    map->trained = params_place(map, true, 0);
    map->total = params_place(map, false, map->trained);
    TRY(memory_alloc(map->trained / KERNEL_BLOCK, sizeof *map->block_segments,
                     &map->block_segments));
    segments_fill(map);
    param_map_set_decay(map, true);
    *ret_map = MOVE(map);
    return OK;
}

void param_map_close(struct param_map *map)
{
    if (!map)
        return;
    memory_free(map->params);
    memory_free(map->segments);
    memory_free(map->segment_params);
    memory_free(map->block_segments);
    memory_free(map);
}

/* Where element i of torchvision's tensor stands, in elements from the parameter's place. Its
 * padding comes last in each innermost row or behind all rows. */
static uint64_t element_place(const struct param *param, const struct param_place *place,
                              uint64_t i)
{
    if (param->kind != PARAM_CONV_WEIGHT)
        return i;
    uint64_t taps = param->shape[2] * param->shape[3];
    uint64_t tap = i % taps, in = i / taps % param->shape[1], out = i / taps / param->shape[1];
    return (out * taps + tap) * place->in + in;
}

void param_map_pack(const struct param_map *map, size_t param, const double *values,
                    float *ret_place)
{
    const struct param *of = &map->network->params[param];
    const struct param_place *place = &map->params[param];
    memset(ret_place, 0, sizeof *ret_place * place->count);
    for (uint64_t i = 0; i < of->count; i++)
        ret_place[element_place(of, place, i)] = (float)values[i];
}

void param_map_unpack(const struct param_map *map, size_t param, const float *place,
                      double *ret_values)
{
    const struct param *of = &map->network->params[param];
    for (uint64_t i = 0; i < of->count; i++)
        ret_values[i] = place[element_place(of, &map->params[param], i)];
}

void param_map_set_decay(struct param_map *map, bool norm_and_bias)
{
    for (uint32_t s = 0; s < map->segment_count; s++)
        map->segments[s].decays =
            norm_and_bias || param_is_weight(map->network->params[map->segment_params[s]].kind);
}
