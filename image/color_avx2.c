#ifdef __x86_64__

#include "image/color_simd.h"

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
    .across = across_simd,
    .down = down_simd,
    .both = both_simd,
    .to_rgb = to_rgb_simd,
    .interleave = interleave_avx2,
    .split = split_avx2,
};

#endif
