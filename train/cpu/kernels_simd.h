#ifndef HEADRACE_TRAIN_CPU_KERNELS_SIMD_H
#define HEADRACE_TRAIN_CPU_KERNELS_SIMD_H

/* The kernels in terms of simd.h: one text for AVX2 and AVX-512, included once by the file of each.
 */

#include "train/cpu/kernels_table.h"
#include "train/cpu/simd.h"

#ifdef __AVX2__

/* Rows that share one pass over the sums, which stay in registers meanwhile. */
#define GROUP_ROWS 4

INLINE VEC_FLOAT bn_at(struct bn_forward bn, uint32_t c, VEC_FLOAT v)
{
    return vec_multiply_add(v, vec_load(bn.scale + c), vec_load(bn.shift + c));
}

INLINE void statistics_group(struct rows rows, size_t row, unsigned group, const void *y,
                             const float *pivot, float *sums, float *squares, bool bf16)
{
    for (uint32_t c = 0; c < rows.channels; c += VEC_LANES) {
        VEC_FLOAT sum = vec_load(sums + c), square = vec_load(squares + c);
        for (unsigned i = 0; i < group; i++) {
            VEC_FLOAT v = vec_load_element(y, (row + i) * rows.channels + c, bf16);
            v = vec_subtract(v, vec_load(pivot + c));
            sum = vec_add(sum, v);
            square = vec_multiply_add(v, v, square);
        }
        vec_store(sums + c, sum);
        vec_store(squares + c, square);
    }
}

INLINE void bn_statistics(struct rows rows, const void *y, const float *pivot, float *sums,
                          float *squares, bool bf16)
{
    size_t row = rows.begin;
    for (; row + GROUP_ROWS <= rows.end; row += GROUP_ROWS)
        statistics_group(rows, row, GROUP_ROWS, y, pivot, sums, squares, bf16);
    for (; row < rows.end; row++)
        statistics_group(rows, row, 1, y, pivot, sums, squares, bf16);
}

INLINE void bn_relu(struct rows rows, const void *y, struct bn_forward bn, void *z, bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c += VEC_LANES) {
            size_t i = row * rows.channels + c;
            vec_store_element(z, i, vec_relu(bn_at(bn, c, vec_load_element(y, i, bf16))), bf16);
        }
}

INLINE void add_relu(struct rows rows, const void *y, struct bn_forward bn, const void *other,
                     struct bn_forward other_bn, bool other_normalised, void *z, uint8_t *mask,
                     bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c += VEC_LANES) {
            size_t i = row * rows.channels + c;
            VEC_FLOAT v = bn_at(bn, c, vec_load_element(y, i, bf16));
            VEC_FLOAT r = vec_load_element(other, i, bf16);
            v = vec_add(v, other_normalised ? bn_at(other_bn, c, r) : r);
            vec_store_element(z, i, vec_relu(v), bf16);
            set_store(mask + i / 8, vec_greater(v, vec_zero()));
        }
}

INLINE void bn_add_relu(struct rows rows, const void *y, struct bn_forward bn, const void *other,
                        struct bn_forward other_bn, void *z, uint8_t *mask, bool bf16)
{
    if (other_bn.scale)
        add_relu(rows, y, bn, other, other_bn, true, z, mask, bf16);
    else
        add_relu(rows, y, bn, other, other_bn, false, z, mask, bf16);
}

INLINE void mask_gradient(struct rows rows, void *p, const void *q, const uint8_t *mask, bool bf16)
{
    for (size_t i = rows.begin * rows.channels; i < rows.end * rows.channels; i += VEC_LANES) {
        VEC_FLOAT v = vec_load_element(p, i, bf16);
        if (q)
            v = vec_add(v, vec_load_element(q, i, bf16));
        vec_store_element(p, i, vec_keep(set_load(mask + i / 8), v), bf16);
    }
}

/* The gradient behind a ReLU whose input is recomputed. */
INLINE VEC_FLOAT gradient_at(VEC_FLOAT y, VEC_FLOAT d, uint32_t c, struct bn_forward relu,
                             bool gated)
{
    return gated ? vec_keep(vec_greater(bn_at(relu, c, y), vec_zero()), d) : d;
}

INLINE void reduce_group(struct rows rows, size_t row, unsigned group, const void *y, const void *d,
                         struct bn_forward relu, bool gated, const float *mean, float *sums,
                         float *products, bool bf16)
{
    for (uint32_t c = 0; c < rows.channels; c += VEC_LANES) {
        VEC_FLOAT sum = vec_load(sums + c), product = vec_load(products + c);
        for (unsigned k = 0; k < group; k++) {
            size_t i = (row + k) * rows.channels + c;
            VEC_FLOAT x = vec_load_element(y, i, bf16);
            VEC_FLOAT v = gradient_at(x, vec_load_element(d, i, bf16), c, relu, gated);
            sum = vec_add(sum, v);
            product = vec_multiply_add(v, vec_subtract(x, vec_load(mean + c)), product);
        }
        vec_store(sums + c, sum);
        vec_store(products + c, product);
    }
}

INLINE void reduce(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                   bool gated, const float *mean, float *sums, float *products, bool bf16)
{
    size_t row = rows.begin;
    for (; row + GROUP_ROWS <= rows.end; row += GROUP_ROWS)
        reduce_group(rows, row, GROUP_ROWS, y, d, relu, gated, mean, sums, products, bf16);
    for (; row < rows.end; row++)
        reduce_group(rows, row, 1, y, d, relu, gated, mean, sums, products, bf16);
}

INLINE void bn_reduce(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                      const float *mean, float *sums, float *products, bool bf16)
{
    if (relu.scale)
        reduce(rows, y, d, relu, true, mean, sums, products, bf16);
    else
        reduce(rows, y, d, relu, false, mean, sums, products, bf16);
}

INLINE void propagate(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                      bool gated, struct bn_backward bn, void *out, bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c += VEC_LANES) {
            size_t i = row * rows.channels + c;
            VEC_FLOAT x = vec_load_element(y, i, bf16);
            VEC_FLOAT v = gradient_at(x, vec_load_element(d, i, bf16), c, relu, gated);
            x = vec_subtract(x, vec_load(bn.mean + c));
            x = vec_multiply_add(x, vec_load(bn.from_input + c), vec_load(bn.constant + c));
            v = vec_multiply_add(v, vec_load(bn.from_gradient + c), x);
            vec_store_element(out, i, v, bf16);
        }
}

INLINE void bn_propagate(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                         struct bn_backward bn, void *out, bool bf16)
{
    if (relu.scale)
        propagate(rows, y, d, relu, true, bn, out, bf16);
    else
        propagate(rows, y, d, relu, false, bn, out, bf16);
}

/* The part of a window that lies on the image along one axis: taps [first, end), of which tap t
 * reads the input at start + t. */
struct pool_taps {
    int64_t start;
    uint32_t first, end;
};

INLINE struct pool_taps pool_taps_of(uint32_t out, uint32_t size, const struct pool_shape *s)
{
    int64_t start = (int64_t)out * s->stride - s->padding;
    int64_t left = (int64_t)size - start;
    return (struct pool_taps){
        .start = start,
        .first = start < 0 ? (uint32_t)-start : 0,
        .end = left < s->kernel ? (uint32_t)left : s->kernel,
    };
}

INLINE void pool_forward(const struct pool_shape *s, size_t out_row, const void *y,
                         struct bn_forward bn, void *z, uint8_t *index, bool bf16)
{
    size_t image = out_row / s->out_height;
    struct pool_taps down = pool_taps_of((uint32_t)(out_row % s->out_height), s->height, s);
    for (uint32_t ox = 0; ox < s->out_width; ox++) {
        struct pool_taps across = pool_taps_of(ox, s->width, s);
        for (uint32_t c = 0; c < s->channels; c += VEC_LANES) {
            VEC_FLOAT best = vec_zero(), winner = vec_same(POOL_NONE);
            for (uint32_t ty = down.first; ty < down.end; ty++)
                for (uint32_t tx = across.first; tx < across.end; tx++) {
                    size_t row = image * s->height + (size_t)(down.start + ty);
                    size_t pixel = row * s->width + (size_t)(across.start + tx);
                    VEC_FLOAT v = bn_at(bn, c, vec_load_element(y, pixel * s->channels + c, bf16));
                    VEC_SET wins = vec_greater(v, best);
                    best = vec_choose(wins, v, best);
                    winner = vec_choose(wins, vec_same((float)(ty * s->kernel + tx)), winner);
                }
            size_t out = (out_row * s->out_width + ox) * s->channels + c;
            vec_store_element(z, out, best, bf16);
            if (index)
                vec_narrow_u8(index + out, winner);
        }
    }
}

INLINE void pool_backward(const struct pool_shape *s, size_t in_row, const void *p, const void *q,
                          const uint8_t *index, void *d, bool bf16)
{
    size_t image = in_row / s->height;
    struct pool_windows down = pool_windows_over((uint32_t)(in_row % s->height), s->out_height, s);
    for (uint32_t x = 0; x < s->width; x++) {
        struct pool_windows across = pool_windows_over(x, s->out_width, s);
        for (uint32_t c = 0; c < s->channels; c += VEC_LANES) {
            VEC_FLOAT sum = vec_zero();
            for (uint32_t oy = down.first; oy < down.end; oy++)
                for (uint32_t ox = across.first; ox < across.end; ox++) {
                    size_t pixel = (image * s->out_height + oy) * s->out_width + ox;
                    size_t at = pixel * s->channels + c;
                    uint32_t tap = pool_tap(down, oy, s) * s->kernel + pool_tap(across, ox, s);
                    VEC_FLOAT v = vec_load_element(p, at, bf16);
                    if (q)
                        v = vec_add(v, vec_load_element(q, at, bf16));
                    VEC_SET won = vec_equal(vec_widen_u8(index + at), vec_same((float)tap));
                    sum = vec_add(sum, vec_keep(won, v));
                }
            vec_store_element(d, (in_row * s->width + x) * s->channels + c, sum, bf16);
        }
    }
}

/* The sum over three rows at one column. */
INLINE VEC_FLOAT blur_down(const void *x, struct blur_rows rows, size_t i, bool bf16)
{
    VEC_FLOAT top = rows.has_top ? vec_load_element(x, rows.top + i, bf16) : vec_zero();
    VEC_FLOAT bottom = rows.has_bottom ? vec_load_element(x, rows.bottom + i, bf16) : vec_zero();
    VEC_FLOAT middle = vec_load_element(x, rows.middle + i, bf16);
    return vec_multiply_add(middle, vec_same(2), vec_add(top, bottom));
}

INLINE void blur(const struct image_shape *s, size_t row, const void *x, void *y, bool bf16)
{
    struct blur_rows rows = blur_rows_around(s, row);
    for (uint32_t c = 0; c < s->channels; c += VEC_LANES) {
        VEC_FLOAT left = vec_zero(), centre = blur_down(x, rows, c, bf16);
        for (size_t column = 0; column < s->width; column++) {
            size_t i = column * s->channels + c;
            VEC_FLOAT right =
                column + 1 < s->width ? blur_down(x, rows, i + s->channels, bf16) : vec_zero();
            VEC_FLOAT sum = vec_multiply_add(centre, vec_same(2), vec_add(left, right));
            vec_store_element(y, rows.middle + i, vec_multiply(sum, vec_same(1.0f / 16)), bf16);
            left = centre;
            centre = right;
        }
    }
}

INLINE void average(struct rows rows, const void *x, float factor, void *out, size_t out_row,
                    bool bf16)
{
    for (uint32_t c = 0; c < rows.channels; c += VEC_LANES) {
        VEC_FLOAT sum = vec_zero();
        for (size_t row = rows.begin; row < rows.end; row++)
            sum = vec_add(sum, vec_load_element(x, row * rows.channels + c, bf16));
        sum = vec_multiply(sum, vec_same(factor));
        vec_store_element(out, out_row * rows.channels + c, sum, bf16);
    }
}

INLINE void spread(struct rows rows, const void *in, size_t in_row, float factor, void *out,
                   bool bf16)
{
    for (uint32_t c = 0; c < rows.channels; c += VEC_LANES) {
        VEC_FLOAT v = vec_load_element(in, in_row * rows.channels + c, bf16);
        v = vec_multiply(v, vec_same(factor));
        for (size_t row = rows.begin; row < rows.end; row++)
            vec_store_element(out, row * rows.channels + c, v, bf16);
    }
}

static bool are_finite(size_t begin, size_t end, const float *values)
{
    /* 0·x is 0, or no number where x is infinite or none. */
    VEC_FLOAT sum = vec_zero();
    for (size_t i = begin; i < end; i += VEC_LANES)
        sum = vec_multiply_add(vec_load(values + i), vec_zero(), sum);
    float lanes[VEC_LANES];
    bool finite = true;
    vec_store(lanes, sum);
    for (unsigned i = 0; i < VEC_LANES; i++)
        finite = finite && lanes[i] == 0;
    return finite;
}

static void add(size_t begin, size_t end, float *a, const float *b)
{
    for (size_t i = begin; i < end; i += VEC_LANES)
        vec_store(a + i, vec_add(vec_load(a + i), vec_load(b + i)));
}

static void sgd(size_t begin, size_t end, float *w, float *v, const float *g,
                const struct sgd_step *step)
{
    VEC_FLOAT decay = vec_same(step->weight_decay), momentum = vec_same(step->momentum);
    VEC_FLOAT descent = vec_same(-step->learning_rate), factor = vec_same(step->gradient_factor);
    for (size_t i = begin; i < end; i += VEC_LANES) {
        VEC_FLOAT weight = vec_load(w + i);
        VEC_FLOAT d = vec_multiply_add(decay, weight, vec_multiply(factor, vec_load(g + i)));
        VEC_FLOAT velocity = vec_multiply_add(momentum, vec_load(v + i), d);
        vec_store(v + i, velocity);
        if (step->nesterov)
            velocity = vec_multiply_add(momentum, velocity, d);
        vec_store(w + i, vec_multiply_add(descent, velocity, weight));
    }
}

#endif
#endif
