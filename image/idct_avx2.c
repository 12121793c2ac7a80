#ifdef __x86_64__

#include <immintrin.h>

#include "image/idct_kernels.h"

/* As in idct_avx512.c, two blocks at once. */

static inline __m256i pair(int first, int second)
{
    return _mm256_set1_epi32((int)((uint32_t)first & 0xffff) | (int)((uint32_t)second << 16));
}

static inline __m256i dot(__m256i a, int by_a0, int by_a1, __m256i b, int by_b0, int by_b1)
{
    return _mm256_add_epi32(_mm256_madd_epi16(a, pair(by_a0, by_a1)),
                            _mm256_madd_epi16(b, pair(by_b0, by_b1)));
}

static inline __attribute__((always_inline)) void transform(__m256i in04, __m256i in26,
                                                            __m256i in15, __m256i in37,
                                                            const int bits, __m256i out[8])
{
    const int one = 1 << IDCT_BITS;
    const __m256i half = _mm256_set1_epi32(1 << (bits - 1));
    __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(in04, pair(one, one)), half);
    __m256i difference = _mm256_add_epi32(_mm256_madd_epi16(in04, pair(one, -one)), half);
    __m256i even0 = _mm256_madd_epi16(in26, pair(EVEN0_2, EVEN0_6));
    __m256i even1 = _mm256_madd_epi16(in26, pair(EVEN1_2, EVEN1_6));
    const __m256i even[4] = {
        _mm256_add_epi32(sum, even0),
        _mm256_add_epi32(difference, even1),
        _mm256_sub_epi32(difference, even1),
        _mm256_sub_epi32(sum, even0),
    };
    const __m256i odd[4] = {
        dot(in15, ODD0_1, ODD0_5, in37, ODD0_3, ODD0_7),
        dot(in15, ODD1_1, ODD1_5, in37, ODD1_3, ODD1_7),
        dot(in15, ODD2_1, ODD2_5, in37, ODD2_3, ODD2_7),
        dot(in15, ODD3_1, ODD3_5, in37, ODD3_3, ODD3_7),
    };
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_add_epi32(even[i], odd[i]);
        out[7 - i] = _mm256_sub_epi32(even[i], odd[i]);
    }
}

/* Row y of two blocks, dequantised. */
static inline __m256i load_row(const int16_t (*blocks)[64], const uint16_t *quantisers, int y)
{
    __m256i row = _mm256_castsi128_si256(_mm_load_si128((const __m128i *)(blocks[0] + 8 * y)));
    row = _mm256_inserti128_si256(row, _mm_load_si128((const __m128i *)(blocks[1] + 8 * y)), 1);
    __m128i by = _mm_loadu_si128((const __m128i *)(quantisers + 8 * y));
    return _mm256_mullo_epi16(row, _mm256_broadcastsi128_si256(by));
}

static inline __m256i merge(__m256i left, __m256i right)
{
    left = _mm256_srli_epi32(left, IDCT_COLUMN_SHIFT);
    right = _mm256_slli_epi32(right, 16 - IDCT_COLUMN_SHIFT);
    return _mm256_blend_epi16(left, right, 0xaa);
}

static inline void columns(const int16_t (*blocks)[64], const uint16_t *quantisers, __m256i rows[8])
{
    __m256i in[8], left[8], right[8];
    for (int y = 0; y < 8; y++)
        in[y] = load_row(blocks, quantisers, y);
    transform(_mm256_unpacklo_epi16(in[0], in[4]), _mm256_unpacklo_epi16(in[2], in[6]),
              _mm256_unpacklo_epi16(in[1], in[5]), _mm256_unpacklo_epi16(in[3], in[7]),
              IDCT_COLUMN_SHIFT, left);
    transform(_mm256_unpackhi_epi16(in[0], in[4]), _mm256_unpackhi_epi16(in[2], in[6]),
              _mm256_unpackhi_epi16(in[1], in[5]), _mm256_unpackhi_epi16(in[3], in[7]),
              IDCT_COLUMN_SHIFT, right);
    for (int y = 0; y < 8; y++)
        rows[y] = merge(left[y], right[y]);
}

static inline __attribute__((always_inline)) void half_of_rows(const __m256i *rows, __m256i out[8])
{
    __m256i a = _mm256_unpacklo_epi32(rows[0], rows[1]),
            b = _mm256_unpackhi_epi32(rows[0], rows[1]);
    __m256i c = _mm256_unpacklo_epi32(rows[2], rows[3]),
            d = _mm256_unpackhi_epi32(rows[2], rows[3]);
    transform(_mm256_unpacklo_epi64(a, c), _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(a, c),
              _mm256_unpackhi_epi64(b, d), IDCT_ROW_SHIFT, out);
}

static inline __m256i pack_columns(const __m256i *upper, const __m256i *lower, int x)
{
    __m256i words[2];
    for (int i = 0; i < 2; i++)
        words[i] = _mm256_packs_epi32(_mm256_srai_epi32(upper[x + 2 * i], IDCT_ROW_SHIFT),
                                      _mm256_srai_epi32(lower[x + 2 * i], IDCT_ROW_SHIFT));
    return _mm256_packs_epi16(words[0], words[1]);
}

/* Two rows of each of two blocks. */
static inline void store_rows(__m256i rows, uint8_t *out, size_t stride_bytes)
{
    rows = _mm256_permute4x64_epi64(rows, 0xd8);
    rows = _mm256_xor_si256(rows, _mm256_set1_epi8((char)0x80));
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(rows));
    _mm_storeu_si128((__m128i *)(out + stride_bytes), _mm256_extracti128_si256(rows, 1));
}

static void full_avx2(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                      uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i += 2, out += 16) {
        __m256i rows[8], upper[8], lower[8];
        columns(blocks + i, quantisers, rows);
        half_of_rows(rows, upper);
        half_of_rows(rows + 4, lower);
        __m256i c02 = pack_columns(upper, lower, 0), c13 = pack_columns(upper, lower, 1);
        __m256i c46 = pack_columns(upper, lower, 4), c57 = pack_columns(upper, lower, 5);
        __m256i c01 = _mm256_unpacklo_epi8(c02, c13), c23 = _mm256_unpackhi_epi8(c02, c13);
        __m256i c45 = _mm256_unpacklo_epi8(c46, c57), c67 = _mm256_unpackhi_epi8(c46, c57);
        __m256i a = _mm256_unpacklo_epi16(c01, c23), b = _mm256_unpacklo_epi16(c45, c67);
        store_rows(_mm256_unpacklo_epi32(a, b), out, stride_bytes);
        store_rows(_mm256_unpackhi_epi32(a, b), out + 2 * stride_bytes, stride_bytes);
        a = _mm256_unpackhi_epi16(c01, c23), b = _mm256_unpackhi_epi16(c45, c67);
        store_rows(_mm256_unpacklo_epi32(a, b), out + 4 * stride_bytes, stride_bytes);
        store_rows(_mm256_unpackhi_epi32(a, b), out + 6 * stride_bytes, stride_bytes);
    }
}

const struct idct_kernels idct_avx2 = {.full = full_avx2};

#endif
