#include "image/idct.h"

#include <stdlib.h>

#include "image/idct_kernels.h"

const struct idct_kernels *idct_kernels_for(enum cpu_level level)
{
#ifdef __x86_64__
    if (level >= CPU_AVX512)
        return &idct_avx512;
    if (level >= CPU_AVX2)
        return &idct_avx2;
#endif
    (void)level;
    return &idct_plain;
}

/* --- Extreme coefficients ------------------------------------------------------------------------
 */

/* A basis function of one dimension is at most √2 · cos(π/16) < 1.39 (DC: 1), so that a sum S of
 * magnitudes bounds what the first pass gives by 5.56 S, and a sample by .242 S. Below this sum
 * nothing can overflow: samples stay within ±512, where libjpeg's clamping table ends. */
#define SAFE_SUM 2000

static bool is_int16(int64_t value)
{
    return value >= INT16_MIN && value <= INT16_MAX;
}

/* One dimension in exact arithmetic: whether 16-bit sums and results hold. */
static bool transform_fits(int64_t *values, size_t step, int bits)
{
    int64_t in[8];
    for (size_t i = 0; i < 8; i++)
        in[i] = values[i * step];
    int64_t sum = in[0] + in[4], difference = in[0] - in[4];
    int64_t s3 = in[7] + in[3], s4 = in[5] + in[1];
    if (!is_int16(sum) || !is_int16(difference) || !is_int16(s3) || !is_int16(s4))
        return false;
    int64_t even2 = in[2] * C0_541 + in[6] * (C0_541 - C1_847);
    int64_t even3 = in[2] * (C0_541 + C0_765) + in[6] * C0_541;
    sum *= 1 << IDCT_BITS;
    difference *= 1 << IDCT_BITS;
    int64_t even[4] = {sum + even3, difference + even2, difference - even2, sum - even3};
    int64_t odd3 = s3 * (C1_175 - C1_961) + s4 * C1_175;
    int64_t odd4 = s3 * C1_175 + s4 * (C1_175 - C0_390);
    int64_t odd[4] = {
        in[7] * -C0_899 + in[1] * (C1_501 - C0_899) + odd4,
        in[5] * -C2_562 + in[3] * (C3_072 - C2_562) + odd3,
        in[5] * (C2_053 - C2_562) + in[3] * -C2_562 + odd4,
        in[7] * (C0_298 - C0_899) + in[1] * -C0_899 + odd3,
    };
    int64_t half = (int64_t)1 << (bits - 1);
    for (size_t i = 0; i < 4; i++) {
        int64_t first = (even[i] + odd[i] + half) >> bits;
        int64_t second = (even[i] - odd[i] + half) >> bits;
        if (!is_int16(first) || !is_int16(second))
            return false;
        values[i * step] = first;
        values[(7 - i) * step] = second;
    }
    return true;
}

static bool block_fits_exactly(const int16_t *zigzag, const int32_t *quantisers)
{
    int64_t values[64];
    for (size_t k = 0; k < 64; k++) {
        values[zigzag_to_natural[k]] = (int64_t)zigzag[k] * quantisers[k];
        if (!is_int16(values[zigzag_to_natural[k]]))
            return false;
    }
    for (size_t x = 0; x < 8; x++)
        if (!transform_fits(values + x, 8, IDCT_COLUMN_SHIFT))
            return false;
    for (size_t y = 0; y < 8; y++)
        if (!transform_fits(values + 8 * y, 1, IDCT_ROW_SHIFT))
            return false;
    for (size_t i = 0; i < 64; i++)
        if (values[i] < -512 || values[i] > 511)
            return false;
    return true;
}

/* Quantisers that fit into 8 bits: 64 products of 16 bits by 8 add up within 32, and 16-bit numbers
 * are what SIMD multiplies and adds fastest. */
struct fit_table {
    int32_t quantisers[64];
    int16_t narrow[64];
    bool is_narrow;
};

static struct fit_table fit_table_make(const struct frame_component *component)
{
    struct fit_table table = {.is_narrow = true};
    for (size_t k = 0; k < 64; k++) {
        table.quantisers[k] = component->quantisers[zigzag_to_natural[k]];
        table.narrow[k] = (int16_t)table.quantisers[k];
        table.is_narrow = table.is_narrow && table.quantisers[k] <= UINT8_MAX;
    }
    return table;
}

static bool block_fits(const int16_t *zigzag, const struct fit_table *table)
{
    int32_t sum = 0;
    for (size_t k = 0; k < 64; k++) {
        int16_t value = zigzag[k], sign = value >> 15;
        int16_t magnitude = (int16_t)((value ^ sign) - sign);
        magnitude ^= magnitude >> 15; /* -32768 has none: 32767 */
        sum += magnitude * table->narrow[k];
    }
    return (table->is_narrow && sum <= SAFE_SUM) || block_fits_exactly(zigzag, table->quantisers);
}

bool coefficients_fit_idct(const struct coefficients *coefficients)
{
    const struct frame *frame = &coefficients->frame;
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        struct fit_table table = fit_table_make(component);
        size_t count = (size_t)component->blocks_wide * component->blocks_high;
        for (size_t i = 0; i < count; i++)
            if (!block_fits(coefficients->blocks[c][i], &table))
                return false;
    }
    return true;
}
