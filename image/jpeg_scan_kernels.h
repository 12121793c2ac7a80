#ifndef HEADRACE_IMAGE_JPEG_SCAN_KERNELS_H
#define HEADRACE_IMAGE_JPEG_SCAN_KERNELS_H

/* Private to image/jpeg_scan*.c: the inner loops, which go over MCUs that lie beside each other, in
 * plain C and for instruction sets. All give the same. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cpu.h"
#include "image/huffman.h"

/* What a block can take at most: 64 codes of 16 bits and values of 15, four bytes each, and one
 * store of eight bytes past the end. */
#define SCAN_MAX_MCU_BYTES ((size_t)JPEG_MAX_MCU_BLOCKS * 64 * 4)
#define SCAN_SLACK_BYTES (SCAN_MAX_MCU_BYTES + 64)

/* A cursor over bits, most significant first, in bytes without stuffing. There are zeros to read
 * behind the end, SCAN_SLACK_BYTES of them. */
struct scan_bits {
    uint64_t window;     /* the next bits, from the top */
    uint64_t ahead;      /* the eight bytes at `next` */
    const uint8_t *next; /* behind the `count` valid bits of the window */
    unsigned count;
};

/* The blocks of one place in an MCU. */
struct scan_run_block {
    int16_t (*next)[64];
    size_t step;
    unsigned slot;
    const struct huffman_decoder *dc, *ac;           /* reading */
    const struct huffman_encoder *dc_code, *ac_code; /* writing */
};

/* MCUs beside each other. */
struct scan_run {
    struct scan_run_block blocks[JPEG_MAX_MCU_BLOCKS];
    unsigned block_count;
    int32_t dc[FRAME_MAX_COMPONENTS]; /* the last DC of each of the scan's components */

    struct scan_bits bits; /* reading */
    const uint8_t *end;    /* of the bytes, without the zeros */

    uint64_t pending;         /* writing: the last bits, from the top */
    unsigned pending_count;   /* below 8 between two calls */
    uint8_t *out, *out_limit; /* an MCU is begun only below the limit; SCAN_SLACK_BYTES follow */
};

struct scan_kernels {
    /* Reads `count` MCUs; false where codes or values do not hold or the
     * bytes end. */
    bool (*read)(struct scan_run *run, uint32_t count);
    /* Writes up to `count` MCUs, as many as there is room for, and says in *ret_done how many;
     * false where a coefficient has no code. */
    bool (*write)(struct scan_run *run, uint32_t count, uint32_t *ret_done);
};

extern const struct scan_kernels scan_kernels_plain;
#ifdef __x86_64__
extern const struct scan_kernels scan_kernels_avx2;
extern const struct scan_kernels scan_kernels_avx512;
#endif

/* The fastest for a processor. */
const struct scan_kernels *scan_kernels_for(enum cpu_level level);

static inline uint64_t load_be64(const uint8_t *p)
{
    return __builtin_bswap64(load_le64(p));
}

static inline void scan_bits_start(struct scan_bits *bits, const uint8_t *bytes)
{
    *bits = (struct scan_bits){.ahead = load_be64(bytes), .next = bytes};
}

#endif
