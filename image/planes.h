#ifndef HEADRACE_IMAGE_PLANES_H
#define HEADRACE_IMAGE_PLANES_H

/* Windows of a JPEG's components, decoded from their blocks to samples. */

#include <stdbool.h>

#include "image/coefficients.h"
#include "image/picture.h"

/* Samples of one component. Those outside of the component that upsampling looks at (one on each
 * side) repeat its border. At least PLANE_PADDING bytes after a row's last sample may be read. */
#define PLANE_PADDING 64
struct plane {
    uint8_t *samples;        /* of the window's first sample */
    size_t stride_bytes;     /* between rows */
    struct rectangle window; /* decoded: at least what was asked for */
    unsigned reduction;      /* its blocks have idct_side(reduction) samples on a side */
};

/* The window's first sample of row y of the component. */
static inline const uint8_t *plane_row(const struct plane *plane, uint32_t y)
{
    return plane->samples + (size_t)(y - plane->window.y) * plane->stride_bytes;
}

/* Scratch of one thread. */
struct planes {
    struct plane plane[FRAME_MAX_COMPONENTS];
    uint8_t *memory[FRAME_MAX_COMPONENTS];
    size_t capacity_bytes[FRAME_MAX_COMPONENTS];
    int16_t (*blocks)[64]; /* as they come from the reader */
};
void planes_done(struct planes *planes);
CLEANUP_VALUE(planes_done, struct planes)

/* `size` samples of a component, in reduced ones: the last of these may hold fewer. */
static inline uint32_t plane_reduce(uint32_t size, unsigned reduction)
{
    return (size >> reduction) + ((size & ((1U << reduction) - 1)) != 0);
}

/* Decodes windows[c] of each component, reduced by reductions[c] (NULL: none is); only blocks that
 * hold some of it are read. A window is in reduced samples, not empty, and inside the component.
 * Fails with STATUS_CORRUPT if the frame contradicts itself, as the reader does, or with
 * STATUS_NO_MEMORY. */
struct status planes_decode(struct planes *planes, const struct frame *frame,
                            const struct block_reader *reader, const struct rectangle *windows,
                            const unsigned *reductions);

#endif
