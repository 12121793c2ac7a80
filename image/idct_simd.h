#ifndef HEADRACE_IMAGE_IDCT_SIMD_H
#define HEADRACE_IMAGE_IDCT_SIMD_H

/* Private to image/idct_avx*.c: the transform, one block in each 128-bit lane of a vector. Both
 * passes take pairs of inputs side by side in a 32-bit place, (0, 4) (2, 6) (1, 5) (3, 7), as
 * multiply-adds want them; the first pass leaves its results so that the second finds them by
 * moving 32-bit places alone. */

#include "image/idct_kernels.h"
#include "image/simd.h"

#ifdef __AVX2__

#define BLOCKS (sizeof(VEC_INT) / 16)

SIMD int pair_bits(int first, int second)
{
    return (int)((uint32_t)first & 0xffff) | (int)((uint32_t)second << 16);
}

SIMD VEC_INT pair(int first, int second)
{
    return VEC(set1_epi32)(pair_bits(first, second));
}

/* --- What the instruction sets do in their own ways --- */

#ifdef __AVX512F__

/* sum + in · (first, second), and sum − that. */
SIMD void add_and_subtract(VEC_INT sum, VEC_INT in, int first, int second, VEC_INT *ret_added,
                           VEC_INT *ret_subtracted)
{
    *ret_added = vec_add_dot(sum, in, pair(first, second));
    *ret_subtracted = vec_add_dot(sum, in, pair(-first, -second));
}

/* Row y of each block, dequantised. */
SIMD VEC_INT load_row(const int16_t (*blocks)[64], const uint16_t *quantisers, int y)
{
    VEC_INT row = _mm512_castsi128_si512(_mm_load_si128((const __m128i *)(blocks[0] + 8 * y)));
    row = _mm512_inserti32x4(row, _mm_load_si128((const __m128i *)(blocks[1] + 8 * y)), 1);
    row = _mm512_inserti32x4(row, _mm_load_si128((const __m128i *)(blocks[2] + 8 * y)), 2);
    row = _mm512_inserti32x4(row, _mm_load_si128((const __m128i *)(blocks[3] + 8 * y)), 3);
    __m128i by = _mm_loadu_si128((const __m128i *)(quantisers + 8 * y));
    return _mm512_mullo_epi16(row, _mm512_broadcast_i32x4(by));
}

/* Signed bytes to samples. */
SIMD VEC_INT to_unsigned(VEC_INT bytes)
{
    return _mm512_xor_si512(bytes, _mm512_set1_epi8((char)0x80));
}

/* The odd 16-bit places of `odd`, the even ones of `even`. */
SIMD VEC_INT blend(VEC_INT even, VEC_INT odd)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, even, odd);
}

SIMD int32_t sum_of_lanes(VEC_INT values)
{
    return _mm512_reduce_add_epi32(values);
}

/* From columns 0 … 3 (a) and 4 … 7 (b) of four rows of each block: stores rows 0 and 1, or 2 and 3.
 */
SIMD void store_two_rows(VEC_INT a, VEC_INT b, bool later, uint8_t *out, size_t stride_bytes)
{
    const VEC_INT rows_0_1 =
        _mm512_setr_epi32(0, 16, 4, 20, 8, 24, 12, 28, 1, 17, 5, 21, 9, 25, 13, 29);
    const VEC_INT rows_2_3 =
        _mm512_setr_epi32(2, 18, 6, 22, 10, 26, 14, 30, 3, 19, 7, 23, 11, 27, 15, 31);
    VEC_INT rows = _mm512_permutex2var_epi32(a, later ? rows_2_3 : rows_0_1, b);
    rows = to_unsigned(rows);
    _mm256_storeu_si256((__m256i *)out, _mm512_castsi512_si256(rows));
    _mm256_storeu_si256((__m256i *)(out + stride_bytes), _mm512_extracti64x4_epi64(rows, 1));
}

/* Four 32-bit places, in each lane. */
SIMD VEC_INT four(int a, int b, int c, int d)
{
    return _mm512_set4_epi32(d, c, b, a);
}

/* Each lane's 32-bit places are rows of a block: stores the four rows. */
SIMD void store_rows_of_4(VEC_INT rows, uint8_t *out, size_t stride_bytes)
{
    rows = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7,
                                                      11, 15),
                                    rows);
    _mm_storeu_si128((__m128i *)out, _mm512_castsi512_si128(rows));
    _mm_storeu_si128((__m128i *)(out + stride_bytes), _mm512_extracti32x4_epi32(rows, 1));
    _mm_storeu_si128((__m128i *)(out + 2 * stride_bytes), _mm512_extracti32x4_epi32(rows, 2));
    _mm_storeu_si128((__m128i *)(out + 3 * stride_bytes), _mm512_extracti32x4_epi32(rows, 3));
}

/* The pair of coefficients at `from` and that of as many more blocks as there are places. */
SIMD VEC_INT gather_pairs(const int16_t *from)
{
    const VEC_INT numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_epi32(_mm512_slli_epi32(numbers, 5), from, 4);
}

/* Each lane's halves are of two rows: stores these. */
SIMD void store_rows_of_2(VEC_INT rows, uint8_t *out, size_t stride_bytes)
{
    rows = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), rows);
    _mm256_storeu_si256((__m256i *)out, _mm512_castsi512_si256(rows));
    _mm256_storeu_si256((__m256i *)(out + stride_bytes), _mm512_extracti64x4_epi64(rows, 1));
}

#else

SIMD void add_and_subtract(VEC_INT sum, VEC_INT in, int first, int second, VEC_INT *ret_added,
                           VEC_INT *ret_subtracted)
{
    VEC_INT product = _mm256_madd_epi16(in, pair(first, second));
    *ret_added = _mm256_add_epi32(sum, product);
    *ret_subtracted = _mm256_sub_epi32(sum, product);
}

SIMD int32_t sum_of_lanes(VEC_INT values)
{
    __m128i sums =
        _mm_add_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    sums = _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums));
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 1);
}

SIMD VEC_INT load_row(const int16_t (*blocks)[64], const uint16_t *quantisers, int y)
{
    VEC_INT row = _mm256_castsi128_si256(_mm_load_si128((const __m128i *)(blocks[0] + 8 * y)));
    row = _mm256_inserti128_si256(row, _mm_load_si128((const __m128i *)(blocks[1] + 8 * y)), 1);
    __m128i by = _mm_loadu_si128((const __m128i *)(quantisers + 8 * y));
    return _mm256_mullo_epi16(row, _mm256_broadcastsi128_si256(by));
}

SIMD VEC_INT to_unsigned(VEC_INT bytes)
{
    return _mm256_xor_si256(bytes, _mm256_set1_epi8((char)0x80));
}

SIMD VEC_INT blend(VEC_INT even, VEC_INT odd)
{
    return _mm256_blend_epi16(even, odd, 0xaa);
}

SIMD void store_two_rows(VEC_INT a, VEC_INT b, bool later, uint8_t *out, size_t stride_bytes)
{
    VEC_INT rows = later ? _mm256_unpackhi_epi32(a, b) : _mm256_unpacklo_epi32(a, b);
    rows = _mm256_permute4x64_epi64(rows, 0xd8);
    rows = to_unsigned(rows);
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(rows));
    _mm_storeu_si128((__m128i *)(out + stride_bytes), _mm256_extracti128_si256(rows, 1));
}

SIMD VEC_INT four(int a, int b, int c, int d)
{
    return _mm256_setr_epi32(a, b, c, d, a, b, c, d);
}

SIMD void store_rows_of_4(VEC_INT rows, uint8_t *out, size_t stride_bytes)
{
    rows = _mm256_permutevar8x32_epi32(rows, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m128i upper = _mm256_castsi256_si128(rows), lower = _mm256_extracti128_si256(rows, 1);
    _mm_storel_epi64((__m128i *)out, upper);
    _mm_storel_epi64((__m128i *)(out + stride_bytes), _mm_unpackhi_epi64(upper, upper));
    _mm_storel_epi64((__m128i *)(out + 2 * stride_bytes), lower);
    _mm_storel_epi64((__m128i *)(out + 3 * stride_bytes), _mm_unpackhi_epi64(lower, lower));
}

SIMD VEC_INT gather_pairs(const int16_t *from)
{
    const VEC_INT numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_i32gather_epi32((const int *)from, _mm256_slli_epi32(numbers, 5), 4);
}

SIMD void store_rows_of_2(VEC_INT rows, uint8_t *out, size_t stride_bytes)
{
    rows = _mm256_permute4x64_epi64(rows, 0xd8);
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(rows));
    _mm_storeu_si128((__m128i *)(out + stride_bytes), _mm256_extracti128_si256(rows, 1));
}

#endif

/* --- The transform --- */

/* in15 · (by1, by5) + in37 · (by3, by7). */
SIMD VEC_INT odd_sum(VEC_INT in15, int by1, int by5, VEC_INT in37, int by3, int by7)
{
    return vec_add_dot(VEC(madd_epi16)(in15, pair(by1, by5)), in37, pair(by3, by7));
}

/* The even half of a pass. */
SIMD void transform_even(VEC_INT in04, VEC_INT in26, const int bits, VEC_INT even[4])
{
    const int one = 1 << IDCT_BITS;
    const VEC_INT half = VEC(set1_epi32)(1 << (bits - 1));
    VEC_INT sum = vec_add_dot(half, in04, pair(one, one));
    VEC_INT difference = vec_add_dot(half, in04, pair(one, -one));
    add_and_subtract(sum, in26, EVEN0_2, EVEN0_6, &even[0], &even[3]);
    add_and_subtract(difference, in26, EVEN1_2, EVEN1_6, &even[1], &even[2]);
}

/* A pass over one half of the columns (or rows): pairs to eight sums, still to be shifted. */
SIMD void transform(VEC_INT in04, VEC_INT in26, VEC_INT in15, VEC_INT in37, const int bits,
                    VEC_INT out[8])
{
    VEC_INT even[4];
    transform_even(in04, in26, bits, even);
    const VEC_INT odd[4] = {
        odd_sum(in15, ODD0_1, ODD0_5, in37, ODD0_3, ODD0_7),
        odd_sum(in15, ODD1_1, ODD1_5, in37, ODD1_3, ODD1_7),
        odd_sum(in15, ODD2_1, ODD2_5, in37, ODD2_3, ODD2_7),
        odd_sum(in15, ODD3_1, ODD3_5, in37, ODD3_3, ODD3_7),
    };
    for (int i = 0; i < 4; i++) {
        out[i] = VEC(add_epi32)(even[i], odd[i]);
        out[7 - i] = VEC(sub_epi32)(even[i], odd[i]);
    }
}

/* 16 bits of each sum of the first pass: of the left ones in the lower halves, of the right ones in
 * the upper. */
SIMD VEC_INT merge(VEC_INT left, VEC_INT right)
{
    return blend(VEC(srli_epi32)(left, IDCT_COLUMN_SHIFT),
                 VEC(slli_epi32)(right, 16 - IDCT_COLUMN_SHIFT));
}

SIMD void columns(const int16_t (*blocks)[64], const uint16_t *quantisers, VEC_INT rows[8])
{
    VEC_INT in[8], left[8], right[8];
    for (int y = 0; y < 8; y++)
        in[y] = load_row(blocks, quantisers, y);
    transform(VEC(unpacklo_epi16)(in[0], in[4]), VEC(unpacklo_epi16)(in[2], in[6]),
              VEC(unpacklo_epi16)(in[1], in[5]), VEC(unpacklo_epi16)(in[3], in[7]),
              IDCT_COLUMN_SHIFT, left);
    transform(VEC(unpackhi_epi16)(in[0], in[4]), VEC(unpackhi_epi16)(in[2], in[6]),
              VEC(unpackhi_epi16)(in[1], in[5]), VEC(unpackhi_epi16)(in[3], in[7]),
              IDCT_COLUMN_SHIFT, right);
    for (int y = 0; y < 8; y++)
        rows[y] = merge(left[y], right[y]);
}

/* Four rows of pairs (0, 4) (1, 5) (2, 6) (3, 7) to eight sums for each of those rows. */
SIMD void half_of_rows(const VEC_INT *rows, VEC_INT out[8])
{
    VEC_INT a = VEC(unpacklo_epi32)(rows[0], rows[1]), b = VEC(unpackhi_epi32)(rows[0], rows[1]);
    VEC_INT c = VEC(unpacklo_epi32)(rows[2], rows[3]), d = VEC(unpackhi_epi32)(rows[2], rows[3]);
    transform(VEC(unpacklo_epi64)(a, c), VEC(unpacklo_epi64)(b, d), VEC(unpackhi_epi64)(a, c),
              VEC(unpackhi_epi64)(b, d), IDCT_ROW_SHIFT, out);
}

/* Columns x and x + 2 of all rows, as signed bytes. */
SIMD VEC_INT pack_columns(const VEC_INT *upper, const VEC_INT *lower, int x)
{
    VEC_INT words[2];
    for (int i = 0; i < 2; i++)
        words[i] = VEC(packs_epi32)(VEC(srai_epi32)(upper[x + 2 * i], IDCT_ROW_SHIFT),
                                    VEC(srai_epi32)(lower[x + 2 * i], IDCT_ROW_SHIFT));
    return VEC(packs_epi16)(words[0], words[1]);
}

static void full_simd(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                      uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i += BLOCKS, out += 8 * BLOCKS) {
        VEC_INT rows[8], upper[8], lower[8];
        columns(blocks + i, quantisers, rows);
        half_of_rows(rows, upper);
        half_of_rows(rows + 4, lower);
        VEC_INT c02 = pack_columns(upper, lower, 0), c13 = pack_columns(upper, lower, 1);
        VEC_INT c46 = pack_columns(upper, lower, 4), c57 = pack_columns(upper, lower, 5);
        VEC_INT c01 = VEC(unpacklo_epi8)(c02, c13), c23 = VEC(unpackhi_epi8)(c02, c13);
        VEC_INT c45 = VEC(unpacklo_epi8)(c46, c57), c67 = VEC(unpackhi_epi8)(c46, c57);
        VEC_INT a = VEC(unpacklo_epi16)(c01, c23), b = VEC(unpacklo_epi16)(c45, c67);
        store_two_rows(a, b, false, out, stride_bytes);
        store_two_rows(a, b, true, out + 2 * stride_bytes, stride_bytes);
        a = VEC(unpackhi_epi16)(c01, c23), b = VEC(unpackhi_epi16)(c45, c67);
        store_two_rows(a, b, false, out + 4 * stride_bytes, stride_bytes);
        store_two_rows(a, b, true, out + 6 * stride_bytes, stride_bytes);
    }
}

/* --- Reduced --- */

/* Row y of each block: four sums, still to be shifted. A lane needs one multiply-add for all that
 * the even inputs give, one for the odd ones. */
SIMD VEC_INT row_to_4(const int16_t (*blocks)[64], const uint16_t *quantisers, int y)
{
    const int even_places = 0x05040100, odd_places = 0x07060302;
    const int one = 1 << IDCT_BITS, plus = pair_bits(one, one), minus = pair_bits(one, -one);
    const VEC_INT half = VEC(set1_epi32)(1 << (IDCT_COLUMN_SHIFT - 1));
    VEC_INT row = load_row(blocks, quantisers, y);
    VEC_INT even = VEC(shuffle_epi8)(row, VEC(set1_epi32)(even_places));
    VEC_INT odd = VEC(shuffle_epi8)(row, VEC(set1_epi32)(odd_places));
    VEC_INT sums = vec_add_dot(half, even, four(plus, minus, minus, plus));
    return vec_add_dot(sums, odd,
                       four(pair_bits(EVEN0_2, EVEN0_6), pair_bits(EVEN1_2, EVEN1_6),
                            pair_bits(-EVEN1_2, -EVEN1_6), pair_bits(-EVEN0_2, -EVEN0_6)));
}

static void to_4_simd(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                      uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i += BLOCKS, out += 4 * BLOCKS) {
        VEC_INT in[4], rows[4];
        for (int y = 0; y < 4; y++)
            in[y] = row_to_4(blocks + i, quantisers, y);
        transform_even(merge(in[0], in[2]), merge(in[1], in[3]), IDCT_ROW_SHIFT, rows);
        for (int y = 0; y < 4; y++)
            rows[y] = VEC(srai_epi32)(rows[y], IDCT_ROW_SHIFT);
        VEC_INT samples = VEC(packs_epi16)(VEC(packs_epi32)(rows[0], rows[1]),
                                           VEC(packs_epi32)(rows[2], rows[3]));
        store_rows_of_4(to_unsigned(samples), out, stride_bytes);
    }
}

static void to_2_simd(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                      uint8_t *out, size_t stride_bytes)
{
    const uint32_t group = sizeof(VEC_INT) / 4;
    const VEC_INT upper_by = pair(quantisers[0], quantisers[1]);
    const VEC_INT lower_by = pair(quantisers[8], quantisers[9]), half = VEC(set1_epi32)(4);
    for (uint32_t i = 0; i < count; i += group, out += 2 * (size_t)group) {
        VEC_INT upper = VEC(mullo_epi16)(gather_pairs(blocks[i]), upper_by), left[2], right[2];
        VEC_INT lower = VEC(mullo_epi16)(gather_pairs(blocks[i] + 8), lower_by), rows[2];
        add_and_subtract(vec_add_dot(half, upper, pair(1, 1)), lower, 1, 1, &left[0], &left[1]);
        add_and_subtract(vec_add_dot(half, upper, pair(1, -1)), lower, 1, -1, &right[0], &right[1]);
        for (int y = 0; y < 2; y++) /* sums of four are 18 bits, so that 15 are left */
            rows[y] = blend(VEC(srai_epi32)(left[y], 3),
                            VEC(slli_epi32)(VEC(srai_epi32)(right[y], 3), 16));
        store_rows_of_2(to_unsigned(VEC(packs_epi16)(rows[0], rows[1])), out, stride_bytes);
    }
}

static uint32_t count_small_simd(const int16_t (*blocks)[64], const int16_t weights[64],
                                 uint32_t count, int32_t most)
{
    for (uint32_t i = 0; i < count; i++) {
        VEC_INT sums = vec_zero();
        for (size_t k = 0; k < 64; k += sizeof(VEC_INT) / 2) {
            VEC_INT magnitudes = VEC(abs_epi16)(vec_load((const uint8_t *)(blocks[i] + k)));
            magnitudes = VEC(min_epu16)(magnitudes, VEC(set1_epi16)(INT16_MAX));
            sums = vec_add_dot(sums, magnitudes, vec_load((const uint8_t *)(weights + k)));
        }
        if (sum_of_lanes(sums) > most)
            return i;
    }
    return count;
}

#endif
#endif
