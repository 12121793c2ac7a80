#include "image/coefficients.h"

#include <string.h>

#include "base/memory.h"

const uint8_t zigzag_to_natural[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18,
                                       11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
                                       13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43,
                                       36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45,
                                       38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

void frame_shape(struct frame *frame)
{
    if (frame->component_count == 1) /* they have no meaning there */
        frame->components[0].horizontal = frame->components[0].vertical = 1;
    frame->horizontal_max = frame->vertical_max = 1;
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        if (component->horizontal > frame->horizontal_max)
            frame->horizontal_max = component->horizontal;
        if (component->vertical > frame->vertical_max)
            frame->vertical_max = component->vertical;
    }
    uint32_t mcus_wide = frame_divide_up(frame->width, 8U * frame->horizontal_max);
    uint32_t mcus_high = frame_divide_up(frame->height, 8U * frame->vertical_max);
    for (unsigned c = 0; c < frame->component_count; c++) {
        struct frame_component *component = &frame->components[c];
        component->blocks_wide = mcus_wide * component->horizontal;
        component->blocks_high = mcus_high * component->vertical;
        component->width =
            frame_divide_up(frame->width * component->horizontal, frame->horizontal_max);
        component->height =
            frame_divide_up(frame->height * component->vertical, frame->vertical_max);
    }
}

static size_t component_blocks(const struct frame *frame, unsigned c)
{
    return (size_t)frame->components[c].blocks_wide * frame->components[c].blocks_high;
}

struct status coefficients_layout(struct coefficients *coefficients, const struct frame *frame)
{
    uint64_t blocks = 0, size_bytes;
    for (unsigned c = 0; c < frame->component_count; c++)
        blocks += component_blocks(frame, c);
    if (!size_multiply(blocks, sizeof(*coefficients->blocks[0]), &size_bytes))
        FAIL(STATUS_NO_MEMORY, "the coefficients of %u x %u pixels do not fit into memory",
             frame->width, frame->height);

    if (size_bytes > coefficients->capacity_bytes) {
        coefficients_done(coefficients);
        TRY(memory_alloc_tensor(size_bytes, &coefficients->memory));
        coefficients->capacity_bytes = size_bytes;
    }
    coefficients->frame = *frame;
    int16_t(*next)[64] = coefficients->memory;
    for (unsigned c = 0; c < FRAME_MAX_COMPONENTS; c++) {
        coefficients->blocks[c] = c < frame->component_count ? next : NULL;
        if (c < frame->component_count)
            next += component_blocks(frame, c);
    }
    return OK;
}

struct status coefficients_reset(struct coefficients *coefficients, const struct frame *frame)
{
    TRY(coefficients_layout(coefficients, frame));
    for (unsigned c = 0; c < frame->component_count; c++)
        memset(coefficients->blocks[c], 0,
               component_blocks(frame, c) * sizeof *coefficients->blocks[c]);
    return OK;
}

void coefficients_done(struct coefficients *coefficients)
{
    memory_free(coefficients->memory);
    *coefficients = (struct coefficients){0};
}

static struct status read_from_memory(void *context, unsigned component, uint32_t row,
                                      uint32_t first, uint32_t count, int16_t (*out)[64])
{
    const struct coefficients *from = context;
    size_t start = (size_t)row * from->frame.components[component].blocks_wide + first;
    for (uint32_t i = 0; i < count; i++) {
        const int16_t *block = from->blocks[component][start + i];
        for (unsigned k = 0; k < 64; k++)
            out[i][zigzag_to_natural[k]] = block[k];
    }
    return OK;
}

struct block_reader coefficients_reader(const struct coefficients *coefficients)
{
    return (struct block_reader){read_from_memory, (void *)coefficients};
}
