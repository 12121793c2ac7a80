#ifndef HEADRACE_IMAGE_FONT_H
#define HEADRACE_IMAGE_FONT_H

/* A bitmap font for captions: printable ASCII, 5 x 7 pixels. */

#include <stdint.h>

#define FONT_WIDTH 5
#define FONT_HEIGHT 7
#define FONT_GLYPHS 95

/* [character - ' '][row]: bit 4 is the leftmost pixel. */
extern const uint8_t font_glyphs[FONT_GLYPHS][FONT_HEIGHT];

#endif
