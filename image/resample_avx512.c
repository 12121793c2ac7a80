#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#include "image/resample_kernels.h"

/* A weight of 23 bits as three signed digits of base 256, so that VNNI sums four products of bytes
 * at once. The digits' sums are joined from the top: exact, as nothing exceeds 32 bits. A weight of
 * 7 bits is its lowest digit alone. */
#define DIGITS 3
#define GROUP 16 /* outputs of a vector */
#define QUAD 4   /* weights of a lane */

/* Four weights of each output of a group: which of the 64 bytes at the group's offset they take,
 * and their digits, the lowest first. */
struct group_quad {
    uint8_t bytes[4 * GROUP];
    int8_t digits[DIGITS][4 * GROUP];
};

/* The same where a group's inputs lie further apart than a vector: shrinking more than four times.
 */
struct far_quad {
    uint32_t offsets[GROUP];
    int8_t digits[DIGITS][4 * GROUP];
};

struct across_table {
    struct far_quad *far; /* NULL if the groups' inputs are near each other */
    struct group_quad *near;
    uint32_t *offsets; /* of each group, near */
};

/* Four weights of an output row. */
struct row_quad {
    int8_t digits[DIGITS][QUAD];
};

static uint32_t group_count(const struct resample_axis *axis)
{
    return (axis->count + GROUP - 1) / GROUP;
}

static uint32_t quad_count(const struct resample_axis *axis)
{
    return (axis->pairs + 1) / 2;
}

static size_t table_bytes_avx512(const struct resample_axis *axis, enum resample_pass pass)
{
    if (pass == RESAMPLE_DOWN)
        return (size_t)axis->count * quad_count(axis) * sizeof(struct row_quad);
    size_t groups = group_count(axis), offsets = (groups * sizeof(uint32_t) + 63) / 64 * 64;
    return 64 + offsets + groups * quad_count(axis) * sizeof(struct group_quad);
}

static void set_digits(int32_t weight, int8_t *digits, size_t step)
{
    for (size_t d = 0; d < DIGITS; d++) {
        int8_t digit = (int8_t)(uint8_t)weight;
        digits[d * step] = digit;
        weight = (weight - digit) >> 8;
    }
}

static int32_t weight_of(const struct resample_axis *axis, uint32_t output, uint32_t k)
{
    return k < 2 * axis->pairs ? axis->weights[(size_t)output * 2 * axis->pairs + k] : 0;
}

/* The output in a lane's place of a group; the last one again where there are no more. */
static uint32_t group_output(const struct resample_axis *axis, uint32_t group, uint32_t lane)
{
    uint32_t output = group * GROUP + lane;
    return output < axis->count ? output : axis->count - 1;
}

static void group_range(const struct resample_axis *axis, uint32_t group, uint32_t *ret_low,
                        uint32_t *ret_high)
{
    *ret_low = UINT32_MAX;
    *ret_high = 0;
    for (uint32_t lane = 0; lane < GROUP; lane++) {
        uint32_t first = axis->first[group_output(axis, group, lane)];
        *ret_low = first < *ret_low ? first : *ret_low;
        *ret_high = first > *ret_high ? first : *ret_high;
    }
}

static void make_near(const struct resample_axis *axis, struct across_table *table)
{
    struct group_quad *quad = table->near;
    for (uint32_t group = 0; group < group_count(axis); group++)
        for (uint32_t q = 0; q < quad_count(axis); q++, quad++)
            for (uint32_t lane = 0; lane < GROUP; lane++) {
                uint32_t output = group_output(axis, group, lane);
                uint32_t offset = axis->first[output] - table->offsets[group];
                for (uint32_t k = 0; k < QUAD; k++) {
                    quad->bytes[QUAD * lane + k] = (uint8_t)(offset + k);
                    set_digits(weight_of(axis, output, QUAD * q + k),
                               &quad->digits[0][QUAD * lane + k], sizeof quad->digits[0]);
                }
            }
}

static void make_far(const struct resample_axis *axis, struct across_table *table)
{
    struct far_quad *quad = table->far;
    for (uint32_t group = 0; group < group_count(axis); group++)
        for (uint32_t q = 0; q < quad_count(axis); q++, quad++)
            for (uint32_t lane = 0; lane < GROUP; lane++) {
                uint32_t output = group_output(axis, group, lane);
                quad->offsets[lane] = axis->first[output] + QUAD * q;
                for (uint32_t k = 0; k < QUAD; k++)
                    set_digits(weight_of(axis, output, QUAD * q + k),
                               &quad->digits[0][QUAD * lane + k], sizeof quad->digits[0]);
            }
}

static void make_across(const struct resample_axis *axis, struct across_table *table)
{
    uint32_t groups = group_count(axis);
    uint8_t *memory = (uint8_t *)table + 64;
    table->offsets = (uint32_t *)memory;
    table->near = (void *)(memory + (groups * sizeof(uint32_t) + 63) / 64 * 64);
    table->far = NULL;
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t high;
        group_range(axis, group, &table->offsets[group], &high);
        if (high - table->offsets[group] + QUAD > 64)
            table->far = (struct far_quad *)table->near;
    }
    if (table->far)
        make_far(axis, table);
    else
        make_near(axis, table);
}

static void make_table_avx512(const struct resample_axis *axis, enum resample_pass pass,
                              void *table)
{
    if (pass == RESAMPLE_ACROSS) {
        make_across(axis, table);
        return;
    }
    struct row_quad *quad = table;
    for (uint32_t output = 0; output < axis->count; output++)
        for (uint32_t q = 0; q < quad_count(axis); q++, quad++)
            for (uint32_t k = 0; k < QUAD; k++)
                set_digits(weight_of(axis, output, QUAD * q + k), &quad->digits[0][k], QUAD);
}

/* --- Across --------------------------------------------------------------------------------------
 */

/* Half a unit, where the sums of the highest digit start. */
static inline __m512i half_unit(const uint32_t bits)
{
    return _mm512_set1_epi32(bits == RESAMPLE_BITS ? 1 << (RESAMPLE_BITS - 1 - 16)
                                                   : 1 << (RESAMPLE_FAST_BITS - 1));
}

/* Four products in each lane, of one quad alone: digits are joined as they are summed. */
static inline __attribute__((always_inline)) __m512i sum_quad(const uint32_t bits, __m512i samples,
                                                              const __m512i digits[DIGITS])
{
    if (bits != RESAMPLE_BITS)
        return _mm512_dpbusd_epi32(half_unit(bits), samples, digits[0]);
    __m512i sum = _mm512_dpbusd_epi32(half_unit(bits), samples, digits[2]);
    sum = _mm512_dpbusd_epi32(_mm512_slli_epi32(sum, 8), samples, digits[1]);
    return _mm512_dpbusd_epi32(_mm512_slli_epi32(sum, 8), samples, digits[0]);
}

/* Sums over several quads, for each digit. */
struct sums {
    __m512i of[DIGITS];
};

static inline __attribute__((always_inline)) struct sums sums_make(const uint32_t bits)
{
    struct sums sums = {
        .of = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()}};
    sums.of[bits == RESAMPLE_BITS ? 2 : 0] = half_unit(bits);
    return sums;
}

static inline __attribute__((always_inline)) void sums_add(const uint32_t bits, struct sums *sums,
                                                           __m512i samples,
                                                           const __m512i digits[DIGITS])
{
    for (int d = 0; d < (bits == RESAMPLE_BITS ? DIGITS : 1); d++)
        sums->of[d] = _mm512_dpbusd_epi32(sums->of[d], samples, digits[d]);
}

static inline __attribute__((always_inline)) __m512i sums_join(const uint32_t bits,
                                                               const struct sums *sums)
{
    if (bits != RESAMPLE_BITS)
        return sums->of[0];
    __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(sums->of[2], 8), sums->of[1]);
    return _mm512_add_epi32(_mm512_slli_epi32(upper, 8), sums->of[0]);
}

/* Sixteen bytes each of four sums, in each 128-bit lane four of the first, of the second … */
static inline __m512i pack_sums(const uint32_t bits, const __m512i sums[4])
{
    __m512i words[4];
    for (int i = 0; i < 4; i++)
        words[i] = _mm512_srli_epi32(sums[i], bits);
    return _mm512_packus_epi16(_mm512_packus_epi32(words[0], words[1]),
                               _mm512_packus_epi32(words[2], words[3]));
}

/* Sums of 4 rows of a group (or of one) to 16 bytes of each. */
static inline void store_rows(const uint32_t bits, const __m512i sums[4], int rows, uint8_t *out,
                              size_t out_stride_bytes)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes = _mm512_permutexvar_epi32(order, pack_sums(bits, sums));
    _mm_storeu_si128((__m128i *)out, _mm512_castsi512_si128(bytes));
    if (rows == 1)
        return;
    _mm_storeu_si128((__m128i *)(out + out_stride_bytes), _mm512_extracti32x4_epi32(bytes, 1));
    _mm_storeu_si128((__m128i *)(out + 2 * out_stride_bytes), _mm512_extracti32x4_epi32(bytes, 2));
    _mm_storeu_si128((__m128i *)(out + 3 * out_stride_bytes), _mm512_extracti32x4_epi32(bytes, 3));
}

static inline __attribute__((always_inline)) void load_digits(const int8_t from[DIGITS][4 * GROUP],
                                                              __m512i digits[DIGITS])
{
    for (int d = 0; d < DIGITS; d++)
        digits[d] = _mm512_load_si512(from[d]);
}

static inline __attribute__((always_inline)) void single_quad(
    const struct resample_axis *axis, const uint32_t bits, const struct across_table *table,
    const uint8_t *const *in, const int rows, uint8_t *out, size_t out_stride_bytes)
{
    for (uint32_t group = 0; group < group_count(axis); group++, out += GROUP) {
        __m512i bytes = _mm512_load_si512(table->near[group].bytes), digits[DIGITS], sums[4] = {0};
        load_digits(table->near[group].digits, digits);
        for (int r = 0; r < rows; r++) {
            __m512i source = _mm512_loadu_si512(in[r] + table->offsets[group]);
            sums[r] = sum_quad(bits, _mm512_permutexvar_epi8(bytes, source), digits);
        }
        store_rows(bits, sums, rows, out, out_stride_bytes);
    }
}

static inline __attribute__((always_inline)) void many_quads(
    const struct resample_axis *axis, const uint32_t bits, const struct across_table *table,
    const uint8_t *const *in, const int rows, uint8_t *out, size_t out_stride_bytes)
{
    uint32_t quads = quad_count(axis);
    for (uint32_t group = 0; group < group_count(axis); group++, out += GROUP) {
        const struct group_quad *quad = table->near + (size_t)group * quads;
        struct sums sums[4];
        for (int r = 0; r < rows; r++)
            sums[r] = sums_make(bits);
        for (uint32_t q = 0; q < quads; q++) {
            size_t offset = table->offsets[group] + QUAD * (size_t)q;
            __m512i bytes = _mm512_load_si512(quad[q].bytes), digits[DIGITS];
            load_digits(quad[q].digits, digits);
            for (int r = 0; r < rows; r++) {
                __m512i source = _mm512_loadu_si512(in[r] + offset);
                sums_add(bits, &sums[r], _mm512_permutexvar_epi8(bytes, source), digits);
            }
        }
        __m512i joined[4] = {0};
        for (int r = 0; r < rows; r++)
            joined[r] = sums_join(bits, &sums[r]);
        store_rows(bits, joined, rows, out, out_stride_bytes);
    }
}

static inline __attribute__((always_inline)) void far_quads(const struct resample_axis *axis,
                                                            const uint32_t bits,
                                                            const struct across_table *table,
                                                            const uint8_t *in, uint8_t *out)
{
    uint32_t quads = quad_count(axis);
    for (uint32_t group = 0; group < group_count(axis); group++, out += GROUP) {
        const struct far_quad *quad = table->far + (size_t)group * quads;
        struct sums sums = sums_make(bits);
        for (uint32_t q = 0; q < quads; q++) {
            __m512i offsets = _mm512_load_si512(quad[q].offsets), digits[DIGITS];
            load_digits(quad[q].digits, digits);
            sums_add(bits, &sums, _mm512_i32gather_epi32(offsets, in, 1), digits);
        }
        const __m512i joined[4] = {sums_join(bits, &sums)};
        store_rows(bits, joined, 1, out, 0);
    }
}

static inline __attribute__((always_inline)) void across_rows(
    const struct resample_axis *axis, const uint32_t bits, const struct across_table *table,
    const uint8_t *const *in, const int rows, uint8_t *out, size_t out_stride_bytes)
{
    if (table->far)
        for (int r = 0; r < rows; r++)
            far_quads(axis, bits, table, in[r], out + (size_t)r * out_stride_bytes);
    else if (quad_count(axis) > 1)
        many_quads(axis, bits, table, in, rows, out, out_stride_bytes);
    else
        single_quad(axis, bits, table, in, rows, out, out_stride_bytes);
}

static void across_avx512(const struct resample_axis *axis, const void *table,
                          const uint8_t *const *in, uint32_t rows, uint8_t *out,
                          size_t out_stride_bytes)
{
    bool exact = axis->bits == RESAMPLE_BITS;
    for (uint32_t y = 0, taken; y < rows; y += taken) {
        uint8_t *target = out + y * out_stride_bytes;
        taken = rows - y >= 4 ? 4 : 1;
        if (exact && taken == 4)
            across_rows(axis, RESAMPLE_BITS, table, in + y, 4, target, out_stride_bytes);
        else if (exact)
            across_rows(axis, RESAMPLE_BITS, table, in + y, 1, target, out_stride_bytes);
        else if (taken == 4)
            across_rows(axis, RESAMPLE_FAST_BITS, table, in + y, 4, target, out_stride_bytes);
        else
            across_rows(axis, RESAMPLE_FAST_BITS, table, in + y, 1, target, out_stride_bytes);
    }
}

/* --- Down ----------------------------------------------------------------------------------------
 */

/* 64 bytes of four rows to four vectors with a lane for each byte's four samples. */
static inline void load_quads(const uint8_t *const rows[QUAD], size_t x, __m512i quads[4])
{
    __m512i a = _mm512_loadu_si512(rows[0] + x), b = _mm512_loadu_si512(rows[1] + x);
    __m512i c = _mm512_loadu_si512(rows[2] + x), d = _mm512_loadu_si512(rows[3] + x);
    __m512i ab_left = _mm512_unpacklo_epi8(a, b), ab_right = _mm512_unpackhi_epi8(a, b);
    __m512i cd_left = _mm512_unpacklo_epi8(c, d), cd_right = _mm512_unpackhi_epi8(c, d);
    quads[0] = _mm512_unpacklo_epi16(ab_left, cd_left);
    quads[1] = _mm512_unpackhi_epi16(ab_left, cd_left);
    quads[2] = _mm512_unpacklo_epi16(ab_right, cd_right);
    quads[3] = _mm512_unpackhi_epi16(ab_right, cd_right);
}

static inline void set_digits_of(const struct row_quad *quad, __m512i digits[DIGITS])
{
    for (int d = 0; d < DIGITS; d++) {
        int32_t four;
        memcpy(&four, quad->digits[d], sizeof four);
        digits[d] = _mm512_set1_epi32(four);
    }
}

/* The rows of a quad; those past the last input have no weight and are not looked at. */
static inline void quad_rows(const struct resample_axis *axis, uint32_t first, const uint8_t *in,
                             size_t in_stride_bytes, const uint8_t *rows[QUAD])
{
    for (uint32_t k = 0; k < QUAD; k++) {
        uint32_t row = first + k < axis->input_count ? first + k : axis->input_count - 1;
        rows[k] = in + row * in_stride_bytes;
    }
}

static inline __attribute__((always_inline)) void down_single(const uint32_t bits,
                                                              const struct row_quad *quad,
                                                              const uint8_t *const rows[QUAD],
                                                              size_t row_bytes, uint8_t *out)
{
    __m512i digits[DIGITS];
    set_digits_of(quad, digits);
    for (size_t x = 0; x < row_bytes; x += 64) {
        __m512i samples[4], sums[4];
        load_quads(rows, x, samples);
        for (int i = 0; i < 4; i++)
            sums[i] = sum_quad(bits, samples[i], digits);
        _mm512_storeu_si512(out + x, pack_sums(bits, sums));
    }
}

static inline __attribute__((always_inline)) void down_many(
    const struct resample_axis *axis, const uint32_t bits, const struct row_quad *quads,
    uint32_t first, const uint8_t *in, size_t in_stride_bytes, size_t row_bytes, uint8_t *out)
{
    for (size_t x = 0; x < row_bytes; x += 64) {
        struct sums sums[4];
        for (int i = 0; i < 4; i++)
            sums[i] = sums_make(bits);
        for (uint32_t q = 0; q < quad_count(axis); q++) {
            const uint8_t *rows[QUAD];
            __m512i samples[4], digits[DIGITS];
            quad_rows(axis, first + QUAD * q, in, in_stride_bytes, rows);
            load_quads(rows, x, samples);
            set_digits_of(&quads[q], digits);
            for (int i = 0; i < 4; i++)
                sums_add(bits, &sums[i], samples[i], digits);
        }
        __m512i joined[4];
        for (int i = 0; i < 4; i++)
            joined[i] = sums_join(bits, &sums[i]);
        _mm512_storeu_si512(out + x, pack_sums(bits, joined));
    }
}

static void down_avx512(const struct resample_axis *axis, const void *table, uint32_t output,
                        const uint8_t *in, size_t in_stride_bytes, size_t row_bytes, uint8_t *out)
{
    const struct row_quad *quads =
        (const struct row_quad *)table + (size_t)output * quad_count(axis);
    uint32_t first = axis->first[output];
    const uint8_t *rows[QUAD];
    quad_rows(axis, first, in, in_stride_bytes, rows);
    bool exact = axis->bits == RESAMPLE_BITS, single = quad_count(axis) == 1;
    if (exact && single)
        down_single(RESAMPLE_BITS, quads, rows, row_bytes, out);
    else if (exact)
        down_many(axis, RESAMPLE_BITS, quads, first, in, in_stride_bytes, row_bytes, out);
    else if (single)
        down_single(RESAMPLE_FAST_BITS, quads, rows, row_bytes, out);
    else
        down_many(axis, RESAMPLE_FAST_BITS, quads, first, in, in_stride_bytes, row_bytes, out);
}

const struct resample_kernels resample_avx512 = {
    .across = across_avx512,
    .down = down_avx512,
    .table_bytes = table_bytes_avx512,
    .make_table = make_table_avx512,
};

#endif
