#include "image/resample.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "image/resample_kernels.h"

struct resampler {
    struct resample_axis across, down;
    uint8_t *table; /* of the axis across, for the kernel */
    size_t table_capacity;
    struct picture rows; /* between the passes */
    const struct resample_kernels *kernels;
};

const struct resample_kernels *resample_kernels_for(enum cpu_level level)
{
#ifdef __x86_64__
    if (level >= CPU_AVX512)
        return &resample_avx512;
    if (level >= CPU_AVX2)
        return &resample_avx2;
#endif
    (void)level;
    return &resample_plain;
}

struct status resampler_open(struct resampler **ret_resampler)
{
    struct resampler *resampler;
    TRY(memory_alloc(1, sizeof *resampler, &resampler));
    resampler->kernels = resample_kernels_for(cpu_level());
    *ret_resampler = resampler;
    return OK;
}

void resampler_close(struct resampler *resampler)
{
    if (!resampler)
        return;
    memory_free(resampler->across.memory);
    memory_free(resampler->down.memory);
    memory_free(resampler->table);
    picture_done(&resampler->rows);
    memory_free(resampler);
}

/* --- Weights -------------------------------------------------------------------------------------
 * The same operations on doubles as in Pillow, in the same order: the integer weights come out
 * equal. */

/* One axis of a crop, without memory. */
struct span {
    uint32_t in_size, out_size;
    double scale;   /* inputs per output */
    double support; /* inputs on each side of an output's centre: at least 1 */
    double support_inverse;
};

/* The inputs that one output is made of. */
struct taps {
    uint32_t first, count;
    double center;
};

static struct span span_make(uint32_t in_size, uint32_t out_size)
{
    double scale = (double)in_size / out_size, support = scale < 1 ? 1 : scale;
    return (struct span){in_size, out_size, scale, support, 1 / support};
}

static double triangle(double x)
{
    double distance = fabs(x);
    return distance < 1 ? 1 - distance : 0;
}

static struct taps taps_make(const struct span *span, uint32_t output)
{
    struct taps taps = {.center = (output + 0.5) * span->scale};
    double low = taps.center - span->support + 0.5, high = taps.center + span->support + 0.5;
    taps.first = low < 0 ? 0 : (uint32_t)low;
    taps.count = (high > span->in_size ? span->in_size : (uint32_t)high) - taps.first;
    return taps;
}

static double tap_share(const struct span *span, const struct taps *taps, uint32_t k)
{
    return triangle((k + taps->first - taps->center + 0.5) * span->support_inverse);
}

static void taps_weights(const struct span *span, const struct taps *taps, int32_t *weights)
{
    double total = 0;
    for (uint32_t k = 0; k < taps->count; k++)
        total += tap_share(span, taps, k);
    for (uint32_t k = 0; k < taps->count; k++)
        weights[k] = (int32_t)(0.5 + tap_share(span, taps, k) / total * (1 << RESAMPLE_BITS));
}

/* The inputs that outputs first … first + count − 1 read. */
static void span_inputs(const struct span *span, uint32_t first, uint32_t count,
                        uint32_t *ret_first, uint32_t *ret_count)
{
    if (span->in_size == span->out_size) {
        *ret_first = first;
        *ret_count = count;
        return;
    }
    struct taps left = taps_make(span, first), right = taps_make(span, first + count - 1);
    *ret_first = left.first;
    *ret_count = right.first + right.count - left.first;
}

struct rectangle resample_region(const struct crop *crop)
{
    const struct rectangle *window = &crop->window;
    struct span across = span_make(crop->box.width, crop->out_width);
    struct span down = span_make(crop->box.height, crop->out_height);
    struct rectangle region;
    span_inputs(&across, window->x, window->width, &region.x, &region.width);
    span_inputs(&down, window->y, window->height, &region.y, &region.height);
    region.x += crop->box.x;
    region.y += crop->box.y;
    return region;
}

static uint32_t pack_int16(int32_t even, int32_t odd)
{
    return (uint32_t)even | (uint32_t)odd << 16;
}

static void axis_set_output(struct resample_axis *axis, const struct span *span, uint32_t first,
                            uint32_t output)
{
    struct taps taps = taps_make(span, first + output);
    uint32_t count = 2 * axis->pairs, start = taps.first - axis->input_first;
    /* Near the end the taps are moved left, so that the unused ones do not point past it. */
    uint32_t last_start = axis->input_count > count ? axis->input_count - count : 0;
    uint32_t moved = start > last_start ? start - last_start : 0;
    int32_t *weights = axis->weights + (size_t)output * count;
    memset(weights, 0, count * sizeof weights[0]);
    taps_weights(span, &taps, weights + moved);
    axis->first[output] = start - moved;

    const int32_t low_mask = (1 << RESAMPLE_LOW_BITS) - 1;
    for (uint32_t j = 0; j < axis->pairs; j++) {
        int32_t even = weights[2 * j], odd = weights[2 * j + 1];
        size_t pair = (size_t)output * axis->pairs + j;
        axis->high[pair] = pack_int16(even >> RESAMPLE_LOW_BITS, odd >> RESAMPLE_LOW_BITS);
        axis->low[pair] = pack_int16(even & low_mask, odd & low_mask);
    }
}

static struct status axis_make(struct resample_axis *axis, const struct span *span, uint32_t first,
                               uint32_t count)
{
    axis->count = count;
    span_inputs(span, first, count, &axis->input_first, &axis->input_count);
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct taps taps = taps_make(span, first + i);
        most = taps.count > most ? taps.count : most;
    }
    axis->pairs = (most + 1) / 2;
    size_t pairs = (size_t)axis->pairs * count;
    TRY(memory_grow(count + 4 * pairs, sizeof axis->memory[0], &axis->memory,
                    &axis->memory_capacity));
    axis->first = axis->memory;
    axis->weights = (int32_t *)axis->memory + count;
    axis->high = axis->memory + count + 2 * pairs;
    axis->low = axis->high + pairs;
    for (uint32_t i = 0; i < count; i++)
        axis_set_output(axis, span, first, i);
    return OK;
}

/* --- Passes --------------------------------------------------------------------------------------
 */

static struct status pass_across(struct resampler *resampler, const uint8_t *in,
                                 size_t in_stride_bytes, uint32_t rows, struct picture *out)
{
    const struct resample_kernels *kernels = resampler->kernels;
    const struct resample_axis *axis = &resampler->across;
    if (kernels->make_table) {
        TRY(memory_grow(kernels->table_bytes(axis), 1, &resampler->table,
                        &resampler->table_capacity));
        kernels->make_table(axis, resampler->table);
    }
    TRY(picture_resize(out, axis->count, rows));
    kernels->horizontal(axis, resampler->table, in, in_stride_bytes, rows, out->pixels,
                        out->stride_bytes);
    return OK;
}

static struct status pass_down(struct resampler *resampler, const uint8_t *in,
                               size_t in_stride_bytes, uint32_t width, struct picture *out)
{
    const struct resample_axis *axis = &resampler->down;
    TRY(picture_resize(out, width, axis->count));
    resampler->kernels->vertical(axis, in, in_stride_bytes, (size_t)width * 3, out->pixels,
                                 out->stride_bytes);
    return OK;
}

static struct status copy_rows(const uint8_t *in, size_t in_stride_bytes,
                               const struct rectangle *window, struct picture *out)
{
    TRY(picture_resize(out, window->width, window->height));
    for (uint32_t y = 0; y < window->height; y++)
        memcpy(out->pixels + y * out->stride_bytes, in + y * in_stride_bytes,
               (size_t)window->width * 3);
    return OK;
}

static bool covers(const struct picture *picture, const struct rectangle *region)
{
    return region->x >= picture->origin_x && region->y >= picture->origin_y &&
           (uint64_t)region->x + region->width <= (uint64_t)picture->origin_x + picture->width &&
           (uint64_t)region->y + region->height <= (uint64_t)picture->origin_y + picture->height;
}

struct status resampler_run(struct resampler *resampler, const struct picture *image,
                            const struct crop *crop, struct picture *out)
{
    const struct rectangle *window = &crop->window;
    struct rectangle region = resample_region(crop);
    if (!covers(image, &region))
        FAIL(STATUS_FAILED,
             "the picture of %u x %u at (%u, %u) lacks pixels of %u x %u at (%u, %u)", image->width,
             image->height, image->origin_x, image->origin_y, region.width, region.height, region.x,
             region.y);
    const uint8_t *in = image->pixels + (region.y - image->origin_y) * image->stride_bytes +
                        (size_t)(region.x - image->origin_x) * 3;

    struct span across = span_make(crop->box.width, crop->out_width);
    struct span down = span_make(crop->box.height, crop->out_height);
    bool must_across = across.in_size != across.out_size, must_down = down.in_size != down.out_size;
    if (must_across)
        TRY(axis_make(&resampler->across, &across, window->x, window->width));
    if (must_down)
        TRY(axis_make(&resampler->down, &down, window->y, window->height));

    if (!must_across && !must_down)
        return copy_rows(in, image->stride_bytes, window, out);
    if (!must_across)
        return pass_down(resampler, in, image->stride_bytes, window->width, out);
    if (!must_down)
        return pass_across(resampler, in, image->stride_bytes, region.height, out);
    TRY(pass_across(resampler, in, image->stride_bytes, region.height, &resampler->rows));
    return pass_down(resampler, resampler->rows.pixels, resampler->rows.stride_bytes, window->width,
                     out);
}
