#ifndef HEADRACE_IMAGE_TENSOR_KERNELS_H
#define HEADRACE_IMAGE_TENSOR_KERNELS_H

/* Private to image/tensor*.c: from RGB bytes to numbers, in plain C and for instruction sets. All
 * give the same bits. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "image/tensor.h"

/* What each byte becomes in each channel. */
struct tensor_map {
    enum tensor_type type;
    float mean[3], std[3];
    float single[3][256];  /* the values, for every type but u8 */
    uint16_t half[3][256]; /* the same as bf16 or f16 */
};

/* `pixels`: `count` interleaved RGB pixels, after which 64 bytes may be read. Not a byte past the
 * last element is written. */
struct tensor_kernels {
    /* Whether these kernels' arithmetic gives the map's values; if not, the plain ones serve. */
    bool (*is_exact)(const struct tensor_map *map);
    /* The pixels in reverse order; up to 64 bytes past the end of `out` are written. */
    void (*mirror)(const uint8_t *pixels, size_t count, uint8_t *out);
    /* Elements stay interleaved. */
    void (*interleaved)(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                        void *out);
    /* Elements go to three planes, `plane` elements apart. */
    void (*planar)(const struct tensor_map *map, const uint8_t *pixels, size_t count, void *out,
                   size_t plane);
    /* `count` samples of channel c alone. */
    void (*channel)(const struct tensor_map *map, int c, const uint8_t *samples, size_t count,
                    void *out);
    /* After an image, before another thread reads it; NULL if there is nothing to be done. */
    void (*finish)(void);
};

extern const struct tensor_kernels tensor_plain;
#ifdef __x86_64__
extern const struct tensor_kernels tensor_avx2;
extern const struct tensor_kernels tensor_avx512;
#endif

/* The fastest for a processor that are exact for the map. */
const struct tensor_kernels *tensor_kernels_for(enum cpu_level level, const struct tensor_map *map);

struct tensor_map tensor_map_make(const struct tensor_format *format);

#endif
