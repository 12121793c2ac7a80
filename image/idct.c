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
#ifdef __aarch64__
    if (level >= CPU_NEON)
        return &idct_neon;
#endif
    (void)level;
    return &idct_plain;
}

/* --- Extreme coefficients ------------------------------------------------------------------------
 */

/* The largest values of the basis functions of one dimension, in hundredths, rounded up: 1 for DC
 * and 4, √2 · cos(π/8) for 2 and 6, √2 · cos(π/16) for the others. An eighth of the product of two
 * is the most that a coefficient adds to a sample. */
static const int32_t largest[8] = {100, 139, 131, 139, 100, 139, 131, 139};
static const int32_t largest_product = 139 * 139;

/* A sum S of magnitudes, each weighted by its function's largest value over the largest of all,
 * bounds a sample by .242 S. What the first pass gives is bounded by 5.56 times the plain sum,
 * which is below 2 S. So below this S nothing can overflow: samples stay within ±512, where
 * libjpeg's clamping table ends. */
#define SAFE_SUM 2000
#define WEIGHT_UNITS 4 /* of a weight of 1 */

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

/* Quantisers that fit into 8 bits have weights whose products with 16-bit numbers add up within
 * 32 bits. */
struct fit_table {
    int32_t quantisers[64];
    int16_t weights[64];
    bool is_narrow;
};

static struct fit_table fit_table_make(const struct frame_component *component)
{
    struct fit_table table = {.is_narrow = true};
    for (size_t k = 0; k < 64; k++) {
        unsigned place = zigzag_to_natural[k];
        int32_t quantiser = component->quantisers[place];
        int64_t weight =
            (int64_t)quantiser * WEIGHT_UNITS * largest[place / 8] * largest[place % 8];
        table.quantisers[k] = quantiser;
        table.is_narrow = table.is_narrow && quantiser <= UINT8_MAX;
        table.weights[k] = (int16_t)((weight + largest_product - 1) / largest_product);
    }
    return table;
}

static bool blocks_fit(const struct idct_kernels *kernels, const int16_t (*blocks)[64],
                       uint32_t count, const struct fit_table *table)
{
    for (uint32_t i = 0; i < count; i++) {
        if (table->is_narrow)
            i += kernels->count_small(blocks + i, table->weights, count - i,
                                      SAFE_SUM * WEIGHT_UNITS);
        if (i < count && !block_fits_exactly(blocks[i], table->quantisers))
            return false;
    }
    return true;
}

bool coefficients_fit_idct(const struct coefficients *coefficients)
{
    const struct frame *frame = &coefficients->frame;
    const struct idct_kernels *kernels = idct_kernels_for(cpu_level());
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        struct fit_table table = fit_table_make(component);
        for (uint32_t row = 0; row < component->blocks_high; row++) {
            const int16_t(*blocks)[64] = (const int16_t(*)[64])coefficients->blocks[c] +
                                         (size_t)row * component->blocks_wide;
            if (!blocks_fit(kernels, blocks, component->blocks_wide, &table))
                return false;
        }
    }
    return true;
}
