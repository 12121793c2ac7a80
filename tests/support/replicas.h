#ifndef HEADRACE_TESTS_SUPPORT_REPLICAS_H
#define HEADRACE_TESTS_SUPPORT_REPLICAS_H

/* What a backend of several devices is held against: the reference backend in double, one replica
 * a device with its part of each batch, whose gradients are added up; and batches of bytes for
 * both. */

#include "train/backend.h"

/* Random pixels, as bytes and as the floats that they mean, rounded to the type of activations.
 * With `missing` the last label is −1. */
struct pixel_batch {
    uint32_t batch, height, width, valid;
    uint8_t *pixels; /* (batch, height, width, 3) */
    float *images;
    int32_t *labels;
    float mixed_in; /* struct step_input's; 0 as made */
};
void pixel_batch_make(struct pixel_batch *batch, const struct plan_config *config, uint32_t classes,
                      enum train_dtype dtype, bool missing, uint64_t seed);
void pixel_batch_done(struct pixel_batch *batch);

struct replicas {
    const struct network *network; /* borrowed */
    const struct backend_ops *ops;
    struct plan_config config; /* the whole batch */
    unsigned count;
    struct backend *backend;
    struct store *stores[8];
    struct plan *plans[8]; /* of a part */
    struct plan *eval;     /* of the whole, on the first store */
};
/* All replicas start as initialise_parameters makes them. config->batch divides by `count`. */
void replicas_open(struct replicas *replicas, const struct network *network,
                   const struct plan_config *config, unsigned count, uint64_t seed);
void replicas_close(struct replicas *replicas);
void replicas_begin(struct replicas *replicas, const struct update_rule *rule);
/* Forward and backward of a step's only micro-batch; the sum of the metrics. Every store then has
 * the whole gradient. */
struct step_metrics replicas_train(struct replicas *replicas, const struct pixel_batch *batch);
void replicas_update(struct replicas *replicas);
/* All stores get the mean of the running statistics, then the whole batch is evaluated. */
struct step_metrics replicas_evaluate(struct replicas *replicas, const struct pixel_batch *batch);
/* A tensor, on the heap: of running statistics the mean over the replicas. */
double *replicas_read(struct replicas *replicas, enum param_role role, size_t param);

/* Into all stores; takes the values over. */
void replicas_write(struct replicas *replicas, enum param_role role, size_t param, double *values);

/* Weights as training draws them, γ around 1 and β around 0 rather than at them, so that nothing
 * hides. */
void initialise_parameters(const struct network *network, const struct backend_ops *ops,
                           struct store *store, uint64_t seed);

#endif
