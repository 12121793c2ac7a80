#include "image/resample_kernels.h"

static uint8_t to_byte(int32_t sum)
{
    int32_t value = (sum + (1 << (RESAMPLE_BITS - 1))) >> RESAMPLE_BITS;
    return value > 255 ? 255 : (uint8_t)value;
}

static void horizontal_plain(const struct resample_axis *axis, const void *table, const uint8_t *in,
                             size_t in_stride_bytes, uint32_t rows, uint8_t *out,
                             size_t out_stride_bytes)
{
    (void)table;
    uint32_t taps = 2 * axis->pairs;
    for (uint32_t y = 0; y < rows; y++, in += in_stride_bytes, out += out_stride_bytes) {
        for (uint32_t x = 0; x < axis->count; x++) {
            const uint8_t *pixels = in + (size_t)axis->first[x] * 3;
            const int32_t *weights = axis->weights + (size_t)x * taps;
            int32_t sums[3] = {0};
            for (uint32_t k = 0; k < taps; k++)
                for (int c = 0; c < 3; c++)
                    sums[c] += weights[k] * pixels[3 * k + c];
            for (int c = 0; c < 3; c++)
                out[3 * (size_t)x + c] = to_byte(sums[c]);
        }
    }
}

static void vertical_plain(const struct resample_axis *axis, const uint8_t *in,
                           size_t in_stride_bytes, size_t row_bytes, uint8_t *out,
                           size_t out_stride_bytes)
{
    uint32_t taps = 2 * axis->pairs;
    for (uint32_t y = 0; y < axis->count; y++, out += out_stride_bytes) {
        const uint8_t *rows = in + axis->first[y] * in_stride_bytes;
        const int32_t *weights = axis->weights + (size_t)y * taps;
        for (size_t i = 0; i < row_bytes; i++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < taps; k++)
                sum += weights[k] ? weights[k] * rows[k * in_stride_bytes + i] : 0;
            out[i] = to_byte(sum);
        }
    }
}

const struct resample_kernels resample_plain = {
    .horizontal = horizontal_plain,
    .vertical = vertical_plain,
};
