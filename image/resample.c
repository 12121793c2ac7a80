#include "image/resample.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "image/color.h"
#include "image/resample_axis.h"

/* Memory whose content is made anew for each image. */
struct scratch {
    uint8_t *bytes;
    size_t capacity_bytes;
};

struct resampler {
    struct resample_axes axes;
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
    resample_axes_done(&resampler->axes);
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
    return memory_reserve(bytes, &scratch->bytes, &scratch->capacity_bytes);
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
    const struct resample_axis *axis = &resampler->axes.across;
    const uint8_t *rows[3][ROW_SOURCE_ROWS];
    source->rows(source->context, first, count, rows);
    for (unsigned c = 0; c < source->channels; c++) /* in this order: ends are written over */
        resampler->kernels->across(axis, resampler->axes.across_table, rows[c], count,
                                   out + c * (size_t)axis->count, stride_bytes);
}

static struct status across_then_down(struct resampler *resampler, const struct row_source *source,
                                      const struct target *target)
{
    const struct resample_axis *down = &resampler->axes.down;
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
        resampler->kernels->down(down, resampler->axes.down_table, y, rows, stride, row_bytes,
                                 resampler->ready.bytes);
        put_row(resampler, target, y, resampler->ready.bytes);
    }
    return OK;
}

static struct status down_then_across(struct resampler *resampler, const struct row_source *source,
                                      const struct target *target)
{
    const struct resample_axis *down = &resampler->axes.down;
    const struct resample_axis *across = &resampler->axes.across;
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
        resampler->kernels->down(down, resampler->axes.down_table, y, rows, stride, row_bytes,
                                 narrow);
        for (unsigned c = 0; c < source->channels; c++) {
            const uint8_t *in = narrow + c * (size_t)width;
            resampler->kernels->across(across, resampler->axes.across_table, &in, 1,
                                       resampler->ready.bytes + c * (size_t)across->count,
                                       out_stride);
        }
        put_row(resampler, target, y, resampler->ready.bytes);
    }
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
    TRY(resample_axes_make(&resampler->axes, resampler->kernels, &across, &down, window, flip,
                           RESAMPLE_BITS));
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
