#ifndef HEADRACE_TRAIN_CPU_BN_H
#define HEADRACE_TRAIN_CPU_BN_H

/* Batch normalisation in training, fused with the ReLU, addition or max pool behind it, over all
 * threads and, with sync_bn, all processes. Every sum is made in the same order for the same number
 * of threads: f32 over short ranges of rows, f64 over a thread's ranges, the threads and the
 * processes. */

#include "base/scope.h"
#include "train/cpu/store.h"

/* Sums of the threads; one serves all normalisations of a plan, one after the other. */
struct bn_sums {
    const struct backend *backend; /* borrowed */
    size_t stride;                 /* floats or doubles a thread and kind of sum */
    double *totals;                /* (threads, BN_SUMS, stride) */
    float *partial;                /* the same */
    double *joined;                /* (2, stride): sums over the threads, and over processes */
};

struct status bn_sums_init(struct bn_sums *sums, const struct backend *backend,
                           uint32_t channels_max);
void bn_sums_done(struct bn_sums *sums);

struct bn {
    uint32_t channels;
    size_t rows;
    size_t param;   /* in the store: γ, β, running mean, running variance */
    float *vectors; /* owns the others, (channels) each */
    float *mean, *deviation_inverse;
    float *scale, *shift;                         /* struct bn_forward */
    float *from_gradient, *from_input, *constant; /* struct bn_backward */
};

struct status bn_init(struct bn *bn, size_t param, uint32_t channels, size_t rows);
void bn_done(struct bn *bn);

/* Statistics of y (rows, channels): sets mean … shift and moves the running ones. */
struct status bn_measure(struct bn *bn, struct bn_sums *sums, struct store *store, const void *y);

/* What stands behind a block's shortcut: a convolution's output y and its normalisation. */
struct bn_shortcut {
    struct bn *bn;
    const void *y;
};

/* z = relu(bn(y)). */
void bn_apply_relu(const struct bn *bn, const struct backend *backend, const void *y, void *z);
/* z = relu(bn(y) + other), or relu(bn(y) + shortcut) when that is not NULL; mask as in kernels.h.
 */
void bn_apply_add_relu(const struct bn *bn, const struct backend *backend, const void *y,
                       const void *other, const struct bn_shortcut *shortcut, void *z,
                       uint8_t *mask);
/* z = max pool of relu(bn(y)). */
void bn_apply_relu_pool(const struct bn *bn, const struct backend *backend,
                        const struct pool_shape *pool, const void *y, void *z, uint8_t *index);

/* The backward passes write the gradients of γ and β to the store, and that at y.
 * d, the gradient at relu(bn(y)), becomes that at y. */
struct status bn_backward_relu(struct bn *bn, struct bn_sums *sums, struct store *store,
                               const void *y, void *d);
/* The gradient at the sum's ReLU is p + q (q may be NULL). out gets the gradient at y; p that at
 * the addition's other input, which is the shortcut's y when there is a shortcut. */
struct status bn_backward_add_relu(struct bn *bn, struct bn_sums *sums, struct store *store,
                                   const void *y, const struct bn_shortcut *shortcut,
                                   const uint8_t *mask, void *p, const void *q, void *out);
/* p + q (q may be NULL) is the gradient at the pool's output; d gets that at y. */
struct status bn_backward_relu_pool(struct bn *bn, struct bn_sums *sums, struct store *store,
                                    const struct pool_shape *pool, const void *y,
                                    const uint8_t *index, const void *p, const void *q, void *d);

#endif
