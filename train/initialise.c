#include "train/initialise.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"

static void fill(uint64_t count, double value, double *ret_values)
{
    for (uint64_t i = 0; i < count; i++)
        ret_values[i] = value;
}

static void fill_normal(struct random_stream *stream, uint64_t count, double deviation,
                        double *ret_values)
{
    for (uint64_t i = 0; i < count; i++)
        ret_values[i] = (float)(deviation * random_normal(stream));
}

static void fill_uniform(struct random_stream *stream, uint64_t count, double bound,
                         double *ret_values)
{
    for (uint64_t i = 0; i < count; i++)
        ret_values[i] = (float)(bound * (2 * random_double(stream) - 1));
}

void initialise_param(const struct network *network, size_t param, uint64_t seed, bool zero_init,
                      double *ret_values)
{
    const struct param *p = &network->params[param];
    struct random_stream stream = random_stream_make(seed, RANDOM_WEIGHTS, param, 0);
    switch (p->kind) {
    case PARAM_CONV_WEIGHT: {
        uint64_t fan_out = p->shape[0] * p->shape[2] * p->shape[3];
        fill_normal(&stream, p->count, sqrt(2 / (double)fan_out), ret_values);
        break;
    }
    case PARAM_FC_WEIGHT:
        fill_uniform(&stream, p->count, 1 / sqrt((double)p->shape[1]), ret_values);
        break;
    case PARAM_FC_BIAS: /* stands behind its weight */
        fill_uniform(&stream, p->count, 1 / sqrt((double)p[-1].shape[1]), ret_values);
        break;
    case PARAM_BN_WEIGHT:
        fill(p->count, zero_init && p->zero_init ? 0 : 1, ret_values);
        break;
    case PARAM_RUNNING_VAR:
        fill(p->count, 1, ret_values);
        break;
    case PARAM_BN_BIAS:
    case PARAM_RUNNING_MEAN:
    case PARAM_COUNTER:
        fill(p->count, 0, ret_values);
        break;
    }
}

struct status initialise_store(const struct network *network, const struct backend_ops *ops,
                               struct store *store, uint64_t seed, bool zero_init)
{
    uint64_t largest = 0;
    for (size_t p = 0; p < network->param_count; p++)
        if (network->params[p].count > largest)
            largest = network->params[p].count;
    CLEANUP(memory_free) double *values = NULL;
    TRY(memory_alloc(largest, sizeof *values, &values));
    for (size_t p = 0; p < network->param_count; p++) {
        if (network->params[p].kind == PARAM_COUNTER)
            continue;
        initialise_param(network, p, seed, zero_init, values);
        TRY(ops->store_write(store, ROLE_VALUE, p, values));
    }
    return OK;
}
