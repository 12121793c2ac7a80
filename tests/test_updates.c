#include "tests/test.h"

#include <math.h>

#include "base/file.h"
#include "image/decode.h"
#include "image/picture.h"
#include "tests/support/interfere.h"
#include "tests/support/train_run.h"
#include "train/checkpoint.h"
#include "train/history.h"
#include "train/mixup.h"

/* What the trainer makes of a step: gradients that are not finite, micro-batches, images that count
 * for nothing. */

#define SYNTHETIC                                                                                  \
    "--device reference --synthetic --synthetic-images 10 --synthetic-classes 6 -b 3 "             \
    "--image-size 32 --lr 0.01 --schedule linear --epochs 2 --threads 1 -p 1 "

/* Arguments that end with a folder of the test. */
static struct status run(const char *arguments, const char *out)
{
    char text[1024];
    snprintf(text, sizeof text, "%s --out %s", arguments, test_path(out));
    return train_run_prepared(text, interfere);
}

static void breaks(unsigned first, unsigned count)
{
    interference.break_first = first;
    interference.break_count = count;
}

/* The step is counted, the rate and the weights wait for it, the scale halves. */
static void test_a_skipped_step_holds_the_rate_back(void **state)
{
    (void)state;
    CLEANUP(history_free) struct history *history = NULL;
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    breaks(2, 1);
    assert_ok(run(SYNTHETIC "--loss-scale dynamic", "skip"));
    assert_ok(history_read(test_path("skip"), &history));
    assert_int_equal(history->train_count, 8);
    for (unsigned i = 0; i < 8; i++) {
        unsigned applied = i > 2 ? i - 1 : i;
        assert_true(fabs(history->trains[i].lr - .01 * (1 - applied / 8.)) < 1e-12);
    }
    assert_ok(checkpoint_load(test_path("skip/checkpoint"), &checkpoint));
    assert_int_equal(checkpoint->state.skipped, 1);
    assert_true(checkpoint->state.scale.value == 32768);
    assert_int_equal(checkpoint->state.scale.clean_steps, 5);
}

/* The same run in three parts ends with the same bytes: what a skip changed is in the state. */
static void test_a_resumed_run_knows_what_was_skipped(void **state)
{
    (void)state;
    breaks(2, 1);
    assert_ok(run(SYNTHETIC "--loss-scale dynamic --steps 3", "parts"));
    breaks(0, 0);
    assert_ok(run("--resume auto --steps 5", "parts"));
    assert_ok(run("--resume auto", "parts"));
    assert_same_file(test_path("skip/checkpoint.safetensors"),
                     test_path("parts/checkpoint.safetensors"));
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    assert_ok(checkpoint_load(test_path("parts/checkpoint"), &checkpoint));
    assert_int_equal(checkpoint->state.skipped, 1);
    assert_int_equal(checkpoint->state.scale.clean_steps, 5);
}

static void test_repeated_skips_name_the_layer(void **state)
{
    (void)state;
    breaks(1, 99);
    assert_fails(run(SYNTHETIC "--loss-scale 128", "broken"), STATUS_FAILED,
                 "3 steps in a row were skipped, because gradients were not finite (epoch 0, "
                 "before step 4, loss scale 128); on the way back the first was that of "
                 "layer4.1.conv2.weight");
    breaks(0, 2);
    assert_ok(run(SYNTHETIC "--loss-scale 128 --steps 4", "mended"));
    breaks(0, 0);
    assert_fails(run(SYNTHETIC "--loss-scale 0", "no"), STATUS_USAGE, "--loss-scale 0: ");
    assert_fails(run(SYNTHETIC "--loss-scale 1e40", "no"), STATUS_USAGE, "that f32 holds");
    assert_fails(run(SYNTHETIC "--loss-scale fast", "no"), STATUS_USAGE, "\"dynamic\" or a number");
}

static void expect_seen(size_t i, uint64_t divisor, bool adds, bool completes)
{
    assert_int_equal(interference.seen[i].divisor, divisor);
    assert_int_equal(interference.seen[i].adds, adds);
    assert_int_equal(interference.seen[i].completes, completes);
}

/* Ten images in steps of four, two micro-batches each: the last step has one. */
static void test_the_last_window_may_be_partial(void **state)
{
    (void)state;
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    assert_ok(run(SYNTHETIC "-b 4 --accumulate 2 --epochs 1", "micro"));
    assert_int_equal(interference.seen_count, 5);
    for (size_t i = 0; i < 4; i++)
        expect_seen(i, 4, i % 2 == 1, i % 2 == 1);
    expect_seen(4, 2, false, true);
    assert_int_equal(interference.updates, 3);
    assert_ok(checkpoint_load(test_path("micro/checkpoint"), &checkpoint));
    assert_int_equal(checkpoint->state.steps_per_epoch, 3);
    assert_ok(run(SYNTHETIC "-b 4 --accumulate 2 --epochs 1 --drop-last", "whole"));
    assert_int_equal(interference.seen_count, 4);
    assert_fails(run(SYNTHETIC "-b 4 --accumulate 3", "no"), STATUS_USAGE, "--batch-size 3 or 6");
}

/* ROOT/train/CLASS/I.JPEG, of which one ends early. */
static void images_make(void)
{
    for (unsigned i = 0; i < 12; i++) {
        CLEANUP(picture_done) struct picture picture = {0};
        CLEANUP(buffer_done) struct buffer bytes = {0};
        char name[64];
        assert_ok(picture_resize(&picture, 40, 36));
        memset(picture.pixels, (int)(20 * i), (size_t)picture.height * picture.stride_bytes);
        assert_ok(jpeg_encode(&picture, 90, &bytes));
        snprintf(name, sizeof name, "data/train/%s", i % 2 ? "ant" : "bee");
        assert_ok(folder_create(test_path(name)));
        snprintf(name, sizeof name, "data/train/%s/%u.JPEG", i % 2 ? "ant" : "bee", i);
        assert_ok(file_write_plain(test_path(name), bytes.data, i == 7 ? 200 : bytes.length));
    }
}

/* An unreadable image counts for nothing: not in the divisor either, of any of its micro-batches.
 */
static void test_the_divisor_counts_readable_images(void **state)
{
    (void)state;
    char text[512];
    images_make();
    snprintf(text, sizeof text,
             "--device reference -b 6 --accumulate 3 --image-size 32 --epochs 1 --threads 1 "
             "--on-error skip --train %s",
             test_path("data/train"));
    assert_ok(run(text, "unreadable"));
    assert_int_equal(interference.seen_count, 6);
    uint64_t valid = 0;
    for (size_t i = 0; i < 6; i++) {
        uint64_t of_step =
            interference.seen[i / 3 * 3].valid + interference.seen[i / 3 * 3 + 1].valid;
        of_step += interference.seen[i / 3 * 3 + 2].valid;
        expect_seen(i, of_step, i % 3 > 0, i % 3 == 2);
        valid += interference.seen[i].valid;
    }
    assert_int_equal(valid, 11);
}

#define MIXED                                                                                      \
    "--device reference --synthetic --synthetic-images 16 --synthetic-classes 6 -b 8 "             \
    "--image-size 32 --lr 0.01 --epochs 2 --threads 1 --mixup 0.2 "

/* One share a step, whatever it is divided into and wherever it is gone on from. */
static void test_a_step_has_one_share_of_mixup(void **state)
{
    (void)state;
    breaks(0, 0);
    assert_ok(run(MIXED "--accumulate 2 --steps 1", "mixed"));
    assert_int_equal(interference.seen_count, 2);
    assert_true(interference.seen[0].mixed_in == mixup_share(.2, 0, 0, 0));
    assert_true(interference.seen[0].mixed_in == interference.seen[1].mixed_in);
    assert_ok(run("--resume auto --steps 3", "mixed"));
    assert_int_equal(interference.seen_count, 4);
    assert_true(interference.seen[0].mixed_in == mixup_share(.2, 0, 0, 1));
    assert_true(interference.seen[2].mixed_in == mixup_share(.2, 0, 1, 0));
    assert_fails(run("--device reference --synthetic --image-size 32 --mixup 1 -b 3", "odd"),
                 STATUS_USAGE, "must be even, not 3");
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_skipped_step_holds_the_rate_back),
        cmocka_unit_test(test_a_resumed_run_knows_what_was_skipped),
        cmocka_unit_test(test_repeated_skips_name_the_layer),
        cmocka_unit_test(test_the_last_window_may_be_partial),
        cmocka_unit_test(test_the_divisor_counts_readable_images),
        cmocka_unit_test(test_a_step_has_one_share_of_mixup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
