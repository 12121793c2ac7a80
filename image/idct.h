#ifndef HEADRACE_IMAGE_IDCT_H
#define HEADRACE_IMAGE_IDCT_H

/* libjpeg's accurate integer inverse DCT ("islow"): columns first, sums of 32 bits, 16 bits between
 * the passes. Products with quantisers and what lies between the passes wrap.
 *
 * Reduced, a block becomes 4 x 4, 2 x 2 or 1 x 1 samples: those of the shorter transform that has
 * the block's lowest frequencies. Rows come first there, as they take fewer steps so. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "image/coefficients.h"

/* Reductions: none, by 2, 4 and 8. */
#define IDCT_REDUCTIONS 4
/* The samples of a block's row. */
static inline uint32_t idct_side(unsigned reduction)
{
    return 8U >> reduction;
}

/* As many blocks are transformed at once, at most, and as many samples of a row. */
#define IDCT_GROUP_BLOCKS 16
#define IDCT_GROUP_SAMPLES 32

/* `count` neighbouring blocks (natural order, 64-byte aligned) to samples: rows `stride_bytes`
 * apart, of `side` for each block. Groups are read and written whole: fewer than
 * IDCT_GROUP_BLOCKS blocks and IDCT_GROUP_SAMPLES samples past the last ones. */
typedef void idct_fn(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                     uint8_t *out, size_t stride_bytes);

struct idct_kernels {
    idct_fn *reduced[IDCT_REDUCTIONS]; /* by reduction */
    /* How many of `count` blocks (any order of coefficients), from the first on, are small: a
     * block's magnitudes, that of -32768 as 32767, times weights of 0 … 1023 add up to `most` or
     * less. */
    uint32_t (*count_small)(const int16_t (*blocks)[64], const int16_t weights[64], uint32_t count,
                            int32_t most);
};

extern const struct idct_kernels idct_plain;
#ifdef __x86_64__
extern const struct idct_kernels idct_avx2;
extern const struct idct_kernels idct_avx512;
#endif
#ifdef __aarch64__
extern const struct idct_kernels idct_neon;
#endif

/* The fastest for a processor; all give the same samples. */
const struct idct_kernels *idct_kernels_for(enum cpu_level level);

/* Whether libjpeg's variants of the inverse DCT agree on every block: no 16-bit overflow within
 * the passes, no sample so far off that a table does not clamp it. Files where they differ have no
 * pixels of their own, so they are not packed as coefficients. */
bool coefficients_fit_idct(const struct coefficients *coefficients);

#endif
