#ifndef HEADRACE_INDEX_DCT_BLOCKS_H
#define HEADRACE_INDEX_DCT_BLOCKS_H

/* Rows of blocks in `dct` records, whose streams FORMAT.md describes. Reading stands in
 * dct_blocks_plain.c, which says what is meant, and in variants for instruction sets, which give
 * the same blocks. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/status.h"

enum {
    DCT_DC_CLASSES = 4,
    DCT_LAST_MASK = 63, /* of a block's first byte: the place of its last coefficient */
    DCT_CLASS_SHIFT = 6,
    DCT_MAX_DC_BITS = 16,
    DCT_MAX_FIELD_BITS = 6,
    DCT_FIELD_BASE = 2,  /* the magnitude that field 0 means */
    DCT_TWO_BYTES = 128, /* flag of an escape: another byte belongs to it */
};

/* The widths of a component's numbers. */
struct dct_code {
    uint8_t dc_bits[DCT_DC_CLASSES]; /* of a DC difference, by its class: 0 … 16, ascending */
    uint8_t field_bits;              /* of a magnitude above 1: 1 … 6 */
};

/* One row of blocks as it stands in a record. 64 bytes behind it may be read. */
struct dct_row {
    const uint8_t *bytes;
    size_t length;
    uint32_t blocks;
    const struct dct_code *code;
};

/* An order of a block's coefficients. */
struct dct_order {
    const uint8_t *place;  /* where each place of the zigzag order stands */
    const uint8_t *zigzag; /* the place in zigzag order of each coefficient */
};

/* The streams of a row, in their order. */
enum {
    DCT_STREAM_HEADER = 0,
    DCT_STREAM_DC,
    DCT_STREAM_MASK,
    DCT_STREAM_LARGE,
    DCT_STREAM_SIGN,
    DCT_STREAM_FIELD,
    DCT_STREAM_ESCAPE,
    DCT_STREAM_LOW,
    DCT_STREAMS,
};

/* A stream that is being written: whole bytes up to `next`, and fewer than 8 bits more. */
struct dct_sink {
    uint8_t *start, *next;
    uint64_t pending;
    unsigned pending_bits;
};

/* How often numbers of each length occur in blocks. */
struct dct_lengths {
    uint64_t dc[DCT_MAX_DC_BITS + 1]; /* DC differences, by their bits with the sign */
    /* Coefficients beyond the DC whose magnitude is above 2^b, so that b bits do not hold what it
     * exceeds 1 by. */
    uint64_t above[DCT_MAX_FIELD_BITS + 1];
};

struct dct_kernels {
    /* Writes blocks first … first + count − 1 to `out`, 64-byte aligned. False where the row's
     * streams do not end where the row does; no byte beyond the 64 behind it is read then either.
     */
    bool (*read)(const struct dct_row *row, const struct dct_order *order, uint32_t first,
                 uint32_t count, int16_t (*out)[64]);
    /* Writes blocks, in zigzag order, to the sinks, which have room for the longest and for 64
     * bytes more. False where the format cannot hold a coefficient. */
    bool (*write)(const int16_t (*blocks)[64], uint32_t count, const struct dct_code *code,
                  struct dct_sink *sinks);
    /* Adds the numbers of a row of blocks, in zigzag order. */
    void (*measure)(const int16_t (*blocks)[64], uint32_t count, struct dct_lengths *lengths);
};

extern const struct dct_kernels dct_plain;
#ifdef __x86_64__
extern const struct dct_kernels dct_avx2;
extern const struct dct_kernels dct_avx512;
#endif

/* The fastest for a processor. */
const struct dct_kernels *dct_kernels_for(enum cpu_level level);

/* The widths with which a component of (high, wide) blocks, in zigzag order, is small: those that
 * serve a sample of its rows best. */
struct dct_code dct_code_choose(const struct dct_kernels *kernels, const int16_t (*blocks)[64],
                                uint32_t wide, uint32_t high);

/* Appends a row of `count` blocks. `scratch` is of the caller, for reuse. Fails with
 * STATUS_UNSUPPORTED for a coefficient of -32768 and STATUS_NO_MEMORY. */
struct status dct_row_write(const struct dct_kernels *kernels, const int16_t (*blocks)[64],
                            uint32_t count, const struct dct_code *code, struct buffer *scratch,
                            struct buffer *out);

#endif
