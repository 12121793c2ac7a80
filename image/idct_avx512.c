#ifdef __x86_64__

#include <immintrin.h>

#include "image/idct_kernels.h"

/* Four blocks at once, one in each 128-bit lane. Both passes take pairs of inputs side by side in a
 * 32-bit place, (0, 4) (2, 6) (1, 5) (3, 7), as multiply-adds want them; the first pass leaves its
 * results so that the second finds them by moving 32-bit places alone. */

static inline __m512i pair(int first, int second)
{
    return _mm512_set1_epi32((int)((uint32_t)first & 0xffff) | (int)((uint32_t)second << 16));
}

/* A pass over one half of the columns (or rows): pairs to eight sums, still to be shifted. */
static inline __attribute__((always_inline)) void transform(__m512i in04, __m512i in26,
                                                            __m512i in15, __m512i in37,
                                                            const int bits, __m512i out[8])
{
    const int one = 1 << IDCT_BITS;
    const __m512i half = _mm512_set1_epi32(1 << (bits - 1)), zero = _mm512_setzero_si512();
    __m512i sum = _mm512_dpwssd_epi32(half, in04, pair(one, one));
    __m512i difference = _mm512_dpwssd_epi32(half, in04, pair(one, -one));
    const __m512i even[4] = {
        _mm512_dpwssd_epi32(sum, in26, pair(EVEN0_2, EVEN0_6)),
        _mm512_dpwssd_epi32(difference, in26, pair(EVEN1_2, EVEN1_6)),
        _mm512_dpwssd_epi32(difference, in26, pair(-EVEN1_2, -EVEN1_6)),
        _mm512_dpwssd_epi32(sum, in26, pair(-EVEN0_2, -EVEN0_6)),
    };
    __m512i odd[4] = {
        _mm512_dpwssd_epi32(zero, in15, pair(ODD0_1, ODD0_5)),
        _mm512_dpwssd_epi32(zero, in15, pair(ODD1_1, ODD1_5)),
        _mm512_dpwssd_epi32(zero, in15, pair(ODD2_1, ODD2_5)),
        _mm512_dpwssd_epi32(zero, in15, pair(ODD3_1, ODD3_5)),
    };
    odd[0] = _mm512_dpwssd_epi32(odd[0], in37, pair(ODD0_3, ODD0_7));
    odd[1] = _mm512_dpwssd_epi32(odd[1], in37, pair(ODD1_3, ODD1_7));
    odd[2] = _mm512_dpwssd_epi32(odd[2], in37, pair(ODD2_3, ODD2_7));
    odd[3] = _mm512_dpwssd_epi32(odd[3], in37, pair(ODD3_3, ODD3_7));
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_add_epi32(even[i], odd[i]);
        out[7 - i] = _mm512_sub_epi32(even[i], odd[i]);
    }
}

/* Row y of four blocks, dequantised. */
static inline __m512i load_row(const int16_t (*blocks)[64], const uint16_t *quantisers, int y)
{
    __m512i row = _mm512_castsi128_si512(_mm_load_si128((const __m128i *)(blocks[0] + 8 * y)));
    row = _mm512_inserti32x4(row, _mm_load_si128((const __m128i *)(blocks[1] + 8 * y)), 1);
    row = _mm512_inserti32x4(row, _mm_load_si128((const __m128i *)(blocks[2] + 8 * y)), 2);
    row = _mm512_inserti32x4(row, _mm_load_si128((const __m128i *)(blocks[3] + 8 * y)), 3);
    __m128i by = _mm_loadu_si128((const __m128i *)(quantisers + 8 * y));
    return _mm512_mullo_epi16(row, _mm512_broadcast_i32x4(by));
}

/* 16 bits of each sum, of the left columns in the lower halves, of the right ones in the upper. */
static inline __m512i merge(__m512i left, __m512i right)
{
    left = _mm512_srli_epi32(left, IDCT_COLUMN_SHIFT);
    right = _mm512_slli_epi32(right, 16 - IDCT_COLUMN_SHIFT);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, left, right);
}

static inline void columns(const int16_t (*blocks)[64], const uint16_t *quantisers, __m512i rows[8])
{
    __m512i in[8], left[8], right[8];
    for (int y = 0; y < 8; y++)
        in[y] = load_row(blocks, quantisers, y);
    transform(_mm512_unpacklo_epi16(in[0], in[4]), _mm512_unpacklo_epi16(in[2], in[6]),
              _mm512_unpacklo_epi16(in[1], in[5]), _mm512_unpacklo_epi16(in[3], in[7]),
              IDCT_COLUMN_SHIFT, left);
    transform(_mm512_unpackhi_epi16(in[0], in[4]), _mm512_unpackhi_epi16(in[2], in[6]),
              _mm512_unpackhi_epi16(in[1], in[5]), _mm512_unpackhi_epi16(in[3], in[7]),
              IDCT_COLUMN_SHIFT, right);
    for (int y = 0; y < 8; y++)
        rows[y] = merge(left[y], right[y]);
}

/* Four rows of pairs (0, 4) (1, 5) (2, 6) (3, 7) to eight sums for each of those rows. */
static inline __attribute__((always_inline)) void half_of_rows(const __m512i *rows, __m512i out[8])
{
    __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]),
            b = _mm512_unpackhi_epi32(rows[0], rows[1]);
    __m512i c = _mm512_unpacklo_epi32(rows[2], rows[3]),
            d = _mm512_unpackhi_epi32(rows[2], rows[3]);
    transform(_mm512_unpacklo_epi64(a, c), _mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(a, c),
              _mm512_unpackhi_epi64(b, d), IDCT_ROW_SHIFT, out);
}

/* Columns x and x + 2 of all rows, as signed bytes. */
static inline __m512i pack_columns(const __m512i *upper, const __m512i *lower, int x)
{
    __m512i words[2];
    for (int i = 0; i < 2; i++)
        words[i] = _mm512_packs_epi32(_mm512_srai_epi32(upper[x + 2 * i], IDCT_ROW_SHIFT),
                                      _mm512_srai_epi32(lower[x + 2 * i], IDCT_ROW_SHIFT));
    return _mm512_packs_epi16(words[0], words[1]);
}

/* Two rows of four blocks. */
static inline void store_rows(__m512i rows, uint8_t *out, size_t stride_bytes)
{
    rows = _mm512_xor_si512(rows, _mm512_set1_epi8((char)0x80));
    _mm256_storeu_si256((__m256i *)out, _mm512_castsi512_si256(rows));
    _mm256_storeu_si256((__m256i *)(out + stride_bytes), _mm512_extracti64x4_epi64(rows, 1));
}

static void full_avx512(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                        uint8_t *out, size_t stride_bytes)
{
    /* From columns 0 … 3 (a) and 4 … 7 (b) of four rows of each block to two rows. */
    const __m512i rows_0_1 =
        _mm512_setr_epi32(0, 16, 4, 20, 8, 24, 12, 28, 1, 17, 5, 21, 9, 25, 13, 29);
    const __m512i rows_2_3 =
        _mm512_setr_epi32(2, 18, 6, 22, 10, 26, 14, 30, 3, 19, 7, 23, 11, 27, 15, 31);
    for (uint32_t i = 0; i < count; i += 4, out += 32) {
        __m512i rows[8], upper[8], lower[8];
        columns(blocks + i, quantisers, rows);
        half_of_rows(rows, upper);
        half_of_rows(rows + 4, lower);
        __m512i c02 = pack_columns(upper, lower, 0), c13 = pack_columns(upper, lower, 1);
        __m512i c46 = pack_columns(upper, lower, 4), c57 = pack_columns(upper, lower, 5);
        __m512i c01 = _mm512_unpacklo_epi8(c02, c13), c23 = _mm512_unpackhi_epi8(c02, c13);
        __m512i c45 = _mm512_unpacklo_epi8(c46, c57), c67 = _mm512_unpackhi_epi8(c46, c57);
        __m512i a = _mm512_unpacklo_epi16(c01, c23), b = _mm512_unpacklo_epi16(c45, c67);
        store_rows(_mm512_permutex2var_epi32(a, rows_0_1, b), out, stride_bytes);
        store_rows(_mm512_permutex2var_epi32(a, rows_2_3, b), out + 2 * stride_bytes, stride_bytes);
        a = _mm512_unpackhi_epi16(c01, c23), b = _mm512_unpackhi_epi16(c45, c67);
        store_rows(_mm512_permutex2var_epi32(a, rows_0_1, b), out + 4 * stride_bytes, stride_bytes);
        store_rows(_mm512_permutex2var_epi32(a, rows_2_3, b), out + 6 * stride_bytes, stride_bytes);
    }
}

const struct idct_kernels idct_avx512 = {.full = full_avx512};

#endif
