#ifndef HEADRACE_IMAGE_SIMD_H
#define HEADRACE_IMAGE_SIMD_H

/* Private to image/color_simd.h and idct_simd.h: a vector of integers of the instruction set that
 * the including file is compiled for (AVX-512 or AVX2), so that what both do alike is written once.
 * Nothing for others. */

#include <stdint.h>

#ifdef __AVX2__

#include <immintrin.h>

#define SIMD static inline __attribute__((always_inline))

#ifdef __AVX512F__

#define VEC(operation) _mm512_##operation
#define VEC_INT __m512i

SIMD VEC_INT vec_load(const uint8_t *from)
{
    return _mm512_loadu_si512(from);
}

SIMD void vec_store(uint8_t *to, VEC_INT bytes)
{
    _mm512_storeu_si512(to, bytes);
}

SIMD VEC_INT vec_zero(void)
{
    return _mm512_setzero_si512();
}

SIMD VEC_INT vec_or(VEC_INT a, VEC_INT b)
{
    return _mm512_or_si512(a, b);
}

/* `sum` and the products of neighbouring 16-bit numbers, added up in pairs. */
SIMD VEC_INT vec_add_dot(VEC_INT sum, VEC_INT a, VEC_INT b)
{
    return _mm512_dpwssd_epi32(sum, a, b);
}

/* Stores two vectors that unpacklo and unpackhi have made, in the order before. */
SIMD void vec_store_halves(uint8_t *to, VEC_INT low, VEC_INT high)
{
    const VEC_INT first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const VEC_INT second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    vec_store(to, _mm512_permutex2var_epi64(low, first, high));
    vec_store(to + sizeof(VEC_INT), _mm512_permutex2var_epi64(low, second, high));
}

#else

#define VEC(operation) _mm256_##operation
#define VEC_INT __m256i

SIMD VEC_INT vec_load(const uint8_t *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

SIMD void vec_store(uint8_t *to, VEC_INT bytes)
{
    _mm256_storeu_si256((__m256i *)to, bytes);
}

SIMD VEC_INT vec_zero(void)
{
    return _mm256_setzero_si256();
}

SIMD VEC_INT vec_or(VEC_INT a, VEC_INT b)
{
    return _mm256_or_si256(a, b);
}

SIMD VEC_INT vec_add_dot(VEC_INT sum, VEC_INT a, VEC_INT b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

SIMD void vec_store_halves(uint8_t *to, VEC_INT low, VEC_INT high)
{
    vec_store(to, _mm256_permute2x128_si256(low, high, 0x20));
    vec_store(to + sizeof(VEC_INT), _mm256_permute2x128_si256(low, high, 0x31));
}

#endif
#endif
#endif
