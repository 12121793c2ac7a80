#ifdef __x86_64__

#include "image/color_simd.h"

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
        __m512i red = vec_load(rgb[0] + i), green = vec_load(rgb[1] + i),
                blue = vec_load(rgb[2] + i);
        for (size_t k = 0; k < 192 && 3 * i + k < 3 * (size_t)count; k += 64) {
            __m512i mixed = _mm512_permutex2var_epi8(red, vec_load(red_green + k), green);
            vec_store(out + 3 * i + k,
                      _mm512_permutex2var_epi8(mixed, vec_load(and_blue + k), blue));
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
        __m512i a = vec_load(pixels), b = bytes > 64 ? vec_load(pixels + 64) : a;
        __m512i last = bytes > 128 ? vec_load(pixels + 128) : a;
        for (size_t c = 0; c < 3; c++) {
            __m512i mixed = _mm512_permutex2var_epi8(a, vec_load(of_two[c]), b);
            vec_store(rgb[c] + i, _mm512_permutex2var_epi8(mixed, vec_load(of_third[c]), last));
        }
    }
}

const struct color_kernels color_avx512 = {
    .across = across_simd,
    .down = down_simd,
    .both = both_simd,
    .to_rgb = to_rgb_simd,
    .interleave = interleave_avx512,
    .split = split_avx512,
};

#endif
