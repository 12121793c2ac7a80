#include "image/resample_axis.h"

#include <math.h>

#include "base/memory.h"

/* The same operations on doubles as in Pillow, in the same order: the integer weights come out
 * equal. */

struct span span_make(uint32_t in_size, uint32_t out_size)
{
    double scale = (double)in_size / out_size, support = scale < 1 ? 1 : scale;
    return (struct span){
        .high = in_size,
        .low_share = 1,
        .high_share = 1,
        .scale = scale,
        .support = support,
        .support_inverse = 1 / support,
        .identity = in_size == out_size,
    };
}

struct span span_make_between(double start, double end, uint32_t out_size)
{
    double scale = (end - start) / out_size, support = scale < 1 ? 1 : scale;
    uint32_t low = (uint32_t)floor(start), high = (uint32_t)ceil(end);
    return (struct span){
        .start = start,
        .low = low,
        .high = high,
        .low_share = low + 1 - start,
        .high_share = end - (high - 1),
        .scale = scale,
        .support = support,
        .support_inverse = 1 / support,
    };
}

/* Where one output lies, and the inputs that it is made of. */
struct taps {
    double center;
    uint32_t first, count;
};

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

void span_inputs(const struct span *span, uint32_t first, uint32_t count, uint32_t *ret_first,
                 uint32_t *ret_count)
{
    struct taps left = taps_make(span, first), right = taps_make(span, first + count - 1);
    *ret_first = left.first;
    *ret_count = right.first + right.count - left.first;
}

/* The outputs' numbers while weights are made, in arrays, for what is done to all of them stands in
 * loops that compilers turn into vectors. */
struct outputs {
    uint32_t count;
    double *center, *total;
    double *shares; /* [taps][count]: of each input, in parts of the total */
    int32_t *first, *taps;
};

static struct status outputs_make(struct resample_axis *axis, const struct span *span,
                                  uint32_t first, uint32_t count, bool reversed,
                                  struct outputs *outputs, uint32_t *ret_most)
{
    /* The last input and the first are less than twice the support apart. */
    uint64_t most_taps = (uint64_t)(2 * span->support) + 2, doubles;
    if (!size_multiply(count, most_taps + 3, &doubles) ||
        !size_multiply(doubles, sizeof(double), &doubles))
        FAIL(STATUS_NO_MEMORY, "the weights of %u outputs do not fit into memory", count);
    TRY(memory_reserve(doubles, &axis->scratch, &axis->scratch_bytes));
    outputs->count = count;
    outputs->center = (double *)axis->scratch;
    outputs->total = outputs->center + count;
    outputs->shares = outputs->total + count;
    outputs->first = (int32_t *)(outputs->shares + most_taps * count);
    outputs->taps = outputs->first + count;
    *ret_most = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct taps taps = taps_make(span, reversed ? first + count - 1 - i : first + i);
        outputs->center[i] = taps.center;
        outputs->total[i] = 0;
        outputs->first[i] = (int32_t)taps.first;
        outputs->taps[i] = (int32_t)taps.count;
        *ret_most = taps.count > *ret_most ? taps.count : *ret_most;
    }
    return OK;
}

/* Each output's input k, by the triangle's height there. */
static void add_shares(const struct outputs *outputs, double support_inverse, int32_t k)
{
    const double *restrict center = outputs->center;
    const int32_t *restrict first = outputs->first, *restrict taps = outputs->taps;
    double *restrict share = outputs->shares + (size_t)k * outputs->count;
    double *restrict total = outputs->total;
    for (uint32_t i = 0; i < outputs->count; i++) {
        double distance = fabs((k + first[i] - center[i] + 0.5) * support_inverse);
        double height = distance < 1 ? 1 - distance : 0;
        share[i] = k < taps[i] ? height : 0;
        total[i] += share[i];
    }
}

/* Lowers input k's share in output i. */
static void share_lower(const struct outputs *outputs, size_t k, uint32_t i, double factor)
{
    double *share = &outputs->shares[k * outputs->count + i];
    outputs->total[i] -= *share * (1 - factor);
    *share *= factor;
}

/* Inputs that the box cuts: reduced blocks at an image's border hold much that is not of the image.
 * Where there is only one input, all is made of it. */
static void cut_ends(const struct outputs *outputs, const struct span *span)
{
    for (uint32_t i = 0; i < outputs->count; i++) {
        uint32_t first = (uint32_t)outputs->first[i], taps = (uint32_t)outputs->taps[i];
        if (taps > 1 && first == span->low)
            share_lower(outputs, 0, i, span->low_share);
        if (taps > 1 && first + taps == span->high)
            share_lower(outputs, taps - 1, i, span->high_share);
    }
}

/* Weights as they are to be truncated: rounded one by one, as Pillow does. */
static void round_each(const struct outputs *outputs, uint32_t k)
{
    const double *restrict total = outputs->total;
    double *restrict share = outputs->shares + (size_t)k * outputs->count;
    for (uint32_t i = 0; i < outputs->count; i++)
        share[i] = 0.5 + share[i] / total[i] * (1 << RESAMPLE_BITS);
}

/* Output i's weights, of which the sum is exactly 1. A weight of 1 does not fit into a signed byte:
 * a neighbour takes the rest. */
static void fast_weights(const struct outputs *outputs, uint32_t i, uint32_t taps, int32_t *weights,
                         uint32_t moved, uint32_t count)
{
    double sum = 0, unit = (1 << RESAMPLE_FAST_BITS) / outputs->total[i];
    int32_t before = 0;
    for (uint32_t k = 0; k < taps; k++) {
        sum += outputs->shares[(size_t)k * outputs->count + i];
        int32_t after = (int32_t)(0.5 + sum * unit), weight = after - before;
        before = after;
        weights[moved + k] = weight;
        if (weight == 1 << RESAMPLE_FAST_BITS) {
            uint32_t place = moved + k;
            weights[place]--;
            weights[place + 1 < count ? place + 1 : place - 1]++;
            return;
        }
    }
}

static void axis_set_output(struct resample_axis *axis, const struct outputs *outputs, uint32_t i)
{
    uint32_t count = 2 * axis->pairs, taps = (uint32_t)outputs->taps[i];
    uint32_t start = (uint32_t)outputs->first[i] - axis->input_first;
    /* Near the end the taps are moved left, so that the unused ones do not point past it. */
    uint32_t last_start = axis->input_count > count ? axis->input_count - count : 0;
    uint32_t moved = start > last_start ? start - last_start : 0;
    int32_t *weights = axis->weights + (size_t)i * count;
    axis->first[i] = start - moved;
    for (uint32_t k = 0; k < count; k++)
        weights[k] = 0;
    if (axis->bits == RESAMPLE_FAST_BITS) {
        fast_weights(outputs, i, taps, weights, moved, count);
        return;
    }
    for (uint32_t k = 0; k < taps; k++)
        weights[moved + k] = (int32_t)outputs->shares[(size_t)k * outputs->count + i];
}

/* Outputs first … first + count − 1, the last one first if `reversed`. */
static struct status axis_make(struct resample_axis *axis, const struct span *span, uint32_t first,
                               uint32_t count, bool reversed, uint32_t bits)
{
    struct outputs outputs = {0};
    uint32_t most = 0;
    TRY(outputs_make(axis, span, first, count, reversed, &outputs, &most));
    axis->count = count;
    axis->bits = bits;
    axis->pairs = (most + 1) / 2;
    span_inputs(span, first, count, &axis->input_first, &axis->input_count);
    TRY(memory_grow(count * (1 + 2 * (size_t)axis->pairs), sizeof axis->memory[0], &axis->memory,
                    &axis->memory_capacity));
    axis->first = axis->memory;
    axis->weights = (int32_t *)axis->memory + count;
    for (uint32_t k = 0; k < most; k++)
        add_shares(&outputs, span->support_inverse, (int32_t)k);
    if (span->low_share < 1 || span->high_share < 1)
        cut_ends(&outputs, span);
    for (uint32_t k = 0; k < most && bits == RESAMPLE_BITS; k++)
        round_each(&outputs, k);
    for (uint32_t i = 0; i < count; i++)
        axis_set_output(axis, &outputs, i);
    return OK;
}

void resample_axes_done(struct resample_axes *axes)
{
    memory_free(axes->across.memory);
    memory_free(axes->across.scratch);
    memory_free(axes->down.memory);
    memory_free(axes->down.scratch);
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
