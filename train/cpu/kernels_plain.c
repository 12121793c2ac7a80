/* The kernels in plain C, one element at a time: the truth. */

#include <math.h>

#include "train/cpu/bf16.h"
#include "train/cpu/kernels_table.h"

INLINE float load(const void *array, size_t i, bool bf16)
{
    return bf16 ? bf16_to_f32(((const uint16_t *)array)[i]) : ((const float *)array)[i];
}

INLINE void store(void *array, size_t i, float value, bool bf16)
{
    if (bf16)
        ((uint16_t *)array)[i] = bf16_from_f32(value);
    else
        ((float *)array)[i] = value;
}

static float relu(float value)
{
    return value < 0 ? 0 : value;
}

INLINE void bn_statistics(struct rows rows, const void *y, const float *pivot, float *sums,
                          float *squares, bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c++) {
            float v = load(y, row * rows.channels + c, bf16) - pivot[c];
            sums[c] += v;
            squares[c] += v * v;
        }
}

INLINE void bn_relu(struct rows rows, const void *y, struct bn_forward bn, void *z, bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c++) {
            size_t i = row * rows.channels + c;
            store(z, i, relu(load(y, i, bf16) * bn.scale[c] + bn.shift[c]), bf16);
        }
}

INLINE void bn_add_relu(struct rows rows, const void *y, struct bn_forward bn, const void *other,
                        struct bn_forward other_bn, void *z, uint8_t *mask, bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c++) {
            size_t i = row * rows.channels + c;
            float v = load(y, i, bf16) * bn.scale[c] + bn.shift[c];
            float r = load(other, i, bf16);
            v += other_bn.scale ? r * other_bn.scale[c] + other_bn.shift[c] : r;
            store(z, i, relu(v), bf16);
            uint8_t bit = (uint8_t)(1u << i % 8);
            mask[i / 8] = (uint8_t)(v > 0 ? mask[i / 8] | bit : mask[i / 8] & ~bit);
        }
}

INLINE void mask_gradient(struct rows rows, void *p, const void *q, const uint8_t *mask, bool bf16)
{
    for (size_t i = rows.begin * rows.channels; i < rows.end * rows.channels; i++) {
        float sum = load(p, i, bf16) + (q ? load(q, i, bf16) : 0);
        store(p, i, mask[i / 8] >> i % 8 & 1 ? sum : 0, bf16);
    }
}

/* The gradient behind a ReLU whose input is recomputed. */
INLINE float gradient_at(const void *y, const void *d, size_t i, uint32_t c, struct bn_forward relu,
                         bool bf16)
{
    if (relu.scale && !(load(y, i, bf16) * relu.scale[c] + relu.shift[c] > 0))
        return 0;
    return load(d, i, bf16);
}

INLINE void bn_reduce(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                      const float *mean, float *sums, float *products, bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c++) {
            size_t i = row * rows.channels + c;
            float v = gradient_at(y, d, i, c, relu, bf16);
            sums[c] += v;
            products[c] += v * (load(y, i, bf16) - mean[c]);
        }
}

INLINE void bn_propagate(struct rows rows, const void *y, const void *d, struct bn_forward relu,
                         struct bn_backward bn, void *out, bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c++) {
            size_t i = row * rows.channels + c;
            float v = gradient_at(y, d, i, c, relu, bf16);
            float centred = load(y, i, bf16) - bn.mean[c];
            store(out, i, v * bn.from_gradient[c] + (centred * bn.from_input[c] + bn.constant[c]),
                  bf16);
        }
}

INLINE void pool_forward(const struct pool_shape *s, size_t out_row, const void *y,
                         struct bn_forward bn, void *z, uint8_t *index, bool bf16)
{
    size_t image = out_row / s->out_height;
    int64_t top = (int64_t)(out_row % s->out_height) * s->stride - s->padding;
    for (size_t i = 0; i < (size_t)s->out_width * s->channels; i++) {
        uint32_t c = (uint32_t)(i % s->channels);
        int64_t left = (int64_t)(i / s->channels) * s->stride - s->padding;
        float best = 0;
        uint8_t winner = POOL_NONE;
        for (uint32_t tap = 0; tap < s->kernel * s->kernel; tap++) {
            int64_t row = top + tap / s->kernel, column = left + tap % s->kernel;
            if (row < 0 || row >= s->height || column < 0 || column >= s->width)
                continue;
            size_t pixel = (image * s->height + (size_t)row) * s->width + (size_t)column;
            float v = load(y, pixel * s->channels + c, bf16) * bn.scale[c] + bn.shift[c];
            if (v > best) {
                best = v;
                winner = (uint8_t)tap;
            }
        }
        size_t out = out_row * s->out_width * s->channels + i;
        store(z, out, best, bf16);
        if (index)
            index[out] = winner;
    }
}

INLINE void pool_backward(const struct pool_shape *s, size_t in_row, const void *p, const void *q,
                          const uint8_t *index, void *d, bool bf16)
{
    size_t image = in_row / s->height;
    struct pool_windows down = pool_windows_over((uint32_t)(in_row % s->height), s->out_height, s);
    for (size_t i = 0; i < (size_t)s->width * s->channels; i++) {
        struct pool_windows across =
            pool_windows_over((uint32_t)(i / s->channels), s->out_width, s);
        float sum = 0;
        for (uint32_t oy = down.first; oy < down.end; oy++)
            for (uint32_t ox = across.first; ox < across.end; ox++) {
                size_t pixel = (image * s->out_height + oy) * s->out_width + ox;
                size_t at = pixel * s->channels + i % s->channels;
                uint32_t tap = pool_tap(down, oy, s) * s->kernel + pool_tap(across, ox, s);
                if (index[at] == tap)
                    sum += load(p, at, bf16) + (q ? load(q, at, bf16) : 0);
            }
        store(d, in_row * s->width * s->channels + i, sum, bf16);
    }
}

/* The sum over three rows at one column. */
INLINE float blur_down(const void *x, struct blur_rows rows, size_t i, bool bf16)
{
    float top = rows.has_top ? load(x, rows.top + i, bf16) : 0;
    float bottom = rows.has_bottom ? load(x, rows.bottom + i, bf16) : 0;
    return top + bottom + 2 * load(x, rows.middle + i, bf16);
}

INLINE void blur(const struct image_shape *s, size_t row, const void *x, void *y, bool bf16)
{
    struct blur_rows rows = blur_rows_around(s, row);
    size_t step = s->channels, end = s->width * step;
    for (size_t i = 0; i < end; i++) {
        float left = i >= step ? blur_down(x, rows, i - step, bf16) : 0;
        float right = i + step < end ? blur_down(x, rows, i + step, bf16) : 0;
        float centre = blur_down(x, rows, i, bf16);
        store(y, rows.middle + i, (left + right + 2 * centre) / 16, bf16);
    }
}

INLINE void average(struct rows rows, const void *x, float factor, void *out, size_t out_row,
                    bool bf16)
{
    for (uint32_t c = 0; c < rows.channels; c++) {
        float sum = 0;
        for (size_t row = rows.begin; row < rows.end; row++)
            sum += load(x, row * rows.channels + c, bf16);
        store(out, out_row * rows.channels + c, sum * factor, bf16);
    }
}

INLINE void spread(struct rows rows, const void *in, size_t in_row, float factor, void *out,
                   bool bf16)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (uint32_t c = 0; c < rows.channels; c++)
            store(out, row * rows.channels + c, load(in, in_row * rows.channels + c, bf16) * factor,
                  bf16);
}

static bool are_finite(size_t begin, size_t end, const float *values)
{
    bool finite = true;
    for (size_t i = begin; i < end; i++)
        finite = finite && isfinite(values[i]);
    return finite;
}

static void add(size_t begin, size_t end, float *a, const float *b)
{
    for (size_t i = begin; i < end; i++)
        a[i] += b[i];
}

static void sgd(size_t begin, size_t end, float *w, float *v, const float *g,
                const struct sgd_step *step)
{
    for (size_t i = begin; i < end; i++) {
        float d = step->gradient_factor * g[i] + step->weight_decay * w[i];
        v[i] = step->momentum * v[i] + d;
        w[i] -= step->learning_rate * (step->nesterov ? d + step->momentum * v[i] : v[i]);
    }
}

KERNEL_TABLES(plain)
