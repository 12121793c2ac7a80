#include "image/planes.h"

#include <string.h>

#include "base/memory.h"
#include "image/idct.h"

/* Blocks that are read at a time: they fit into the first-level cache. Reads start at multiples of
 * this, except the first of a row. */
#define CHUNK_BLOCKS ((uint32_t)64)
/* Before a row's first sample: what upsampling looks at, with the rows aligned. */
#define LEFT_BYTES ((size_t)64)

void planes_done(struct planes *planes)
{
    for (unsigned c = 0; c < FRAME_MAX_COMPONENTS; c++)
        memory_free(planes->memory[c]);
    memory_free(planes->blocks);
    *planes = (struct planes){0};
}

/* What memory accesses rely on. */
static struct status check_component(const struct frame_component *component, unsigned number)
{
    if (component->width == 0 || component->height == 0 ||
        (uint64_t)component->blocks_wide * 8 < component->width ||
        (uint64_t)component->blocks_high * 8 < component->height)
        FAIL(STATUS_CORRUPT, "component %u has %u x %u blocks for %u x %u samples", number,
             component->blocks_wide, component->blocks_high, component->width, component->height);
    return OK;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The blocks of `side` samples that hold a window of samples. */
static struct rectangle blocks_of(const struct rectangle *window, uint32_t side)
{
    struct rectangle blocks = {.x = window->x / side, .y = window->y / side};
    blocks.width = (window->x + window->width + side - 1) / side - blocks.x;
    blocks.height = (window->y + window->height + side - 1) / side - blocks.y;
    return blocks;
}

static struct status plane_resize(struct planes *planes, unsigned c, const struct rectangle *blocks)
{
    struct plane *plane = &planes->plane[c];
    uint32_t side = idct_side(plane->reduction);
    plane->window = (struct rectangle){side * blocks->x, side * blocks->y, side * blocks->width,
                                       side * blocks->height};
    size_t row_bytes = LEFT_BYTES + plane->window.width + IDCT_GROUP_SAMPLES + PLANE_PADDING;
    plane->stride_bytes = (row_bytes + 63) / 64 * 64;
    uint64_t size_bytes;
    if (!size_multiply(plane->stride_bytes, plane->window.height, &size_bytes))
        FAIL(STATUS_NO_MEMORY, "a plane of %u x %u samples does not fit into memory",
             plane->window.width, plane->window.height);
    TRY(memory_reserve(size_bytes, &planes->memory[c], &planes->capacity_bytes[c]));
    plane->samples = planes->memory[c] + LEFT_BYTES;
    return OK;
}

static struct status decode_blocks(struct planes *planes, const struct frame *frame,
                                   const struct block_reader *reader, unsigned c,
                                   const struct rectangle *blocks)
{
    const struct plane *plane = &planes->plane[c];
    idct_fn *transform = idct_kernels_for(cpu_level())->reduced[plane->reduction];
    uint32_t end = blocks->x + blocks->width, side = idct_side(plane->reduction);
    for (uint32_t row = 0; row < blocks->height; row++) {
        uint8_t *out = plane->samples + side * (size_t)row * plane->stride_bytes;
        for (uint32_t x = blocks->x, count; x < end; x += count) {
            count = smaller(end, (x / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS) - x;
            TRY(reader->read(reader->context, c, blocks->y + row, x, count, planes->blocks));
            transform((const int16_t(*)[64])planes->blocks, frame->components[c].quantisers, count,
                      out + side * (size_t)(x - blocks->x), plane->stride_bytes);
        }
    }
    return OK;
}

/* Beyond a border the border's sample is repeated. */
static void repeat_borders(const struct plane *plane, const struct frame_component *component)
{
    uint8_t *row = plane->samples;
    uint32_t width = plane_reduce(component->width, plane->reduction);
    bool right = plane->window.x + plane->window.width >= width;
    for (uint32_t y = 0; y < plane->window.height; y++, row += plane->stride_bytes) {
        row[-1] = row[0];
        if (right) {
            uint8_t *after = row + (width - plane->window.x);
            *after = after[-1];
        }
    }
}

struct status planes_decode(struct planes *planes, const struct frame *frame,
                            const struct block_reader *reader, const struct rectangle *windows,
                            const unsigned *reductions)
{
    if (!planes->blocks)
        TRY(memory_alloc_tensor((CHUNK_BLOCKS + IDCT_GROUP_BLOCKS) * sizeof planes->blocks[0],
                                &planes->blocks));
    for (unsigned c = 0; c < frame->component_count; c++) {
        TRY(check_component(&frame->components[c], c));
        planes->plane[c].reduction = reductions ? reductions[c] : 0;
        struct rectangle blocks = blocks_of(&windows[c], idct_side(planes->plane[c].reduction));
        TRY(plane_resize(planes, c, &blocks));
        TRY(decode_blocks(planes, frame, reader, c, &blocks));
        repeat_borders(&planes->plane[c], &frame->components[c]);
    }
    return OK;
}
