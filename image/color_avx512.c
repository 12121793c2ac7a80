#ifdef __x86_64__

#include <immintrin.h>

#include "image/color_kernels.h"

static inline __m512i load(const uint8_t *from)
{
    return _mm512_loadu_si512(from);
}

static inline void store(uint8_t *to, __m512i bytes)
{
    _mm512_storeu_si512(to, bytes);
}

/* Bytes of each 128-bit lane's left and right half, three times `a` and once `b`, as 16-bit sums.
 */
static inline __m512i left_sums(__m512i a, __m512i b)
{
    return _mm512_maddubs_epi16(_mm512_unpacklo_epi8(a, b), _mm512_set1_epi16(0x0103));
}

static inline __m512i right_sums(__m512i a, __m512i b)
{
    return _mm512_maddubs_epi16(_mm512_unpackhi_epi8(a, b), _mm512_set1_epi16(0x0103));
}

/* Stores what left_sums and right_sums became, in the samples' order. */
static inline void store_halves(uint8_t *out, __m512i left, __m512i right)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    store(out, _mm512_permutex2var_epi64(left, first, right));
    store(out + sizeof(__m512i), _mm512_permutex2var_epi64(left, second, right));
}

/* Even and odd results side by side: both are bytes in 16 bits. */
static inline __m512i mix(__m512i even, __m512i odd)
{
    return _mm512_or_si512(even, _mm512_slli_epi16(odd, 8));
}

/* Two parts of a vector's samples: (sum + bias) >> 2. */
static inline __m512i quarter(__m512i sums, int bias)
{
    return _mm512_srli_epi16(_mm512_add_epi16(sums, _mm512_set1_epi16((short)bias)), 2);
}

static void across_avx512(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i += sizeof(__m512i)) {
        __m512i here = load(in + i), before = load(in + i - 1), after = load(in + i + 1);
        __m512i left = mix(quarter(left_sums(here, before), 1), quarter(left_sums(here, after), 2));
        __m512i right =
            mix(quarter(right_sums(here, before), 1), quarter(right_sums(here, after), 2));
        store_halves(out + 2 * i, left, right);
    }
}

static void down_avx512(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                        uint8_t *out)
{
    for (size_t i = 0; i < count; i += sizeof(__m512i)) {
        __m512i a = load(near + i), b = load(far + i);
        __m512i left = quarter(left_sums(a, b), (int)bias),
                right = quarter(right_sums(a, b), (int)bias);
        store(out + i, _mm512_packus_epi16(left, right));
    }
}

/* The second dimension: sums of 3 to 1 of sums. */
static inline __m512i sixteenth(__m512i here, __m512i beside, __m512i bias)
{
    __m512i sum = _mm512_add_epi16(_mm512_add_epi16(here, here), _mm512_add_epi16(here, beside));
    return _mm512_srli_epi16(_mm512_add_epi16(sum, bias), 4);
}

static void both_avx512(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    const __m512i seven = _mm512_set1_epi16(7), eight = _mm512_set1_epi16(8);
    for (size_t i = 0; i < count; i += sizeof(__m512i)) {
        __m512i near_here = load(near + i), far_here = load(far + i);
        __m512i near_before = load(near + i - 1), far_before = load(far + i - 1);
        __m512i near_after = load(near + i + 1), far_after = load(far + i + 1);
        __m512i here = left_sums(near_here, far_here);
        __m512i left = mix(sixteenth(here, left_sums(near_before, far_before), eight),
                           sixteenth(here, left_sums(near_after, far_after), seven));
        here = right_sums(near_here, far_here);
        __m512i right = mix(sixteenth(here, right_sums(near_before, far_before), eight),
                            sixteenth(here, right_sums(near_after, far_after), seven));
        store_halves(out + 2 * i, left, right);
    }
}

/* Samples of half a vector in 16 bits to colours. */
static inline __attribute__((always_inline)) void convert(__m512i y, __m512i cb, __m512i cr,
                                                          __m512i rgb[3])
{
    const __m512i middle = _mm512_set1_epi16(128), bias = _mm512_set1_epi32(GREEN_BIAS);
    const __m512i by =
        _mm512_set1_epi32((int)((uint32_t)GREEN_REST << 16 | (GREEN_BY_CB & 0xffff)));
    __m512i green_left = _mm512_dpwssd_epi32(bias, _mm512_unpacklo_epi16(cb, cr), by);
    __m512i green_right = _mm512_dpwssd_epi32(bias, _mm512_unpackhi_epi16(cb, cr), by);
    __m512i green =
        _mm512_packs_epi32(_mm512_srai_epi32(green_left, 16), _mm512_srai_epi32(green_right, 16));
    cb = _mm512_sub_epi16(cb, middle);
    cr = _mm512_sub_epi16(cr, middle);
    __m512i red = _mm512_add_epi16(cr, _mm512_mulhrs_epi16(cr, _mm512_set1_epi16(RED_REST)));
    __m512i blue = _mm512_add_epi16(cb, _mm512_mulhrs_epi16(cb, _mm512_set1_epi16(BLUE_REST)));
    rgb[0] = _mm512_add_epi16(y, red);
    rgb[1] = _mm512_add_epi16(y, _mm512_sub_epi16(green, cr));
    rgb[2] = _mm512_add_epi16(y, blue);
}

static void to_rgb_avx512(const uint8_t *const ycc[3], uint32_t count, uint8_t *const rgb[3])
{
    const __m512i zero = _mm512_setzero_si512();
    for (size_t i = 0; i < count; i += sizeof(__m512i)) {
        __m512i y = load(ycc[0] + i), cb = load(ycc[1] + i), cr = load(ycc[2] + i), left[3],
                right[3];
        convert(_mm512_unpacklo_epi8(y, zero), _mm512_unpacklo_epi8(cb, zero),
                _mm512_unpacklo_epi8(cr, zero), left);
        convert(_mm512_unpackhi_epi8(y, zero), _mm512_unpackhi_epi8(cb, zero),
                _mm512_unpackhi_epi8(cr, zero), right);
        for (int c = 0; c < 3; c++)
            store(rgb[c] + i, _mm512_packus_epi16(left[c], right[c]));
    }
}

/* 64 pixels of interleaved bytes fill three vectors. Each byte is picked from two vectors (0 … 63,
 * 64 … 127) by one table, then from that and the third by another. */
#define FOUR(of, i) of(i), of((i) + 1), of((i) + 2), of((i) + 3)
#define SIXTEEN(of, i) FOUR(of, i), FOUR(of, (i) + 4), FOUR(of, (i) + 8), FOUR(of, (i) + 12)
#define SIXTY_FOUR(of) SIXTEEN(of, 0), SIXTEEN(of, 16), SIXTEEN(of, 32), SIXTEEN(of, 48)

/* Pixel i: red, green and nothing; then what stands there and blue. */
#define RED_GREEN(i) (i), 64 + (i), 0
#define AND_BLUE(i) 3 * (i) % 64, (3 * (i) + 1) % 64, 64 + (i)
static const uint8_t red_green[192] = {SIXTY_FOUR(RED_GREEN)};
static const uint8_t and_blue[192] = {SIXTY_FOUR(AND_BLUE)};

static void interleave_avx512(const uint8_t *const rgb[3], uint32_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i += 64) {
        __m512i red = load(rgb[0] + i), green = load(rgb[1] + i), blue = load(rgb[2] + i);
        for (size_t k = 0; k < 192 && 3 * i + k < 3 * (size_t)count; k += 64) {
            __m512i mixed = _mm512_permutex2var_epi8(red, load(red_green + k), green);
            store(out + 3 * i + k, _mm512_permutex2var_epi8(mixed, load(and_blue + k), blue));
        }
    }
}

/* Channel c of pixel i from the first two vectors, or nothing; then what stands there, or the
 * third. */
#define OF_TWO(place) ((place) < 128 ? (place) : 0)
#define OF_THIRD(i, place) ((place) < 128 ? (i) : (place)-64)
#define RED_OF_TWO(i) OF_TWO(3 * (i))
#define GREEN_OF_TWO(i) OF_TWO(3 * (i) + 1)
#define BLUE_OF_TWO(i) OF_TWO(3 * (i) + 2)
#define RED_OF_THIRD(i) OF_THIRD(i, 3 * (i))
#define GREEN_OF_THIRD(i) OF_THIRD(i, 3 * (i) + 1)
#define BLUE_OF_THIRD(i) OF_THIRD(i, 3 * (i) + 2)
static const uint8_t of_two[3][64] = {{SIXTY_FOUR(RED_OF_TWO)},
                                      {SIXTY_FOUR(GREEN_OF_TWO)},
                                      {SIXTY_FOUR(BLUE_OF_TWO)}};
static const uint8_t of_third[3][64] = {{SIXTY_FOUR(RED_OF_THIRD)},
                                        {SIXTY_FOUR(GREEN_OF_THIRD)},
                                        {SIXTY_FOUR(BLUE_OF_THIRD)}};

static void split_avx512(const uint8_t *in, uint32_t count, uint8_t *const rgb[3])
{
    for (size_t i = 0; i < count; i += 64) {
        const uint8_t *pixels = in + 3 * i;
        size_t bytes = 3 * ((size_t)count - i);
        __m512i a = load(pixels), b = bytes > 64 ? load(pixels + 64) : a;
        __m512i last = bytes > 128 ? load(pixels + 128) : a;
        for (size_t c = 0; c < 3; c++) {
            __m512i mixed = _mm512_permutex2var_epi8(a, load(of_two[c]), b);
            store(rgb[c] + i, _mm512_permutex2var_epi8(mixed, load(of_third[c]), last));
        }
    }
}

const struct color_kernels color_avx512 = {
    .across = across_avx512,
    .down = down_avx512,
    .both = both_avx512,
    .to_rgb = to_rgb_avx512,
    .interleave = interleave_avx512,
    .split = split_avx512,
};

#endif
