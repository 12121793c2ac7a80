#include "image/resample.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "image/color.h"
#include "image/resample_kernels.h"

/* Memory of 64-byte alignment whose content is made anew for each image. */
struct scratch {
    uint8_t *bytes;
    size_t capacity_bytes;
};

struct resampler {
    struct resample_axis axes[2]; /* by enum resample_pass */
    struct scratch tables[2];
    struct scratch between; /* rows between the passes */
    struct scratch ready;   /* a finished row */
    struct scratch split;   /* rows of a picture, in planes */
    struct tensor_writer *writer;
    const struct resample_kernels *kernels;
    const struct color_kernels *colors;
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
    CLEANUP(resampler_close) struct resampler *resampler = NULL;
    TRY(memory_alloc(1, sizeof *resampler, &resampler));
    TRY(tensor_writer_open(&resampler->writer));
    resampler->kernels = resample_kernels_for(cpu_level());
    resampler->colors = color_kernels_for(cpu_level());
    *ret_resampler = MOVE(resampler);
    return OK;
}

void resampler_close(struct resampler *resampler)
{
    if (!resampler)
        return;
    for (int pass = 0; pass < 2; pass++) {
        memory_free(resampler->axes[pass].memory);
        memory_free(resampler->tables[pass].bytes);
    }
    memory_free(resampler->between.bytes);
    memory_free(resampler->ready.bytes);
    memory_free(resampler->split.bytes);
    tensor_writer_close(resampler->writer);
    memory_free(resampler);
}

static struct status scratch_resize(struct scratch *scratch, uint64_t count, uint64_t size_bytes)
{
    uint64_t bytes;
    if (!size_multiply(count, size_bytes, &bytes))
        FAIL(STATUS_NO_MEMORY, "the rows to resize do not fit into memory");
    if (bytes <= scratch->capacity_bytes)
        return OK;
    memory_free(MOVE(scratch->bytes));
    scratch->capacity_bytes = 0;
    TRY(memory_alloc_tensor(bytes, &scratch->bytes));
    scratch->capacity_bytes = bytes;
    return OK;
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
    if (span->in_size == span->out_size) { /* the neighbour has no weight: it is not needed */
        taps.first = output;
        taps.count = 1;
        return taps;
    }
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

static void axis_set_output(struct resample_axis *axis, const struct taps *taps,
                            const struct span *span, uint32_t output)
{
    uint32_t count = 2 * axis->pairs, start = taps->first - axis->input_first;
    /* Near the end the taps are moved left, so that the unused ones do not point past it. */
    uint32_t last_start = axis->input_count > count ? axis->input_count - count : 0;
    uint32_t moved = start > last_start ? start - last_start : 0;
    int32_t *weights = axis->weights + (size_t)output * count;
    memset(weights, 0, count * sizeof weights[0]);
    taps_weights(span, taps, weights + moved);
    axis->first[output] = start - moved;
}

/* Outputs first … first + count − 1, the last one first if `reversed`. */
static struct status axis_make(struct resample_axis *axis, const struct span *span, uint32_t first,
                               uint32_t count, bool reversed)
{
    axis->count = count;
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

/* --- Passes --------------------------------------------------------------------------------------
 * Rows hold their channels side by side. */

/* Where finished rows go. */
struct target {
    struct picture *picture; /* or NULL: to resampler->writer */
    uint32_t width;
    unsigned channels;
};

/* A vector may be written past a row's end. */
static size_t row_stride(uint32_t width, unsigned channels)
{
    return ((size_t)width * channels + 2 * 64 - 1) / 64 * 64;
}

static void put_row(struct resampler *resampler, const struct target *target, uint32_t y,
                    const uint8_t *row)
{
    const uint8_t *planes[3] = {row, row, row};
    for (unsigned c = 1; c < target->channels; c++)
        planes[c] += c * (size_t)target->width;
    if (!target->picture) {
        tensor_writer_row(resampler->writer, y, planes);
        return;
    }
    struct picture *picture = target->picture;
    resampler->colors->interleave(planes, target->width,
                                  picture->pixels + y * picture->stride_bytes);
}

/* Rows first … first + count − 1 of the source, resized in width, to `out`. */
static void rows_across(struct resampler *resampler, const struct row_source *source,
                        uint32_t first, uint32_t count, uint8_t *out, size_t stride_bytes)
{
    const struct resample_axis *axis = &resampler->axes[RESAMPLE_ACROSS];
    const uint8_t *rows[3][ROW_SOURCE_ROWS];
    source->rows(source->context, first, count, rows);
    for (unsigned c = 0; c < source->channels; c++) /* in this order: ends are written over */
        resampler->kernels->across(axis, resampler->tables[RESAMPLE_ACROSS].bytes, rows[c], count,
                                   out + c * (size_t)axis->count, stride_bytes);
}

static struct status across_then_down(struct resampler *resampler, const struct row_source *source,
                                      const struct target *target)
{
    const struct resample_axis *down = &resampler->axes[RESAMPLE_DOWN];
    size_t stride = row_stride(target->width, source->channels);
    size_t row_bytes = (size_t)target->width * source->channels;
    TRY(scratch_resize(&resampler->between, down->input_count, stride));
    TRY(scratch_resize(&resampler->ready, 1, stride));
    uint8_t *rows = resampler->between.bytes;
    for (uint32_t y = 0, count; y < down->input_count; y += count) {
        count = down->input_count - y < ROW_SOURCE_ROWS ? down->input_count - y : ROW_SOURCE_ROWS;
        rows_across(resampler, source, y, count, rows + y * stride, stride);
    }
    for (uint32_t y = 0; y < down->count; y++) {
        resampler->kernels->down(down, resampler->tables[RESAMPLE_DOWN].bytes, y, rows, stride,
                                 row_bytes, resampler->ready.bytes);
        put_row(resampler, target, y, resampler->ready.bytes);
    }
    return OK;
}

static struct status down_then_across(struct resampler *resampler, const struct row_source *source,
                                      const struct target *target)
{
    const struct resample_axis *down = &resampler->axes[RESAMPLE_DOWN];
    const struct resample_axis *across = &resampler->axes[RESAMPLE_ACROSS];
    uint32_t width = across->input_count;
    size_t stride = row_stride(width, source->channels),
           row_bytes = (size_t)width * source->channels;
    size_t out_stride = row_stride(target->width, source->channels);
    TRY(scratch_resize(&resampler->between, (uint64_t)down->input_count + 1, stride));
    TRY(scratch_resize(&resampler->ready, 1, out_stride));
    uint8_t *rows = resampler->between.bytes, *narrow = rows + down->input_count * stride;
    for (uint32_t y = 0; y < down->input_count; y++) {
        const uint8_t *planes[3][ROW_SOURCE_ROWS];
        source->rows(source->context, y, 1, planes);
        for (unsigned c = 0; c < source->channels; c++)
            memcpy(rows + y * stride + c * (size_t)width, planes[c][0], width);
    }
    for (uint32_t y = 0; y < down->count; y++) {
        resampler->kernels->down(down, resampler->tables[RESAMPLE_DOWN].bytes, y, rows, stride,
                                 row_bytes, narrow);
        for (unsigned c = 0; c < source->channels; c++) {
            const uint8_t *in = narrow + c * (size_t)width;
            resampler->kernels->across(across, resampler->tables[RESAMPLE_ACROSS].bytes, &in, 1,
                                       resampler->ready.bytes + c * (size_t)across->count,
                                       out_stride);
        }
        put_row(resampler, target, y, resampler->ready.bytes);
    }
    return OK;
}

static struct status table_make(struct resampler *resampler, enum resample_pass pass)
{
    const struct resample_kernels *kernels = resampler->kernels;
    if (!kernels->make_table)
        return OK;
    const struct resample_axis *axis = &resampler->axes[pass];
    TRY(scratch_resize(&resampler->tables[pass], kernels->table_bytes(axis, pass), 1));
    kernels->make_table(axis, pass, resampler->tables[pass].bytes);
    return OK;
}

/* Pillow 13: where height is scaled down by more than twice what width is, down is the first pass.
 */
static bool goes_down_first(enum pixels pixels, const struct crop *crop)
{
    int64_t less_height = (int64_t)crop->box.height - crop->out_height;
    int64_t less_width = (int64_t)crop->box.width - crop->out_width;
    return pixels == PIXELS_PILLOW13 && less_height > 0 && less_height > 2 * less_width;
}

static struct status resample(struct resampler *resampler, const struct row_source *source,
                              const struct crop *crop, enum pixels pixels, bool flip,
                              struct picture *picture)
{
    const struct rectangle *window = &crop->window;
    struct target target = {picture, window->width, source->channels};
    struct span across = span_make(crop->box.width, crop->out_width);
    struct span down = span_make(crop->box.height, crop->out_height);
    TRY(axis_make(&resampler->axes[RESAMPLE_ACROSS], &across, window->x, window->width, flip));
    TRY(axis_make(&resampler->axes[RESAMPLE_DOWN], &down, window->y, window->height, false));
    TRY(table_make(resampler, RESAMPLE_ACROSS));
    TRY(table_make(resampler, RESAMPLE_DOWN));
    if (goes_down_first(pixels, crop))
        return down_then_across(resampler, source, &target);
    return across_then_down(resampler, source, &target);
}

/* --- Pictures ------------------------------------------------------------------------------------
 */

/* Rows of a picture's region, split into planes. */
struct picture_rows {
    const struct color_kernels *colors;
    const uint8_t *pixels; /* of the region's first */
    size_t stride_bytes;
    uint32_t width;
    uint8_t *planes; /* ROW_SOURCE_ROWS rows of three */
    size_t plane_bytes;
};

static void split_rows(void *context, uint32_t first, uint32_t count,
                       const uint8_t *rows[3][ROW_SOURCE_ROWS])
{
    const struct picture_rows *from = context;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *planes[3];
        for (uint32_t c = 0; c < 3; c++)
            rows[c][i] = planes[c] = from->planes + (3 * (size_t)i + c) * from->plane_bytes;
        from->colors->split(from->pixels + (first + i) * from->stride_bytes, from->width, planes);
    }
}

static bool covers(const struct picture *picture, const struct rectangle *region)
{
    return region->x >= picture->origin_x && region->y >= picture->origin_y &&
           (uint64_t)region->x + region->width <= (uint64_t)picture->origin_x + picture->width &&
           (uint64_t)region->y + region->height <= (uint64_t)picture->origin_y + picture->height;
}

struct status resampler_run(struct resampler *resampler, const struct picture *image,
                            const struct crop *crop, enum pixels pixels, struct picture *out)
{
    struct rectangle region = resample_region(crop);
    if (!covers(image, &region))
        FAIL(STATUS_FAILED,
             "the picture of %u x %u at (%u, %u) lacks pixels of %u x %u at (%u, %u)", image->width,
             image->height, image->origin_x, image->origin_y, region.width, region.height, region.x,
             region.y);
    struct picture_rows rows = {
        .colors = resampler->colors,
        .pixels = image->pixels + (region.y - image->origin_y) * image->stride_bytes +
                  (size_t)(region.x - image->origin_x) * 3,
        .stride_bytes = image->stride_bytes,
        .width = region.width,
        .plane_bytes = row_stride(region.width, 1),
    };
    TRY(scratch_resize(&resampler->split, 3 * (uint64_t)ROW_SOURCE_ROWS, rows.plane_bytes));
    rows.planes = resampler->split.bytes;
    TRY(picture_resize(out, crop->window.width, crop->window.height));
    const struct row_source source = {.channels = 3, .rows = split_rows, .context = &rows};
    return resample(resampler, &source, crop, pixels, false, out);
}

struct status resampler_write(struct resampler *resampler, const struct row_source *source,
                              const struct crop *crop, enum pixels pixels,
                              const struct tensor_format *format, void *out)
{
    tensor_writer_start(resampler->writer, format, crop->window.height, crop->window.width, out);
    TRY(resample(resampler, source, crop, pixels, crop->flip, NULL));
    tensor_writer_finish(resampler->writer);
    return OK;
}
