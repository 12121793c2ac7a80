#include <string.h>

#include "image/tensor_kernels.h"

static bool is_exact_plain(const struct tensor_map *map)
{
    (void)map;
    return true;
}

static void mirror_plain(const uint8_t *pixels, size_t count, uint8_t *out)
{
    for (size_t x = 0; x < count; x++)
        memcpy(out + 3 * x, pixels + 3 * (count - 1 - x), 3);
}

/* Writes channel c of each pixel to out[x * step]. */
static void write_channel(const struct tensor_map *map, int c, const uint8_t *pixels, size_t count,
                          void *out, size_t offset, size_t step)
{
    pixels += c;
    switch (map->type) {
    case TENSOR_U8:
        for (size_t x = 0; x < count; x++)
            ((uint8_t *)out)[offset + x * step] = pixels[3 * x];
        break;
    case TENSOR_F32:
        for (size_t x = 0; x < count; x++)
            ((float *)out)[offset + x * step] = map->single[c][pixels[3 * x]];
        break;
    case TENSOR_BF16:
    case TENSOR_F16:
        for (size_t x = 0; x < count; x++)
            ((uint16_t *)out)[offset + x * step] = map->half[c][pixels[3 * x]];
        break;
    }
}

static void interleaved_plain(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                              void *out)
{
    for (int c = 0; c < 3; c++)
        write_channel(map, c, pixels, count, out, (size_t)c, 3);
}

static void planar_plain(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                         void *out, size_t plane)
{
    for (int c = 0; c < 3; c++)
        write_channel(map, c, pixels, count, out, (size_t)c * plane, 1);
}

const struct tensor_kernels tensor_plain = {
    .is_exact = is_exact_plain,
    .mirror = mirror_plain,
    .interleaved = interleaved_plain,
    .planar = planar_plain,
};
