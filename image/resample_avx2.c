#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#include "image/resample_kernels.h"

/* A weight has 23 bits, a multiply-add of pairs takes 15: the upper and lower halves are summed
 * apart and joined at the end, which is exact. */
static inline __m256i join_sums(__m256i high, __m256i low)
{
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, RESAMPLE_LOW_BITS), low);
    return _mm256_srai_epi32(sum, RESAMPLE_BITS);
}

static inline __m256i half_unit(void)
{
    return _mm256_set1_epi32(1 << (RESAMPLE_BITS - 1));
}

static inline __m256i two_lanes(uint32_t first, uint32_t second)
{
    __m128i low = _mm_set1_epi32((int)first), high = _mm_set1_epi32((int)second);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static inline __m256i load_two(const uint8_t *first, const uint8_t *second)
{
    __m128i low = _mm_loadu_si128((const __m128i *)first);
    __m128i high = _mm_loadu_si128((const __m128i *)second);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static inline void store_pixel(uint8_t *out, __m128i bytes)
{
    int pixel = _mm_cvtsi128_si32(bytes);
    memcpy(out, &pixel, sizeof pixel);
}

/* Outputs a and a + 1 (or a twice) of `rows` rows, each in a lane of its own: its three channels'
 * pairs of neighbours. */
static inline __attribute__((always_inline)) void two_pixels(const struct resample_axis *axis,
                                                             const uint8_t *in,
                                                             size_t in_stride_bytes, const int rows,
                                                             uint32_t a, uint8_t *out,
                                                             size_t out_stride_bytes)
{
    const __m256i spread = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    uint32_t b = a + 1 < axis->count ? a + 1 : a;
    const uint8_t *at_a = in + (size_t)axis->first[a] * 3, *at_b = in + (size_t)axis->first[b] * 3;
    const uint32_t *high_a = axis->high + (size_t)a * axis->pairs;
    const uint32_t *high_b = axis->high + (size_t)b * axis->pairs;
    const uint32_t *low_a = axis->low + (size_t)a * axis->pairs;
    const uint32_t *low_b = axis->low + (size_t)b * axis->pairs;

    __m256i high[4], low[4];
    for (int r = 0; r < rows; r++) {
        high[r] = _mm256_setzero_si256();
        low[r] = half_unit();
    }
    for (uint32_t j = 0; j < axis->pairs; j++) {
        __m256i weights_high = two_lanes(high_a[j], high_b[j]);
        __m256i weights_low = two_lanes(low_a[j], low_b[j]);
        for (int r = 0; r < rows; r++) {
            size_t offset = (size_t)r * in_stride_bytes + 6 * (size_t)j;
            __m256i pairs = _mm256_shuffle_epi8(load_two(at_a + offset, at_b + offset), spread);
            high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(pairs, weights_high));
            low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(pairs, weights_low));
        }
    }
    for (int r = 0; r < rows; r++) {
        __m256i words = join_sums(high[r], low[r]);
        words = _mm256_packus_epi32(words, words);
        __m256i bytes = _mm256_packus_epi16(words, words);
        uint8_t *row = out + (size_t)r * out_stride_bytes;
        store_pixel(row + 3 * (size_t)a, _mm256_castsi256_si128(bytes));
        store_pixel(row + 3 * (size_t)b, _mm256_extracti128_si256(bytes, 1));
    }
}

static void horizontal_avx2(const struct resample_axis *axis, const void *table, const uint8_t *in,
                            size_t in_stride_bytes, uint32_t rows, uint8_t *out,
                            size_t out_stride_bytes)
{
    (void)table;
    for (; rows >= 4; rows -= 4, in += 4 * in_stride_bytes, out += 4 * out_stride_bytes)
        for (uint32_t x = 0; x < axis->count; x += 2)
            two_pixels(axis, in, in_stride_bytes, 4, x, out, out_stride_bytes);
    for (; rows > 0; rows--, in += in_stride_bytes, out += out_stride_bytes)
        for (uint32_t x = 0; x < axis->count; x += 2)
            two_pixels(axis, in, in_stride_bytes, 1, x, out, out_stride_bytes);
}

/* 32 bytes of one output row. */
static inline void vertical_block(const uint8_t *in, size_t in_stride_bytes, uint32_t rows,
                                  uint32_t pairs, const uint32_t *weights_high,
                                  const uint32_t *weights_low, uint8_t *out)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i high[4], low[4];
    for (int i = 0; i < 4; i++) {
        high[i] = zero;
        low[i] = half_unit();
    }
    for (uint32_t j = 0; j < pairs; j++) {
        const uint8_t *even = in + 2 * (size_t)j * in_stride_bytes;
        const uint8_t *odd = 2 * j + 1 < rows ? even + in_stride_bytes : even;
        __m256i a = _mm256_loadu_si256((const __m256i *)even);
        __m256i b = _mm256_loadu_si256((const __m256i *)odd);
        __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b);
        __m256i sources[4] = {
            _mm256_unpacklo_epi8(left, zero),
            _mm256_unpackhi_epi8(left, zero),
            _mm256_unpacklo_epi8(right, zero),
            _mm256_unpackhi_epi8(right, zero),
        };
        __m256i by_high = _mm256_set1_epi32((int)weights_high[j]);
        __m256i by_low = _mm256_set1_epi32((int)weights_low[j]);
        for (int i = 0; i < 4; i++) {
            high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(sources[i], by_high));
            low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(sources[i], by_low));
        }
    }
    __m256i left = _mm256_packs_epi32(join_sums(high[0], low[0]), join_sums(high[1], low[1]));
    __m256i right = _mm256_packs_epi32(join_sums(high[2], low[2]), join_sums(high[3], low[3]));
    _mm256_storeu_si256((__m256i *)out, _mm256_packus_epi16(left, right));
}

static void vertical_avx2(const struct resample_axis *axis, const uint8_t *in,
                          size_t in_stride_bytes, size_t row_bytes, uint8_t *out,
                          size_t out_stride_bytes)
{
    for (uint32_t y = 0; y < axis->count; y++, out += out_stride_bytes) {
        const uint8_t *rows = in + axis->first[y] * in_stride_bytes;
        const uint32_t *weights_high = axis->high + (size_t)y * axis->pairs;
        const uint32_t *weights_low = axis->low + (size_t)y * axis->pairs;
        for (size_t x = 0; x < row_bytes; x += 32)
            vertical_block(rows + x, in_stride_bytes, axis->input_count - axis->first[y],
                           axis->pairs, weights_high, weights_low, out + x);
    }
}

const struct resample_kernels resample_avx2 = {
    .horizontal = horizontal_avx2,
    .vertical = vertical_avx2,
};

#endif
