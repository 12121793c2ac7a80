/* Crop geometry against torchvision (tests/oracle/pillow_golden.py). */

#include "tests/test.h"

#include "image/crop.h"
#include "tests/support/golden.h"

static void random_crops_are_torchvisions(void **state)
{
    (void)state;
    CLEANUP(golden_done) struct golden golden = {0};
    assert_ok(golden_open("torchvision_random_crop.txt", &golden));
    while (golden_line(&golden)) {
        uint64_t seed = golden_number(&golden), epoch = golden_number(&golden);
        struct random_stream stream =
            random_stream_make(seed, RANDOM_CROP, epoch, golden_number(&golden));
        uint32_t width = (uint32_t)golden_number(&golden);
        uint32_t height = (uint32_t)golden_number(&golden);
        struct crop_options options = crop_options_default;
        options.scale_min = golden_real(&golden);
        options.scale_max = golden_real(&golden);
        options.ratio_min = golden_real(&golden);
        options.ratio_max = golden_real(&golden);

        struct crop crop = crop_random(&options, width, height, 224, &stream);
        assert_int_equal(crop.box.x, golden_number(&golden));
        assert_int_equal(crop.box.y, golden_number(&golden));
        assert_int_equal(crop.box.width, golden_number(&golden));
        assert_int_equal(crop.box.height, golden_number(&golden));
        assert_int_equal(crop.flip, golden_number(&golden));
        assert_false(golden.failed);
        assert_int_equal(crop.out_width, 224);
        assert_int_equal(crop.out_height, 224);
        assert_int_equal(crop.window.x + crop.window.y, 0);
        assert_int_equal(crop.window.width, 224);
        assert_int_equal(crop.window.height, 224);
    }
}

static void center_crops_are_torchvisions(void **state)
{
    (void)state;
    CLEANUP(golden_done) struct golden golden = {0};
    assert_ok(golden_open("torchvision_center.txt", &golden));
    while (golden_line(&golden)) {
        golden_number(&golden); /* the seed of the pixels */
        uint32_t width = (uint32_t)golden_number(&golden);
        uint32_t height = (uint32_t)golden_number(&golden);
        uint32_t resize = (uint32_t)golden_number(&golden);
        uint32_t size = (uint32_t)golden_number(&golden);

        struct crop crop = crop_center(width, height, resize, size);
        assert_int_equal(crop.out_width, golden_number(&golden));
        assert_int_equal(crop.out_height, golden_number(&golden));
        assert_int_equal(crop.window.x, golden_number(&golden));
        assert_int_equal(crop.window.y, golden_number(&golden));
        assert_false(golden.failed);
        assert_int_equal(crop.window.width, size);
        assert_int_equal(crop.window.height, size);
        assert_int_equal(crop.box.width, width);
        assert_int_equal(crop.box.height, height);
        assert_false(crop.flip);
    }
}

static void boxes_stay_inside(void **state)
{
    (void)state;
    struct crop_options odd = {
        .scale_min = 0.01, .scale_max = 3, .ratio_min = 4, .ratio_max = 9, .flip_probability = 1};
    const uint32_t sizes[][2] = {{1, 1}, {1, 900}, {900, 1}, {65500, 1}, {640, 480}, {3, 2}};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint32_t width = sizes[i][0], height = sizes[i][1];
        for (uint64_t n = 0; n < 200; n++) {
            struct random_stream stream = random_stream_make(n, RANDOM_TEST, 0, i);
            const struct crop_options *options = n % 2 ? &odd : &crop_options_default;
            struct crop crop = crop_random(options, width, height, 8, &stream);
            assert_true(crop.box.width > 0 && crop.box.height > 0);
            assert_true(crop.box.x + crop.box.width <= width);
            assert_true(crop.box.y + crop.box.height <= height);
            if (n % 2)
                assert_true(crop.flip);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_crops_are_torchvisions),
        cmocka_unit_test(center_crops_are_torchvisions),
        cmocka_unit_test(boxes_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
