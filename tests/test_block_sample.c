/* A network's input from blocks against decoding, resizing and normalising one after the other. */

#include "tests/test.h"

#include <math.h>

#include "base/random.h"
#include "image/block_sample.h"
#include "image/decode.h"
#include "image/resample.h"
#include "tests/support/jpeg_blocks.h"
#include "tests/support/jpeg_make.h"
#include "tests/support/real_images.h"

static const struct jpeg_kind kinds[] = {
    {.name = "4:4:4", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}},
    {.name = "4:2:0", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}},
    {.name = "4:2:2", .components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}},
    {.name = "4:1:1", .components = 3, .factors = {{4, 1}, {1, 1}, {1, 1}}},
    {.name = "gray", .components = 1, .factors = {{1, 1}}},
    {.name = "RGB", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}, .keep_rgb = true},
};

#define IMAGE_BYTES ((size_t)224 * 224 * 3 * 4) /* at most */

/* The scratch of a thread, and an image in both forms. */
struct scene {
    struct decoder *decoder;
    struct resampler *resampler;
    struct block_sampler *sampler;
    struct picture whole, resized;
    struct coefficients coefficients;
    struct buffer bytes;
    uint8_t *expected, *out; /* aligned as batches are */
};

static void scene_open(struct scene *scene)
{
    *scene = (struct scene){0};
    assert_ok(decoder_open(&scene->decoder));
    assert_ok(resampler_open(&scene->resampler));
    assert_ok(block_sampler_open(&scene->sampler));
    assert_ok(memory_alloc_tensor(IMAGE_BYTES, &scene->expected));
    assert_ok(memory_alloc_tensor(IMAGE_BYTES + 64, &scene->out));
}

static void scene_done(struct scene *scene)
{
    decoder_close(scene->decoder);
    resampler_close(scene->resampler);
    block_sampler_close(scene->sampler);
    picture_done(&scene->whole);
    picture_done(&scene->resized);
    coefficients_done(&scene->coefficients);
    buffer_done(&scene->bytes);
    memory_free(scene->expected);
    memory_free(scene->out);
}
CLEANUP_VALUE(scene_done, struct scene)

static void scene_set(struct scene *scene, const void *bytes, size_t length)
{
    assert_ok(decoder_decode(scene->decoder, bytes, length, NULL, &scene->whole, NULL));
    assert_ok(jpeg_blocks_read(bytes, length, &scene->coefficients));
}

static size_t scene_run(struct scene *scene, const struct crop *crop, enum pixels pixels,
                        const struct tensor_format *format)
{
    struct block_reader reader = coefficients_reader(&scene->coefficients);
    size_t bytes = tensor_image_bytes(format, crop->window.height, crop->window.width);
    assert_true(bytes <= IMAGE_BYTES);
    enum pixels exact = pixels == PIXELS_FAST ? PIXELS_PILLOW : pixels;
    assert_ok(resampler_run(scene->resampler, &scene->whole, crop, exact, &scene->resized));
    tensor_write(format, &scene->resized, crop->flip, scene->expected);
    memset(scene->out + bytes, 0xa5, 64);
    assert_ok(block_sampler_run(scene->sampler, &scene->coefficients.frame, &reader, crop, pixels,
                                format, scene->out));
    for (size_t i = 0; i < 64; i++) /* nothing behind the end */
        assert_int_equal(scene->out[bytes + i], 0xa5);
    return bytes;
}

static struct tensor_format random_format(struct random_stream *stream)
{
    struct tensor_format format = tensor_format_imagenet;
    format.type = (enum tensor_type)random_below(stream, 4);
    format.layout = random_below(stream, 2) ? TENSOR_NCHW : TENSOR_NHWC;
    return format;
}

static struct crop random_window(struct random_stream *stream, uint32_t width, uint32_t height)
{
    struct crop crop;
    uint32_t size = 1 + (uint32_t)random_below(stream, 80);
    if (random_below(stream, 2)) {
        crop = crop_random(&crop_options_default, width, height, size, stream);
    } else {
        crop = crop_center(width, height, size, 1 + (uint32_t)random_below(stream, size));
        crop.flip = random_below(stream, 2);
    }
    return crop;
}

static void exact_pixels_take_no_other_way(void **state)
{
    (void)state;
    CLEANUP(scene_done) struct scene scene;
    scene_open(&scene);
    for (uint64_t n = 0; n < 240; n++) {
        struct random_stream stream = random_stream_make(11, RANDOM_TEST, 0, n);
        const struct jpeg_kind *kind = &kinds[n % ARRAY_LENGTH(kinds)];
        uint32_t width = 1 + (uint32_t)random_below(&stream, 200);
        uint32_t height = 1 + (uint32_t)random_below(&stream, 200);
        assert_ok(jpeg_make(kind, n, width, height, &scene.bytes));
        scene_set(&scene, scene.bytes.data, scene.bytes.length);
        for (int k = 0; k < 6; k++) {
            struct crop crop = random_window(&stream, width, height);
            struct tensor_format format = random_format(&stream);
            enum pixels pixels = k % 2 ? PIXELS_PILLOW : PIXELS_PILLOW13;
            size_t bytes = scene_run(&scene, &crop, pixels, &format);
            if (memcmp(scene.out, scene.expected, bytes) != 0)
                fail_msg("case %u, %s of %u x %u differs", (unsigned)n, kind->name, width, height);
        }
    }
}

static void real_crops_are_exact(void **state)
{
    (void)state;
    const char *archive = test_data_path("ILSVRC2012_img_train.tar");
    CLEANUP(scene_done) struct scene scene;
    CLEANUP(real_images_done) struct real_images images = {0};
    const uint8_t *bytes;
    size_t length;
    scene_open(&scene);
    assert_ok(real_images_open(archive, &images));
    while (real_images_next(&images, &bytes, &length)) {
        if (images.count % 10 != 0)
            continue;
        scene_set(&scene, bytes, length);
        struct random_stream stream = random_stream_make(12, RANDOM_CROP, 0, images.count);
        struct crop crop =
            crop_random(&crop_options_default, scene.whole.width, scene.whole.height, 224, &stream);
        struct tensor_format format = random_format(&stream);
        size_t size_bytes = scene_run(&scene, &crop, PIXELS_PILLOW, &format);
        assert_memory_equal(scene.out, scene.expected, size_bytes);
        crop = crop_center(scene.whole.width, scene.whole.height, 256, 224);
        size_bytes = scene_run(&scene, &crop, PIXELS_PILLOW, &format);
        assert_memory_equal(scene.out, scene.expected, size_bytes);
    }
}

/* --- Close pixels --------------------------------------------------------------------------------
 */

static double psnr_of(const struct scene *scene, size_t bytes)
{
    double squares = 0;
    for (size_t i = 0; i < bytes; i++) {
        double difference = (double)scene->out[i] - scene->expected[i];
        squares += difference * difference;
    }
    return 10 * log10(255.0 * 255.0 / ((squares + 1e-9) / (double)bytes));
}

struct psnr {
    double sum, least;
    unsigned crops;
};

static void psnr_add(struct psnr *psnr, struct scene *scene, const struct crop *crop)
{
    const struct tensor_format format = {.type = TENSOR_U8, .layout = TENSOR_NCHW};
    size_t bytes = scene_run(scene, crop, PIXELS_FAST, &format);
    double value = psnr_of(scene, bytes);
    psnr->sum += value;
    psnr->least = psnr->crops == 0 || value < psnr->least ? value : psnr->least;
    psnr->crops++;
}

static void psnr_check(const char *what, const struct psnr *psnr, double mean, double least)
{
    print_message("PSNR, %s: mean %.2f dB, least %.2f dB, %u crops\n", what,
                  psnr->sum / psnr->crops, psnr->least, psnr->crops);
    assert_true(psnr->sum / psnr->crops > mean);
    assert_true(psnr->least > least);
}

/* Also in the centre of a resized image, which is a window of the output; and in outputs so small
 * that blocks are reduced, by 2, 4 and 8. */
static void fast_pixels_are_close(void **state)
{
    (void)state;
    const char *archive = test_data_path("ILSVRC2012_img_train.tar");
    CLEANUP(scene_done) struct scene scene;
    CLEANUP(real_images_done) struct real_images images = {0};
    struct psnr usual = {0}, reduced[4] = {{0}};
    const uint8_t *bytes;
    size_t length;
    scene_open(&scene);
    assert_ok(real_images_open(archive, &images));
    while (real_images_next(&images, &bytes, &length)) {
        if (images.count % 8 != 0)
            continue;
        scene_set(&scene, bytes, length);
        uint32_t width = scene.whole.width, height = scene.whole.height;
        struct random_stream stream = random_stream_make(12, RANDOM_CROP, 1, images.count);
        struct crop crop = crop_random(&crop_options_default, width, height, 224, &stream);
        psnr_add(&usual, &scene, &crop);
        crop = crop_center(width, height, 256, 224);
        psnr_add(&usual, &scene, &crop);
        uint32_t shorter = width < height ? width : height;
        for (uint32_t r = 1; r < ARRAY_LENGTH(reduced); r++) {
            /* 2.5 to 5 samples are left for each of the output's. */
            double samples = 2.5 + 2.5 * random_double(&stream);
            uint32_t size = (uint32_t)(shorter / (samples * (1U << r)));
            if (size == 0)
                continue;
            crop = crop_center(width, height, size, size);
            psnr_add(&reduced[r], &scene, &crop);
        }
    }
    psnr_check("224 x 224", &usual, 48, 38);
    psnr_check("blocks reduced by 2", &reduced[1], 48, 38);
    psnr_check("blocks reduced by 4", &reduced[2], 48, 38);
    psnr_check("blocks reduced by 8", &reduced[3], 48, 38);
}

/* Other formats, windows and mirrored ones hold the same pixels. */
static void fast_pixels_have_every_format(void **state)
{
    (void)state;
    CLEANUP(scene_done) struct scene scene;
    CLEANUP(picture_done) struct picture picture = {0};
    scene_open(&scene);
    for (uint64_t n = 0; n < 120; n++) {
        struct random_stream stream = random_stream_make(16, RANDOM_TEST, 0, n);
        const struct jpeg_kind *kind = &kinds[n % ARRAY_LENGTH(kinds)];
        uint32_t width = 1 + (uint32_t)random_below(&stream, 300);
        uint32_t height = 1 + (uint32_t)random_below(&stream, 300);
        assert_ok(jpeg_make(kind, n, width, height, &scene.bytes));
        scene_set(&scene, scene.bytes.data, scene.bytes.length);
        struct crop crop = random_window(&stream, width, height), straight = crop;
        const struct tensor_format bytes = {.type = TENSOR_U8, .layout = TENSOR_NHWC};
        straight.flip = false;
        scene_run(&scene, &straight, PIXELS_FAST, &bytes);
        assert_ok(picture_resize(&picture, crop.window.width, crop.window.height));
        for (uint32_t y = 0; y < crop.window.height; y++)
            memcpy(picture.pixels + y * picture.stride_bytes,
                   scene.out + 3 * (size_t)y * crop.window.width, 3 * (size_t)crop.window.width);
        struct tensor_format format = random_format(&stream);
        size_t size_bytes = scene_run(&scene, &crop, PIXELS_FAST, &format);
        tensor_write(&format, &picture, crop.flip, scene.expected);
        if (memcmp(scene.out, scene.expected, size_bytes) != 0)
            fail_msg("case %u, %s of %u x %u differs", (unsigned)n, kind->name, width, height);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_pixels_take_no_other_way),
        cmocka_unit_test(real_crops_are_exact),
        cmocka_unit_test(fast_pixels_are_close),
        cmocka_unit_test(fast_pixels_have_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
