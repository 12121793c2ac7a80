#include <string.h>

#include "image/idct_kernels.h"

/* Sums modulo 2^16 and 2^32, as vectors add. */
static int16_t wrap(int value)
{
    return (int16_t)(uint16_t)value;
}

static uint32_t dot(int16_t a, int by_a, int16_t b, int by_b)
{
    return (uint32_t)a * (uint32_t)by_a + (uint32_t)b * (uint32_t)by_b;
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

static int16_t scale_down(uint32_t sum, int bits)
{
    int32_t rounded = (int32_t)(sum + (1U << (bits - 1)));
    return (int16_t)clamp(rounded >> bits, INT16_MIN, INT16_MAX);
}

/* One column or row: eight values `step` apart, in place. */
static void transform(int16_t *values, size_t step, int bits)
{
    int16_t in[8];
    for (size_t i = 0; i < 8; i++)
        in[i] = values[i * step];

    uint32_t sum = (uint32_t)wrap(in[0] + in[4]) << IDCT_BITS;
    uint32_t difference = (uint32_t)wrap(in[0] - in[4]) << IDCT_BITS;
    uint32_t even2 = dot(in[2], C0_541, in[6], C0_541 - C1_847);
    uint32_t even3 = dot(in[2], C0_541 + C0_765, in[6], C0_541);
    uint32_t even[4] = {sum + even3, difference + even2, difference - even2, sum - even3};

    int16_t s3 = wrap(in[7] + in[3]), s4 = wrap(in[5] + in[1]);
    uint32_t odd3 = dot(s3, C1_175 - C1_961, s4, C1_175);
    uint32_t odd4 = dot(s3, C1_175, s4, C1_175 - C0_390);
    uint32_t odd[4] = {
        dot(in[7], -C0_899, in[1], C1_501 - C0_899) + odd4,
        dot(in[5], -C2_562, in[3], C3_072 - C2_562) + odd3,
        dot(in[5], C2_053 - C2_562, in[3], -C2_562) + odd4,
        dot(in[7], C0_298 - C0_899, in[1], -C0_899) + odd3,
    };
    for (size_t i = 0; i < 4; i++) {
        values[i * step] = scale_down(even[i] + odd[i], bits);
        values[(7 - i) * step] = scale_down(even[i] - odd[i], bits);
    }
}

static void block_plain(const int16_t block[64], const uint16_t quantisers[64], uint8_t *out,
                        size_t stride_bytes)
{
    int16_t values[64];
    for (size_t i = 0; i < 64; i++)
        values[i] = wrap(block[i] * quantisers[i]);
    for (size_t x = 0; x < 8; x++)
        transform(values + x, 8, IDCT_COLUMN_SHIFT);
    for (size_t y = 0; y < 8; y++)
        transform(values + 8 * y, 1, IDCT_ROW_SHIFT);
    for (size_t y = 0; y < 8; y++)
        for (size_t x = 0; x < 8; x++)
            out[y * stride_bytes + x] = (uint8_t)(clamp(values[8 * y + x], -128, 127) + 128);
}

static void full_plain(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                       uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i++)
        block_plain(blocks[i], quantisers, out + 8 * (size_t)i, stride_bytes);
}

const struct idct_kernels idct_plain = {.full = full_plain};
