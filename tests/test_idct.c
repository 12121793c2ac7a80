/* Inverse DCT, upsampling and colour conversion: each variant against the plain one; what libjpeg's
 * variants would not agree on. Against libjpeg itself: test_block_decode.c. */

#include "tests/test.h"

#include <math.h>

#include "base/cpu.h"
#include "base/random.h"
#include "image/color.h"
#include "image/idct.h"

#define MOST_BLOCKS 19
#define STRIDE (8 * MOST_BLOCKS + 64)

struct blocks {
    _Alignas(64) int16_t coefficients[MOST_BLOCKS + IDCT_GROUP_BLOCKS][64];
    uint16_t quantisers[64];
};

static void random_blocks(struct random_stream *stream, struct blocks *blocks)
{
    static const uint32_t ranges[] = {3, 16, 128, 2048, 65536};
    uint32_t range = ranges[random_below(stream, ARRAY_LENGTH(ranges))];
    uint32_t quantiser = random_below(stream, 4) ? 1 + (uint32_t)random_below(stream, 99) : 65535;
    for (size_t k = 0; k < 64; k++)
        blocks->quantisers[k] = (uint16_t)(1 + random_below(stream, quantiser));
    for (size_t i = 0; i < MOST_BLOCKS; i++)
        for (size_t k = 0; k < 64; k++) {
            int32_t value = (int32_t)random_below(stream, range) - (int32_t)(range / 2);
            if (range == 65536 && random_below(stream, 2))
                value = value < 0 ? INT16_MIN : INT16_MAX;
            blocks->coefficients[i][k] = (int16_t)(random_below(stream, 3) ? value : 0);
        }
}

static void check_transforms(const struct blocks *blocks, uint32_t count, unsigned reduction)
{
    uint8_t expected[8 * STRIDE] = {0}, out[8 * STRIDE] = {0};
    uint32_t side = idct_side(reduction);
    idct_plain.reduced[reduction](blocks->coefficients, blocks->quantisers, count, expected,
                                  STRIDE);
    for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
        memset(out, 0xa5, sizeof out);
        idct_kernels_for(level)->reduced[reduction](blocks->coefficients, blocks->quantisers, count,
                                                    out, STRIDE);
        for (size_t y = 0; y < side; y++) {
            assert_memory_equal(out + y * STRIDE, expected + y * STRIDE, (size_t)side * count);
            assert_int_equal(out[y * STRIDE + (size_t)side * count + IDCT_GROUP_SAMPLES - 1], 0xa5);
        }
    }
}

static void transforms_equal_plain(void **state)
{
    (void)state;
    struct blocks blocks = {0};
    for (uint64_t n = 0; n < 2000; n++) {
        struct random_stream stream = random_stream_make(13, RANDOM_TEST, 0, n);
        random_blocks(&stream, &blocks);
        uint32_t count = 1 + (uint32_t)random_below(&stream, MOST_BLOCKS);
        for (unsigned reduction = 0; reduction < IDCT_REDUCTIONS; reduction++)
            check_transforms(&blocks, count, reduction);
    }
}

/* What a reduced block is by its definition, in double: the sum of its lowest frequencies. */
static double reduced_sample(const struct blocks *blocks, size_t i, uint32_t side, uint32_t x,
                             uint32_t y)
{
    double sum = 0;
    for (uint32_t v = 0; v < side; v++)
        for (uint32_t u = 0; u < side; u++) {
            double value = blocks->coefficients[i][8 * v + u] * blocks->quantisers[8 * v + u];
            value *= u > 0 ? M_SQRT2 * cos((2 * x + 1) * u * M_PI / (2 * side)) : 1;
            value *= v > 0 ? M_SQRT2 * cos((2 * y + 1) * v * M_PI / (2 * side)) : 1;
            sum += value;
        }
    return fmin(fmax(sum / 8 + 128, 0), 255);
}

static void transforms_are_what_they_say(void **state)
{
    (void)state;
    struct blocks blocks = {0};
    for (uint64_t n = 0; n < 200; n++) {
        struct random_stream stream = random_stream_make(17, RANDOM_TEST, 0, n);
        for (size_t k = 0; k < 64; k++) {
            blocks.quantisers[k] = (uint16_t)(1 + random_below(&stream, 4));
            blocks.coefficients[0][k] = (int16_t)(random_below(&stream, 51) - 25);
        }
        for (unsigned reduction = 0; reduction < IDCT_REDUCTIONS; reduction++) {
            uint8_t out[8 * STRIDE];
            uint32_t side = idct_side(reduction);
            idct_plain.reduced[reduction](blocks.coefficients, blocks.quantisers, 1, out, STRIDE);
            for (uint32_t i = 0; i < side * side; i++) {
                double sample = reduced_sample(&blocks, 0, side, i % side, i / side);
                assert_true(fabs(out[i / side * STRIDE + i % side] - sample) < 0.8);
            }
        }
    }
}

/* Small blocks end where the plain variant says, also where magnitudes are the largest there are.
 */
static void variants_count_small_blocks_alike(void **state)
{
    (void)state;
    static struct blocks blocks;
    for (uint64_t n = 0; n < 500; n++) {
        struct random_stream stream = random_stream_make(14, RANDOM_TEST, 0, n);
        random_blocks(&stream, &blocks);
        int16_t weights[64];
        for (size_t k = 0; k < 64; k++)
            weights[k] = (int16_t)random_below(&stream, 1024);
        if (n % 5 == 0)
            for (size_t k = 0; k < 64; k++)
                blocks.coefficients[MOST_BLOCKS - 1][k] = INT16_MIN;
        int32_t most = (int32_t)random_below(&stream, (uint64_t)1 << random_below(&stream, 31));
        uint32_t expected = idct_plain.count_small((const int16_t(*)[64])blocks.coefficients,
                                                   weights, MOST_BLOCKS, most);
        for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++)
            assert_int_equal(
                idct_kernels_for(level)->count_small((const int16_t(*)[64])blocks.coefficients,
                                                     weights, MOST_BLOCKS, most),
                expected);
    }
}

/* One block of a gray image. */
static bool fits(int16_t *block, uint16_t quantiser)
{
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    struct frame frame = {
        .width = 8,
        .height = 8,
        .component_count = 1,
        .horizontal_max = 1,
        .vertical_max = 1,
        .components = {{.horizontal = 1,
                        .vertical = 1,
                        .blocks_wide = 1,
                        .blocks_high = 1,
                        .width = 8,
                        .height = 8}},
    };
    for (size_t k = 0; k < 64; k++)
        frame.components[0].quantisers[k] = quantiser;
    assert_ok(coefficients_reset(&coefficients, &frame));
    memcpy(coefficients.blocks[0][0], block, 64 * sizeof block[0]);
    return coefficients_fit_idct(&coefficients);
}

static void extremes_do_not_fit(void **state)
{
    (void)state;
    int16_t block[64] = {0};
    static const struct {
        int16_t dc, ac; /* the AC at place 1 of the zigzag order */
        uint16_t quantiser;
        bool fits;
    } cases[] = {
        {0, 0, 65535, true},    {1000, 100, 1, true},
        {4087, 0, 1, true},     /* a sample of 511 */
        {4092, 0, 1, false},    /* of 512 */
        {-4096, 0, 1, true},    /* of -512 */
        {-4101, 0, 1, false},   /* of -513 */
        {2000, 1500, 1, true},  /* samples of 510 at most */
        {2000, 1550, 1, false}, /* 519 */
        {1, 0, 65535, false},   /* the product needs 17 bits */
        {-1, 0, 32768, false},  /* fits into 16 bits, but not further on */
        {32767, 0, 1, false},   {INT16_MIN, INT16_MIN, 65535, false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        block[0] = cases[i].dc;
        block[1] = cases[i].ac;
        if (fits(block, cases[i].quantiser) != cases[i].fits)
            fail_msg("case %u", (unsigned)i);
    }
    /* Inputs whose sums leave 16 bits while their products do not. */
    memset(block, 0, sizeof block);
    block[2] = block[9] = 30000;
    assert_false(fits(block, 1));
    for (size_t k = 0; k < 64; k++)
        block[k] = 30;
    assert_true(fits(block, 1));
    for (size_t k = 0; k < 64; k++)
        block[k] = INT16_MIN;
    assert_false(fits(block, 65535));
}

/* --- Colour --------------------------------------------------------------------------------------
 */

#define MOST_SAMPLES 400
#define ROOM (2 * MOST_SAMPLES + 3 * 64)

static void random_samples(struct random_stream *stream, uint8_t *samples)
{
    bool extremes = random_below(stream, 3) == 0;
    for (size_t i = 0; i < ROOM; i++) {
        samples[i] = (uint8_t)random_below(stream, 256);
        if (extremes)
            samples[i] = samples[i] < 128 ? 0 : 255;
    }
}

static void upsampling_equals_plain(void **state)
{
    (void)state;
    uint8_t near[ROOM], far[ROOM], expected[ROOM], out[ROOM];
    for (uint64_t n = 0; n < 500; n++) {
        struct random_stream stream = random_stream_make(14, RANDOM_TEST, 0, n);
        uint32_t count = 1 + (uint32_t)random_below(&stream, MOST_SAMPLES);
        random_samples(&stream, near);
        random_samples(&stream, far);
        for (enum cpu_level level = CPU_AVX2; level <= cpu_level(); level++) {
            const struct color_kernels *kernels = color_kernels_for(level);
            color_plain.across(near + 1, count, expected);
            kernels->across(near + 1, count, out);
            assert_memory_equal(out, expected, 2 * count);
            color_plain.both(near + 1, far + 1, count, expected);
            kernels->both(near + 1, far + 1, count, out);
            assert_memory_equal(out, expected, 2 * count);
            for (uint32_t bias = 1; bias <= 2; bias++) {
                color_plain.down(near, far, bias, count, expected);
                kernels->down(near, far, bias, count, out);
                assert_memory_equal(out, expected, count);
            }
        }
    }
}

/* All of Cb and Cr, and Y where something is clamped. */
static void conversion_equals_plain(void **state)
{
    (void)state;
    uint8_t y[256 + 64], cb[256 + 64], cr[256 + 64];
    uint8_t expected[3][256 + 64], out[3][256 + 64];
    static const uint8_t lightness[] = {0, 1, 77, 128, 180, 254, 255};
    const uint8_t *const ycc[3] = {y, cb, cr};
    uint8_t *const expected_rgb[3] = {expected[0], expected[1], expected[2]};
    uint8_t *const rgb[3] = {out[0], out[1], out[2]};
    for (size_t n = 0; n < 256 * ARRAY_LENGTH(lightness); n++) {
        memset(y, lightness[n / 256], sizeof y);
        memset(cb, (int)(n % 256), sizeof cb);
        for (size_t i = 0; i < sizeof cr; i++)
            cr[i] = (uint8_t)i;
        color_plain.to_rgb(ycc, 256, expected_rgb);
        for (enum cpu_level level = CPU_AVX2; level <= cpu_level(); level++) {
            color_kernels_for(level)->to_rgb(ycc, 256, rgb);
            for (size_t c = 0; c < 3; c++)
                assert_memory_equal(out[c], expected[c], 256);
        }
    }
}

static void interleaving_equals_plain(void **state)
{
    (void)state;
    uint8_t in[3][ROOM], expected[3 * ROOM], out[3 * ROOM], split[3][ROOM];
    const uint8_t *const rgb[3] = {in[0], in[1], in[2]};
    uint8_t *const back[3] = {split[0], split[1], split[2]};
    for (uint32_t count = 1; count < 300; count++) {
        struct random_stream stream = random_stream_make(15, RANDOM_TEST, 0, count);
        for (size_t c = 0; c < 3; c++)
            random_samples(&stream, in[c]);
        color_plain.interleave(rgb, count, expected);
        for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
            memset(out, 0xa5, sizeof out);
            color_kernels_for(level)->interleave(rgb, count, out);
            assert_memory_equal(out, expected, 3 * (size_t)count);
            assert_int_equal(out[3 * (size_t)count + 64], 0xa5);
            color_kernels_for(level)->split(expected, count, back);
            for (size_t c = 0; c < 3; c++)
                assert_memory_equal(split[c], in[c], count);
        }
    }
}

int main(void)
{
    print_message("processor: %s\n", cpu_level_name(cpu_level()));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_equal_plain),
        cmocka_unit_test(transforms_are_what_they_say),
        cmocka_unit_test(extremes_do_not_fit),
        cmocka_unit_test(variants_count_small_blocks_alike),
        cmocka_unit_test(upsampling_equals_plain),
        cmocka_unit_test(conversion_equals_plain),
        cmocka_unit_test(interleaving_equals_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
