#include "image/picture.h"

/* Rows start on cache lines, so that vectors of full rows do not straddle them. */
#define ROW_ALIGNMENT ((size_t)64)

bool rectangle_is_inside(const struct rectangle *rectangle, uint32_t width, uint32_t height)
{
    return rectangle->x <= width && rectangle->width <= width - rectangle->x &&
           rectangle->y <= height && rectangle->height <= height - rectangle->y;
}

struct status rectangle_check_region(const struct rectangle *region, uint32_t width,
                                     uint32_t height)
{
    if (region->width == 0 || region->height == 0 || !rectangle_is_inside(region, width, height))
        FAIL(STATUS_FAILED, "the region %u x %u at (%u, %u) is not within the image of %u x %u",
             region->width, region->height, region->x, region->y, width, height);
    return OK;
}

struct status picture_resize(struct picture *picture, uint32_t width, uint32_t height)
{
    size_t row_bytes = (size_t)width * 3 + PICTURE_PADDING;
    size_t stride = (row_bytes + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    uint64_t size_bytes;
    if (!size_multiply(stride, height, &size_bytes) || size_bytes > SIZE_MAX)
        FAIL(STATUS_NO_MEMORY, "a picture of %u x %u pixels does not fit into memory", width,
             height);

    if (size_bytes > picture->capacity_bytes) {
        picture_done(picture);
        TRY(memory_alloc(size_bytes, 1, &picture->pixels));
        picture->capacity_bytes = size_bytes;
    }
    picture->width = width;
    picture->height = height;
    picture->stride_bytes = stride;
    picture->origin_x = picture->origin_y = 0;
    return OK;
}

void picture_done(struct picture *picture)
{
    memory_free(picture->pixels);
    *picture = (struct picture){0};
}
