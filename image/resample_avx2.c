#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#include "image/resample_kernels.h"

#define GROUP 8     /* outputs of a vector */
#define HALF 4      /* outputs of a lane, in which bytes can be moved */
#define LOW_BITS 11 /* of a weight's lower half */

/* Two weights of each output of a group: which of its half's 16 bytes they take, and the weights'
 * upper and lower halves. A weight has 23 bits, a multiply-add of pairs takes 15: the halves are
 * summed apart and joined at the end, which is exact. A weight of 7 bits is its lower half alone.
 */
struct group_pair {
    uint8_t bytes[4 * GROUP];
    int16_t high[2 * GROUP], low[2 * GROUP];
};

/* The same where a half's inputs lie further apart than a lane: shrinking more than four times. */
struct far_pair {
    uint32_t offsets[GROUP];
    int16_t high[2 * GROUP], low[2 * GROUP];
};

struct across_table {
    struct far_pair *far; /* NULL if the inputs are near each other */
    struct group_pair *near;
    uint32_t *offsets; /* of each half, near */
};

/* Two weights of an output row. */
struct row_pair {
    int16_t high[2], low[2];
};

static uint32_t group_count(const struct resample_axis *axis)
{
    return (axis->count + GROUP - 1) / GROUP;
}

static size_t offsets_bytes(const struct resample_axis *axis)
{
    return (group_count(axis) * 2 * sizeof(uint32_t) + 63) / 64 * 64;
}

static size_t table_bytes_avx2(const struct resample_axis *axis, enum resample_pass pass)
{
    if (pass == RESAMPLE_DOWN)
        return (size_t)axis->count * axis->pairs * sizeof(struct row_pair);
    return 64 + offsets_bytes(axis) +
           (size_t)group_count(axis) * axis->pairs * sizeof(struct group_pair);
}

static void set_halves(const struct resample_axis *axis, uint32_t output, uint32_t pair,
                       int16_t *high, int16_t *low)
{
    const int32_t *weights = axis->weights + 2 * ((size_t)output * axis->pairs + pair);
    for (int k = 0; k < 2; k++) {
        high[k] = (int16_t)(weights[k] >> LOW_BITS);
        low[k] = (int16_t)(weights[k] & ((1 << LOW_BITS) - 1));
    }
}

/* The output in a lane's place of a group; the last one again where there are no more. */
static uint32_t group_output(const struct resample_axis *axis, uint32_t group, uint32_t lane)
{
    uint32_t output = group * GROUP + lane;
    return output < axis->count ? output : axis->count - 1;
}

/* Sets a half's offset; whether its outputs' pairs lie within 16 bytes. */
static bool set_offset(const struct resample_axis *axis, uint32_t half, uint32_t *offset)
{
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t lane = 0; lane < HALF; lane++) {
        uint32_t first = axis->first[group_output(axis, 0, half * HALF + lane)];
        low = first < low ? first : low;
        high = first > high ? first : high;
    }
    *offset = low;
    return high - low + 2 <= 16;
}

static void make_pair(const struct resample_axis *axis, struct across_table *table, uint32_t group,
                      uint32_t pair)
{
    size_t at = (size_t)group * axis->pairs + pair;
    for (uint32_t lane = 0; lane < GROUP; lane++) {
        uint32_t output = group_output(axis, group, lane), first = axis->first[output];
        if (table->far) {
            struct far_pair *far = &table->far[at];
            far->offsets[lane] = first + 2 * pair;
            set_halves(axis, output, pair, far->high + 2 * lane, far->low + 2 * lane);
            continue;
        }
        struct group_pair *near = &table->near[at];
        uint8_t place = (uint8_t)(first - table->offsets[2 * group + lane / HALF]);
        const uint8_t bytes[4] = {place, 0x80, (uint8_t)(place + 1), 0x80};
        memcpy(near->bytes + 4 * lane, bytes, sizeof bytes);
        set_halves(axis, output, pair, near->high + 2 * lane, near->low + 2 * lane);
    }
}

static void make_table_avx2(const struct resample_axis *axis, enum resample_pass pass, void *table)
{
    if (pass == RESAMPLE_DOWN) {
        struct row_pair *pair = table;
        for (uint32_t output = 0; output < axis->count; output++)
            for (uint32_t j = 0; j < axis->pairs; j++, pair++)
                set_halves(axis, output, j, pair->high, pair->low);
        return;
    }
    struct across_table *across = table;
    across->offsets = (uint32_t *)((uint8_t *)table + 64);
    across->near = (void *)((uint8_t *)table + 64 + offsets_bytes(axis));
    across->far = NULL;
    for (uint32_t half = 0; half < 2 * group_count(axis); half++)
        if (!set_offset(axis, half, &across->offsets[half]))
            across->far = (struct far_pair *)across->near;
    for (uint32_t group = 0; group < group_count(axis); group++)
        for (uint32_t j = 0; j < axis->pairs; j++)
            make_pair(axis, across, group, j);
}

static inline __m256i load(const void *from)
{
    return _mm256_loadu_si256(from);
}

/* Sums of products with both halves of weights. */
struct sums {
    __m256i high, low;
};

static inline __attribute__((always_inline)) struct sums sums_make(const uint32_t bits)
{
    return (struct sums){_mm256_setzero_si256(), _mm256_set1_epi32(1 << (bits - 1))};
}

static inline __attribute__((always_inline)) void sums_add(const uint32_t bits, struct sums *sums,
                                                           __m256i samples, __m256i by_high,
                                                           __m256i by_low)
{
    if (bits == RESAMPLE_BITS)
        sums->high = _mm256_add_epi32(sums->high, _mm256_madd_epi16(samples, by_high));
    sums->low = _mm256_add_epi32(sums->low, _mm256_madd_epi16(samples, by_low));
}

static inline __attribute__((always_inline)) __m256i sums_join(const uint32_t bits,
                                                               const struct sums *sums)
{
    __m256i sum = sums->low;
    if (bits == RESAMPLE_BITS)
        sum = _mm256_add_epi32(sum, _mm256_slli_epi32(sums->high, LOW_BITS));
    return _mm256_srli_epi32(sum, (int)bits);
}

/* --- Across --------------------------------------------------------------------------------------
 */

static inline __m256i near_samples(const uint8_t *in, const uint32_t *offsets, uint32_t pair,
                                   const struct group_pair *near)
{
    const uint8_t *left = in + offsets[0] + 2 * (size_t)pair;
    const uint8_t *right = in + offsets[1] + 2 * (size_t)pair;
    __m256i bytes = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)left));
    bytes = _mm256_inserti128_si256(bytes, _mm_loadu_si128((const __m128i *)right), 1);
    return _mm256_shuffle_epi8(bytes, load(near->bytes));
}

static inline __m256i far_samples(const uint8_t *in, const struct far_pair *far)
{
    const __m256i spread = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));
    __m256i bytes = _mm256_i32gather_epi32((const int *)in, load(far->offsets), 1);
    return _mm256_shuffle_epi8(bytes, spread);
}

/* Joined sums of 4 rows (or of one, four times) to 8 bytes of each. */
static inline void store_rows(const __m256i joined[4], int rows, uint8_t *out,
                              size_t out_stride_bytes)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i left = _mm256_packus_epi32(joined[0], joined[1]);
    __m256i right = _mm256_packus_epi32(joined[2], joined[3]);
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(left, right), order);
    __m128i first = _mm256_castsi256_si128(bytes), second = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64((__m128i *)out, first);
    if (rows == 1)
        return;
    _mm_storel_epi64((__m128i *)(out + out_stride_bytes), _mm_srli_si128(first, 8));
    _mm_storel_epi64((__m128i *)(out + 2 * out_stride_bytes), second);
    _mm_storel_epi64((__m128i *)(out + 3 * out_stride_bytes), _mm_srli_si128(second, 8));
}

static inline __attribute__((always_inline)) void near_rows(
    const struct resample_axis *axis, const uint32_t bits, const struct across_table *table,
    const uint8_t *const *in, const int rows, uint8_t *out, size_t out_stride_bytes)
{
    const struct group_pair *pair = table->near;
    for (uint32_t group = 0; group < group_count(axis); group++, out += GROUP) {
        const uint32_t *offsets = table->offsets + 2 * (size_t)group;
        struct sums sums[4];
        __m256i joined[4] = {0};
        for (int r = 0; r < rows; r++)
            sums[r] = sums_make(bits);
        for (uint32_t j = 0; j < axis->pairs; j++, pair++) {
            __m256i by_high = load(pair->high), by_low = load(pair->low);
            for (int r = 0; r < rows; r++)
                sums_add(bits, &sums[r], near_samples(in[r], offsets, j, pair), by_high, by_low);
        }
        for (int r = 0; r < rows; r++)
            joined[r] = sums_join(bits, &sums[r]);
        store_rows(joined, rows, out, out_stride_bytes);
    }
}

static inline __attribute__((always_inline)) void far_row(const struct resample_axis *axis,
                                                          const uint32_t bits,
                                                          const struct far_pair *pair,
                                                          const uint8_t *in, uint8_t *out)
{
    for (uint32_t group = 0; group < group_count(axis); group++, out += GROUP) {
        struct sums sums = sums_make(bits);
        for (uint32_t j = 0; j < axis->pairs; j++, pair++)
            sums_add(bits, &sums, far_samples(in, pair), load(pair->high), load(pair->low));
        const __m256i joined[4] = {sums_join(bits, &sums)};
        store_rows(joined, 1, out, 0);
    }
}

static inline __attribute__((always_inline)) void across_rows(
    const struct resample_axis *axis, const uint32_t bits, const struct across_table *table,
    const uint8_t *const *in, uint32_t rows, uint8_t *out, size_t out_stride_bytes)
{
    uint32_t y = 0;
    if (table->far) {
        for (; y < rows; y++)
            far_row(axis, bits, table->far, in[y], out + y * out_stride_bytes);
        return;
    }
    for (; y + 4 <= rows; y += 4)
        near_rows(axis, bits, table, in + y, 4, out + y * out_stride_bytes, out_stride_bytes);
    for (; y < rows; y++)
        near_rows(axis, bits, table, in + y, 1, out + y * out_stride_bytes, out_stride_bytes);
}

static void across_avx2(const struct resample_axis *axis, const void *table,
                        const uint8_t *const *in, uint32_t rows, uint8_t *out,
                        size_t out_stride_bytes)
{
    if (axis->bits == RESAMPLE_BITS)
        across_rows(axis, RESAMPLE_BITS, table, in, rows, out, out_stride_bytes);
    else
        across_rows(axis, RESAMPLE_FAST_BITS, table, in, rows, out, out_stride_bytes);
}

/* --- Down ----------------------------------------------------------------------------------------
 */

static inline __m256i set_pair(const int16_t pair[2])
{
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return _mm256_set1_epi32(both);
}

/* 32 bytes of one output row; `rows` inputs are left. */
static inline __attribute__((always_inline)) void down_block(const uint32_t bits, const uint8_t *in,
                                                             size_t in_stride_bytes, uint32_t rows,
                                                             const struct row_pair *weights,
                                                             uint32_t pairs, uint8_t *out)
{
    const __m256i zero = _mm256_setzero_si256();
    struct sums sums[4];
    __m256i joined[4];
    for (int i = 0; i < 4; i++)
        sums[i] = sums_make(bits);
    for (uint32_t j = 0; j < pairs; j++) {
        const uint8_t *even = in + 2 * (size_t)j * in_stride_bytes;
        const uint8_t *odd = 2 * j + 1 < rows ? even + in_stride_bytes : even;
        __m256i a = load(even), b = load(odd);
        __m256i left = _mm256_unpacklo_epi8(a, b), right = _mm256_unpackhi_epi8(a, b);
        const __m256i sources[4] = {
            _mm256_unpacklo_epi8(left, zero),
            _mm256_unpackhi_epi8(left, zero),
            _mm256_unpacklo_epi8(right, zero),
            _mm256_unpackhi_epi8(right, zero),
        };
        __m256i by_high = set_pair(weights[j].high), by_low = set_pair(weights[j].low);
        for (int i = 0; i < 4; i++)
            sums_add(bits, &sums[i], sources[i], by_high, by_low);
    }
    for (int i = 0; i < 4; i++)
        joined[i] = sums_join(bits, &sums[i]);
    __m256i left = _mm256_packus_epi32(joined[0], joined[1]);
    __m256i right = _mm256_packus_epi32(joined[2], joined[3]);
    _mm256_storeu_si256((__m256i *)out, _mm256_packus_epi16(left, right));
}

static void down_avx2(const struct resample_axis *axis, const void *table, uint32_t output,
                      const uint8_t *in, size_t in_stride_bytes, size_t row_bytes, uint8_t *out)
{
    const struct row_pair *weights = (const struct row_pair *)table + (size_t)output * axis->pairs;
    uint32_t first = axis->first[output], left = axis->input_count - first;
    in += first * in_stride_bytes;
    for (size_t x = 0; x < row_bytes; x += 32) {
        if (axis->bits == RESAMPLE_BITS)
            down_block(RESAMPLE_BITS, in + x, in_stride_bytes, left, weights, axis->pairs, out + x);
        else
            down_block(RESAMPLE_FAST_BITS, in + x, in_stride_bytes, left, weights, axis->pairs,
                       out + x);
    }
}

const struct resample_kernels resample_avx2 = {
    .across = across_avx2,
    .down = down_avx2,
    .table_bytes = table_bytes_avx2,
    .make_table = make_table_avx2,
};

#endif
