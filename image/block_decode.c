#include "image/block_decode.h"

#include "base/memory.h"
#include "image/color.h"
#include "image/planes.h"

/* Row buffers: three upsampled components, three colours. */
#define BUFFERS ((size_t)6)

/* How a component's samples become pixels. */
struct enlargement {
    uint32_t across, down; /* pixels per sample */
    /* With the neighbours' share; by plain repetition else. */
    bool fancy_across, fancy_down;
};

struct block_decoder {
    struct planes planes;
    const struct frame *frame;
    struct rectangle region;
    struct enlargement enlargement[FRAME_MAX_COMPONENTS];
    const struct color_kernels *kernels;
    uint8_t *buffers; /* ROW_SOURCE_ROWS times BUFFERS of them */
    size_t buffers_capacity, buffer_bytes;
};

struct status block_decoder_open(struct block_decoder **ret_decoder)
{
    struct block_decoder *decoder;
    TRY(memory_alloc(1, sizeof *decoder, &decoder));
    decoder->kernels = color_kernels_for(cpu_level());
    *ret_decoder = decoder;
    return OK;
}

void block_decoder_close(struct block_decoder *decoder)
{
    if (!decoder)
        return;
    planes_done(&decoder->planes);
    memory_free(decoder->buffers);
    memory_free(decoder);
}

/* --- Planning ------------------------------------------------------------------------------------
 */

bool block_decode_supports(const struct frame *frame)
{
    if (frame->component_count != 1 && frame->component_count != 3)
        return false;
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        if (component->horizontal == 0 || component->vertical == 0 ||
            frame->horizontal_max % component->horizontal != 0 ||
            frame->vertical_max % component->vertical != 0)
            return false;
    }
    return frame->horizontal_max > 0 && frame->vertical_max > 0;
}

/* libjpeg's choice: triangle filters for the factors 2 x 1, 1 x 2 and 2 x 2, the ones that go
 * across only for components of more than two columns. */
static struct enlargement enlargement_of(const struct frame *frame, unsigned c)
{
    const struct frame_component *component = &frame->components[c];
    struct enlargement enlargement = {
        .across = frame->horizontal_max / component->horizontal,
        .down = frame->vertical_max / component->vertical,
    };
    uint32_t across = enlargement.across, down = enlargement.down;
    if (across == 2 && down <= 2 && component->width > 2) {
        enlargement.fancy_across = true;
        enlargement.fancy_down = down == 2;
    } else if (across == 1 && down == 2) {
        enlargement.fancy_down = true;
    }
    return enlargement;
}

/* The samples, of `size`, that pixels first … first + count − 1 are made of. */
static void samples_of(uint32_t first, uint32_t count, uint32_t factor, bool fancy, uint32_t size,
                       uint32_t *ret_first, uint32_t *ret_count)
{
    uint32_t start = first / factor, end = (first + count - 1) / factor + 1;
    if (fancy && start > 0)
        start--;
    if (fancy && end < size)
        end++;
    *ret_first = start;
    *ret_count = end - start;
}

static struct status check_frame(const struct frame *frame, const struct rectangle *region)
{
    if (!block_decode_supports(frame))
        FAIL(STATUS_UNSUPPORTED,
             "%u components, or sampling factors that are no multiples of each other",
             frame->component_count);
    TRY(rectangle_check_region(region, frame->width, frame->height));
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        uint32_t across = frame->horizontal_max / component->horizontal;
        uint32_t down = frame->vertical_max / component->vertical;
        if (component->width != frame_divide_up(frame->width, across) ||
            component->height != frame_divide_up(frame->height, down))
            FAIL(STATUS_CORRUPT, "component %u has %u x %u samples in an image of %u x %u", c,
                 component->width, component->height, frame->width, frame->height);
    }
    return OK;
}

/* --- Rows ----------------------------------------------------------------------------------------
 */

/* Each sample `factor` times. */
static void repeat(const uint8_t *in, uint32_t count, uint32_t factor, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < factor; k++)
            *out++ = in[i];
}

/* Pixels of component c in the image's row y, from the region's first column on: in place where
 * nothing is to be done, else in `buffer`. */
static const uint8_t *component_row(const struct block_decoder *decoder, unsigned c, uint32_t y,
                                    uint8_t *buffer)
{
    const struct enlargement *enlargement = &decoder->enlargement[c];
    const struct plane *plane = &decoder->planes.plane[c];
    const struct rectangle *region = &decoder->region;
    uint32_t across = enlargement->across, down = enlargement->down;
    uint32_t first = region->x / across, row = y / down;
    uint32_t count = (region->x + region->width - 1) / across + 1 - first;
    const uint8_t *near = plane_row(plane, row) + (first - plane->window.x);
    const uint8_t *far = near;
    bool upper = y % down == 0;
    if (enlargement->fancy_down &&
        (upper ? row > 0 : row + 1 < decoder->frame->components[c].height))
        far = upper ? near - plane->stride_bytes : near + plane->stride_bytes;

    if (enlargement->fancy_across && enlargement->fancy_down)
        decoder->kernels->both(near, far, count, buffer);
    else if (enlargement->fancy_across)
        decoder->kernels->across(near, count, buffer);
    else if (enlargement->fancy_down)
        decoder->kernels->down(near, far, upper ? 1 : 2, count, buffer);
    else if (across > 1)
        repeat(near, count, across, buffer);
    else
        return near;
    return buffer + region->x % across;
}

static void decoder_rows(void *context, uint32_t first, uint32_t count,
                         const uint8_t *rows[3][ROW_SOURCE_ROWS])
{
    const struct block_decoder *decoder = context;
    const struct frame *frame = decoder->frame;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *buffers[BUFFERS];
        for (uint32_t b = 0; b < BUFFERS; b++)
            buffers[b] = decoder->buffers + (BUFFERS * (size_t)i + b) * decoder->buffer_bytes;
        const uint8_t *components[3];
        for (unsigned c = 0; c < frame->component_count; c++) {
            components[c] = component_row(decoder, c, decoder->region.y + first + i, buffers[c]);
            rows[c][i] = components[c];
        }
        if (frame->color != FRAME_YCBCR)
            continue;
        decoder->kernels->to_rgb(components, decoder->region.width, buffers + 3);
        for (unsigned c = 0; c < 3; c++)
            rows[c][i] = buffers[3 + c];
    }
}

struct status block_decoder_start(struct block_decoder *decoder, const struct frame *frame,
                                  const struct block_reader *reader, const struct rectangle *region,
                                  struct row_source *ret_source)
{
    struct rectangle windows[FRAME_MAX_COMPONENTS];
    TRY(check_frame(frame, region));
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        struct enlargement enlargement = enlargement_of(frame, c);
        samples_of(region->x, region->width, enlargement.across, enlargement.fancy_across,
                   component->width, &windows[c].x, &windows[c].width);
        samples_of(region->y, region->height, enlargement.down, enlargement.fancy_down,
                   component->height, &windows[c].y, &windows[c].height);
        decoder->enlargement[c] = enlargement;
    }
    TRY(planes_decode(&decoder->planes, frame, reader, windows, NULL));
    decoder->frame = frame;
    decoder->region = *region;

    /* Upsampling starts at a sample's first pixel: up to three before the region's. */
    decoder->buffer_bytes = ((size_t)region->width + 8 + COLOR_PADDING + 64) / 64 * 64;
    TRY(memory_reserve(BUFFERS * ROW_SOURCE_ROWS * decoder->buffer_bytes, &decoder->buffers,
                       &decoder->buffers_capacity));
    *ret_source = (struct row_source){frame->component_count, decoder_rows, decoder};
    return OK;
}

struct status block_decoder_run(struct block_decoder *decoder, const struct frame *frame,
                                const struct block_reader *reader, const struct rectangle *region,
                                struct picture *picture)
{
    const struct rectangle whole = {0, 0, frame->width, frame->height};
    if (!region)
        region = &whole;
    struct row_source source;
    TRY(block_decoder_start(decoder, frame, reader, region, &source));
    TRY(picture_resize(picture, region->width, region->height));
    picture->origin_x = region->x;
    picture->origin_y = region->y;
    for (uint32_t y = 0; y < region->height; y++) {
        const uint8_t *rows[3][ROW_SOURCE_ROWS];
        source.rows(source.context, y, 1, rows);
        if (frame->component_count == 1)
            rows[1][0] = rows[2][0] = rows[0][0];
        const uint8_t *const planes[3] = {rows[0][0], rows[1][0], rows[2][0]};
        decoder->kernels->interleave(planes, region->width,
                                     picture->pixels + y * picture->stride_bytes);
    }
    return OK;
}
