/* Tensors against torchvision (tests/oracle/pillow_golden.py), and each variant against the plain
 * one. */

#include "tests/test.h"

#include "base/crc32c.h"
#include "base/random.h"
#include "image/tensor.h"
#include "image/tensor_kernels.h"
#include "tests/support/golden.h"

static const enum tensor_type types[] = {TENSOR_U8, TENSOR_F32, TENSOR_BF16, TENSOR_F16};

static enum tensor_type type_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        if (strcmp(name, tensor_type_name(types[i])) == 0)
            return types[i];
    fail_msg("no type is named %s", name);
    return TENSOR_U8;
}

static void values_are_torchvisions(void **state)
{
    (void)state;
    CLEANUP(golden_done) struct golden golden = {0};
    CLEANUP(picture_done) struct picture picture = {0};
    assert_ok(picture_resize(&picture, 37, 14));
    for (uint32_t y = 0; y < 14; y++)
        for (uint32_t x = 0; x < 3 * 37; x++)
            picture.pixels[y * picture.stride_bytes + x] = (uint8_t)(5 * (y * 3 * 37 + x));

    assert_ok(golden_open("torchvision_tensor.txt", &golden));
    while (golden_line(&golden)) {
        struct tensor_format format = {.type = type_named(golden_word(&golden))};
        format.layout = strcmp(golden_word(&golden), "nchw") == 0 ? TENSOR_NCHW : TENSOR_NHWC;
        bool flip = golden_number(&golden);
        for (int c = 0; c < 3; c++)
            format.mean[c] = (float)golden_real(&golden);
        for (int c = 0; c < 3; c++)
            format.std[c] = (float)golden_real(&golden);
        uint8_t out[37 * 14 * 3 * 4];
        size_t bytes = tensor_image_bytes(&format, 14, 37);
        assert_true(bytes <= sizeof out);
        tensor_write(&format, &picture, flip, out);
        assert_int_equal(crc32c_update(0, out, bytes), golden_hex(&golden));
        assert_false(golden.failed);
    }
}

static void bytes_stay_bytes(void **state)
{
    (void)state;
    CLEANUP(picture_done) struct picture picture = {0};
    uint8_t out[2 * 300 * 3];
    assert_ok(picture_from_seed(0, 300, 2, &picture));
    struct tensor_format format = {.type = TENSOR_U8, .layout = TENSOR_NCHW};
    for (int flip = 0; flip < 2; flip++) {
        tensor_write(&format, &picture, flip, out);
        for (size_t y = 0; y < 2; y++)
            for (size_t x = 0; x < 300; x++)
                for (size_t c = 0; c < 3; c++)
                    assert_int_equal(
                        out[c * 600 + y * 300 + x],
                        picture.pixels[y * picture.stride_bytes + 3 * (flip ? 299 - x : x) + c]);
    }
}

/* Both halves of each format on values that round, underflow and overflow. */
static void halves_round_to_even(void **state)
{
    (void)state;
    static const struct {
        float mean, std; /* byte 0 becomes −mean / std */
        uint16_t bf16, f16;
    } cases[] = {
        {-1, 1, 0x3f80, 0x3c00},
        {-0x1.01p0f, 1, 0x3f80, 0x3c04},  /* bf16: a tie, to even */
        {-0x1.03p0f, 1, 0x3f82, 0x3c0c},  /* bf16: a tie, up to even */
        {-0x1.002p0f, 1, 0x3f80, 0x3c00}, /* f16: a tie, to even */
        {-0x1.006p0f, 1, 0x3f80, 0x3c02}, /* f16: a tie, up to even */
        {-65504, 1, 0x4780, 0x7bff},      /* the greatest f16 */
        {-65519, 1, 0x4780, 0x7bff},
        {65520, 1, 0xc780, 0xfc00},         /* rounds to infinity */
        {-0x1p-14f, 1, 0x3880, 0x0400},     /* the smallest normal f16 */
        {0x1p-24f, 1, 0xb380, 0x8001},      /* the smallest subnormal */
        {-0x1p-25f, 1, 0x3300, 0x0000},     /* half of it: a tie, to zero */
        {-0x1.8p-24f, 1, 0x33c0, 0x0002},   /* a tie, up to even */
        {-0x1.ffcp-15f, 1, 0x3880, 0x0400}, /* rounds up to a normal */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct tensor_format format = {.type = TENSOR_BF16, .std = {1, 1, 1}};
        format.mean[1] = cases[i].mean;
        format.std[1] = cases[i].std;
        assert_int_equal(tensor_map_make(&format).half[1][0], cases[i].bf16);
        format.type = TENSOR_F16;
        assert_int_equal(tensor_map_make(&format).half[1][0], cases[i].f16);
    }
}

#define MOST 70

static void check_variant(const struct tensor_kernels *kernels, const struct tensor_map *map,
                          const uint8_t *pixels, size_t count)
{
    _Alignas(64) uint8_t expected[3 * MOST * 4 + 64], out[3 * MOST * 4 + 64];
    size_t bytes = 3 * count * tensor_type_bytes(map->type);
    memset(expected, 0xa5, sizeof expected);
    memset(out, 0xa5, sizeof out);
    tensor_plain.interleaved(map, pixels, count, expected);
    kernels->interleaved(map, pixels, count, out);
    assert_memory_equal(out, expected, sizeof out); /* nothing behind the end either */
    tensor_plain.planar(map, pixels, count, expected, count);
    kernels->planar(map, pixels, count, out, count);
    assert_memory_equal(out, expected, sizeof out);
    for (int c = 0; c < 3; c++) {
        tensor_plain.channel(map, c, pixels, count, expected);
        kernels->channel(map, c, pixels, count, out);
        assert_memory_equal(out, expected, sizeof out);
    }
    tensor_plain.mirror(pixels, count, expected);
    kernels->mirror(pixels, count, out);
    assert_memory_equal(out, expected, 3 * count);
    assert_true(bytes + 64 <= sizeof out);
}

static void variants_equal_plain(void **state)
{
    (void)state;
    CLEANUP(picture_done) struct picture picture = {0};
    for (uint32_t count = 1; count <= MOST; count++) {
        assert_ok(picture_from_seed(3 * count, count, 1, &picture));
        for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
            struct tensor_format format = tensor_format_imagenet;
            format.type = types[i];
            struct tensor_map map = tensor_map_make(&format);
            for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
                const struct tensor_kernels *kernels = tensor_kernels_for(level, &map);
#ifdef __x86_64__ /* NEON has none */
                assert_true(level == CPU_PLAIN || kernels != &tensor_plain);
#endif
                check_variant(kernels, &map, picture.pixels, count);
            }
        }
    }
}

/* Where the variants' division is not exact they are not taken, so that every format gives the
 * plain values. */
static void every_divisor_is_exact(void **state)
{
    (void)state;
    CLEANUP(picture_done) struct picture picture = {0};
    assert_ok(picture_from_seed(2, 85, 1, &picture));
    for (uint64_t n = 0; n < 2000; n++) {
        struct random_stream stream = random_stream_make(6, RANDOM_TEST, 0, n);
        struct tensor_format format = {.type = TENSOR_F32};
        for (int c = 0; c < 3; c++) {
            format.mean[c] = (float)random_double(&stream);
            /* A significand of all ones is the hard case. */
            format.std[c] = n % 10 == 0 ? 0x1.fffffep-3f : 0.01f + (float)random_double(&stream);
        }
        if (n == 1)
            format.std[0] = 1e-38f;
        struct tensor_map map = tensor_map_make(&format);
        for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
            float expected[3 * 85], out[3 * 85];
            tensor_plain.interleaved(&map, picture.pixels, 85, expected);
            tensor_kernels_for(level, &map)->interleaved(&map, picture.pixels, 85, out);
            assert_memory_equal(out, expected, sizeof out);
        }
    }
}

/* Turned afterwards or while it is written: the same image. */
static void a_written_image_is_mirrored(void **state)
{
    (void)state;
    enum { WIDTH = 7, HEIGHT = 3, BYTES = WIDTH * HEIGHT * 3 * 4 };
    struct tensor_format format = tensor_format_imagenet;
    for (size_t type = 0; type < ARRAY_LENGTH(types); type++)
        for (int layout = TENSOR_NHWC; layout <= TENSOR_NCHW; layout++) {
            uint8_t plain[2 * BYTES], expected[2 * BYTES], out[2 * BYTES];
            format.type = types[type];
            format.layout = (enum tensor_layout)layout;
            size_t bytes = tensor_image_bytes(&format, HEIGHT, WIDTH);
            for (uint64_t i = 0; i < 2; i++) {
                CLEANUP(picture_done) struct picture picture = {0};
                assert_ok(picture_from_seed(i, WIDTH, HEIGHT, &picture));
                tensor_write(&format, &picture, false, plain + i * bytes);
                tensor_write(&format, &picture, true, expected + i * bytes);
            }
            tensor_mirror(&format, HEIGHT, WIDTH, 2, plain, out);
            assert_memory_equal(out, expected, 2 * bytes);
        }
}

int main(void)
{
    print_message("processor: %s\n", cpu_level_name(cpu_level()));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_torchvisions), cmocka_unit_test(bytes_stay_bytes),
        cmocka_unit_test(halves_round_to_even),    cmocka_unit_test(variants_equal_plain),
        cmocka_unit_test(every_divisor_is_exact),  cmocka_unit_test(a_written_image_is_mirrored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
