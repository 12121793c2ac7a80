#include "image/resample_axis.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* The same operations on doubles as in Pillow, in the same order: the integer weights come out
 * equal. */

/* The inputs that one output is made of. */
struct taps {
    uint32_t first, count;
    double center;
};

struct span span_make(uint32_t in_size, uint32_t out_size)
{
    double scale = (double)in_size / out_size, support = scale < 1 ? 1 : scale;
    return (struct span){0, 0, in_size, scale, support, 1 / support, in_size == out_size};
}

struct span span_make_between(double start, double end, uint32_t out_size)
{
    double scale = (end - start) / out_size, support = scale < 1 ? 1 : scale;
    uint32_t low = (uint32_t)floor(start), high = (uint32_t)ceil(end);
    return (struct span){start, low, high, scale, support, 1 / support, false};
}

static double triangle(double x)
{
    double distance = fabs(x);
    return distance < 1 ? 1 - distance : 0;
}

static struct taps taps_make(const struct span *span, uint32_t output)
{
    struct taps taps = {.center = span->start + (output + 0.5) * span->scale};
    if (span->identity) { /* the neighbour has no weight: it is not needed */
        taps.first = output;
        taps.count = 1;
        return taps;
    }
    double low = taps.center - span->support + 0.5, high = taps.center + span->support + 0.5;
    taps.first = low < span->low ? span->low : (uint32_t)low;
    taps.count = (high > span->high ? span->high : (uint32_t)high) - taps.first;
    return taps;
}

static double tap_share(const struct span *span, const struct taps *taps, uint32_t k)
{
    return triangle((k + taps->first - taps->center + 0.5) * span->support_inverse);
}

static double taps_total(const struct span *span, const struct taps *taps)
{
    double total = 0;
    for (uint32_t k = 0; k < taps->count; k++)
        total += tap_share(span, taps, k);
    return total;
}

static void exact_weights(const struct span *span, const struct taps *taps, int32_t *weights)
{
    double total = taps_total(span, taps);
    for (uint32_t k = 0; k < taps->count; k++)
        weights[k] = (int32_t)(0.5 + tap_share(span, taps, k) / total * (1 << RESAMPLE_BITS));
}

/* Weights whose sum is exactly 1. */
static void fast_weights(const struct span *span, const struct taps *taps, int32_t *weights)
{
    double total = taps_total(span, taps), sum = 0;
    int32_t before = 0;
    for (uint32_t k = 0; k < taps->count; k++) {
        sum += tap_share(span, taps, k);
        int32_t after = (int32_t)(0.5 + sum / total * (1 << RESAMPLE_FAST_BITS));
        weights[k] = after - before;
        before = after;
    }
}

/* A weight of 1 does not fit into a signed byte: a neighbour takes the rest. */
static void fit_weights(int32_t *weights, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        if (weights[k] == 1 << RESAMPLE_FAST_BITS) {
            weights[k]--;
            weights[k + 1 < count ? k + 1 : k - 1]++;
            return;
        }
}

void span_inputs(const struct span *span, uint32_t first, uint32_t count, uint32_t *ret_first,
                 uint32_t *ret_count)
{
    struct taps left = taps_make(span, first), right = taps_make(span, first + count - 1);
    *ret_first = left.first;
    *ret_count = right.first + right.count - left.first;
}

static void axis_set_output(struct resample_axis *axis, const struct taps *taps,
                            const struct span *span, uint32_t output)
{
    uint32_t count = 2 * axis->pairs, start = taps->first - axis->input_first;
    /* Near the end the taps are moved left, so that the unused ones do not point past it. */
    uint32_t last_start = axis->input_count > count ? axis->input_count - count : 0;
    uint32_t moved = start > last_start ? start - last_start : 0;
    int32_t *weights = axis->weights + (size_t)output * count;
    memset(weights, 0, count * sizeof weights[0]);
    axis->first[output] = start - moved;
    if (axis->bits == RESAMPLE_BITS) {
        exact_weights(span, taps, weights + moved);
        return;
    }
    fast_weights(span, taps, weights + moved);
    fit_weights(weights, count);
}

/* Outputs first … first + count − 1, the last one first if `reversed`. */
static struct status axis_make(struct resample_axis *axis, const struct span *span, uint32_t first,
                               uint32_t count, bool reversed, uint32_t bits)
{
    axis->count = count;
    axis->bits = bits;
    span_inputs(span, first, count, &axis->input_first, &axis->input_count);
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct taps taps = taps_make(span, first + i);
        most = taps.count > most ? taps.count : most;
    }
    axis->pairs = (most + 1) / 2;
    TRY(memory_grow(count * (1 + 2 * (size_t)axis->pairs), sizeof axis->memory[0], &axis->memory,
                    &axis->memory_capacity));
    axis->first = axis->memory;
    axis->weights = (int32_t *)axis->memory + count;
    for (uint32_t i = 0; i < count; i++) {
        struct taps taps = taps_make(span, reversed ? first + count - 1 - i : first + i);
        axis_set_output(axis, &taps, span, i);
    }
    return OK;
}

void resample_axes_done(struct resample_axes *axes)
{
    memory_free(axes->across.memory);
    memory_free(axes->down.memory);
    memory_free(axes->across_table);
    memory_free(axes->down_table);
    *axes = (struct resample_axes){0};
}

struct status resample_axes_make(struct resample_axes *axes, const struct resample_kernels *kernels,
                                 const struct span *across, const struct span *down,
                                 const struct rectangle *window, bool flip, uint32_t bits)
{
    TRY(axis_make(&axes->across, across, window->x, window->width, flip, bits));
    TRY(axis_make(&axes->down, down, window->y, window->height, false, bits));
    if (!kernels->make_table)
        return OK;
    TRY(memory_reserve(kernels->table_bytes(&axes->across, RESAMPLE_ACROSS), &axes->across_table,
                       &axes->across_capacity));
    TRY(memory_reserve(kernels->table_bytes(&axes->down, RESAMPLE_DOWN), &axes->down_table,
                       &axes->down_capacity));
    kernels->make_table(&axes->across, RESAMPLE_ACROSS, axes->across_table);
    kernels->make_table(&axes->down, RESAMPLE_DOWN, axes->down_table);
    return OK;
}
