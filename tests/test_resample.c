/* Resampling against Pillow (tests/oracle/pillow_golden.py), and each variant against the plain
 * one. */

#include "tests/test.h"

#include "base/cpu.h"
#include "base/random.h"
#include "image/resample.h"
#include "image/resample_kernels.h"
#include "tests/support/golden.h"

/* The pixels of a region, as a decoder would hand them on. */
static void cut(const struct picture *image, const struct rectangle *region, struct picture *part)
{
    assert_ok(picture_resize(part, region->width, region->height));
    part->origin_x = region->x;
    part->origin_y = region->y;
    for (uint32_t y = 0; y < region->height; y++)
        memcpy(part->pixels + y * part->stride_bytes,
               image->pixels + (region->y + y) * image->stride_bytes + 3 * (size_t)region->x,
               3 * (size_t)region->width);
}

static void check_golden(const char *name, enum pixels pixels)
{
    CLEANUP(golden_done) struct golden golden = {0};
    CLEANUP(resampler_close) struct resampler *resampler = NULL;
    CLEANUP(picture_done) struct picture image = {0}, out = {0};
    assert_ok(golden_open(name, &golden));
    assert_ok(resampler_open(&resampler));
    while (golden_line(&golden)) {
        uint64_t seed = golden_number(&golden);
        uint32_t numbers[8];
        golden_numbers(&golden, numbers, ARRAY_LENGTH(numbers));
        struct crop crop = {
            .box = {numbers[2], numbers[3], numbers[4], numbers[5]},
            .out_width = numbers[6],
            .out_height = numbers[7],
            .window = {0, 0, numbers[6], numbers[7]},
        };
        assert_ok(picture_from_seed(seed, numbers[0], numbers[1], &image));
        assert_ok(resampler_run(resampler, &image, &crop, pixels, &out));
        assert_int_equal(picture_crc(&out), golden_hex(&golden));
        assert_false(golden.failed);
    }
}

static void resizes_as_pillow(void **state)
{
    (void)state;
    check_golden("pillow_resize.txt", PIXELS_PILLOW);
}

/* Tall images go down first there. */
static void resizes_as_pillow_13(void **state)
{
    (void)state;
    check_golden("pillow13_resize.txt", PIXELS_PILLOW13);
}

static void center_crops_as_torchvision(void **state)
{
    (void)state;
    CLEANUP(golden_done) struct golden golden = {0};
    CLEANUP(resampler_close) struct resampler *resampler = NULL;
    CLEANUP(picture_done) struct picture image = {0}, part = {0}, out = {0};
    assert_ok(golden_open("torchvision_center.txt", &golden));
    assert_ok(resampler_open(&resampler));
    while (golden_line(&golden)) {
        uint64_t seed = golden_number(&golden);
        uint32_t numbers[8];
        golden_numbers(&golden, numbers, ARRAY_LENGTH(numbers));
        if (seed % 6 != 0)
            continue;
        struct crop crop = crop_center(numbers[0], numbers[1], numbers[2], numbers[3]);
        struct rectangle region = resample_region(&crop);
        assert_ok(picture_from_seed(seed, numbers[0], numbers[1], &image));
        cut(&image, &region, &part);
        assert_ok(resampler_run(resampler, &part, &crop, PIXELS_PILLOW, &out));
        assert_int_equal(picture_crc(&out), golden_hex(&golden));
        assert_false(golden.failed);
    }
}

/* A window of an output equals that part of the whole output, from the region's pixels alone. */
static void windows_are_parts_of_the_whole(void **state)
{
    (void)state;
    CLEANUP(resampler_close) struct resampler *resampler = NULL;
    CLEANUP(picture_done) struct picture image = {0}, part = {0}, whole = {0}, out = {0};
    assert_ok(resampler_open(&resampler));
    for (uint64_t n = 0; n < 120; n++) {
        struct random_stream stream = random_stream_make(4, RANDOM_TEST, 0, n);
        uint32_t width = 1 + (uint32_t)random_below(&stream, 150);
        uint32_t height = 1 + (uint32_t)random_below(&stream, 150);
        assert_ok(picture_from_seed(n, width, height, &image));
        struct crop crop = {.box = {0, 0, width, height}};
        crop.out_width = n % 5 == 0 ? width : 1 + (uint32_t)random_below(&stream, 90);
        crop.out_height = n % 7 == 0 ? height : 1 + (uint32_t)random_below(&stream, 90);
        crop.window = (struct rectangle){0, 0, crop.out_width, crop.out_height};
        assert_ok(resampler_run(resampler, &image, &crop, PIXELS_PILLOW, &whole));

        crop.window.x = (uint32_t)random_below(&stream, crop.out_width);
        crop.window.y = (uint32_t)random_below(&stream, crop.out_height);
        crop.window.width = 1 + (uint32_t)random_below(&stream, crop.out_width - crop.window.x);
        crop.window.height = 1 + (uint32_t)random_below(&stream, crop.out_height - crop.window.y);
        struct rectangle region = resample_region(&crop);
        cut(&image, &region, &part);
        assert_ok(resampler_run(resampler, &part, &crop, PIXELS_PILLOW, &out));
        cut(&whole, &crop.window, &part);
        assert_int_equal(picture_crc(&out), picture_crc(&part));
    }
}

static void missing_pixels_are_an_error(void **state)
{
    (void)state;
    CLEANUP(resampler_close) struct resampler *resampler = NULL;
    CLEANUP(picture_done) struct picture image = {0}, out = {0};
    assert_ok(resampler_open(&resampler));
    assert_ok(picture_from_seed(0, 20, 20, &image));
    struct crop crop = {.box = {0, 0, 21, 20},
                        .out_width = 8,
                        .out_height = 8,
                        .window = {0, 0, 8, 8}};
    assert_fails(resampler_run(resampler, &image, &crop, PIXELS_PILLOW, &out), STATUS_FAILED,
                 "lacks pixels");
    crop.box.width = 20;
    image.origin_y = 1;
    assert_fails(resampler_run(resampler, &image, &crop, PIXELS_PILLOW, &out), STATUS_FAILED,
                 "lacks pixels");
}

/* --- Variants ------------------------------------------------------------------------------------
 */

#define MOST_OUTPUTS 300
#define MOST_PAIRS 32

struct test_axis {
    struct resample_axis axis;
    uint32_t first[MOST_OUTPUTS];
    int32_t weights[MOST_OUTPUTS * 2 * MOST_PAIRS];
};

/* Any weights up to 1, or 127 of 128 (also in sum); starts that do not decrease, or do not
 * increase; the last input may be named in vain. */
static void random_axis(struct random_stream *stream, struct test_axis *test, uint32_t count,
                        uint32_t inputs)
{
    struct resample_axis *axis = &test->axis;
    uint32_t most = (inputs + 1) / 2 < MOST_PAIRS ? (inputs + 1) / 2 : MOST_PAIRS;
    *axis = (struct resample_axis){
        .bits = random_below(stream, 2) ? RESAMPLE_BITS : RESAMPLE_FAST_BITS,
        .count = count,
        .input_count = inputs,
        .pairs = 1 + (uint32_t)random_below(stream, random_below(stream, 2) ? most : 1),
        .first = test->first,
        .weights = test->weights,
    };
    uint32_t taps = 2 * axis->pairs, room = inputs + 1 - taps;
    bool reversed = random_below(stream, 2);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = reversed ? count - 1 - i : i;
        axis->first[i] = (uint32_t)((uint64_t)room * place / count);
        int32_t left = axis->bits == RESAMPLE_BITS ? 1 << RESAMPLE_BITS : 127;
        for (uint32_t k = 0; k < taps; k++) {
            bool exists = axis->first[i] + k < inputs;
            int32_t weight = exists ? (int32_t)random_below(stream, (uint64_t)left + 1) : 0;
            if (exists && random_below(stream, 8) == 0)
                weight = left;
            axis->weights[i * taps + k] = weight;
            left -= weight;
        }
    }
}

/* Rows that are as long as the axis asks for, or columns. */
static void run_pass(const struct resample_kernels *kernels, const struct resample_axis *axis,
                     bool across, const struct picture *in, struct picture *out)
{
    CLEANUP(memory_free) void *table = NULL;
    enum resample_pass pass = across ? RESAMPLE_ACROSS : RESAMPLE_DOWN;
    if (kernels->make_table) {
        assert_ok(memory_alloc_tensor(kernels->table_bytes(axis, pass), &table));
        kernels->make_table(axis, pass, table);
    }
    uint32_t samples = 3 * in->width; /* of a row: which channel does not matter here */
    if (!across) {
        assert_ok(picture_resize(out, in->width, axis->count));
        for (uint32_t y = 0; y < axis->count; y++)
            kernels->down(axis, table, y, in->pixels, in->stride_bytes, samples,
                          out->pixels + y * out->stride_bytes);
        return;
    }
    const uint8_t *rows[RESAMPLE_ROWS];
    assert_ok(picture_resize(out, (axis->count + 2) / 3, in->height));
    memset(out->pixels, 0, out->stride_bytes * out->height);
    for (uint32_t y = 0; y < in->height; y++)
        rows[y] = in->pixels + y * in->stride_bytes;
    kernels->across(axis, table, rows, in->height, out->pixels, out->stride_bytes);
    for (uint32_t y = 0; y < in->height; y++)
        memset(out->pixels + y * out->stride_bytes + axis->count, 0,
               out->stride_bytes - axis->count);
}

static void variants_equal_plain(void **state)
{
    (void)state;
    CLEANUP(picture_done) struct picture image = {0}, expected = {0}, out = {0};
    CLEANUP(memory_free) struct test_axis *test = NULL;
    assert_ok(memory_alloc(1, sizeof *test, &test));
    for (uint64_t n = 0; n < 600; n++) {
        struct random_stream stream = random_stream_make(5, RANDOM_TEST, 0, n);
        bool across = n % 2;
        uint32_t inputs = 3 * (1 + (uint32_t)random_below(&stream, n % 20 < 2 ? 700 : 44));
        uint32_t rows = 1 + (uint32_t)random_below(&stream, RESAMPLE_ROWS);
        uint32_t columns = 1 + (uint32_t)random_below(&stream, 70);
        random_axis(&stream, test, 1 + (uint32_t)random_below(&stream, MOST_OUTPUTS - 1), inputs);
        assert_ok(
            picture_from_seed(n, across ? inputs / 3 : columns, across ? rows : inputs, &image));
        run_pass(&resample_plain, &test->axis, across, &image, &expected);
        for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
            run_pass(resample_kernels_for(level), &test->axis, across, &image, &out);
            if (picture_crc(&out) != picture_crc(&expected))
                fail_msg("case %u: %s differs", (unsigned)n, cpu_level_name(level));
        }
    }
}

int main(void)
{
    print_message("processor: %s\n", cpu_level_name(cpu_level()));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizes_as_pillow),
        cmocka_unit_test(resizes_as_pillow_13),
        cmocka_unit_test(center_crops_as_torchvision),
        cmocka_unit_test(windows_are_parts_of_the_whole),
        cmocka_unit_test(missing_pixels_are_an_error),
        cmocka_unit_test(variants_equal_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
