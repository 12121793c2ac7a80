#include "tests/test.h"

#include "base/disk.h"
#include "image/decode.h"
#include "image/picture.h"
#include "tests/support/train_run.h"
#include "train/checkpoint.h"

#define SYNTHETIC                                                                                  \
    "--device reference --synthetic --synthetic-images 10 --synthetic-classes 6 -b 3 "             \
    "--image-size 32 --lr 0.01 --epochs 2 --threads 1 "

/* Arguments that name folders of the test. */
static const char *with_paths(const char *format, const char *first, const char *second)
{
    static char texts[4][2048];
    static unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], format, test_path(first), second ? test_path(second) : "");
    return text;
}

/* A run of one step, from which most tests go on: drawing the first weights takes longer than a
 * step. */
static int base_make(void **state)
{
    (void)state;
    assert_ok(train_run(with_paths(SYNTHETIC "--steps 1 --out %s", "base", NULL)));
    return 0;
}

static void test_a_resumed_run_ends_with_the_same_weights(void **state)
{
    (void)state;
    assert_ok(train_run(with_paths(SYNTHETIC "--resume auto --out %s", "whole", NULL)));
    /* Cut in the middle of an epoch, between epochs, and inside the second one. */
    const char *const cuts[] = {" --steps 2", " --steps 4", " --steps 5 --checkpoint-steps 1", ""};
    assert_ok(train_run(with_paths("--resume %s --steps 1 --out %s", "base", "parts")));
    for (size_t i = 0; i < ARRAY_LENGTH(cuts); i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "--out %s --resume auto%s", test_path("parts"),
                 cuts[i]);
        assert_ok(train_run(arguments));
    }
    assert_same_file(test_path("whole/checkpoint.safetensors"),
                     test_path("parts/checkpoint.safetensors"));
    assert_same_file(test_path("whole/model_best.safetensors"),
                     test_path("parts/model_best.safetensors"));
}

/* Crops of 32 pixels, 40 from the second epoch on, whether it is cut or not. */
static void test_crops_grow(void **state)
{
    (void)state;
    static const char ramp[] = "--resume %s --image-size 40 --image-size-start 32 --ramp-end 1 "
                               "--val-crop 32 --out %s";
    FILE *lines = fopen(test_path("ramp-lines"), "w+");
    assert_non_null(lines);
    assert_ok(train_run_sums(with_paths(ramp, "base", "ramp-whole"), lines, NULL));
    fclose(lines);
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --steps 6", with_paths(ramp, "base", "ramp-parts"));
    assert_ok(train_run(arguments));
    assert_ok(train_run(with_paths("--resume auto --out %s", "ramp-parts", NULL)));
    assert_same_file(test_path("ramp-whole/checkpoint.safetensors"),
                     test_path("ramp-parts/checkpoint.safetensors"));
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *content;
    assert_ok(file_read_all(test_path("ramp-lines"), 1 << 20, &text));
    assert_ok(buffer_text(&text, &content));
    assert_non_null(
        strstr(content, "\ncrops of 32 pixels; 32 to epoch 0, growing to 40 in epoch 1\n"));
    assert_non_null(strstr(content, "\nepoch 1: crops of 40 pixels from here on\nEpoch: [1][0/4]"));
    assert_ok(file_read_all(test_path("ramp-parts/log.jsonl"), 1 << 20, &text));
    assert_ok(buffer_text(&text, &content));
    assert_non_null(
        strstr(content, "{\"kind\": \"image_size\", \"epoch\": 1, \"image_size\": 40}"));
    assert_fails(train_run("--synthetic --image-size-start 256"), STATUS_USAGE, "larger than");
    assert_fails(train_run("--synthetic --image-size-start 160 --ramp-start 3"), STATUS_USAGE,
                 "later --ramp-end");
}

static void test_a_run_folder_is_not_written_over(void **state)
{
    (void)state;
    assert_fails(train_run(with_paths(SYNTHETIC "--out %s", "base", NULL)), STATUS_USAGE,
                 "--resume auto");
    assert_fails(train_run(with_paths("--resume %s --out %s", "base", "parts")), STATUS_USAGE,
                 "holds a run already");
    assert_fails(train_run(with_paths("--resume %s", "nothing", NULL)), STATUS_NOT_FOUND,
                 "--weights");
    assert_fails(train_run(with_paths("--resume %s --arch resnet34", "base", NULL)), STATUS_USAGE,
                 "resnet18");
    assert_fails(train_run(with_paths("--resume %s --batch-size 2", "base", NULL)), STATUS_USAGE,
                 "--batch-size");
    assert_fails(train_run(with_paths("--resume %s --order window --out %s", "base", "order")),
                 STATUS_USAGE, "with --order shuffle");
    assert_fails(train_run(with_paths("--resume %s --pixels fast --out %s", "base", "pixels")),
                 STATUS_USAGE, "trained with --pixels pillow");
}

static void test_another_dtype_is_refused(void **state)
{
    (void)state;
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    assert_ok(checkpoint_load(test_path("base/checkpoint"), &checkpoint));
    checkpoint->state.dtype = DTYPE_BF16;
    assert_ok(folder_create(test_path("dtype")));
    assert_ok(checkpoint_save(test_path("dtype/checkpoint"), checkpoint->weights,
                              &checkpoint->state, checkpoint->classes,
                              checkpoint_options(checkpoint)));
    assert_fails(train_run(with_paths("--resume %s --dtype f32", "dtype", NULL)), STATUS_USAGE,
                 "--dtype bf16");
    assert_ok(
        train_run(with_paths("--resume %s --dtype f32 --force-dtype --steps 2", "dtype", NULL)));
}

static void step_check(const char *stem, uint64_t step)
{
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    assert_ok(checkpoint_load(test_path(stem), &checkpoint));
    assert_int_equal(checkpoint->state.step, step);
}

static void test_a_loss_that_is_not_finite_stops_the_run(void **state)
{
    (void)state;
    assert_fails(train_run(
                     with_paths("--resume %s --lr 1e6 --weight-decay 1e6 -p 1 --epochs 9 --out %s",
                                "base", "nan")),
                 STATUS_FAILED, "not finite");
}

static void test_a_full_disk_does_not_end_the_training(void **state)
{
    (void)state;
    assert_ok(train_run(with_paths("--resume %s --steps 2 --out %s", "base", "full")));
    const char *arguments = with_paths("--resume %s --epochs 1 --checkpoint-steps 3", "full", NULL);
    disk_set_fault("ENOSPC:40");
    struct status status = train_run(arguments);
    disk_set_fault(NULL);
    assert_fails(status, STATUS_NO_SPACE, "the run ended without its last checkpoint");
    step_check("full/checkpoint", 2);
}

/* ROOT/PART/CLASS/I.JPEG: flat colours with some noise, one colour a class. */
static void image_write(const char *part, const char *class_name, unsigned i)
{
    CLEANUP(picture_done) struct picture picture = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    char name[128];
    snprintf(name, sizeof name, "data/%s/%s", part, class_name);
    assert_ok(folder_create(test_path(name)));
    assert_ok(picture_resize(&picture, 40 + i, 36));
    for (uint32_t y = 0; y < picture.height; y++)
        for (uint32_t x = 0; x < picture.width * 3; x++)
            picture.pixels[y * picture.stride_bytes + x] =
                (uint8_t)((class_name[0] - 'a') * 90 + (x * y * (i + 1)) % 30);
    assert_ok(jpeg_encode(&picture, 90, &bytes));
    snprintf(name, sizeof name, "data/%s/%s/%u.JPEG", part, class_name, i);
    assert_ok(file_write_plain(test_path(name), bytes.data, bytes.length));
}

static void data_make(void)
{
    const char *const classes[] = {"ant", "bee", "cat"};
    for (unsigned i = 0; i < 12; i++)
        image_write("train", classes[i % 3], i);
    for (unsigned i = 0; i < 10; i++)
        image_write("val", classes[i % 3], i);
    for (unsigned i = 0; i < 4; i++)
        image_write("some", classes[1 + i % 2], i);
    image_write("foreign", "dog", 0);
}

#define DATA "--device reference -b 5 --image-size 32 --lr 0.02 --threads 1 "

/* Every image once, whatever the batch; a set of some classes by their names. */
static void test_evaluation_counts_each_image_once(void **state)
{
    (void)state;
    data_make();
    assert_ok(train_run(with_paths(DATA "%s --epochs 3 --out %s", "data", "fit")));
    struct metric_sums sums[4];
    const char *const batches[] = {"1", "3", "10", "64"};
    for (size_t i = 0; i < ARRAY_LENGTH(batches); i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "-e --resume %s -b %s", test_path("fit"), batches[i]);
        assert_ok(train_run_sums(arguments, NULL, &sums[i]));
        assert_int_equal(sums[i].count, 10);
        assert_int_equal(sums[i].top1, sums[0].top1);
        assert_int_equal(sums[i].top5, 10);
    }
    struct metric_sums some;
    assert_ok(
        train_run_sums(with_paths("-e --resume %s --val %s", "fit", "data/some"), NULL, &some));
    assert_int_equal(some.count, 4);
    assert_fails(train_run_sums(with_paths("-e --resume %s --val %s", "fit", "data/foreign"), NULL,
                                &some),
                 STATUS_CORRUPT, "dog");
    assert_fails(train_run(with_paths("--resume %s --train %s", "fit", "data/foreign")),
                 STATUS_CORRUPT, "dog");
}

/* An epoch over images says what loading them took. */
static void test_loading_is_told(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *content;
    assert_ok(file_read_all(test_path("fit/log.jsonl"), 1 << 20, &text));
    assert_ok(buffer_text(&text, &content));
    const char *record = strstr(content, "{\"kind\": \"loader\", \"epoch\": 0, \"images\": 15, ");
    assert_non_null(record);
    record = strstr(record, "\"wait_seconds\": ");
    assert_non_null(record);
    assert_non_null(strstr(record, "{\"kind\": \"loader\", \"epoch\": 2, "));
}

/* Weights alone give the accuracy of the run that they came from. */
static void test_weights_start_a_run(void **state)
{
    (void)state;
    struct metric_sums resumed, loaded;
    assert_ok(train_run_sums(with_paths("-e --resume %s", "fit", NULL), NULL, &resumed));
    char arguments[1024];
    snprintf(arguments, sizeof arguments, DATA "-e %s --weights %s", test_path("data"),
             test_path("fit/checkpoint.safetensors"));
    assert_ok(train_run_sums(arguments, NULL, &loaded));
    assert_int_equal(loaded.top1, resumed.top1);
    assert_fails(train_run(with_paths(DATA "-e %s", "data", NULL)), STATUS_USAGE, "needs weights");
    assert_fails(train_run("--pretrained --synthetic"), STATUS_USAGE, "--weights FILE");
}

static void test_lines_and_log(void **state)
{
    (void)state;
    FILE *lines = fopen(test_path("lines"), "w+");
    assert_non_null(lines);
    assert_ok(
        train_run_sums(with_paths("--resume %s -p 2 --out %s", "base", "logged"), lines, NULL));
    fclose(lines);
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *content;
    assert_ok(file_read_all(test_path("lines"), 1 << 20, &text));
    assert_ok(buffer_text(&text, &content));
    assert_non_null(
        strstr(content, "\nbatch 3 = 1 device x 3, lr 0.01, not scaled; 10 images, 4 steps"));
    assert_non_null(strstr(content, "\nEpoch: [0][2/4]\tTime "));
    assert_non_null(strstr(content, "\nEpoch: [1][2/4]\tTime "));
    assert_non_null(strstr(content, "\nTest: [0/1]\tTime "));
    assert_non_null(strstr(content, "\n * Acc@1 "));
    assert_ok(file_read_all(test_path("logged/log.jsonl"), 1 << 20, &text));
    assert_ok(buffer_text(&text, &content));
    assert_non_null(strstr(content, "{\"kind\": \"start\", \"version\": 1"));
    assert_non_null(strstr(content, "{\"kind\": \"eval\", \"epoch\": 1"));
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_resumed_run_ends_with_the_same_weights),
        cmocka_unit_test(test_crops_grow),
        cmocka_unit_test(test_a_run_folder_is_not_written_over),
        cmocka_unit_test(test_another_dtype_is_refused),
        cmocka_unit_test(test_a_loss_that_is_not_finite_stops_the_run),
        cmocka_unit_test(test_a_full_disk_does_not_end_the_training),
        cmocka_unit_test(test_evaluation_counts_each_image_once),
        cmocka_unit_test(test_loading_is_told),
        cmocka_unit_test(test_weights_start_a_run),
        cmocka_unit_test(test_lines_and_log),
    };
    return cmocka_run_group_tests(tests, base_make, NULL);
}
