#ifndef HEADRACE_IMAGE_IDCT_H
#define HEADRACE_IMAGE_IDCT_H

/* libjpeg's accurate integer inverse DCT ("islow"): columns first, sums of 32 bits, 16 bits between
 * the passes. Products with quantisers and what lies between the passes wrap. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "image/coefficients.h"

struct idct_kernels {
    /* `count` neighbouring blocks (natural order, 64-byte aligned) to samples: 8 rows
     * `stride_bytes` apart, block i at out + 8 i. Columns are written in fours of blocks: up to 24
     * samples past the last block's, and as many blocks may be read. */
    void (*full)(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                 uint8_t *out, size_t stride_bytes);
};

extern const struct idct_kernels idct_plain;
#ifdef __x86_64__
extern const struct idct_kernels idct_avx2;
extern const struct idct_kernels idct_avx512;
#endif

/* The fastest for a processor; all give the same samples. */
const struct idct_kernels *idct_kernels_for(enum cpu_level level);

/* Whether libjpeg's variants of the inverse DCT agree on every block: no 16-bit overflow within
 * the passes, no sample so far off that a table does not clamp it. Files where they differ have no
 * pixels of their own, so they are not packed as coefficients. */
bool coefficients_fit_idct(const struct coefficients *coefficients);

#endif
