#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#include "image/tensor_kernels.h"

/* As in tensor_avx2.c, sixteen at a time; the last ones with masked stores. */
static inline __m512 divide(__m512 a, __m512 divisor, __m512 inverse)
{
    __m512 quotient = _mm512_mul_ps(a, inverse);
    __m512 rest = _mm512_fnmadd_ps(quotient, divisor, a);
    return _mm512_fmadd_ps(rest, inverse, quotient);
}

struct normal {
    __m512 mean, std, std_inverse;
};

/* For sixteen elements of which the first is of channel `first` and each next one `step` channels
 * on. */
static struct normal normal_make(const struct tensor_map *map, int first, int step)
{
    float mean[16], std[16];
    for (int i = 0; i < 16; i++) {
        mean[i] = map->mean[(first + i * step) % 3];
        std[i] = map->std[(first + i * step) % 3];
    }
    __m512 divisor = _mm512_loadu_ps(std);
    return (struct normal){_mm512_loadu_ps(mean), divisor,
                           _mm512_div_ps(_mm512_set1_ps(1), divisor)};
}

static inline __m512 normalise(__m512i bytes, const struct normal *normal)
{
    __m512 value = _mm512_cvtepi32_ps(bytes);
    value = divide(value, _mm512_set1_ps(255), _mm512_set1_ps(1.0f / 255));
    return divide(_mm512_sub_ps(value, normal->mean), normal->std, normal->std_inverse);
}

static inline __m256i to_bf16(__m512 value)
{
    __m512i bits = _mm512_castps_si512(value);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
}

/* A batch is larger than the caches: its lines are written past them, which saves reading them
 * first. They are, where whole vectors are aligned. */
static inline bool can_stream(enum tensor_type type, const void *out)
{
    return type != TENSOR_U8 && (uintptr_t)out % (16 * tensor_type_bytes(type)) == 0;
}

static inline __attribute__((always_inline)) void stream_sixteen(const enum tensor_type type,
                                                                 __m512i bytes,
                                                                 const struct normal *normal,
                                                                 void *out, size_t offset)
{
    __m512 values = normalise(bytes, normal);
    if (type == TENSOR_F32)
        _mm512_stream_ps((float *)out + offset, values);
    else if (type == TENSOR_BF16)
        _mm256_stream_si256((__m256i *)((uint16_t *)out + offset), to_bf16(values));
    else
        _mm256_stream_si256((__m256i *)((uint16_t *)out + offset),
                            _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

/* Sixteen bytes, one in each lane, as the first `left` elements at `offset`. */
static inline __attribute__((always_inline)) void store_sixteen(const enum tensor_type type,
                                                                __m512i bytes,
                                                                const struct normal *normal,
                                                                void *out, size_t offset,
                                                                size_t left)
{
    __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1U << left) - 1);
    uint16_t *halves = (uint16_t *)out + offset;
    switch (type) {
    case TENSOR_U8:
        _mm_mask_storeu_epi8((uint8_t *)out + offset, mask, _mm512_cvtepi32_epi8(bytes));
        break;
    case TENSOR_F32:
        _mm512_mask_storeu_ps((float *)out + offset, mask, normalise(bytes, normal));
        break;
    case TENSOR_BF16:
        _mm256_mask_storeu_epi16(halves, mask, to_bf16(normalise(bytes, normal)));
        break;
    case TENSOR_F16:
        _mm256_mask_storeu_epi16(halves, mask,
                                 _mm512_cvtps_ph(normalise(bytes, normal),
                                                 _MM_FROUND_TO_NEAREST_INT));
        break;
    }
}

static bool is_exact_avx512(const struct tensor_map *map)
{
    if (map->type == TENSOR_U8)
        return true;
    const __m512i sixteen = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int c = 0; c < 3; c++) {
        struct normal normal = normal_make(map, c, 0);
        for (int v = 0; v < 256; v += 16) {
            float values[16];
            __m512i bytes = _mm512_add_epi32(_mm512_set1_epi32(v), sixteen);
            _mm512_storeu_ps(values, normalise(bytes, &normal));
            if (memcmp(values, map->single[c] + v, sizeof values) != 0)
                return false;
        }
    }
    return true;
}

static void mirror_avx512(const uint8_t *pixels, size_t count, uint8_t *out)
{
    const size_t step = 21; /* pixels in 63 bytes */
    uint8_t places[64] = {0};
    for (size_t i = 0; i < 63; i++)
        places[i] = (uint8_t)(3 * (step - 1 - i / 3) + i % 3);
    __m512i reversed = _mm512_loadu_si512(places);
    for (; count >= step; count -= step, out += 3 * step) {
        __m512i source = _mm512_loadu_si512(pixels + 3 * (count - step));
        _mm512_storeu_si512(out, _mm512_permutexvar_epi8(reversed, source));
    }
    if (count == 0)
        return;
    /* The last `count` pixels: the same places, counted from the first pixel. */
    __m512i shift = _mm512_set1_epi8((char)(3 * (step - count)));
    __m512i rest =
        _mm512_permutexvar_epi8(_mm512_sub_epi8(reversed, shift), _mm512_loadu_si512(pixels));
    _mm512_storeu_si512(out, rest);
}

static inline __attribute__((always_inline)) void interleaved_type(const enum tensor_type type,
                                                                   const struct tensor_map *map,
                                                                   const uint8_t *pixels,
                                                                   size_t count, void *out)
{
    const struct normal normals[3] = {normal_make(map, 0, 1), normal_make(map, 16, 1),
                                      normal_make(map, 32, 1)};
    size_t elements = 3 * count, first = 0;
    if (can_stream(type, out))
        for (; first + 48 <= elements; first += 48)
            for (size_t i = 0; i < 3; i++) {
                size_t at = first + 16 * i;
                __m128i bytes = _mm_loadu_si128((const __m128i *)(pixels + at));
                stream_sixteen(type, _mm512_cvtepu8_epi32(bytes), &normals[i], out, at);
            }
    for (; first < elements; first += 48)
        for (size_t i = 0; i < 3 && first + 16 * i < elements; i++) {
            size_t at = first + 16 * i;
            __m128i bytes = _mm_loadu_si128((const __m128i *)(pixels + at));
            store_sixteen(type, _mm512_cvtepu8_epi32(bytes), &normals[i], out, at, elements - at);
        }
}

static inline __attribute__((always_inline)) void planar_type(const enum tensor_type type,
                                                              const struct tensor_map *map,
                                                              const uint8_t *pixels, size_t count,
                                                              void *out, size_t plane)
{
    const struct normal normals[3] = {normal_make(map, 0, 0), normal_make(map, 1, 0),
                                      normal_make(map, 2, 0)};
    const __mmask64 lowest_bytes = 0x1111111111111111;
    const __m512i every_third =
        _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    for (size_t x = 0; x < count; x += 16) {
        __m512i source = _mm512_loadu_si512(pixels + 3 * x);
        for (size_t c = 0; c < 3; c++) {
            __m512i places = _mm512_add_epi32(every_third, _mm512_set1_epi32((int)c));
            __m512i bytes = _mm512_maskz_permutexvar_epi8(lowest_bytes, places, source);
            store_sixteen(type, bytes, &normals[c], out, c * plane + x, count - x);
        }
    }
}

static void interleaved_avx512(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                               void *out)
{
    switch (map->type) {
    case TENSOR_U8:
        memcpy(out, pixels, 3 * count);
        break;
    case TENSOR_F32:
        interleaved_type(TENSOR_F32, map, pixels, count, out);
        break;
    case TENSOR_BF16:
        interleaved_type(TENSOR_BF16, map, pixels, count, out);
        break;
    case TENSOR_F16:
        interleaved_type(TENSOR_F16, map, pixels, count, out);
        break;
    }
}

static void planar_avx512(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                          void *out, size_t plane)
{
    switch (map->type) {
    case TENSOR_U8:
        planar_type(TENSOR_U8, map, pixels, count, out, plane);
        break;
    case TENSOR_F32:
        planar_type(TENSOR_F32, map, pixels, count, out, plane);
        break;
    case TENSOR_BF16:
        planar_type(TENSOR_BF16, map, pixels, count, out, plane);
        break;
    case TENSOR_F16:
        planar_type(TENSOR_F16, map, pixels, count, out, plane);
        break;
    }
}

static inline __attribute__((always_inline)) void channel_type(const enum tensor_type type,
                                                               const struct tensor_map *map, int c,
                                                               const uint8_t *samples, size_t count,
                                                               void *out)
{
    const struct normal normal = normal_make(map, c, 0);
    size_t x = 0;
    if (can_stream(type, out))
        for (; x + 16 <= count; x += 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(samples + x));
            stream_sixteen(type, _mm512_cvtepu8_epi32(bytes), &normal, out, x);
        }
    for (; x < count; x += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(samples + x));
        store_sixteen(type, _mm512_cvtepu8_epi32(bytes), &normal, out, x, count - x);
    }
}

static void channel_avx512(const struct tensor_map *map, int c, const uint8_t *samples,
                           size_t count, void *out)
{
    switch (map->type) {
    case TENSOR_U8:
        memcpy(out, samples, count);
        break;
    case TENSOR_F32:
        channel_type(TENSOR_F32, map, c, samples, count, out);
        break;
    case TENSOR_BF16:
        channel_type(TENSOR_BF16, map, c, samples, count, out);
        break;
    case TENSOR_F16:
        channel_type(TENSOR_F16, map, c, samples, count, out);
        break;
    }
}

static void finish_avx512(void)
{
    _mm_sfence();
}

const struct tensor_kernels tensor_avx512 = {
    .is_exact = is_exact_avx512,
    .mirror = mirror_avx512,
    .interleaved = interleaved_avx512,
    .planar = planar_avx512,
    .channel = channel_avx512,
    .finish = finish_avx512,
};

#endif
