#include "image/color_kernels.h"

static void across_plain(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++, in++) {
        out[2 * i] = (uint8_t)((3 * in[0] + in[-1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((3 * in[0] + in[1] + 2) >> 2);
    }
}

static void down_plain(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                       uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint8_t)((3U * near[i] + far[i] + bias) >> 2);
}

static void both_plain(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    int before = 3 * near[-1] + far[-1], here = 3 * near[0] + far[0];
    for (size_t i = 0; i < count; i++) {
        int after = 3 * near[i + 1] + far[i + 1];
        out[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + after + 7) >> 4);
        before = here;
        here = after;
    }
}

static uint8_t to_byte(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

static void to_rgb_plain(const uint8_t *const ycc[3], uint32_t count, uint8_t *const rgb[3])
{
    const int half = 1 << 15;
    for (size_t i = 0; i < count; i++) {
        int y = ycc[0][i], cb = ycc[1][i] - 128, cr = ycc[2][i] - 128;
        rgb[0][i] = to_byte(y + ((RED_BY_CR * cr + half) >> 16));
        rgb[1][i] = to_byte(y + ((GREEN_BY_CB * cb + GREEN_BY_CR * cr + half) >> 16));
        rgb[2][i] = to_byte(y + ((BLUE_BY_CB * cb + half) >> 16));
    }
}

static void interleave_plain(const uint8_t *const rgb[3], uint32_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < 3; c++)
            out[3 * i + c] = rgb[c][i];
}

static void split_plain(const uint8_t *in, uint32_t count, uint8_t *const rgb[3])
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < 3; c++)
            rgb[c][i] = in[3 * i + c];
}

const struct color_kernels color_plain = {
    .across = across_plain,
    .down = down_plain,
    .both = both_plain,
    .to_rgb = to_rgb_plain,
    .interleave = interleave_plain,
    .split = split_plain,
};
