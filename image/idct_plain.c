#include "image/idct_kernels.h"

static int16_t wrap(int32_t value)
{
    return (int16_t)(uint16_t)value;
}

/* Modulo 2^32, as vectors add. */
static uint32_t dot(int16_t a, int by_a, int16_t b, int by_b)
{
    return (uint32_t)a * (uint32_t)by_a + (uint32_t)b * (uint32_t)by_b;
}

/* The even half of a column or row, which has `in0` and `in4` as they are; for rounding, with half
 * of what `bits` are cut off. */
static void transform_even(int16_t in0, int16_t in4, int16_t in2, int16_t in6, int bits,
                           uint32_t even[4])
{
    const int one = 1 << IDCT_BITS;
    uint32_t half = 1U << (bits - 1);
    uint32_t sum = dot(in0, one, in4, one) + half, difference = dot(in0, one, in4, -one) + half;
    uint32_t even0 = dot(in2, EVEN0_2, in6, EVEN0_6), even1 = dot(in2, EVEN1_2, in6, EVEN1_6);
    even[0] = sum + even0;
    even[1] = difference + even1;
    even[2] = difference - even1;
    even[3] = sum - even0;
}

/* One column or row: eight values `step` apart. */
static void transform(const int16_t *in, size_t step, int bits, int32_t out[8])
{
    const int16_t in0 = in[0], in1 = in[step], in2 = in[2 * step], in3 = in[3 * step];
    const int16_t in4 = in[4 * step], in5 = in[5 * step], in6 = in[6 * step], in7 = in[7 * step];
    uint32_t even[4];
    transform_even(in0, in4, in2, in6, bits, even);
    const uint32_t odd[4] = {
        dot(in1, ODD0_1, in5, ODD0_5) + dot(in3, ODD0_3, in7, ODD0_7),
        dot(in1, ODD1_1, in5, ODD1_5) + dot(in3, ODD1_3, in7, ODD1_7),
        dot(in1, ODD2_1, in5, ODD2_5) + dot(in3, ODD2_3, in7, ODD2_7),
        dot(in1, ODD3_1, in5, ODD3_5) + dot(in3, ODD3_3, in7, ODD3_7),
    };
    for (size_t i = 0; i < 4; i++) {
        out[i] = (int32_t)(even[i] + odd[i]) >> bits;
        out[7 - i] = (int32_t)(even[i] - odd[i]) >> bits;
    }
}

static uint8_t to_sample(int32_t value)
{
    return (uint8_t)((value < -128 ? -128 : value > 127 ? 127 : value) + 128);
}

static void block_plain(const int16_t block[64], const uint16_t quantisers[64], uint8_t *out,
                        size_t stride_bytes)
{
    int16_t values[64];
    int32_t results[8];
    for (size_t i = 0; i < 64; i++)
        values[i] = wrap(block[i] * quantisers[i]);
    for (size_t x = 0; x < 8; x++) {
        transform(values + x, 8, IDCT_COLUMN_SHIFT, results);
        for (size_t y = 0; y < 8; y++)
            values[8 * y + x] = wrap(results[y]);
    }
    for (size_t y = 0; y < 8; y++) {
        transform(values + 8 * y, 1, IDCT_ROW_SHIFT, results);
        for (size_t x = 0; x < 8; x++)
            out[y * stride_bytes + x] = to_sample(results[x]);
    }
}

static void full_plain(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                       uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i++)
        block_plain(blocks[i], quantisers, out + 8 * (size_t)i, stride_bytes);
}

/* --- Reduced ---
 */

/* Four values `step` apart. */
static void transform_4(const int16_t *in, size_t step, int bits, int32_t out[4])
{
    uint32_t even[4];
    transform_even(in[0], in[2 * step], in[step], in[3 * step], bits, even);
    for (size_t i = 0; i < 4; i++)
        out[i] = (int32_t)even[i] >> bits;
}

static void to_4_plain(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                       uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i++, out += 4) {
        int16_t values[16];
        int32_t results[4];
        for (size_t y = 0; y < 4; y++) {
            for (size_t x = 0; x < 4; x++)
                values[4 * y + x] = wrap(blocks[i][8 * y + x] * quantisers[8 * y + x]);
            transform_4(values + 4 * y, 1, IDCT_COLUMN_SHIFT, results);
            for (size_t x = 0; x < 4; x++)
                values[4 * y + x] = wrap(results[x]);
        }
        for (size_t x = 0; x < 4; x++) {
            transform_4(values + x, 4, IDCT_ROW_SHIFT, results);
            for (size_t y = 0; y < 4; y++)
                out[y * stride_bytes + x] = to_sample(results[y]);
        }
    }
}

/* A value's share in a sample is an eighth, with any sign. */
static uint8_t eighth(int32_t sum)
{
    return to_sample((sum + 4) >> 3);
}

void idct_to_2_plain(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                     uint8_t *out, size_t stride_bytes)
{
    for (uint32_t i = 0; i < count; i++, out += 2) {
        int32_t mean = wrap(blocks[i][0] * quantisers[0]);
        int32_t across = wrap(blocks[i][1] * quantisers[1]);
        int32_t down = wrap(blocks[i][8] * quantisers[8]);
        int32_t both = wrap(blocks[i][9] * quantisers[9]);
        out[0] = eighth(mean + across + down + both);
        out[1] = eighth(mean - across + down - both);
        out[stride_bytes] = eighth(mean + across - down - both);
        out[stride_bytes + 1] = eighth(mean - across - down + both);
    }
}

void idct_to_1_plain(const int16_t (*blocks)[64], const uint16_t quantisers[64], uint32_t count,
                     uint8_t *out, size_t stride_bytes)
{
    (void)stride_bytes;
    for (uint32_t i = 0; i < count; i++)
        out[i] = eighth(wrap(blocks[i][0] * quantisers[0]));
}

static uint32_t count_small_plain(const int16_t (*blocks)[64], const int16_t weights[64],
                                  uint32_t count, int32_t most)
{
    for (uint32_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (size_t k = 0; k < 64; k++) {
            int32_t magnitude = blocks[i][k] < 0 ? -blocks[i][k] : blocks[i][k];
            sum += (magnitude > INT16_MAX ? INT16_MAX : magnitude) * weights[k];
        }
        if (sum > most)
            return i;
    }
    return count;
}

const struct idct_kernels idct_plain = {
    .reduced = {full_plain, to_4_plain, idct_to_2_plain, idct_to_1_plain},
    .count_small = count_small_plain,
};
