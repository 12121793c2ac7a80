#ifndef HEADRACE_TRAIN_CPU_KERNELS_TABLE_H
#define HEADRACE_TRAIN_CPU_KERNELS_TABLE_H

/* What the variants of the kernels share. Each variant writes a kernel once, with a last argument
 * that says whether elements are bf16; KERNEL_TABLES makes the two tables of functions from it. */

#include "train/cpu/kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* The outputs [first, end) of a pool along one axis whose windows hold the input at `position`. */
struct pool_windows {
    uint32_t first, end, position;
};

INLINE struct pool_windows pool_windows_over(uint32_t position, uint32_t out_size,
                                             const struct pool_shape *s)
{
    uint32_t padded = position + s->padding, last = padded / s->stride + 1;
    return (struct pool_windows){
        .first = padded < s->kernel ? 0 : (padded - s->kernel) / s->stride + 1,
        .end = last < out_size ? last : out_size,
        .position = padded,
    };
}

/* Where that input stands in the window of output `out`. */
INLINE uint32_t pool_tap(struct pool_windows windows, uint32_t out, const struct pool_shape *s)
{
    return windows.position - out * s->stride;
}

/* The row of an image and its neighbours, of which some may lie outside. */
struct blur_rows {
    size_t top, middle, bottom; /* elements before each */
    bool has_top, has_bottom;
};

INLINE struct blur_rows blur_rows_around(const struct image_shape *s, size_t row)
{
    size_t row_elements = (size_t)s->width * s->channels, middle = row * row_elements;
    return (struct blur_rows){
        .top = middle - row_elements,
        .middle = middle,
        .bottom = middle + row_elements,
        .has_top = row % s->height > 0,
        .has_bottom = row % s->height + 1 < s->height,
    };
}

#define KERNEL_TYPES(name, parameters, ...)                                                        \
    static void name##_f32 parameters                                                              \
    {                                                                                              \
        name(__VA_ARGS__, false);                                                                  \
    }                                                                                              \
    static void name##_bf16 parameters                                                             \
    {                                                                                              \
        name(__VA_ARGS__, true);                                                                   \
    }

#define KERNEL_TABLE(level, type)                                                                  \
    const struct kernels kernels_##level##_##type = {                                              \
        .bn_statistics = bn_statistics_##type,                                                     \
        .bn_relu = bn_relu_##type,                                                                 \
        .bn_add_relu = bn_add_relu_##type,                                                         \
        .mask_gradient = mask_gradient_##type,                                                     \
        .bn_reduce = bn_reduce_##type,                                                             \
        .bn_propagate = bn_propagate_##type,                                                       \
        .pool_forward = pool_forward_##type,                                                       \
        .pool_backward = pool_backward_##type,                                                     \
        .blur = blur_##type,                                                                       \
        .average = average_##type,                                                                 \
        .spread = spread_##type,                                                                   \
        .are_finite = are_finite,                                                                  \
        .add = add,                                                                                \
        .sgd = sgd,                                                                                \
    };

#define KERNEL_TABLES(level)                                                                       \
    KERNEL_TYPES(bn_statistics,                                                                    \
                 (struct rows rows, const void *y, const float *pivot, float *sums,                \
                  float *squares),                                                                 \
                 rows, y, pivot, sums, squares)                                                    \
    KERNEL_TYPES(bn_relu, (struct rows rows, const void *y, struct bn_forward bn, void *z), rows,  \
                 y, bn, z)                                                                         \
    KERNEL_TYPES(bn_add_relu,                                                                      \
                 (struct rows rows, const void *y, struct bn_forward bn, const void *other,        \
                  struct bn_forward other_bn, void *z, uint8_t *mask),                             \
                 rows, y, bn, other, other_bn, z, mask)                                            \
    KERNEL_TYPES(mask_gradient, (struct rows rows, void *p, const void *q, const uint8_t *mask),   \
                 rows, p, q, mask)                                                                 \
    KERNEL_TYPES(bn_reduce,                                                                        \
                 (struct rows rows, const void *y, const void *d, struct bn_forward relu,          \
                  const float *mean, float *sums, float *products),                                \
                 rows, y, d, relu, mean, sums, products)                                           \
    KERNEL_TYPES(bn_propagate,                                                                     \
                 (struct rows rows, const void *y, const void *d, struct bn_forward relu,          \
                  struct bn_backward bn, void *out),                                               \
                 rows, y, d, relu, bn, out)                                                        \
    KERNEL_TYPES(pool_forward,                                                                     \
                 (const struct pool_shape *shape, size_t out_row, const void *y,                   \
                  struct bn_forward bn, void *z, uint8_t *index),                                  \
                 shape, out_row, y, bn, z, index)                                                  \
    KERNEL_TYPES(pool_backward,                                                                    \
                 (const struct pool_shape *shape, size_t in_row, const void *p, const void *q,     \
                  const uint8_t *index, void *d),                                                  \
                 shape, in_row, p, q, index, d)                                                    \
    KERNEL_TYPES(blur, (const struct image_shape *shape, size_t row, const void *x, void *y),      \
                 shape, row, x, y)                                                                 \
    KERNEL_TYPES(average,                                                                          \
                 (struct rows rows, const void *x, float factor, void *out, size_t out_row), rows, \
                 x, factor, out, out_row)                                                          \
    KERNEL_TYPES(spread,                                                                           \
                 (struct rows rows, const void *in, size_t in_row, float factor, void *out), rows, \
                 in, in_row, factor, out)                                                          \
    KERNEL_TABLE(level, f32)                                                                       \
    KERNEL_TABLE(level, bf16)

#endif
