#include "tests/test.h"

#include "tests/support/jpeg_folder.h"
#include "tests/support/train_run.h"
#include "train/checkpoint.h"
#include "train/dataset.h"
#include "train/mixup.h"
#include "train/options.h"
#include "train/replay.h"

#define ARGUMENTS                                                                                  \
    "--device reference -b 12 --image-size 40 --image-size-start 32 --ramp-start 1 --ramp-end 2 "  \
    "--lr 0.01 --mixup 0.2 --crop-scale 0.6 --threads 1 --epochs 3 --steps 1 "                     \
    "--order window --window 20 "

/* 40 images: 4 steps an epoch. */
static int runs_make(void **state)
{
    (void)state;
    char arguments[2048];
    jpeg_folder_make(test_path("data/train"));
    jpeg_folder_make(test_path("data/val"));
    snprintf(arguments, sizeof arguments, ARGUMENTS "%s --out %s", test_path("data"),
             test_path("run"));
    assert_ok(train_run(arguments));
    snprintf(arguments, sizeof arguments, "--resume %s --seed 7 --steps 2 --out %s",
             test_path("run"), test_path("other"));
    assert_ok(train_run(arguments));
    snprintf(arguments, sizeof arguments, "--resume %s --accumulate 4 --mixup 0 --steps 2 --out %s",
             test_path("run"), test_path("micro"));
    assert_ok(train_run(arguments));
    return 0;
}

/* What the trainer feeds from a position on, after a resumption: the same calls. */
static struct dataset *fed_from(uint64_t epoch, uint64_t step)
{
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    const struct option_parse *none;
    struct option_parse *parse = NULL;
    struct train_options options;
    struct dataset *data = NULL;
    assert_ok(memory_alloc(1, sizeof *parse, &parse));
    none = parse;
    train_options_init(&options);
    assert_ok(checkpoint_load(test_path("run/checkpoint"), &checkpoint));
    assert_ok(option_restore(train_option_table, checkpoint_options(checkpoint), &options, none));
    assert_ok(dataset_open(&options, checkpoint->classes, true, &data));
    struct division whole = {.processes = 1, .replicas = 1, .accumulate = 1};
    assert_ok(division_make((uint32_t)options.batch_size, &whole));
    const struct ramp ramp = train_options_ramp(&options);
    assert_ok(dataset_start_train(data, &options, &whole, &tensor_format_imagenet,
                                  ramp_size(&ramp, epoch)));
    assert_ok(feed_start(data->train, epoch, step));
    memory_free(parse);
    return data;
}

/* Steps `first` and `first` + 1 of the run, which has 4 an epoch, and crops of `size` pixels there.
 */
static void steps_check(uint64_t first, uint32_t size)
{
    CLEANUP(replay_close) struct replay *replay = NULL;
    CLEANUP(dataset_close) struct dataset *data = fed_from(first / 4, first % 4);
    const size_t bytes = 12 * tensor_image_bytes(&tensor_format_imagenet, size, size);
    assert_ok(replay_open(test_path("run"), NULL, NULL, &replay));
    assert_int_equal(replay_steps(replay), 12);
    assert_true(replay_mixed_in(replay, first) == mixup_share(.2, 0, first / 4, first % 4));
    for (uint64_t step = first; step < first + 2; step++) {
        struct step_input input;
        const struct batch *batch;
        bool done;
        assert_int_equal(replay_image_size(replay, step), size);
        assert_ok(feed_next(data->train, &input, &done));
        assert_false(done);
        assert_ok(replay_batch(replay, step, &tensor_format_imagenet, &batch));
        assert_memory_equal(batch->images, input.images, bytes);
        assert_memory_equal(batch->labels, input.labels, 12 * sizeof(int32_t));
        for (uint32_t slot = 0; slot < 12; slot++) {
            struct replay_record record;
            assert_ok(replay_record_at(replay, step, slot, &record));
            assert_int_equal(record.label, input.labels[slot]);
            const struct crop *crop = &batch->samples[slot].crop;
            assert_memory_equal(&record.crop.box, &crop->box, sizeof crop->box);
            assert_int_equal(record.crop.flip, crop->flip);
            assert_int_equal(record.crop.out_width, size);
        }
    }
}

static void test_a_replayed_batch_has_the_runs_pixels(void **state)
{
    (void)state;
    steps_check(6, 32); /* the last one goes on at the order's start */
}

static void test_crops_grow_as_in_the_run(void **state)
{
    (void)state;
    steps_check(9, 40);
}

/* The last of 40 images are in two micro-batches of three. */
static void test_the_last_step_has_the_images_it_took(void **state)
{
    (void)state;
    CLEANUP(replay_close) struct replay *whole = NULL, *micro = NULL;
    assert_ok(replay_open(test_path("run"), NULL, NULL, &whole));
    assert_ok(replay_open(test_path("micro"), NULL, NULL, &micro));
    assert_int_equal(replay_step_images(whole, 3), 12);
    assert_int_equal(replay_step_images(micro, 2), 12);
    assert_int_equal(replay_step_images(micro, 7), 6);
}

/* Bytes for people are the numbers that the network saw. */
static void test_pictures_are_what_the_network_saw(void **state)
{
    (void)state;
    CLEANUP(replay_close) struct replay *replay = NULL;
    CLEANUP(memory_free) float *floats = NULL;
    const struct tensor_format bytes = {.type = TENSOR_U8, .layout = TENSOR_NHWC};
    const size_t count = (size_t)12 * 32 * 32 * 3;
    const struct batch *batch;
    assert_ok(replay_open(test_path("run"), test_path("data"), NULL, &replay));
    assert_ok(replay_batch(replay, 3, &tensor_format_imagenet, &batch));
    assert_ok(memory_alloc(count, sizeof *floats, &floats));
    memcpy(floats, batch->images, count * sizeof *floats);
    assert_ok(replay_batch(replay, 3, &bytes, &batch));
    for (size_t i = 0; i < count; i++) {
        float pixel = (float)((const uint8_t *)batch->images)[i] / 255;
        float expected =
            (pixel - tensor_format_imagenet.mean[i % 3]) / tensor_format_imagenet.std[i % 3];
        assert_true(floats[i] - expected < 1e-5f && expected - floats[i] < 1e-5f);
    }
}

static void test_another_seed_differs(void **state)
{
    (void)state;
    CLEANUP(replay_close) struct replay *replay = NULL;
    CLEANUP(replay_close) struct replay *other = NULL;
    struct replay_record a, b;
    bool same = true;
    assert_ok(replay_open(test_path("run"), NULL, NULL, &replay));
    assert_ok(replay_open(test_path("other"), NULL, NULL, &other));
    for (uint32_t slot = 0; slot < 12; slot++) {
        assert_ok(replay_record_at(replay, 5, slot, &a));
        assert_true(replay_record_is_same(&a, &a));
        assert_ok(replay_record_at(other, 5, slot, &b));
        same = same && replay_record_is_same(&a, &b);
    }
    assert_false(same);
}

static void test_what_cannot_be_replayed(void **state)
{
    (void)state;
    struct replay *replay = NULL;
    assert_fails(replay_open(test_path("data"), NULL, NULL, &replay), STATUS_NOT_FOUND,
                 "log.jsonl");
    assert_fails(replay_open(test_path("run"), test_path("nowhere"), NULL, &replay),
                 STATUS_NOT_FOUND, "nowhere");
    jpeg_folder_make(test_path("moved/train"));
    assert_ok(file_remove(test_path("moved/train/a/x_0.JPEG")));
    assert_fails(replay_open(test_path("run"), test_path("moved"), NULL, &replay), STATUS_FAILED,
                 "40 images");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_replayed_batch_has_the_runs_pixels),
        cmocka_unit_test(test_crops_grow_as_in_the_run),
        cmocka_unit_test(test_the_last_step_has_the_images_it_took),
        cmocka_unit_test(test_pictures_are_what_the_network_saw),
        cmocka_unit_test(test_another_seed_differs),
        cmocka_unit_test(test_what_cannot_be_replayed),
    };
    test_folder_in_memory();
    return cmocka_run_group_tests(tests, runs_make, NULL);
}
