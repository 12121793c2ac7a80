#include "image/resample_kernels.h"

static uint8_t to_byte(int32_t sum, uint32_t bits)
{
    return (uint8_t)((sum + (1 << (bits - 1))) >> bits);
}

static void across_plain(const struct resample_axis *axis, const void *table,
                         const uint8_t *const *in, uint32_t rows, uint8_t *out,
                         size_t out_stride_bytes)
{
    (void)table;
    uint32_t taps = 2 * axis->pairs;
    for (uint32_t y = 0; y < rows; y++, out += out_stride_bytes) {
        for (uint32_t x = 0; x < axis->count; x++) {
            const uint8_t *samples = in[y] + axis->first[x];
            const int32_t *weights = axis->weights + (size_t)x * taps;
            int32_t sum = 0;
            for (uint32_t k = 0; k < taps; k++)
                sum += weights[k] * samples[k];
            out[x] = to_byte(sum, axis->bits);
        }
    }
}

static void down_plain(const struct resample_axis *axis, const void *table, uint32_t output,
                       const uint8_t *in, size_t in_stride_bytes, size_t row_bytes, uint8_t *out)
{
    (void)table;
    uint32_t taps = 2 * axis->pairs;
    const uint8_t *rows = in + axis->first[output] * in_stride_bytes;
    const int32_t *weights = axis->weights + (size_t)output * taps;
    for (size_t i = 0; i < row_bytes; i++) {
        int32_t sum = 0;
        for (uint32_t k = 0; k < taps; k++)
            sum += weights[k] ? weights[k] * rows[k * in_stride_bytes + i] : 0;
        out[i] = to_byte(sum, axis->bits);
    }
}

const struct resample_kernels resample_plain = {
    .across = across_plain,
    .down = down_plain,
};
