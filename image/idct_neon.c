#ifdef __aarch64__

#include <arm_neon.h>
#include <string.h>

#include "image/idct_kernels.h"

/* Four columns (or rows) side by side: inputs of 16 bits, sums of 32. */

/* a · by_a + b · by_b. */
static inline int32x4_t dot(int16x4_t a, int16_t by_a, int16x4_t b, int16_t by_b)
{
    return vmlal_n_s16(vmull_n_s16(a, by_a), b, by_b);
}

static inline void transform_even(int16x4_t in0, int16x4_t in4, int16x4_t in2, int16x4_t in6,
                                  int bits, int32x4_t even[4])
{
    const int16_t one = 1 << IDCT_BITS;
    const int32x4_t half = vdupq_n_s32(1 << (bits - 1));
    int32x4_t sum = vaddq_s32(half, dot(in0, one, in4, one));
    int32x4_t difference = vaddq_s32(half, dot(in0, one, in4, -one));
    int32x4_t even0 = dot(in2, EVEN0_2, in6, EVEN0_6), even1 = dot(in2, EVEN1_2, in6, EVEN1_6);
    even[0] = vaddq_s32(sum, even0);
    even[1] = vaddq_s32(difference, even1);
    even[2] = vsubq_s32(difference, even1);
    even[3] = vsubq_s32(sum, even0);
}

/* To eight sums, still to be shifted. */
static inline void transform(const int16x4_t in[8], int bits, int32x4_t out[8])
{
    int32x4_t even[4];
    transform_even(in[0], in[4], in[2], in[6], bits, even);
    const int32x4_t odd[4] = {
        vaddq_s32(dot(in[1], ODD0_1, in[5], ODD0_5), dot(in[3], ODD0_3, in[7], ODD0_7)),
        vaddq_s32(dot(in[1], ODD1_1, in[5], ODD1_5), dot(in[3], ODD1_3, in[7], ODD1_7)),
        vaddq_s32(dot(in[1], ODD2_1, in[5], ODD2_5), dot(in[3], ODD2_3, in[7], ODD2_7)),
        vaddq_s32(dot(in[1], ODD3_1, in[5], ODD3_5), dot(in[3], ODD3_3, in[7], ODD3_7)),
    };
    for (int i = 0; i < 4; i++) {
        out[i] = vaddq_s32(even[i], odd[i]);
        out[7 - i] = vsubq_s32(even[i], odd[i]);
    }
}

static inline void transpose_4(int16x4_t rows[4])
{
    int16x4x2_t a = vtrn_s16(rows[0], rows[1]), b = vtrn_s16(rows[2], rows[3]);
    for (int i = 0; i < 2; i++) {
        int32x2x2_t pair = vtrn_s32(vreinterpret_s32_s16(a.val[i]), vreinterpret_s32_s16(b.val[i]));
        rows[i] = vreinterpret_s16_s32(pair.val[0]);
        rows[i + 2] = vreinterpret_s16_s32(pair.val[1]);
    }
}

/* Two vectors of the last pass's sums. */
static inline uint8x8_t to_samples(int32x4_t left, int32x4_t right)
{
    int16x8_t words = vcombine_s16(vqmovn_s32(vshrq_n_s32(left, IDCT_ROW_SHIFT)),
                                   vqmovn_s32(vshrq_n_s32(right, IDCT_ROW_SHIFT)));
    return veor_u8(vreinterpret_u8_s8(vqmovn_s16(words)), vdup_n_u8(0x80));
}

/* The first pass over four columns: each of them in rows 0 … 3 and 4 … 7. */
static inline void columns(const int16_t *block, const uint16_t *quantisers, int16x4_t upper[4],
                           int16x4_t lower[4])
{
    int16x4_t in[8];
    int32x4_t sums[8];
    for (int y = 0; y < 8; y++)
        in[y] =
            vmul_s16(vld1_s16(block + 8 * y), vreinterpret_s16_u16(vld1_u16(quantisers + 8 * y)));
    transform(in, IDCT_COLUMN_SHIFT, sums);
    for (int y = 0; y < 4; y++) {
        upper[y] = vshrn_n_s32(sums[y], IDCT_COLUMN_SHIFT);
        lower[y] = vshrn_n_s32(sums[y + 4], IDCT_COLUMN_SHIFT);
    }
    transpose_4(upper);
    transpose_4(lower);
}

/* Four rows, from their eight columns. */
static inline void store_rows(const int16x4_t in[8], uint8_t *out, size_t stride_bytes)
{
    int32x4_t sums[8];
    transform(in, IDCT_ROW_SHIFT, sums);
    /* Column by column, four rows each; a row takes every fourth byte. */
    const uint8x8x4_t all = {{to_samples(sums[0], sums[1]), to_samples(sums[2], sums[3]),
                              to_samples(sums[4], sums[5]), to_samples(sums[6], sums[7])}};
    uint8_t bytes[32];
    vst1_u8_x4(bytes, all);
    uint8x16x2_t table = {{vld1q_u8(bytes), vld1q_u8(bytes + 16)}};
    const uint8x8_t first = vcreate_u8(0x1c1814100c080400);
    for (uint8_t y = 0; y < 4; y++)
        vst1_u8(out + y * stride_bytes, vqtbl2_u8(table, vadd_u8(first, vdup_n_u8(y))));
}

static void full_neon(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                      uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i++, out += 8) {
        int16x4_t upper[8], lower[8];
        columns(blocks[i], quantisers, upper, lower);
        columns(blocks[i] + 4, quantisers + 4, upper + 4, lower + 4);
        store_rows(upper, out, stride_bytes);
        store_rows(lower, out + 4 * stride_bytes, stride_bytes);
    }
}

static void to_4_neon(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                      uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i++, out += 4) {
        int16x4_t in[4];
        int32x4_t sums[4];
        for (int y = 0; y < 4; y++)
            in[y] = vmul_s16(vld1_s16(blocks[i] + 8 * y),
                             vreinterpret_s16_u16(vld1_u16(quantisers + 8 * y)));
        transpose_4(in);
        transform_even(in[0], in[2], in[1], in[3], IDCT_COLUMN_SHIFT, sums);
        for (int x = 0; x < 4; x++)
            in[x] = vshrn_n_s32(sums[x], IDCT_COLUMN_SHIFT);
        transpose_4(in);
        transform_even(in[0], in[2], in[1], in[3], IDCT_ROW_SHIFT, sums);
        uint8_t rows[16];
        vst1_u8(rows, to_samples(sums[0], sums[1]));
        vst1_u8(rows + 8, to_samples(sums[2], sums[3]));
        for (size_t y = 0; y < 4; y++)
            memcpy(out + y * stride_bytes, rows + 4 * y, 4);
    }
}

static uint32_t count_small_neon(const int16_t (*blocks)[64], const int16_t weights[64],
                                 uint32_t count, int32_t most)
{
    for (uint32_t i = 0; i < count; i++) {
        int32x4_t sums = vdupq_n_s32(0);
        for (int k = 0; k < 64; k += 8) {
            int16x8_t magnitudes = vqabsq_s16(vld1q_s16(blocks[i] + k));
            int16x8_t by = vld1q_s16(weights + k);
            sums = vmlal_s16(sums, vget_low_s16(magnitudes), vget_low_s16(by));
            sums = vmlal_high_s16(sums, magnitudes, by);
        }
        if (vaddvq_s32(sums) > most)
            return i;
    }
    return count;
}

const struct idct_kernels idct_neon = {
    .reduced = {full_neon, to_4_neon, idct_to_2_plain, idct_to_1_plain},
    .count_small = count_small_neon,
};

#endif
