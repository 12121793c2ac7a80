#ifdef __x86_64__

#include <immintrin.h>

#include "image/color_kernels.h"

static inline __m256i load(const uint8_t *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

static inline void store(uint8_t *to, __m256i bytes)
{
    _mm256_storeu_si256((__m256i *)to, bytes);
}

/* Bytes of each 128-bit lane's left and right half, three times `a` and once `b`, as 16-bit sums.
 */
static inline __m256i left_sums(__m256i a, __m256i b)
{
    return _mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), _mm256_set1_epi16(0x0103));
}

static inline __m256i right_sums(__m256i a, __m256i b)
{
    return _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), _mm256_set1_epi16(0x0103));
}

/* Stores what left_sums and right_sums became, in the samples' order. */
static inline void store_halves(uint8_t *out, __m256i left, __m256i right)
{
    store(out, _mm256_permute2x128_si256(left, right, 0x20));
    store(out + sizeof(__m256i), _mm256_permute2x128_si256(left, right, 0x31));
}

/* Even and odd results side by side: both are bytes in 16 bits. */
static inline __m256i mix(__m256i even, __m256i odd)
{
    return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
}

/* Two parts of a vector's samples: (sum + bias) >> 2. */
static inline __m256i quarter(__m256i sums, int bias)
{
    return _mm256_srli_epi16(_mm256_add_epi16(sums, _mm256_set1_epi16((short)bias)), 2);
}

static void across_avx2(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i += sizeof(__m256i)) {
        __m256i here = load(in + i), before = load(in + i - 1), after = load(in + i + 1);
        __m256i left = mix(quarter(left_sums(here, before), 1), quarter(left_sums(here, after), 2));
        __m256i right =
            mix(quarter(right_sums(here, before), 1), quarter(right_sums(here, after), 2));
        store_halves(out + 2 * i, left, right);
    }
}

static void down_avx2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                      uint8_t *out)
{
    for (size_t i = 0; i < count; i += sizeof(__m256i)) {
        __m256i a = load(near + i), b = load(far + i);
        __m256i left = quarter(left_sums(a, b), (int)bias),
                right = quarter(right_sums(a, b), (int)bias);
        store(out + i, _mm256_packus_epi16(left, right));
    }
}

/* The second dimension: sums of 3 to 1 of sums. */
static inline __m256i sixteenth(__m256i here, __m256i beside, __m256i bias)
{
    __m256i sum = _mm256_add_epi16(_mm256_add_epi16(here, here), _mm256_add_epi16(here, beside));
    return _mm256_srli_epi16(_mm256_add_epi16(sum, bias), 4);
}

static void both_avx2(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    const __m256i seven = _mm256_set1_epi16(7), eight = _mm256_set1_epi16(8);
    for (size_t i = 0; i < count; i += sizeof(__m256i)) {
        __m256i near_here = load(near + i), far_here = load(far + i);
        __m256i near_before = load(near + i - 1), far_before = load(far + i - 1);
        __m256i near_after = load(near + i + 1), far_after = load(far + i + 1);
        __m256i here = left_sums(near_here, far_here);
        __m256i left = mix(sixteenth(here, left_sums(near_before, far_before), eight),
                           sixteenth(here, left_sums(near_after, far_after), seven));
        here = right_sums(near_here, far_here);
        __m256i right = mix(sixteenth(here, right_sums(near_before, far_before), eight),
                            sixteenth(here, right_sums(near_after, far_after), seven));
        store_halves(out + 2 * i, left, right);
    }
}

/* Samples of half a vector in 16 bits to colours. */
static inline __attribute__((always_inline)) void convert(__m256i y, __m256i cb, __m256i cr,
                                                          __m256i rgb[3])
{
    const __m256i middle = _mm256_set1_epi16(128), bias = _mm256_set1_epi32(GREEN_BIAS);
    const __m256i by =
        _mm256_set1_epi32((int)((uint32_t)GREEN_REST << 16 | (GREEN_BY_CB & 0xffff)));
    __m256i green_left =
        _mm256_add_epi32(bias, _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), by));
    __m256i green_right =
        _mm256_add_epi32(bias, _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), by));
    __m256i green =
        _mm256_packs_epi32(_mm256_srai_epi32(green_left, 16), _mm256_srai_epi32(green_right, 16));
    cb = _mm256_sub_epi16(cb, middle);
    cr = _mm256_sub_epi16(cr, middle);
    __m256i red = _mm256_add_epi16(cr, _mm256_mulhrs_epi16(cr, _mm256_set1_epi16(RED_REST)));
    __m256i blue = _mm256_add_epi16(cb, _mm256_mulhrs_epi16(cb, _mm256_set1_epi16(BLUE_REST)));
    rgb[0] = _mm256_add_epi16(y, red);
    rgb[1] = _mm256_add_epi16(y, _mm256_sub_epi16(green, cr));
    rgb[2] = _mm256_add_epi16(y, blue);
}

static void to_rgb_avx2(const uint8_t *const ycc[3], uint32_t count, uint8_t *const rgb[3])
{
    const __m256i zero = _mm256_setzero_si256();
    for (size_t i = 0; i < count; i += sizeof(__m256i)) {
        __m256i y = load(ycc[0] + i), cb = load(ycc[1] + i), cr = load(ycc[2] + i), left[3],
                right[3];
        convert(_mm256_unpacklo_epi8(y, zero), _mm256_unpacklo_epi8(cb, zero),
                _mm256_unpacklo_epi8(cr, zero), left);
        convert(_mm256_unpackhi_epi8(y, zero), _mm256_unpackhi_epi8(cb, zero),
                _mm256_unpackhi_epi8(cr, zero), right);
        for (int c = 0; c < 3; c++)
            store(rgb[c] + i, _mm256_packus_epi16(left[c], right[c]));
    }
}

/* Sixteen pixels of interleaved bytes fill three vectors. For each of those: the places of its red,
 * green and blue bytes in a channel's sixteen. */
static const int8_t interleaved_places[3][3][16] = {
    {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
     {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
     {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
    {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
     {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
     {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
    {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
     {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
     {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}},
};

/* For each channel: the places of its bytes in the three vectors. */
static const int8_t split_places[3][3][16] = {
    {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
    {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
    {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}},
};

static inline __m128i load_half(const void *from)
{
    return _mm_loadu_si128(from);
}

/* Sixteen bytes of three vectors. */
static inline __m128i mix_three(__m128i a, __m128i b, __m128i c, const int8_t places[3][16])
{
    __m128i mixed = _mm_or_si128(_mm_shuffle_epi8(a, load_half(places[0])),
                                 _mm_shuffle_epi8(b, load_half(places[1])));
    return _mm_or_si128(mixed, _mm_shuffle_epi8(c, load_half(places[2])));
}

static void interleave_avx2(const uint8_t *const rgb[3], uint32_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i += 16) {
        __m128i red = load_half(rgb[0] + i), green = load_half(rgb[1] + i);
        __m128i blue = load_half(rgb[2] + i);
        for (size_t k = 0; k < 3; k++)
            _mm_storeu_si128((__m128i *)(out + 3 * i + 16 * k),
                             mix_three(red, green, blue, interleaved_places[k]));
    }
}

static void split_avx2(const uint8_t *in, uint32_t count, uint8_t *const rgb[3])
{
    for (size_t i = 0; i < count; i += 16) {
        __m128i a = load_half(in + 3 * i), b = load_half(in + 3 * i + 16);
        __m128i c = load_half(in + 3 * i + 32);
        for (size_t k = 0; k < 3; k++)
            _mm_storeu_si128((__m128i *)(rgb[k] + i), mix_three(a, b, c, split_places[k]));
    }
}

const struct color_kernels color_avx2 = {
    .across = across_avx2,
    .down = down_avx2,
    .both = both_avx2,
    .to_rgb = to_rgb_avx2,
    .interleave = interleave_avx2,
    .split = split_avx2,
};

#endif
