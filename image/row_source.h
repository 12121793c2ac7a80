#ifndef HEADRACE_IMAGE_ROW_SOURCE_H
#define HEADRACE_IMAGE_ROW_SOURCE_H

#include <stdint.h>

/* Pixels of a region of an image, row by row and in planes: what resizing reads. */
#define ROW_SOURCE_ROWS 8
struct row_source {
    unsigned channels; /* 1 (gray) or 3 (RGB) */
    /* Sets rows[c][i] to channel c of row first + i of the region, for i < count <=
     * ROW_SOURCE_ROWS. They hold until the next call; 64 bytes after each may be read. */
    void (*rows)(void *context, uint32_t first, uint32_t count,
                 const uint8_t *rows[3][ROW_SOURCE_ROWS]);
    void *context;
};

#endif
