#ifndef HEADRACE_TRAIN_CUDA_STORE_H
#define HEADRACE_TRAIN_CUDA_STORE_H

/* Parameters, gradients, momentum and the average of parameters: a replica on each device, the same
 * bits on all of them but for running statistics within a step, which each device moves by its own
 * images. store.c has the memory, update.c what moves the weights and their average. */

#include "train/cuda/cuda.h"
#include "train/cuda/param_map.h"

/* On one device; all are device memory. */
struct store_replica {
    float *values, *gradients, *momenta;
    float *average; /* of the values; NULL: there is none */
    float *fresh;   /* gradients of a micro-batch that adds to others; NULL: there was none yet */
    void *weights;  /* the values as activations are typed; the values themselves for f32 */
    void *folded_weights; /* for evaluation, at the weights' offsets; NULL: no plan needs them */
    float *folded_biases;
    uint32_t *block_segments;
    struct arena_segment *segments;
    float *rates;
    struct update_state *state;
    void *workspace;
    cudaGraphExec_t update; /* NULL: not captured yet */
    bool has_updated;       /* by the rule in use */
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
/* Memory that only accumulation, only evaluation, only an average needs; nothing where it is there
 * already. */
struct status store_need_fresh(struct store *store);
struct status store_need_folded(struct store *store);
struct status store_need_average(struct store *store);

/* Makes the update's graph anew: what it was captured with has changed. */
void store_drop_update(struct store_replica *replica);

#endif
