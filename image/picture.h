#ifndef HEADRACE_IMAGE_PICTURE_H
#define HEADRACE_IMAGE_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/scope.h"
#include "base/status.h"

/* A rectangle in pixels. */
struct rectangle {
    uint32_t x, y, width, height;
};

/* Whether all of it is within width x height pixels. */
bool rectangle_is_inside(const struct rectangle *rectangle, uint32_t width, uint32_t height);
/* Fails with STATUS_FAILED unless it has pixels, and all within an image of width x height. */
struct status rectangle_check_region(const struct rectangle *region, uint32_t width,
                                     uint32_t height);

/* Interleaved 8-bit RGB, (height, width, 3), rows `stride_bytes` apart. A picture may be a window
 * of a larger image: `origin` says where its first pixel stands there. At least PICTURE_PADDING
 * bytes after each row's last pixel may be read. */
#define PICTURE_PADDING 64
struct picture {
    uint8_t *pixels;
    size_t capacity_bytes;
    uint32_t width, height;
    size_t stride_bytes;
    uint32_t origin_x, origin_y;
};

/* Sets the size, reusing memory where it suffices; pixels are undefined. Fails with
 * STATUS_NO_MEMORY. */
struct status picture_resize(struct picture *picture, uint32_t width, uint32_t height);
void picture_done(struct picture *picture);
CLEANUP_VALUE(picture_done, struct picture)

#endif
