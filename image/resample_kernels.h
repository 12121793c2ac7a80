#ifndef HEADRACE_IMAGE_RESAMPLE_KERNELS_H
#define HEADRACE_IMAGE_RESAMPLE_KERNELS_H

/* Private to image/resample*.c: the two passes, in plain C and for instruction sets. All give the
 * same bytes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define RESAMPLE_BITS 22     /* of a weight's fraction */
#define RESAMPLE_LOW_BITS 11 /* of a weight's lower half */

/* One axis: which inputs make each output, and how much. Output i is
 *     (sum over k < 2 * pairs of weights[i][k] * input[first[i] + k] + half) >> RESAMPLE_BITS
 * All outputs have as many weights; the unused are 0. At most one input past the last is named,
 * with weight 0: in a row there is padding to read, below the last row there is nothing. */
struct resample_axis {
    uint32_t count;       /* outputs */
    uint32_t input_first; /* of the box: inputs are counted from here */
    uint32_t input_count; /* inputs that are read */
    uint32_t pairs;       /* weights come in pairs */
    uint32_t *first;      /* [count] */
    int32_t *weights;     /* [count][2 * pairs] */
    /* [count][pairs]: the weights' upper and lower halves as int16 pairs, the even weight in the
     * low half */
    uint32_t *high, *low;
    uint32_t *memory; /* behind the four */
    size_t memory_capacity;
};

/* Both passes read interleaved RGB and write up to 64 bytes past the end of a row. */
struct resample_kernels {
    /* `rows` rows: count pixels out of input_count. `table`: what make_table made. */
    void (*horizontal)(const struct resample_axis *axis, const void *table, const uint8_t *in,
                       size_t in_stride_bytes, uint32_t rows, uint8_t *out,
                       size_t out_stride_bytes);
    /* count rows of row_bytes bytes out of input_count rows. */
    void (*vertical)(const struct resample_axis *axis, const uint8_t *in, size_t in_stride_bytes,
                     size_t row_bytes, uint8_t *out, size_t out_stride_bytes);
    /* The axis in the form that `horizontal` reads; both NULL if it reads the axis itself. */
    size_t (*table_bytes)(const struct resample_axis *axis);
    void (*make_table)(const struct resample_axis *axis, void *table);
};

extern const struct resample_kernels resample_plain;
#ifdef __x86_64__
extern const struct resample_kernels resample_avx2;
extern const struct resample_kernels resample_avx512;
#endif

/* The fastest for a processor. */
const struct resample_kernels *resample_kernels_for(enum cpu_level level);

#endif
