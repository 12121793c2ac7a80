#ifndef HEADRACE_TRAIN_CPU_STORE_H
#define HEADRACE_TRAIN_CPU_STORE_H

/* Parameters, gradients and momentum, in f32. Weights start in torchvision's own order; the first
 * training plan moves them to the layout in which oneDNN computes their gradients, so that the
 * update is one pass over plain arrays. Each of the three roles is one array: weights, then biases
 * and norms, then (values only) running statistics. */

#include "train/cpu/cpu.h"
#include "train/stepping.h"

struct store_param {
    struct layout *layout; /* of a weight; NULL for vectors */
    size_t offset;         /* into each array, in floats; a multiple of KERNEL_LANES */
    size_t count;          /* floats with the layout's padding */
};

struct store {
    struct backend *backend;
    const struct network *network; /* borrowed */
    struct store_param *params;    /* one for each of the network's */
    float *values, *gradients, *momenta;
    size_t weight_count, trained_count, total_count; /* floats, ends of the three sections */
    float *earlier; /* gradients of the step's micro-batches before this one; NULL: never needed */
    struct stepping stepping;
    bool adopted;
    uint64_t version; /* grows whenever a value changes */
};

uint64_t store_bytes(const struct store *store);

static inline float *store_value(const struct store *store, size_t param)
{
    return store->values + store->params[param].offset;
}

static inline float *store_gradient(const struct store *store, size_t param)
{
    return store->gradients + store->params[param].offset;
}

/* Moves everything to the layouts `wanted` (one for each parameter; NULL: as it is). Only the first
 * call does; later ones change nothing. Pointers into the store change. */
struct status store_adopt_layouts(struct store *store, const struct layout *const *wanted);

/* Memory that only accumulation needs; nothing where it is there already. */
struct status store_need_earlier(struct store *store);
/* Puts the gradients aside, to be added to those that the next backward pass leaves. */
struct status store_keep_gradients(struct store *store);
void store_add_gradients(struct store *store);
/* Sums gradients over all processes and takes the mean of the running statistics. */
struct status store_share(struct store *store);

/* A weight's values in torchvision's order; ret_values holds param's count. */
struct status store_read_dense(const struct store *store, size_t param, float *ret_values);

#endif
