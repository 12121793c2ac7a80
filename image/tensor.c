#include "image/tensor.h"

#include <string.h>

#include "base/memory.h"
#include "image/color.h"
#include "image/tensor_kernels.h"

#define CHUNK_PIXELS ((size_t)256) /* mirrored at a time */

const struct tensor_format tensor_format_imagenet = {
    .type = TENSOR_F32,
    .layout = TENSOR_NHWC,
    .mean = {0.485f, 0.456f, 0.406f},
    .std = {0.229f, 0.224f, 0.225f},
};

size_t tensor_type_bytes(enum tensor_type type)
{
    static const size_t bytes[] = {
        [TENSOR_U8] = 1, [TENSOR_F32] = 4, [TENSOR_BF16] = 2, [TENSOR_F16] = 2};
    return bytes[type];
}

const char *tensor_type_name(enum tensor_type type)
{
    static const char *const names[] = {
        [TENSOR_U8] = "u8", [TENSOR_F32] = "f32", [TENSOR_BF16] = "bf16", [TENSOR_F16] = "fp16"};
    return names[type];
}

size_t tensor_image_bytes(const struct tensor_format *format, uint32_t height, uint32_t width)
{
    return (size_t)height * width * 3 * tensor_type_bytes(format->type);
}

/* `bytes` is a constant where this is inlined, so that the copies are moves. */
static inline void row_mirror(size_t bytes, uint32_t width, const uint8_t *in, uint8_t *out)
{
    for (uint32_t x = 0; x < width; x++)
        memcpy(out + (width - 1 - x) * bytes, in + x * bytes, bytes);
}

void tensor_mirror(const struct tensor_format *format, uint32_t height, uint32_t width,
                   uint32_t count, const void *in, void *out)
{
    const bool pixels = format->layout == TENSOR_NHWC; /* else rows of one channel */
    const size_t bytes = tensor_type_bytes(format->type) * (pixels ? 3 : 1);
    const size_t rows = (size_t)count * height * (pixels ? 1 : 3);
    for (size_t i = 0; i < rows; i++) {
        const uint8_t *from = (const uint8_t *)in + i * width * bytes;
        uint8_t *to = (uint8_t *)out + i * width * bytes;
        switch (bytes) {
        case 1:
            row_mirror(1, width, from, to);
            break;
        case 2:
            row_mirror(2, width, from, to);
            break;
        case 3:
            row_mirror(3, width, from, to);
            break;
        case 4:
            row_mirror(4, width, from, to);
            break;
        case 6:
            row_mirror(6, width, from, to);
            break;
        default:
            row_mirror(12, width, from, to);
        }
    }
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Nearest, half to even, of a finite number. */
static uint16_t to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Nearest, half to even, of a finite number; beyond f16's range infinite. */
static uint16_t to_f16(float value)
{
    uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) { /* below 2^-14: a subnormal, in units of 2^-24 */
        float scaled;
        memcpy(&scaled, &magnitude, sizeof scaled);
        /* The sum has its last bit at 1, so that the processor rounds; the units are in its low
         * bits. */
        return sign | (uint16_t)(bits_of(scaled * 0x1p24f + 0x1p23f) & 0x7fff);
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((rounded - 0x38000000) >> 13);
}

struct tensor_map tensor_map_make(const struct tensor_format *format)
{
    struct tensor_map map = {.type = format->type};
    if (map.type == TENSOR_U8)
        return map;
    for (int c = 0; c < 3; c++) {
        map.mean[c] = format->mean[c];
        map.std[c] = format->std[c];
        for (int v = 0; v < 256; v++)
            map.single[c][v] = ((float)v / 255 - map.mean[c]) / map.std[c];
    }
    if (map.type == TENSOR_F32)
        return map;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            map.half[c][v] =
                map.type == TENSOR_BF16 ? to_bf16(map.single[c][v]) : to_f16(map.single[c][v]);
    return map;
}

const struct tensor_kernels *tensor_kernels_for(enum cpu_level level, const struct tensor_map *map)
{
#ifdef __x86_64__
    if (level >= CPU_AVX512 && tensor_avx512.is_exact(map))
        return &tensor_avx512;
    if (level >= CPU_AVX2 && tensor_avx2.is_exact(map))
        return &tensor_avx2;
#endif
    (void)level;
    (void)map;
    return &tensor_plain;
}

void tensor_write(const struct tensor_format *format, const struct picture *picture, bool flip,
                  void *out)
{
    struct tensor_map map = tensor_map_make(format);
    const struct tensor_kernels *kernels = tensor_kernels_for(cpu_level(), &map);
    size_t plane = (size_t)picture->height * picture->width;
    size_t element_bytes = tensor_type_bytes(format->type);
    uint8_t mirrored[3 * CHUNK_PIXELS + PICTURE_PADDING];

    for (size_t y = 0; y < picture->height; y++) {
        const uint8_t *row = picture->pixels + y * picture->stride_bytes;
        for (size_t x = 0, count; x < picture->width; x += count) {
            count = picture->width - x < CHUNK_PIXELS ? picture->width - x : CHUNK_PIXELS;
            const uint8_t *pixels = row + 3 * x;
            if (flip) {
                kernels->mirror(row + 3 * (picture->width - x - count), count, mirrored);
                pixels = mirrored;
            }
            size_t first = y * picture->width + x;
            if (format->layout == TENSOR_NHWC)
                kernels->interleaved(&map, pixels, count,
                                     (uint8_t *)out + 3 * first * element_bytes);
            else
                kernels->planar(&map, pixels, count, (uint8_t *)out + first * element_bytes, plane);
        }
    }
    if (kernels->finish)
        kernels->finish();
}

/* --- Rows of planes ------------------------------------------------------------------------------
 */

struct tensor_writer {
    struct tensor_format format;
    struct tensor_map map; /* of the format */
    const struct tensor_kernels *kernels;
    const struct color_kernels *colors;
    uint32_t width;
    size_t plane_bytes;
    uint8_t *out;
};

struct status tensor_writer_open(struct tensor_writer **ret_writer)
{
    struct tensor_writer *writer;
    TRY(memory_alloc(1, sizeof *writer, &writer));
    writer->colors = color_kernels_for(cpu_level());
    *ret_writer = writer;
    return OK;
}

void tensor_writer_close(struct tensor_writer *writer)
{
    memory_free(writer);
}

static bool same_format(const struct tensor_format *a, const struct tensor_format *b)
{
    return a->type == b->type && a->layout == b->layout &&
           memcmp(a->mean, b->mean, sizeof a->mean) == 0 &&
           memcmp(a->std, b->std, sizeof a->std) == 0;
}

void tensor_writer_start(struct tensor_writer *writer, const struct tensor_format *format,
                         uint32_t height, uint32_t width, void *out)
{
    if (!writer->kernels || !same_format(format, &writer->format)) {
        writer->format = *format;
        writer->map = tensor_map_make(format);
        writer->kernels = tensor_kernels_for(cpu_level(), &writer->map);
    }
    writer->width = width;
    writer->plane_bytes = (size_t)height * width * tensor_type_bytes(format->type);
    writer->out = out;
}

static void write_interleaved(struct tensor_writer *writer, const uint8_t *const rgb[3],
                              uint8_t *out)
{
    uint8_t pixels[3 * CHUNK_PIXELS + COLOR_PADDING];
    size_t pixel_bytes = 3 * tensor_type_bytes(writer->format.type);
    for (size_t x = 0, count; x < writer->width; x += count) {
        count = writer->width - x < CHUNK_PIXELS ? writer->width - x : CHUNK_PIXELS;
        const uint8_t *const parts[3] = {rgb[0] + x, rgb[1] + x, rgb[2] + x};
        writer->colors->interleave(parts, (uint32_t)count, pixels);
        writer->kernels->interleaved(&writer->map, pixels, count, out + x * pixel_bytes);
    }
}

void tensor_writer_row(struct tensor_writer *writer, uint32_t y, const uint8_t *const rgb[3])
{
    size_t row_bytes = (size_t)writer->width * tensor_type_bytes(writer->format.type);
    if (writer->format.layout == TENSOR_NHWC) {
        write_interleaved(writer, rgb, writer->out + 3 * row_bytes * y);
        return;
    }
    for (int c = 0; c < 3; c++)
        writer->kernels->channel(&writer->map, c, rgb[c], writer->width,
                                 writer->out + (size_t)c * writer->plane_bytes + row_bytes * y);
}

void tensor_writer_finish(struct tensor_writer *writer)
{
    if (writer->kernels->finish)
        writer->kernels->finish();
}
