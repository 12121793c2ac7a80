#include "image/fast_resample.h"

#include <math.h>

#include "base/memory.h"
#include "image/block_decode.h"
#include "image/color.h"
#include "image/idct.h"
#include "image/planes.h"
#include "image/resample_axis.h"

/* How many samples reduced blocks must leave for each output, in each direction: those are then
 * resized with antialiasing as others are. Chroma that is coarser than luma shows less of it. */
#define LEAST_SAMPLES 2.5
#define LEAST_CHROMA_SAMPLES 2.0

/* A component on its way. */
struct lane {
    const struct resample_axes *axes; /* its own, or those of one that is sampled alike */
    unsigned reduction;               /* of its blocks; alike for the same axes */
    struct resample_axes own_axes;
    uint8_t *rows; /* between the passes: down.input_count of them */
    size_t rows_capacity;
};

struct fast_resampler {
    struct planes planes;
    struct lane lanes[FRAME_MAX_COMPONENTS];
    uint8_t *ready; /* finished rows: of three components, then of three colours */
    size_t ready_capacity;
    struct tensor_writer *writer;
    const struct resample_kernels *kernels;
    const struct color_kernels *colors;
};

struct status fast_resampler_open(struct fast_resampler **ret_resampler)
{
    CLEANUP(fast_resampler_close) struct fast_resampler *resampler = NULL;
    TRY(memory_alloc(1, sizeof *resampler, &resampler));
    TRY(tensor_writer_open(&resampler->writer));
    resampler->kernels = resample_kernels_for(cpu_level());
    resampler->colors = color_kernels_for(cpu_level());
    *ret_resampler = MOVE(resampler);
    return OK;
}

void fast_resampler_close(struct fast_resampler *resampler)
{
    if (!resampler)
        return;
    planes_done(&resampler->planes);
    for (unsigned c = 0; c < FRAME_MAX_COMPONENTS; c++) {
        resample_axes_done(&resampler->lanes[c].own_axes);
        memory_free(resampler->lanes[c].rows);
    }
    memory_free(resampler->ready);
    tensor_writer_close(resampler->writer);
    memory_free(resampler);
}

/* The lane of a component before c whose sampling is the same, or NULL. */
static const struct lane *lane_alike(const struct fast_resampler *resampler,
                                     const struct frame *frame, unsigned c)
{
    const struct frame_component *components = frame->components;
    for (unsigned k = 0; k < c; k++)
        if (components[k].horizontal == components[c].horizontal &&
            components[k].vertical == components[c].vertical)
            return &resampler->lanes[k];
    return NULL;
}

/* How far blocks may be reduced that would leave `samples` for each output if they were not. */
static unsigned reduction_of(double samples, double least)
{
    unsigned reduction = 0;
    while (reduction + 1 < IDCT_REDUCTIONS && samples / 2 >= least) {
        samples /= 2;
        reduction++;
    }
    return reduction;
}

/* Makes component c's weights, of the samples of its reduced blocks. A sample stands in the middle
 * of the pixels that it is made of. */
static struct status make_axes(struct fast_resampler *resampler, const struct frame *frame,
                               unsigned c, const struct crop *crop)
{
    struct lane *lane = &resampler->lanes[c];
    const struct rectangle *box = &crop->box;
    double wide = (double)frame->horizontal_max / frame->components[c].horizontal;
    double high = (double)frame->vertical_max / frame->components[c].vertical;
    double samples =
        fmin(box->width / wide / crop->out_width, box->height / high / crop->out_height);
    lane->reduction = reduction_of(samples, c == 0 ? LEAST_SAMPLES : LEAST_CHROMA_SAMPLES);
    wide *= 1U << lane->reduction;
    high *= 1U << lane->reduction;
    struct span across =
        span_make_between(box->x / wide, ((double)box->x + box->width) / wide, crop->out_width);
    struct span down =
        span_make_between(box->y / high, ((double)box->y + box->height) / high, crop->out_height);
    lane->axes = &lane->own_axes;
    return resample_axes_make(&lane->own_axes, resampler->kernels, &across, &down, &crop->window,
                              crop->flip, RESAMPLE_FAST_BITS);
}

/* Makes component c's weights; false where they would name samples that do not exist. */
static struct status plan_component(struct fast_resampler *resampler, const struct frame *frame,
                                    unsigned c, const struct crop *crop, struct rectangle *window,
                                    bool *ret_fits)
{
    const struct frame_component *component = &frame->components[c];
    struct lane *lane = &resampler->lanes[c];
    const struct lane *alike = lane_alike(resampler, frame, c);
    if (alike) {
        lane->axes = alike->axes;
        lane->reduction = alike->reduction;
    } else {
        TRY(make_axes(resampler, frame, c, crop));
    }
    const struct resample_axis *across = &lane->axes->across, *down = &lane->axes->down;
    *window = (struct rectangle){across->input_first, down->input_first, across->input_count,
                                 down->input_count};
    *ret_fits = rectangle_is_inside(window, plane_reduce(component->width, lane->reduction),
                                    plane_reduce(component->height, lane->reduction)) &&
                window->width >= 2 * across->pairs && window->height >= 2 * down->pairs;
    return OK;
}

static struct status component_across(struct fast_resampler *resampler, unsigned c,
                                      size_t stride_bytes)
{
    struct lane *lane = &resampler->lanes[c];
    const struct plane *plane = &resampler->planes.plane[c];
    const struct resample_axis *across = &lane->axes->across, *down = &lane->axes->down;
    TRY(memory_reserve(stride_bytes * down->input_count, &lane->rows, &lane->rows_capacity));
    for (uint32_t y = 0, count; y < down->input_count; y += count) {
        const uint8_t *rows[RESAMPLE_ROWS];
        count = down->input_count - y < RESAMPLE_ROWS ? down->input_count - y : RESAMPLE_ROWS;
        for (uint32_t i = 0; i < count; i++)
            rows[i] = plane_row(plane, down->input_first + y + i) +
                      (across->input_first - plane->window.x);
        resampler->kernels->across(across, lane->axes->across_table, rows, count,
                                   lane->rows + y * stride_bytes, stride_bytes);
    }
    return OK;
}

static void write_row(struct fast_resampler *resampler, const struct frame *frame, uint32_t y,
                      uint32_t width, size_t stride_bytes)
{
    uint8_t *ready = resampler->ready, *colors[3];
    const uint8_t *components[3];
    for (unsigned c = 0; c < 3; c++) {
        components[c] = ready + (c < frame->component_count ? c * stride_bytes : 0);
        colors[c] = ready + (3 + c) * stride_bytes;
    }
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct lane *lane = &resampler->lanes[c];
        resampler->kernels->down(&lane->axes->down, lane->axes->down_table, y, lane->rows,
                                 stride_bytes, width, ready + c * stride_bytes);
    }
    if (frame->color != FRAME_YCBCR) {
        tensor_writer_row(resampler->writer, y, components);
        return;
    }
    resampler->colors->to_rgb(components, width, colors);
    tensor_writer_row(resampler->writer, y, (const uint8_t *const *)colors);
}

struct status fast_resampler_run(struct fast_resampler *resampler, const struct frame *frame,
                                 const struct block_reader *reader, const struct crop *crop,
                                 const struct tensor_format *format, void *out, bool *ret_made)
{
    struct rectangle windows[FRAME_MAX_COMPONENTS];
    unsigned reductions[FRAME_MAX_COMPONENTS];
    const struct rectangle *window = &crop->window;
    *ret_made = false;
    if (!block_decode_supports(frame) ||
        !rectangle_is_inside(&crop->box, frame->width, frame->height))
        return OK;
    for (unsigned c = 0; c < frame->component_count; c++) {
        bool fits;
        TRY(plan_component(resampler, frame, c, crop, &windows[c], &fits));
        if (!fits)
            return OK;
        reductions[c] = resampler->lanes[c].reduction;
    }
    TRY(planes_decode(&resampler->planes, frame, reader, windows, reductions));

    size_t stride = ((size_t)window->width + 2 * 64 - 1) / 64 * 64;
    TRY(memory_reserve(6 * stride, &resampler->ready, &resampler->ready_capacity));
    for (unsigned c = 0; c < frame->component_count; c++)
        TRY(component_across(resampler, c, stride));
    tensor_writer_start(resampler->writer, format, window->height, window->width, out);
    for (uint32_t y = 0; y < window->height; y++)
        write_row(resampler, frame, y, window->width, stride);
    tensor_writer_finish(resampler->writer);
    *ret_made = true;
    return OK;
}
