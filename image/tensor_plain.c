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

/* From pixels[x * in_step] to out[x * step]. */
static void write_channel(const struct tensor_map *map, int c, const uint8_t *pixels,
                          size_t in_step, size_t count, void *out, size_t offset, size_t step)
{
    switch (map->type) {
    case TENSOR_U8:
        for (size_t x = 0; x < count; x++)
            ((uint8_t *)out)[offset + x * step] = pixels[x * in_step];
        break;
    case TENSOR_F32:
        for (size_t x = 0; x < count; x++)
            ((float *)out)[offset + x * step] = map->single[c][pixels[x * in_step]];
        break;
    case TENSOR_BF16:
    case TENSOR_F16:
        for (size_t x = 0; x < count; x++)
            ((uint16_t *)out)[offset + x * step] = map->half[c][pixels[x * in_step]];
        break;
    }
}

static void interleaved_plain(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                              void *out)
{
    for (int c = 0; c < 3; c++)
        write_channel(map, c, pixels + c, 3, count, out, (size_t)c, 3);
}

static void planar_plain(const struct tensor_map *map, const uint8_t *pixels, size_t count,
                         void *out, size_t plane)
{
    for (int c = 0; c < 3; c++)
        write_channel(map, c, pixels + c, 3, count, out, (size_t)c * plane, 1);
}

static void channel_plain(const struct tensor_map *map, int c, const uint8_t *samples, size_t count,
                          void *out)
{
    write_channel(map, c, samples, 1, count, out, 0, 1);
}

const struct tensor_kernels tensor_plain = {
    .is_exact = is_exact_plain,
    .mirror = mirror_plain,
    .interleaved = interleaved_plain,
    .planar = planar_plain,
    .channel = channel_plain,
};
