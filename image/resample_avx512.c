#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#include "image/resample_kernels.h"

/* Five output pixels fill 15 of a vector's 16 lanes. */
#define GROUP 5

/* One pair of neighbours for each of a group's pixels: which bytes of the 64 at `offset` go to
 * which lane, and both halves of their weights (resample_avx2.c). */
struct group_pair {
    uint8_t bytes[64];
    uint32_t high[16], low[16];
};

/* The table starts with this; the pairs follow on the next cache line. */
struct table_head {
    bool fits; /* a group's pairs lie within 64 bytes: not when shrinking more than about five times
                */
};

static const struct group_pair *table_pairs(const void *table)
{
    return (const void *)(((uintptr_t)table + sizeof(struct table_head) + 63) & ~(uintptr_t)63);
}

static uint32_t group_count(const struct resample_axis *axis)
{
    return (axis->count + GROUP - 1) / GROUP;
}

static size_t table_bytes_avx512(const struct resample_axis *axis)
{
    return sizeof(struct table_head) + 63 +
           (size_t)group_count(axis) * axis->pairs * sizeof(struct group_pair);
}

/* The output in a lane's place of a group; the last one again where there are no more. */
static uint32_t group_output(const struct resample_axis *axis, uint32_t group, uint32_t place)
{
    uint32_t output = group * GROUP + place;
    return output < axis->count ? output : axis->count - 1;
}

static void make_table_avx512(const struct resample_axis *axis, void *table)
{
    struct table_head *head = table;
    struct group_pair *pair = (struct group_pair *)table_pairs(table);
    head->fits = false;
    for (uint32_t group = 0; group < group_count(axis); group++) {
        uint32_t first = axis->first[group * GROUP];
        if (3 * (axis->first[group_output(axis, group, GROUP - 1)] - first) + 6 > 64)
            return;
        for (uint32_t j = 0; j < axis->pairs; j++, pair++) {
            memset(pair, 0, sizeof *pair);
            for (uint32_t place = 0; place < GROUP; place++) {
                size_t output = group_output(axis, group, place);
                uint32_t offset = 3 * (axis->first[output] - first);
                for (uint32_t lane = 3 * place; lane < 3 * place + 3; lane++, offset++) {
                    pair->bytes[4 * lane] = (uint8_t)offset;
                    pair->bytes[4 * lane + 2] = (uint8_t)(offset + 3);
                    pair->high[lane] = axis->high[output * axis->pairs + j];
                    pair->low[lane] = axis->low[output * axis->pairs + j];
                }
            }
        }
    }
    head->fits = true;
}

static inline __m512i join_sums(__m512i high, __m512i low)
{
    __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high, RESAMPLE_LOW_BITS), low);
    return _mm512_srai_epi32(sum, RESAMPLE_BITS);
}

static inline __m512i half_unit(void)
{
    return _mm512_set1_epi32(1 << (RESAMPLE_BITS - 1));
}

/* A group of `rows` rows. */
static inline __attribute__((always_inline)) void group_pixels(const struct group_pair *pair,
                                                               uint32_t pairs, const uint8_t *in,
                                                               size_t in_stride_bytes,
                                                               const int rows, uint8_t *out,
                                                               size_t out_stride_bytes)
{
    const __mmask64 even_bytes = 0x5555555555555555;
    __m512i high[4], low[4];
    for (int r = 0; r < rows; r++) {
        high[r] = _mm512_setzero_si512();
        low[r] = half_unit();
    }
    for (uint32_t j = 0; j < pairs; j++, in += 6) {
        __m512i bytes = _mm512_load_si512(pair[j].bytes);
        __m512i weights_high = _mm512_load_si512(pair[j].high);
        __m512i weights_low = _mm512_load_si512(pair[j].low);
        for (int r = 0; r < rows; r++) {
            __m512i source = _mm512_loadu_si512(in + (size_t)r * in_stride_bytes);
            __m512i pixels = _mm512_maskz_permutexvar_epi8(even_bytes, bytes, source);
            high[r] = _mm512_add_epi32(high[r], _mm512_madd_epi16(pixels, weights_high));
            low[r] = _mm512_add_epi32(low[r], _mm512_madd_epi16(pixels, weights_low));
        }
    }
    for (int r = 0; r < rows; r++) {
        __m128i bytes = _mm512_cvtusepi32_epi8(join_sums(high[r], low[r]));
        _mm_storeu_si128((__m128i *)(out + (size_t)r * out_stride_bytes), bytes);
    }
}

static void horizontal_avx512(const struct resample_axis *axis, const void *table,
                              const uint8_t *in, size_t in_stride_bytes, uint32_t rows,
                              uint8_t *out, size_t out_stride_bytes)
{
    const struct table_head *head = table;
    if (!head->fits) {
        resample_avx2.horizontal(axis, NULL, in, in_stride_bytes, rows, out, out_stride_bytes);
        return;
    }
    for (uint32_t taken; rows > 0;
         rows -= taken, in += taken * in_stride_bytes, out += taken * out_stride_bytes) {
        const struct group_pair *pair = table_pairs(table);
        taken = rows >= 4 ? 4 : 1;
        for (uint32_t group = 0; group < group_count(axis); group++, pair += axis->pairs) {
            const uint8_t *source = in + (size_t)axis->first[group * GROUP] * 3;
            uint8_t *target = out + (size_t)group * GROUP * 3;
            if (taken == 4)
                group_pixels(pair, axis->pairs, source, in_stride_bytes, 4, target,
                             out_stride_bytes);
            else
                group_pixels(pair, axis->pairs, source, in_stride_bytes, 1, target,
                             out_stride_bytes);
        }
    }
}

/* 64 bytes of one output row. */
static inline void vertical_block(const uint8_t *in, size_t in_stride_bytes, uint32_t rows,
                                  uint32_t pairs, const uint32_t *weights_high,
                                  const uint32_t *weights_low, uint8_t *out)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i high[4], low[4];
    for (int i = 0; i < 4; i++) {
        high[i] = zero;
        low[i] = half_unit();
    }
    for (uint32_t j = 0; j < pairs; j++) {
        const uint8_t *even = in + 2 * (size_t)j * in_stride_bytes;
        const uint8_t *odd = 2 * j + 1 < rows ? even + in_stride_bytes : even;
        __m512i a = _mm512_loadu_si512(even), b = _mm512_loadu_si512(odd);
        __m512i left = _mm512_unpacklo_epi8(a, b), right = _mm512_unpackhi_epi8(a, b);
        __m512i sources[4] = {
            _mm512_unpacklo_epi8(left, zero),
            _mm512_unpackhi_epi8(left, zero),
            _mm512_unpacklo_epi8(right, zero),
            _mm512_unpackhi_epi8(right, zero),
        };
        __m512i by_high = _mm512_set1_epi32((int)weights_high[j]);
        __m512i by_low = _mm512_set1_epi32((int)weights_low[j]);
        for (int i = 0; i < 4; i++) {
            high[i] = _mm512_add_epi32(high[i], _mm512_madd_epi16(sources[i], by_high));
            low[i] = _mm512_add_epi32(low[i], _mm512_madd_epi16(sources[i], by_low));
        }
    }
    __m512i left = _mm512_packs_epi32(join_sums(high[0], low[0]), join_sums(high[1], low[1]));
    __m512i right = _mm512_packs_epi32(join_sums(high[2], low[2]), join_sums(high[3], low[3]));
    _mm512_storeu_si512(out, _mm512_packus_epi16(left, right));
}

static void vertical_avx512(const struct resample_axis *axis, const uint8_t *in,
                            size_t in_stride_bytes, size_t row_bytes, uint8_t *out,
                            size_t out_stride_bytes)
{
    for (uint32_t y = 0; y < axis->count; y++, out += out_stride_bytes) {
        const uint8_t *rows = in + axis->first[y] * in_stride_bytes;
        const uint32_t *weights_high = axis->high + (size_t)y * axis->pairs;
        const uint32_t *weights_low = axis->low + (size_t)y * axis->pairs;
        for (size_t x = 0; x < row_bytes; x += 64)
            vertical_block(rows + x, in_stride_bytes, axis->input_count - axis->first[y],
                           axis->pairs, weights_high, weights_low, out + x);
    }
}

const struct resample_kernels resample_avx512 = {
    .horizontal = horizontal_avx512,
    .vertical = vertical_avx512,
    .table_bytes = table_bytes_avx512,
    .make_table = make_table_avx512,
};

#endif
