#include "tests/test.h"

#include <math.h>

#include "base/path.h"
#include "tests/support/interfere.h"
#include "tests/support/train_ranks.h"
#include "train/checkpoint.h"
#include "train/history.h"

/* The trainer on the CUDA backend, which stands on stand-ins: devices of one process and of
 * several. */

#define CUDA "--device cuda --dtype f32 --image-size 32 --lr 0.002 --threads 1 -p 1 --epochs 1 "
#define SYNTHETIC CUDA "--synthetic --synthetic-classes 6 "

static void devices_are(unsigned count)
{
    char text[16];
    snprintf(text, sizeof text, "%u", count);
    setenv("STANDIN_DEVICES", text, 1);
}

/* Runs in `size` processes with so many devices each. */
static void run_on(unsigned size, unsigned devices, const char *text, const char *path)
{
    char whole[1024];
    devices_are(size * devices);
    snprintf(whole, sizeof whole, "--gpus %u %s --out ", devices, text);
    ranks_train_well(size, whole, path);
}

/* The same micro-batches, two images each, one after the other or on as many devices; the last step
 * has half of them. */
static void test_micro_batches_and_devices(void **state)
{
    (void)state;
    char text[512];
    snprintf(text, sizeof text, CUDA "--train %s -b 8 --accumulate 4", test_path("data/even"));
    run_on(1, 1, text, "1x1");
    text[strlen(text) - 1] = '2';
    run_on(1, 2, text, "1x2");
    run_on(2, 1, text, "2x1");
    expect_losses("1x2", "1x1", 2, 1e-5);
    assert_same_file(test_path("1x2/checkpoint.safetensors"),
                     test_path("2x1/checkpoint.safetensors"));
}

/* Normalised jointly, a run is that of one device with the whole micro-batches, the partial window
 * at an epoch's end too, and goes on with any number of devices and processes. */
static void test_joined_bn(void **state)
{
    (void)state;
    static const char text[] = SYNTHETIC "--synthetic-images 40 -b 16 --accumulate 2 --sync-bn";
    run_on(1, 1, text, "joined");
    run_on(2, 2, text, "joined-2x2");
    expect_losses("joined-2x2", "joined", 3, 1e-5);
    run_on(2, 1, SYNTHETIC "--synthetic-images 40 -b 16 --accumulate 2 --sync-bn --steps 1",
           "joined-parts");
    run_on(1, 4, "--resume auto", "joined-parts");
    expect_losses("joined-parts", "joined", 3, 1e-5);
}

/* The order of both epochs is that of the reference backend, and the same after a resumption, in
 * the middle of an epoch and on other processes. The rate, one that f32 holds, leaves the weights
 * as they are: normalising flat images multiplies rounding from step to step. What the images were
 * shows in the losses and in the running statistics. */
static void test_order(void **state)
{
    (void)state;
    char text[512], other[600];
    snprintf(text, sizeof text,
             CUDA "--train %s -b 8 --epochs 2 --sync-bn --lr 9.094947017729282e-13",
             test_path("data/twenty-two"));
    run_on(1, 2, text, "order");
    snprintf(other, sizeof other, "%s --device reference --out ", text);
    ranks_train_well(1, other, "order-reference");
    expect_losses("order", "order-reference", 6, 1e-4);
    snprintf(other, sizeof other, "%s --steps 4", text);
    run_on(2, 1, other, "order-parts");
    run_on(1, 2, "--resume auto", "order-parts");
    assert_same_file(test_path("order/checkpoint.safetensors"),
                     test_path("order-parts/checkpoint.safetensors"));
}

static void breaks(unsigned first, unsigned count)
{
    interference.break_first = first;
    interference.break_count = count;
}

/* The step is counted, the rate and the weights wait for it, the scale halves; in parts, on another
 * number of processes, the run ends with the same bytes. */
static void test_a_skipped_step(void **state)
{
    (void)state;
    static const char text[] =
        SYNTHETIC "--synthetic-images 16 -b 4 --schedule linear --loss-scale dynamic";
    CLEANUP(history_free) struct history *history = NULL;
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    ranks_train_settings.prepare = interfere;
    breaks(1, 1);
    run_on(1, 2, text, "skip");
    assert_ok(history_read(test_path("skip"), &history));
    assert_int_equal(history->train_count, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_true(fabs(history->trains[i].lr - .002 * (1 - (i > 1 ? i - 1 : i) / 4.)) < 1e-9);
    run_on(2, 1,
           SYNTHETIC "--synthetic-images 16 -b 4 --schedule linear --loss-scale dynamic --steps 2",
           "parts");
    breaks(0, 0);
    run_on(1, 2, "--resume auto", "parts");
    assert_same_file(test_path("skip/checkpoint.safetensors"),
                     test_path("parts/checkpoint.safetensors"));
    assert_ok(checkpoint_load(test_path("parts/checkpoint"), &checkpoint));
    assert_int_equal(checkpoint->state.skipped, 1);
    assert_true(checkpoint->state.scale.value == 32768);
    assert_int_equal(checkpoint->state.scale.clean_steps, 2);
}

/* A run that ends by its skipped steps; of two processes both say so. */
static void check_broken(unsigned size, const char *text, const char *says, const char *path)
{
    devices_are(size);
    struct rank_end end = ranks_train(size, true, size - 1, text, path);
    expect_message(&end, says);
    expect_message(&end, "on the way back the first was that of layer4.1.conv2.weight");
}

/* The third in a row ends a run with a scale that stays, the twentieth one with a scale that falls.
 */
static void test_repeated_skips_name_the_layer(void **state)
{
    (void)state;
    ranks_train_settings.prepare = interfere;
    breaks(1, 99);
    check_broken(2, SYNTHETIC "--synthetic-images 16 -b 4 --loss-scale 128 --gpus 1 --out ",
                 "3 steps in a row were skipped, because gradients were not finite (epoch 0, "
                 "before step 4, loss scale 128)",
                 "broken");
    check_broken(1, SYNTHETIC "--synthetic-images 48 -b 2 --loss-scale dynamic --gpus 1 --out ",
                 "20 steps in a row were skipped, because gradients were not finite (epoch 0, "
                 "before step 21, loss scale 0.125)",
                 "broken-dynamic");
    breaks(0, 0);
    ranks_train_settings.prepare = NULL;
}

/* Training images that do not divide evenly: equal steps, and no batch of one. */
static void test_uneven_sets(void **state)
{
    (void)state;
    CLEANUP(history_free) struct history *history = NULL;
    char text[512];
    snprintf(text, sizeof text, CUDA "%s -b 12", test_path("data"));
    run_on(3, 1, text, "uneven");
    assert_ok(history_read(test_path("uneven"), &history));
    assert_int_equal(history->train_count, 2);
    assert_true(isfinite(history->trains[1].loss));
}

/* Each image counts once, for any number of processes and devices, with its mirror image too. */
static void test_evaluation_is_exact(void **state)
{
    (void)state;
    static const unsigned runs[][2] = {{1, 1}, {1, 3}, {2, 2}};
    struct metric_sums first = {0};
    char text[512];
    ranks_train_settings.sums_path = test_path("sums");
    snprintf(text, sizeof text, "-e --resume %s --val-flip -b 3", test_path("uneven"));
    for (size_t i = 0; i < ARRAY_LENGTH(runs); i++) {
        CLEANUP(buffer_done) struct buffer buffer = {0};
        struct metric_sums sums;
        run_on(runs[i][0], runs[i][1], text, "no");
        assert_ok(file_read_all(test_path("sums"), sizeof sums, &buffer));
        memcpy(&sums, buffer.data, sizeof sums);
        first = i == 0 ? sums : first;
        assert_int_equal(sums.count, 10);
        assert_int_equal(sums.top1, first.top1);
        assert_int_equal(sums.top5, first.top5);
        assert_true(fabs(sums.loss - first.loss) < 1e-5 * first.loss);
    }
    ranks_train_settings.sums_path = NULL;
    assert_false(path_exists(test_path("no")));
}

/* 13 training images, one more than a batch, or 12, or 22, and 10 for validation; the module on
 * stand-ins. */
static int set_up(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *folder = NULL, *modules = NULL;
    for (unsigned i = 0; i < 13; i++)
        plain_image_write("train", i % 3, i, 0);
    for (unsigned i = 0; i < 12; i++)
        plain_image_write("even", i % 3, i, 0);
    for (unsigned i = 0; i < 22; i++)
        plain_image_write("twenty-two", i % 3, i, 0);
    for (unsigned i = 0; i < 10; i++)
        plain_image_write("val", i % 3, i, 0);
    assert_ok(path_program_folder(&folder));
    assert_ok(path_join(folder, "../trial", &modules));
    setenv("HEADRACE_MODULES", modules, 1);
    setenv("XDG_CACHE_HOME", test_path("cache"), 1);
    return 0;
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_micro_batches_and_devices),
        cmocka_unit_test(test_joined_bn),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_a_skipped_step),
        cmocka_unit_test(test_repeated_skips_name_the_layer),
        cmocka_unit_test(test_uneven_sets),
        cmocka_unit_test(test_evaluation_is_exact),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
