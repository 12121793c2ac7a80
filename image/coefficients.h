#ifndef HEADRACE_IMAGE_COEFFICIENTS_H
#define HEADRACE_IMAGE_COEFFICIENTS_H

/* A baseline JPEG as its quantised DCT coefficients: what lies between entropy decoding
 * (jpeg_scan.h), the `dct` encoding (index/dct_record.h) and pixels (block_decode.h). */

#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

#define FRAME_MAX_COMPONENTS 3

/* What the components mean, decided as libjpeg decides it from markers and component numbers. */
enum frame_color { FRAME_GRAY = 0, FRAME_YCBCR, FRAME_RGB };

/* One component's shape. */
struct frame_component {
    uint8_t horizontal, vertical;      /* sampling factors, 1 … 4; both 1 in a gray image */
    uint32_t blocks_wide, blocks_high; /* as stored: whole MCUs */
    uint32_t width, height;            /* samples that hold the image */
    uint16_t quantisers[64];           /* in natural order, row by row */
};

struct frame {
    uint32_t width, height; /* pixels */
    enum frame_color color;
    unsigned component_count;             /* 1 or 3 */
    uint8_t horizontal_max, vertical_max; /* largest sampling factors */
    struct frame_component components[FRAME_MAX_COMPONENTS];
};

/* How many units hold `value`. */
static inline uint32_t frame_divide_up(uint32_t value, uint32_t unit)
{
    return value / unit + (value % unit != 0);
}

/* Sets all that follows from size, number of components and sampling factors, as far as these are
 * valid: the largest factors, and the components' shapes. A gray image's factors become 1. */
void frame_shape(struct frame *frame);

/* All coefficients of an image. `blocks[c]` is (blocks_high, blocks_wide, 64) of component c, in
 * zigzag order, as they stand in a scan; the DC is the value itself, not a difference. */
struct coefficients {
    struct frame frame;
    int16_t (*blocks[FRAME_MAX_COMPONENTS])[64];
    void *memory; /* of all blocks, 64-byte aligned; reused from image to image */
    size_t capacity_bytes;
};

/* Sets the frame and lays out blocks for it, reusing memory where it suffices. Fails with
 * STATUS_NO_MEMORY. _layout leaves in them whatever there was, _reset zeroes them. */
struct status coefficients_layout(struct coefficients *coefficients, const struct frame *frame);
struct status coefficients_reset(struct coefficients *coefficients, const struct frame *frame);
void coefficients_done(struct coefficients *coefficients);
CLEANUP_VALUE(coefficients_done, struct coefficients)

/* Position in natural order of each place in zigzag order. */
extern const uint8_t zigzag_to_natural[64];

/* Where decoding to pixels takes its blocks from. */
struct block_reader {
    /* Writes the quantised coefficients, in natural order, of blocks first … first + count − 1 in
     * row `row` of a component to `out`, (count, 64), 64-byte aligned. Fails with STATUS_CORRUPT
     * where the stored form does not hold. */
    struct status (*read)(void *context, unsigned component, uint32_t row, uint32_t first,
                          uint32_t count, int16_t (*out)[64]);
    void *context;
};
/* Blocks from memory; `coefficients` is borrowed. */
struct block_reader coefficients_reader(const struct coefficients *coefficients);

#endif
