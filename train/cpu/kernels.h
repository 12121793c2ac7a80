#ifndef HEADRACE_TRAIN_CPU_KERNELS_H
#define HEADRACE_TRAIN_CPU_KERNELS_H

/* The loops that oneDNN leaves to us: batch normalisation fused with what follows it, pooling,
 * averages and the update. Each is serial and works on a range of rows, so that the caller divides
 * the work; a row is the channels of one pixel.
 *
 * Activations and their gradients are arrays of `element`, f32 or bf16, in the type that the table
 * was asked for; vectors of one number a channel are f32. The number of channels is a multiple of
 * KERNEL_LANES. Sums are in f32: a caller that wants more adds up short ranges. */

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "train/backend.h"

#define KERNEL_LANES 16

struct rows {
    size_t begin, end;
    uint32_t channels;
};

struct pool_shape {
    uint32_t height, width, out_height, out_width, channels;
    uint32_t kernel, stride, padding;
};

struct image_shape {
    uint32_t height, width, channels;
};

/* Index of an output of the max pool to which no input's gradient flows: every input was cut off by
 * ReLU. */
#define POOL_NONE 255

struct sgd_step {
    float learning_rate, momentum, weight_decay, gradient_factor;
    bool nesterov;
};

/* Forward pass of a normalisation: y·scale + shift. */
struct bn_forward {
    const float *scale, *shift;
};

/* Backward pass: gradient at the input = gradient·from_gradient + (y − mean)·from_input + constant.
 */
struct bn_backward {
    const float *from_gradient, *from_input, *constant, *mean;
};

struct kernels {
    /* sums += Σ (y − pivot), squares += Σ (y − pivot)². */
    void (*bn_statistics)(struct rows rows, const void *y, const float *pivot, float *sums,
                          float *squares);
    /* z = relu(bn(y)). */
    void (*bn_relu)(struct rows rows, const void *y, struct bn_forward bn, void *z);
    /* z = relu(bn(y) + other), or relu(bn(y) + other_bn(other)) when other_bn.scale is not NULL.
     * mask: one bit an element, in order, set where z > 0. */
    void (*bn_add_relu)(struct rows rows, const void *y, struct bn_forward bn, const void *other,
                        struct bn_forward other_bn, void *z, uint8_t *mask);
    /* p = p + q where the mask is set, else 0; q may be NULL. */
    void (*mask_gradient)(struct rows rows, void *p, const void *q, const uint8_t *mask);
    /* sums += Σ d, products += Σ d·(y − mean). With relu.scale not NULL, d counts only where
     * y·relu.scale + relu.shift > 0. */
    void (*bn_reduce)(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                      const float *mean, float *sums, float *products);
    /* out = backward of bn at d (cut off by relu as in bn_reduce); out may be d. */
    void (*bn_propagate)(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                         struct bn_backward bn, void *out);
    /* z = max over the window of relu(bn(y)) for one row of outputs: out_row = image·out_height +
     * y. index (may be NULL) gets the winner's place in the window, of equal ones the first, or
     * POOL_NONE. */
    void (*pool_forward)(const struct pool_shape *shape, size_t out_row, const void *y,
                         struct bn_forward bn, void *z, uint8_t *index);
    /* d = the sum of p + q (q may be NULL) over the outputs that a pixel won, for one row of
     * inputs: in_row = image·height + y. */
    void (*pool_backward)(const struct pool_shape *shape, size_t in_row, const void *p,
                          const void *q, const uint8_t *index, void *d);
    /* y = x with (1 2 1)ᵀ(1 2 1)/16, for one row = image·height + y; what lies outside is 0. The
     * way back is the same. */
    void (*blur)(const struct image_shape *shape, size_t row, const void *x, void *y);
    /* out[out_row] = factor · Σ of the rows. */
    void (*average)(struct rows rows, const void *x, float factor, void *out, size_t out_row);
    /* Each of the rows of out = factor · in[in_row]. */
    void (*spread)(struct rows rows, const void *in, size_t in_row, float factor, void *out);
    /* Whether values [begin, end) are all finite; multiples of KERNEL_LANES. */
    bool (*are_finite)(size_t begin, size_t end, const float *values);
    /* a += b for [begin, end); multiples of KERNEL_LANES. */
    void (*add)(size_t begin, size_t end, float *a, const float *b);
    /* Elements [begin, end) of w and v (struct update_rule in backend.h) with the gradient
     * gradient_factor·g; multiples of KERNEL_LANES. */
    void (*sgd)(size_t begin, size_t end, float *w, float *v, const float *g,
                const struct sgd_step *step);
};

/* The table for elements of dtype (DTYPE_F32 or DTYPE_BF16) at an instruction set, or the next
 * lower one that this build has. CPU_AVX512 with DTYPE_BF16 needs cpu_has_avx512_bf16(). */
const struct kernels *kernels_find(enum cpu_level level, enum train_dtype dtype);

/* The variants' own tables, by dtype; plain is the truth that tests hold the others against. */
extern const struct kernels kernels_plain_f32, kernels_plain_bf16;
#ifdef __x86_64__
extern const struct kernels kernels_avx2_f32, kernels_avx2_bf16;
extern const struct kernels kernels_avx512_f32, kernels_avx512_bf16;
#endif

#endif
