#ifndef HEADRACE_IMAGE_COLOR_H
#define HEADRACE_IMAGE_COLOR_H

/* Chroma upsampling and colour conversion, as libjpeg does them. Rows of samples; up to
 * COLOR_PADDING bytes past the end of each input and output may be read and written. */

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define COLOR_PADDING 128

struct color_kernels {
    /* "Fancy" upsampling: triangle filters. `count` samples in; in[-1] and in[count] count too. A
     * sample is worth 3 parts, its neighbour 1.
     * across: 2 count samples out. */
    void (*across)(const uint8_t *in, uint32_t count, uint8_t *out);
    /* One of the two rows from `near`, whose neighbour on that side is `far`. `bias` is 1 for the
     * upper row, 2 for the lower one. */
    void (*down)(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                 uint8_t *out);
    /* Both at once: 2 count samples of one row out. */
    void (*both)(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out);
    /* `count` pixels from Y, Cb, Cr to R, G, B. */
    void (*to_rgb)(const uint8_t *const ycc[3], uint32_t count, uint8_t *const rgb[3]);
    /* Three rows to interleaved pixels. */
    void (*interleave)(const uint8_t *const rgb[3], uint32_t count, uint8_t *out);
    /* The way back. */
    void (*split)(const uint8_t *in, uint32_t count, uint8_t *const rgb[3]);
};

extern const struct color_kernels color_plain;
#ifdef __x86_64__
extern const struct color_kernels color_avx2;
extern const struct color_kernels color_avx512;
#endif

/* The fastest for a processor; all give the same bytes. */
const struct color_kernels *color_kernels_for(enum cpu_level level);

#endif
