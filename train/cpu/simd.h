#ifndef HEADRACE_TRAIN_CPU_SIMD_H
#define HEADRACE_TRAIN_CPU_SIMD_H

/* A vector of VEC_LANES floats, of the instruction set that the including file is compiled for
 * (AVX-512 or AVX2), and a set of its lanes. Nothing for others. `bf16` says what an array of
 * elements holds; it is a constant wherever these are used. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __AVX2__

#include <immintrin.h>

#define SIMD static inline __attribute__((always_inline))

#ifdef __AVX512F__

#define VEC_LANES 16
#define VEC(operation) _mm512_##operation
#define VEC_FLOAT __m512
#define VEC_SET __mmask16

SIMD VEC_FLOAT vec_widen_bf16(const uint16_t *p)
{
    __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}

SIMD void vec_narrow_bf16(uint16_t *p, VEC_FLOAT v)
{
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(v));
}

SIMD VEC_FLOAT vec_widen_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

SIMD void vec_narrow_u8(uint8_t *p, VEC_FLOAT v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

/* Lanes where a > b; where a = b. */
SIMD VEC_SET vec_greater(VEC_FLOAT a, VEC_FLOAT b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

SIMD VEC_SET vec_equal(VEC_FLOAT a, VEC_FLOAT b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

/* One bit a lane. */
SIMD VEC_SET set_load(const uint8_t *bits)
{
    VEC_SET set;
    __builtin_memcpy(&set, bits, sizeof set);
    return set;
}

SIMD void set_store(uint8_t *bits, VEC_SET set)
{
    __builtin_memcpy(bits, &set, sizeof set);
}

/* v in the lanes of the set, 0 elsewhere; if_set in its lanes, otherwise elsewhere. */
SIMD VEC_FLOAT vec_keep(VEC_SET set, VEC_FLOAT v)
{
    return _mm512_maskz_mov_ps(set, v);
}

SIMD VEC_FLOAT vec_choose(VEC_SET set, VEC_FLOAT if_set, VEC_FLOAT otherwise)
{
    return _mm512_mask_mov_ps(otherwise, set, if_set);
}

#else

#define VEC_LANES 8
#define VEC(operation) _mm256_##operation
#define VEC_FLOAT __m256
#define VEC_SET __m256

SIMD VEC_FLOAT vec_widen_bf16(const uint16_t *p)
{
    __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}

/* The lower halves of eight 32-bit words. */
SIMD __m128i vec_pack_u16(__m256i words)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

SIMD void vec_narrow_bf16(uint16_t *p, VEC_FLOAT v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    _mm_storeu_si128((__m128i *)p, vec_pack_u16(_mm256_blendv_epi8(rounded, quiet, is_nan)));
}

SIMD VEC_FLOAT vec_widen_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

SIMD void vec_narrow_u8(uint8_t *p, VEC_FLOAT v)
{
    __m128i words = vec_pack_u16(_mm256_cvtps_epi32(v));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

SIMD VEC_SET vec_greater(VEC_FLOAT a, VEC_FLOAT b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

SIMD VEC_SET vec_equal(VEC_FLOAT a, VEC_FLOAT b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

SIMD VEC_SET set_load(const uint8_t *bits)
{
    const __m256i lane_bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32(*bits), lane_bits);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane_bits));
}

SIMD void set_store(uint8_t *bits, VEC_SET set)
{
    *bits = (uint8_t)_mm256_movemask_ps(set);
}

SIMD VEC_FLOAT vec_keep(VEC_SET set, VEC_FLOAT v)
{
    return _mm256_and_ps(set, v);
}

SIMD VEC_FLOAT vec_choose(VEC_SET set, VEC_FLOAT if_set, VEC_FLOAT otherwise)
{
    return _mm256_blendv_ps(otherwise, if_set, set);
}

#endif

SIMD VEC_FLOAT vec_zero(void)
{
    return VEC(setzero_ps)();
}

SIMD VEC_FLOAT vec_same(float value)
{
    return VEC(set1_ps)(value);
}

SIMD VEC_FLOAT vec_load(const float *p)
{
    return VEC(loadu_ps)(p);
}

SIMD void vec_store(float *p, VEC_FLOAT v)
{
    VEC(storeu_ps)(p, v);
}

/* Elements i … of an array of f32 or bf16. */
SIMD VEC_FLOAT vec_load_element(const void *array, size_t i, bool bf16)
{
    return bf16 ? vec_widen_bf16((const uint16_t *)array + i) : vec_load((const float *)array + i);
}

SIMD void vec_store_element(void *array, size_t i, VEC_FLOAT v, bool bf16)
{
    if (bf16)
        vec_narrow_bf16((uint16_t *)array + i, v);
    else
        vec_store((float *)array + i, v);
}

SIMD VEC_FLOAT vec_add(VEC_FLOAT a, VEC_FLOAT b)
{
    return VEC(add_ps)(a, b);
}

SIMD VEC_FLOAT vec_subtract(VEC_FLOAT a, VEC_FLOAT b)
{
    return VEC(sub_ps)(a, b);
}

SIMD VEC_FLOAT vec_multiply(VEC_FLOAT a, VEC_FLOAT b)
{
    return VEC(mul_ps)(a, b);
}

/* a·b + c. */
SIMD VEC_FLOAT vec_multiply_add(VEC_FLOAT a, VEC_FLOAT b, VEC_FLOAT c)
{
    return VEC(fmadd_ps)(a, b, c);
}

/* 0 where v is negative; a NaN stays one. */
SIMD VEC_FLOAT vec_relu(VEC_FLOAT v)
{
    return VEC(max_ps)(vec_zero(), v);
}

#endif
#endif
