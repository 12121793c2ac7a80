#ifndef HEADRACE_TESTS_SUPPORT_JPEG_MAKE_H
#define HEADRACE_TESTS_SUPPORT_JPEG_MAKE_H

/* JPEG files of every kind that libjpeg writes. */

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "image/coefficients.h"

/* Values of `factors`. */
#define JPEG_FACTORS_444                                                                           \
    {                                                                                              \
        {1, 1}, {1, 1}, {1, 1},                                                                    \
        {                                                                                          \
            1, 1                                                                                   \
        }                                                                                          \
    }
#define JPEG_FACTORS_420                                                                           \
    {                                                                                              \
        {2, 2}, {1, 1}, {1, 1},                                                                    \
        {                                                                                          \
            1, 1                                                                                   \
        }                                                                                          \
    }

struct jpeg_kind {
    const char *name;
    int components;    /* 1, 3 or 4 */
    int factors[4][2]; /* sampling of each component: horizontal, vertical */
    bool keep_rgb;     /* no colour transform: RGB, or CMYK instead of YCCK */
    bool progressive, arithmetic;
    bool separate_scans; /* sequential, a scan for each component */
    unsigned restart_blocks;
    bool optimize; /* Huffman tables made for the image */
    int quality;   /* 0: 80; below about 3 quantisers have 16 bits */
};

/* Replaces the buffer's content; the picture is a gradient with noise, a function of the seed. */
struct status jpeg_make(const struct jpeg_kind *kind, uint64_t seed, uint32_t width,
                        uint32_t height, struct buffer *bytes);

/* The quantised coefficients of a JPEG as libjpeg reads them. */
struct status jpeg_make_coefficients(const struct buffer *bytes, struct coefficients *coefficients);

#endif
