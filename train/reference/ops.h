#ifndef HEADRACE_TRAIN_REFERENCE_OPS_H
#define HEADRACE_TRAIN_REFERENCE_OPS_H

/* The operations of a network as plain loops: slow, obvious, and what other backends are held
 * against.
 *
 * Tensors are dense (N, H, W, C); convolution weights are (kernel, kernel, in, out); fully
 * connected weights are (out, in). Each element is computed by one thread in a fixed order, so
 * results do not depend on the number of threads. Statistics, losses and fully connected layers are
 * summed in double, convolutions in `real`.
 *
 * The files are compiled twice: `real` is float, or double with -DREFERENCE_REAL=double. The tests
 * get the second form as one object with one visible name (tests/support/reference_f64.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "base/status.h"
#include "train/comm.h"
#include "train/stepping.h"

#ifndef REFERENCE_REAL
#define REFERENCE_REAL float
#endif

typedef REFERENCE_REAL real;

/* What a convolution or a pooling slides over. in == out for pooling. */
struct window_shape {
    uint32_t batch, height, width, in;   /* x: (batch, height, width, in) */
    uint32_t out_height, out_width, out; /* y: (batch, out_height, out_width, out) */
    uint32_t kernel, stride, padding;
};

/* In all backward operations `dx` is added to and other gradients are replaced. */

struct status reference_conv_forward(struct pool *pool, const struct window_shape *shape,
                                     const real *x, const real *weight, real *y);
struct status reference_conv_backward_data(struct pool *pool, const struct window_shape *shape,
                                           const real *dy, const real *weight, real *dx);
struct status reference_conv_backward_weight(struct pool *pool, const struct window_shape *shape,
                                             const real *x, const real *dy, real *dweight);

/* Batch normalisation of (rows, channels), where rows = N·H·W; `comm`, where not NULL, joins the
 * rows of all processes, of which each has as many. */
struct bn_params {
    real *weight, *bias;              /* γ, β */
    real *running_mean, *running_var; /* reference_bn_forward moves them */
};

/* `ret_saved` (4·channels) gets the mean and then 1/σ of each channel; its rest is room for the way
 * back. */
struct status reference_bn_forward(struct pool *pool, struct comm *comm, size_t rows,
                                   size_t channels, const real *x, const struct bn_params *params,
                                   real *y, double *ret_saved);
/* With the running statistics. */
struct status reference_bn_infer(struct pool *pool, size_t rows, size_t channels, const real *x,
                                 const struct bn_params *params, real *y);
/* `dweight` and `dbias` are this process's part. */
struct status reference_bn_backward(struct pool *pool, struct comm *comm, size_t rows,
                                    size_t channels, const real *x, const real *dy,
                                    const real *weight, double *saved, real *dx, real *dweight,
                                    real *dbias);

struct status reference_relu_forward(struct pool *pool, size_t count, const real *x, real *y);
/* `y` is the output of the forward operation. */
struct status reference_relu_backward(struct pool *pool, size_t count, const real *y,
                                      const real *dy, real *dx);
struct status reference_add_forward(struct pool *pool, size_t count, const real *a, const real *b,
                                    real *y);
/* For each of the two inputs. */
struct status reference_add_backward(struct pool *pool, size_t count, const real *dy, real *dx);

/* `ret_winner`, of y's shape: the place y·width + x in the input's plane. Of equal values the first
 * wins. */
struct status reference_max_pool_forward(struct pool *pool, const struct window_shape *shape,
                                         const real *x, real *y, uint32_t *ret_winner);
struct status reference_max_pool_backward(struct pool *pool, const struct window_shape *shape,
                                          const real *dy, const uint32_t *winner, real *dx);
/* Each channel with (1 2 1)ᵀ(1 2 1)/16; what lies outside is 0. */
struct status reference_blur_forward(struct pool *pool, const struct window_shape *shape,
                                     const real *x, real *y);
struct status reference_blur_backward(struct pool *pool, const struct window_shape *shape,
                                      const real *dy, real *dx);
/* (batch, area, channels) to (batch, channels). */
struct status reference_average_forward(struct pool *pool, size_t batch, size_t area,
                                        size_t channels, const real *x, real *y);
struct status reference_average_backward(struct pool *pool, size_t batch, size_t area,
                                         size_t channels, const real *dy, real *dx);

/* x (batch, in), weight (out, in), bias (out), y (batch, out). */
struct status reference_fc_forward(struct pool *pool, size_t batch, size_t in, size_t out,
                                   const real *x, const real *weight, const real *bias, real *y);
struct status reference_fc_backward(struct pool *pool, size_t batch, size_t in, size_t out,
                                    const real *x, const real *weight, const real *dy, real *dx,
                                    real *dweight, real *dbias);

/* What a batch's loss says. */
struct loss_sums {
    double loss;
    uint32_t top1, top5, count;
};

/* Softmax cross-entropy of logits (batch, classes) with PyTorch's label smoothing; a label of −1
 * counts for nothing. `mixed_in` is struct step_input's. `dlogits`, when not NULL, gets the
 * gradient of the loss's sum times `weight`. Labels are below `classes`. */
void reference_loss(size_t batch, size_t classes, const real *logits, const int32_t *labels,
                    double smoothing, float mixed_in, double weight, real *dlogits,
                    struct loss_sums *ret_sums);

/* PyTorch's SGD: g = gradient_factor·gradient + decay·w; v = momentum·v + g;
 * w −= rate·(nesterov ? g + momentum·v : v). */
struct status reference_sgd(struct pool *pool, size_t count, const struct tensor_step *step,
                            const real *gradient, real *velocity, real *value);
/* Euclidean, summed in double. */
double reference_norm(size_t count, const real *values);

#endif
