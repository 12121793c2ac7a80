#ifndef HEADRACE_TRAIN_CUDA_STORE_H
#define HEADRACE_TRAIN_CUDA_STORE_H

/* Parameters, gradients and momentum: a replica on each device, the same bits on all of them but
 * for running statistics within a step, which each device moves by its own images. */

#include "train/cuda/cuda.h"
#include "train/cuda/param_map.h"

/* On one device; all are device memory. */
struct store_replica {
    float *values, *gradients, *momenta;
    float *fresh;  /* gradients of a micro-batch that adds to others; NULL: there was none yet */
    void *weights; /* the values as activations are typed; the values themselves for f32 */
    void *folded_weights; /* for evaluation, at the weights' offsets; NULL: no plan needs them */
    float *folded_biases;
    uint32_t *block_segments;
    struct arena_segment *segments;
    float *rates;
    struct update_state *state;
    void *workspace;
};

struct store {
    struct backend *backend;
    const struct network *network; /* borrowed */
    struct param_map *map;
    struct store_replica *replicas; /* by device */
    struct update_config rule;
    uint64_t rate_count;
    uint64_t applied_before; /* steps applied before the rates begin */
    uint64_t version;        /* grows whenever a value may have changed */
    uint64_t folded_version; /* of the values that were folded; 0: none were */
    bool statistics_differ;  /* running statistics moved in a step that goes on */
};

uint64_t store_bytes(const struct store *store);

/* Waits, and gives all devices the mean of their running statistics; all processes call it at the
 * same point. The mean over the devices moves the same whether they were averaged before or not. */
struct status store_average_statistics(struct store *store);
/* Memory that only accumulation, only evaluation needs; nothing where it is there already. */
struct status store_need_fresh(struct store *store);
struct status store_need_folded(struct store *store);

#endif
