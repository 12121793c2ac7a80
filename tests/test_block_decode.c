/* Pixels from blocks against libjpeg's own: whole images, regions, odd samplings and sizes. */

#include "tests/test.h"

#include "base/random.h"
#include "image/block_decode.h"
#include "image/crop.h"
#include "image/decode.h"
#include "image/resample.h"
#include "tests/support/jpeg_blocks.h"
#include "tests/support/jpeg_make.h"
#include "tests/support/real_images.h"

static const struct jpeg_kind kinds[] = {
    {.name = "4:4:4", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}},
    {.name = "4:2:0", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}},
    {.name = "4:2:2", .components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}},
    {.name = "4:4:0", .components = 3, .factors = {{1, 2}, {1, 1}, {1, 1}}},
    {.name = "4:1:1", .components = 3, .factors = {{4, 1}, {1, 1}, {1, 1}}},
    {.name = "4:1:0", .components = 3, .factors = {{4, 2}, {1, 1}, {1, 1}}},
    {.name = "1 x 4", .components = 3, .factors = {{1, 4}, {1, 1}, {1, 1}}},
    {.name = "4 x 1 and 2 x 1", .components = 3, .factors = {{4, 1}, {2, 1}, {1, 1}}},
    {.name = "1 x 4 and 1 x 2", .components = 3, .factors = {{1, 4}, {1, 2}, {1, 1}}},
    {.name = "mixed", .components = 3, .factors = {{2, 2}, {2, 1}, {1, 2}}},
    {.name = "luma smaller", .components = 3, .factors = {{1, 1}, {2, 2}, {2, 2}}},
    {.name = "3 x 1", .components = 3, .factors = {{3, 1}, {1, 1}, {1, 1}}},
    {.name = "all 2 x 1", .components = 3, .factors = {{2, 1}, {2, 1}, {2, 1}}},
    {.name = "gray", .components = 1, .factors = {{1, 1}}},
    {.name = "gray 2 x 2", .components = 1, .factors = {{2, 2}}},
    {.name = "RGB", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}, .keep_rgb = true},
    {.name = "RGB 4:2:0", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}, .keep_rgb = true},
};

/* Scratch serves all tests, as it serves all images of a thread. */
static struct decoder *decoder;
static struct block_decoder *block_decoder;

static int open_decoders(void **state)
{
    (void)state;
    assert_ok(decoder_open(&decoder));
    assert_ok(block_decoder_open(&block_decoder));
    return 0;
}

static int close_decoders(void **state)
{
    (void)state;
    decoder_close(decoder);
    block_decoder_close(block_decoder);
    return 0;
}

/* Of blocks that do not lie within the image nothing is to be asked. */
struct counting_reader {
    struct block_reader source;
    const struct frame *frame;
    uint64_t blocks;
};

static struct status count_blocks(void *context, unsigned component, uint32_t row, uint32_t first,
                                  uint32_t count, int16_t (*out)[64])
{
    struct counting_reader *reader = context;
    const struct frame_component *shape = &reader->frame->components[component];
    assert_true(component < reader->frame->component_count);
    assert_true(row < shape->blocks_high && count > 0 && first + count <= shape->blocks_wide);
    assert_int_equal((uintptr_t)out % 64, 0);
    reader->blocks += count;
    return reader->source.read(reader->source.context, component, row, first, count, out);
}

static uint64_t check_region(const struct coefficients *coefficients, const struct picture *whole,
                             const struct rectangle *region, const char *name)
{
    CLEANUP(picture_done) struct picture part = {0};
    struct counting_reader counting = {coefficients_reader(coefficients), &coefficients->frame, 0};
    struct block_reader reader = {count_blocks, &counting};
    assert_ok(block_decoder_run(block_decoder, &coefficients->frame, &reader, region, &part));
    assert_int_equal(part.origin_x, region->x);
    assert_int_equal(part.origin_y, region->y);
    assert_int_equal(part.width, region->width);
    assert_int_equal(part.height, region->height);
    for (uint32_t y = 0; y < part.height; y++)
        if (memcmp(part.pixels + y * part.stride_bytes,
                   whole->pixels + (region->y + y) * whole->stride_bytes + 3 * (size_t)region->x,
                   3 * (size_t)region->width) != 0)
            fail_msg("%s, %u x %u: row %u of the region %u x %u at (%u, %u) differs", name,
                     whole->width, whole->height, y, region->width, region->height, region->x,
                     region->y);
    return counting.blocks;
}

static struct rectangle random_region(struct random_stream *stream, uint32_t width, uint32_t height)
{
    struct rectangle region;
    region.x = (uint32_t)random_below(stream, width);
    region.y = (uint32_t)random_below(stream, height);
    region.width = 1 + (uint32_t)random_below(stream, width - region.x);
    region.height = 1 + (uint32_t)random_below(stream, height - region.y);
    return region;
}

static void pixels_are_libjpegs(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1},   {1, 70},   {70, 1},   {2, 2},
                                        {3, 5},   {5, 9},    {17, 16},  {33, 31},
                                        {64, 64}, {97, 131}, {130, 95}, {200, 7},
                                        {4, 40},  {6, 40},   {600, 20}, {9, 3}};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture whole = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    for (uint64_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        for (uint64_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
            uint32_t width = sizes[i][0], height = sizes[i][1];
            assert_ok(jpeg_make(&kinds[k], i, width, height, &bytes));
            assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &whole, NULL));
            assert_ok(jpeg_blocks_read(bytes.data, bytes.length, &coefficients));
            assert_true(block_decode_supports(&coefficients.frame));
            struct rectangle region = {0, 0, width, height};
            check_region(&coefficients, &whole, &region, kinds[k].name);
            struct random_stream stream = random_stream_make(7, RANDOM_TEST, (uint32_t)k, i);
            for (int n = 0; n < 40; n++) {
                region = random_region(&stream, width, height);
                check_region(&coefficients, &whole, &region, kinds[k].name);
            }
        }
    }
}

static void only_needed_blocks_are_read(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture whole = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    static const struct {
        int kind;
        struct rectangle region;
        uint64_t blocks;
    } cases[] = {
        {0, {16, 24, 16, 8}, 3 * 2},      {0, {15, 24, 18, 8}, 3 * 4},
        {1, {32, 32, 16, 16}, 4 + 2 * 9}, /* chroma with a neighbour on each side */
        {1, {34, 34, 12, 12}, 4 + 2 * 1}, {1, {0, 0, 14, 14}, 4 + 2 * 1},
        {2, {32, 32, 16, 8}, 2 + 2 * 3},  {3, {32, 32, 8, 16}, 2 + 2 * 3},
        {4, {32, 8, 32, 8}, 4 + 2 * 1},   {13, {0, 0, 100, 1}, 13},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct jpeg_kind *kind = &kinds[cases[i].kind];
        assert_ok(jpeg_make(kind, i, 100, 100, &bytes));
        assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &whole, NULL));
        assert_ok(jpeg_blocks_read(bytes.data, bytes.length, &coefficients));
        assert_int_equal(check_region(&coefficients, &whole, &cases[i].region, kind->name),
                         cases[i].blocks);
    }
}

static void the_widest_image(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture whole = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    static const struct rectangle regions[] = {{0, 0, 65500, 1},
                                               {0, 0, 1, 1},
                                               {65499, 0, 1, 1},
                                               {31111, 0, 999, 1}};
    assert_ok(jpeg_make(&kinds[1], 1, 65500, 1, &bytes));
    assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &whole, NULL));
    assert_ok(jpeg_blocks_read(bytes.data, bytes.length, &coefficients));
    for (size_t i = 0; i < ARRAY_LENGTH(regions); i++)
        check_region(&coefficients, &whole, &regions[i], "65,500 x 1");
}

static void wrong_frames_and_regions_fail(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture part = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    assert_ok(jpeg_make(&kinds[1], 1, 40, 30, &bytes));
    assert_ok(jpeg_blocks_read(bytes.data, bytes.length, &coefficients));
    struct block_reader reader = coefficients_reader(&coefficients);
    struct frame frame = coefficients.frame;

    static const struct rectangle outside[] = {
        {0, 0, 41, 1}, {40, 0, 1, 1}, {0, 0, 0, 1}, {1, 1, UINT32_MAX, 1}, {0, 30, 1, 1}};
    for (size_t i = 0; i < ARRAY_LENGTH(outside); i++)
        assert_fails(block_decoder_run(block_decoder, &frame, &reader, &outside[i], &part),
                     STATUS_FAILED, "not within");
    frame.components[1].horizontal = 0;
    assert_fails(block_decoder_run(block_decoder, &frame, &reader, NULL, &part), STATUS_UNSUPPORTED,
                 "sampling");
    frame = coefficients.frame;
    frame.horizontal_max = 3;
    assert_fails(block_decoder_run(block_decoder, &frame, &reader, NULL, &part), STATUS_UNSUPPORTED,
                 "sampling");
    frame = coefficients.frame;
    frame.components[2].width++;
    assert_fails(block_decoder_run(block_decoder, &frame, &reader, NULL, &part), STATUS_CORRUPT,
                 "component 2 has 21 x 15 samples");
    frame = coefficients.frame;
    frame.components[0].blocks_high = 3;
    assert_fails(block_decoder_run(block_decoder, &frame, &reader, NULL, &part), STATUS_CORRUPT,
                 "component 0 has 6 x 3 blocks");
    frame.component_count = 2;
    assert_fails(block_decoder_run(block_decoder, &frame, &reader, NULL, &part), STATUS_UNSUPPORTED,
                 "2 components");
}

/* --- Real images ---------------------------------------------------------------------------------
 */

static void check_real_image(const uint8_t *data, size_t length, uint64_t number)
{
    CLEANUP(picture_done) struct picture whole = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    struct random_stream stream = random_stream_make(8, RANDOM_CROP, 0, number);
    assert_ok(jpeg_blocks_read(data, length, &coefficients));
    if (coefficients.frame.width > 1000)
        return; /* others show the same */
    assert_ok(decoder_decode(decoder, data, length, NULL, &whole, NULL));
    struct crop crop = crop_random(&crop_options_default, whole.width, whole.height, 224, &stream);
    struct rectangle region = resample_region(&crop);
    check_region(&coefficients, &whole, &region, "real");
}

static void crops_of_real_images(void **state)
{
    (void)state;
    CLEANUP(real_images_done) struct real_images images = {0};
    const uint8_t *bytes;
    size_t length;
    assert_ok(real_images_open(test_data_path("ILSVRC2012_img_train.tar"), &images));
    while (real_images_next(&images, &bytes, &length))
        if (images.count % 4 == 0)
            check_real_image(bytes, length, images.count);
    assert_int_equal(images.count, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_libjpegs),  cmocka_unit_test(only_needed_blocks_are_read),
        cmocka_unit_test(the_widest_image),     cmocka_unit_test(wrong_frames_and_regions_fail),
        cmocka_unit_test(crops_of_real_images),
    };
    return cmocka_run_group_tests(tests, open_decoders, close_decoders);
}
