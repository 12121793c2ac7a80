#ifndef HEADRACE_IMAGE_RESAMPLE_KERNELS_H
#define HEADRACE_IMAGE_RESAMPLE_KERNELS_H

/* Private to image/resample*.c: the two passes, in plain C and for instruction sets. All give the
 * same bytes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

/* Bits of a weight's fraction: as Pillow has them, and for pixels that are only close. */
#define RESAMPLE_BITS 22
#define RESAMPLE_FAST_BITS 7 /* with weights of 127 at most */

/* One axis: which inputs make each output, and how much. Output i is
 *     (sum over k < 2 * pairs of weights[i][k] * input[first[i] + k] + half) >> bits
 * All outputs have as many weights; the unused are 0. Weights are not negative and their sum is 1
 * but for rounding, so that the result is a byte. Inputs past the last are named only with weight
 * 0. */
struct resample_axis {
    uint32_t bits;        /* RESAMPLE_BITS or RESAMPLE_FAST_BITS */
    uint32_t count;       /* outputs */
    uint32_t input_first; /* of the box: inputs are counted from here */
    uint32_t input_count; /* inputs that are read */
    uint32_t pairs;       /* weights come in pairs */
    uint32_t *first;      /* [count] */
    int32_t *weights;     /* [count][2 * pairs] */
    uint32_t *memory;     /* behind the two */
    size_t memory_capacity;
    uint8_t *scratch; /* for making them */
    size_t scratch_bytes;
};

enum resample_pass { RESAMPLE_ACROSS = 0, RESAMPLE_DOWN };
#define RESAMPLE_ROWS 8 /* of a call at most */

/* Rows of one channel, or of several side by side: the passes do not tell. `table`: what make_table
 * made for that pass, 64-byte aligned. Up to 64 bytes past the end of a row are read and written.
 */
struct resample_kernels {
    /* axis->count samples of each of `rows` rows; rows of `out` are `out_stride_bytes` apart. */
    void (*across)(const struct resample_axis *axis, const void *table, const uint8_t *const *in,
                   uint32_t rows, uint8_t *out, size_t out_stride_bytes);
    /* One output row of `row_bytes` bytes. */
    void (*down)(const struct resample_axis *axis, const void *table, uint32_t output,
                 const uint8_t *in, size_t in_stride_bytes, size_t row_bytes, uint8_t *out);
    /* The axis in the form that a pass reads; both NULL if it reads the axis itself. */
    size_t (*table_bytes)(const struct resample_axis *axis, enum resample_pass pass);
    void (*make_table)(const struct resample_axis *axis, enum resample_pass pass, void *table);
};

extern const struct resample_kernels resample_plain;
#ifdef __x86_64__
extern const struct resample_kernels resample_avx2;
extern const struct resample_kernels resample_avx512;
#endif

/* The fastest for a processor. */
const struct resample_kernels *resample_kernels_for(enum cpu_level level);

#endif
