#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#include "image/tensor_kernels.h"

/* A quotient, correctly rounded, from the divisor's rounded inverse and one correction (Markstein,
 * 1990). The few divisors for which that fails are found by is_exact. */
static inline __m256 divide(__m256 a, __m256 divisor, __m256 inverse)
{
    __m256 quotient = _mm256_mul_ps(a, inverse);
    __m256 rest = _mm256_fnmadd_ps(quotient, divisor, a);
    return _mm256_fmadd_ps(rest, inverse, quotient);
}

struct normal {
    __m256 mean, std, std_inverse;
};

/* For eight elements of which the first is of channel `first` and each next one `step` channels on.
 */
static struct normal normal_make(const struct tensor_map *map, int first, int step)
{
    float mean[8], std[8];
    for (int i = 0; i < 8; i++) {
        mean[i] = map->mean[(first + i * step) % 3];
        std[i] = map->std[(first + i * step) % 3];
    }
    __m256 divisor = _mm256_loadu_ps(std);
    return (struct normal){_mm256_loadu_ps(mean), divisor,
                           _mm256_div_ps(_mm256_set1_ps(1), divisor)};
}

static inline __m256 normalise(__m256i bytes, const struct normal *normal)
{
    __m256 value = _mm256_cvtepi32_ps(bytes);
    value = divide(value, _mm256_set1_ps(255), _mm256_set1_ps(1.0f / 255));
    return divide(_mm256_sub_ps(value, normal->mean), normal->std, normal->std_inverse);
}

static inline __m128i to_bf16(__m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    bits = _mm256_srli_epi32(bits, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}

static inline void store_eight(enum tensor_type type, __m256 values, void *out, size_t offset)
{
    if (type == TENSOR_F32)
        _mm256_storeu_ps((float *)out + offset, values);
    else if (type == TENSOR_BF16)
        _mm_storeu_si128((__m128i *)((uint16_t *)out + offset), to_bf16(values));
    else
        _mm_storeu_si128((__m128i *)((uint16_t *)out + offset),
                         _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

static bool is_exact_avx2(const struct tensor_map *map)
{
    if (map->type == TENSOR_U8)
        return true;
    const __m256i eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int c = 0; c < 3; c++) {
        struct normal normal = normal_make(map, c, 0);
        for (int v = 0; v < 256; v += 8) {
            float values[8];
            __m256i bytes = _mm256_add_epi32(_mm256_set1_epi32(v), eight);
            _mm256_storeu_ps(values, normalise(bytes, &normal));
            if (memcmp(values, map->single[c] + v, sizeof values) != 0)
                return false;
        }
    }
    return true;
}

static void mirror_avx2(const uint8_t *pixels, size_t count, uint8_t *out)
{
    const __m128i reversed = _mm_setr_epi8(12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, -1);
    for (; count >= 5; count -= 5, out += 15) {
        __m128i five = _mm_loadu_si128((const __m128i *)(pixels + 3 * (count - 5)));
        _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(five, reversed));
    }
    tensor_plain.mirror(pixels, count, out);
}

static inline __attribute__((always_inline)) size_t interleaved_type(const enum tensor_type type,
                                                                     const struct tensor_map *map,
                                                                     const uint8_t *pixels,
                                                                     size_t count, void *out)
{
    const struct normal normals[3] = {normal_make(map, 0, 1), normal_make(map, 8, 1),
                                      normal_make(map, 16, 1)};
    size_t x = 0;
    for (; x + 8 <= count; x += 8) {
        for (size_t i = 0; i < 3; i++) {
            size_t element = 3 * x + 8 * i;
            __m128i bytes = _mm_loadl_epi64((const __m128i *)(pixels + element));
            store_eight(type, normalise(_mm256_cvtepu8_epi32(bytes), &normals[i]), out, element);
        }
    }
    return x;
}

static inline __attribute__((always_inline)) size_t planar_type(const enum tensor_type type,
                                                                const struct tensor_map *map,
                                                                const uint8_t *pixels, size_t count,
                                                                void *out, size_t plane)
{
    const struct normal normals[3] = {normal_make(map, 0, 0), normal_make(map, 1, 0),
                                      normal_make(map, 2, 0)};
    const __m256i channel = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1));
    size_t x = 0;
    for (; x + 8 <= count; x += 8) {
        for (size_t c = 0; c < 3; c++) {
            const uint8_t *first = pixels + 3 * x + c;
            __m256i bytes = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first));
            bytes =
                _mm256_inserti128_si256(bytes, _mm_loadu_si128((const __m128i *)(first + 12)), 1);
            bytes = _mm256_shuffle_epi8(bytes, channel);
            store_eight(type, normalise(bytes, &normals[c]), out, c * plane + x);
        }
    }
    return x;
}

static void interleaved_avx2(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                             void *out)
{
    size_t done = 0;
    switch (map->type) {
    case TENSOR_U8:
        memcpy(out, pixels, 3 * count);
        return;
    case TENSOR_F32:
        done = interleaved_type(TENSOR_F32, map, pixels, count, out);
        break;
    case TENSOR_BF16:
        done = interleaved_type(TENSOR_BF16, map, pixels, count, out);
        break;
    case TENSOR_F16:
        done = interleaved_type(TENSOR_F16, map, pixels, count, out);
        break;
    }
    tensor_plain.interleaved(map, pixels + 3 * done, count - done,
                             (uint8_t *)out + 3 * done * tensor_type_bytes(map->type));
}

static void planar_avx2(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                        void *out, size_t plane)
{
    size_t done = 0;
    switch (map->type) {
    case TENSOR_U8:
        break;
    case TENSOR_F32:
        done = planar_type(TENSOR_F32, map, pixels, count, out, plane);
        break;
    case TENSOR_BF16:
        done = planar_type(TENSOR_BF16, map, pixels, count, out, plane);
        break;
    case TENSOR_F16:
        done = planar_type(TENSOR_F16, map, pixels, count, out, plane);
        break;
    }
    tensor_plain.planar(map, pixels + 3 * done, count - done,
                        (uint8_t *)out + done * tensor_type_bytes(map->type), plane);
}

static inline __attribute__((always_inline)) size_t channel_type(const enum tensor_type type,
                                                                 const struct tensor_map *map,
                                                                 int c, const uint8_t *samples,
                                                                 size_t count, void *out)
{
    const struct normal normal = normal_make(map, c, 0);
    size_t x = 0;
    for (; x + 8 <= count; x += 8) {
        __m128i bytes = _mm_loadl_epi64((const __m128i *)(samples + x));
        store_eight(type, normalise(_mm256_cvtepu8_epi32(bytes), &normal), out, x);
    }
    return x;
}

static void channel_avx2(const struct tensor_map *map, int c, const uint8_t *samples, size_t count,
                         void *out)
{
    size_t done = 0;
    switch (map->type) {
    case TENSOR_U8:
        break;
    case TENSOR_F32:
        done = channel_type(TENSOR_F32, map, c, samples, count, out);
        break;
    case TENSOR_BF16:
        done = channel_type(TENSOR_BF16, map, c, samples, count, out);
        break;
    case TENSOR_F16:
        done = channel_type(TENSOR_F16, map, c, samples, count, out);
        break;
    }
    tensor_plain.channel(map, c, samples + done, count - done,
                         (uint8_t *)out + done * tensor_type_bytes(map->type));
}

const struct tensor_kernels tensor_avx2 = {
    .is_exact = is_exact_avx2,
    .mirror = mirror_avx2,
    .interleaved = interleaved_avx2,
    .planar = planar_avx2,
    .channel = channel_avx2,
};

#endif
