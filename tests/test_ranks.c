#include "tests/test.h"

#include <math.h>
#include <sched.h>

#include "base/file.h"
#include "base/pool.h"
#include "tests/support/train_ranks.h"
#include "train/checkpoint.h"
#include "train/history.h"
#include "train/ranks.h"
#include "train/run_state.h"

/* The trainer in several processes. */

#define REFERENCE "--device reference --image-size 32 --lr 0.01 --threads 1 -p 1 "
#define SYNTHETIC REFERENCE "--synthetic --synthetic-images 20 --synthetic-classes 6 "

/* This process's share of the machine's cores; ranks bound to cores of their own have those. */
static bool is_bound;

static struct status rank_settle(struct comm *comm)
{
    cpu_set_t all, own;
    unsigned cores = cores_available(), wanted = cores / comm_size(comm);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (is_bound) {
        CPU_ZERO(&own);
        unsigned chosen = 0;
        for (int core = 0; core < CPU_SETSIZE; core++)
            if (CPU_ISSET(core, &all) && chosen++ % comm_size(comm) == comm_rank(comm))
                CPU_SET(core, &own);
        assert_int_equal(sched_setaffinity(0, sizeof own, &own), 0);
        wanted = (unsigned)CPU_COUNT(&own);
    }
    TRY(ranks_settle(comm));
    assert_int_equal(cores_available(), wanted ? wanted : 1);
    return OK;
}

static void test_cores_are_divided(void **state)
{
    (void)state;
    if (cores_available() < 2)
        skip();
    for (unsigned size = 1; size <= 3; size++) {
        struct ranks ranks;
        is_bound = size == 2;
        ranks_begin(&ranks, size, (struct comm_options){.silence_timeout_s = 60});
        ranks_start_all(&ranks, rank_settle);
        for (unsigned rank = 0; rank < size; rank++) {
            struct rank_end end = ranks_wait(&ranks, rank);
            if (end.status)
                fail_msg("rank %u ended with %d: %s", rank, end.status, end.message);
        }
    }
}

/* The same global batches, normalised jointly: the same losses, for any number of processes. */
static void test_losses_are_those_of_one_process(void **state)
{
    (void)state;
    ranks_train_well(1, SYNTHETIC "-b 8 --epochs 1 --lr 0.002 --out ", "one");
    ranks_train_well(2, SYNTHETIC "-b 8 --epochs 1 --lr 0.002 --sync-bn --out ", "two");
    ranks_train_well(4, SYNTHETIC "-b 8 --epochs 1 --lr 0.002 --sync-bn --out ", "four");
    expect_losses("two", "one", 3, 1e-5);
    expect_losses("four", "one", 3, 1e-5);
}

/* So do micro-batches, which are normalised each by itself, with or without processes. */
static void test_micro_batches_are_divided_too(void **state)
{
    (void)state;
    ranks_train_well(1, SYNTHETIC "-b 8 --epochs 1 --accumulate 2 --lr 0.002 --out ", "one-micro");
    ranks_train_well(2, SYNTHETIC "-b 8 --epochs 1 --accumulate 2 --lr 0.002 --sync-bn --out ",
                     "two-micro");
    expect_losses("two-micro", "one-micro", 3, 1e-5);
}

/* Two processes, stopped in the middle of an epoch and resumed, end in the same bytes. */
static void test_a_resumed_run_is_the_same(void **state)
{
    (void)state;
    ranks_train_well(2, SYNTHETIC "-b 6 --epochs 2 --ema 0.9 --ema-steps 1 --out ", "whole");
    ranks_train_well(2, SYNTHETIC "-b 6 --epochs 2 --ema 0.9 --ema-steps 1 --steps 2 --out ",
                     "parts");
    ranks_train_well(2, "--resume auto --steps 5 --out ", "parts");
    ranks_train_well(2, "--resume auto --out ", "parts");
    ranks_train_well(2, "--resume auto --out ", "parts"); /* nothing is left to do */
    assert_same_file(test_path("whole/checkpoint.safetensors"),
                     test_path("parts/checkpoint.safetensors"));
    assert_same_file(test_path("whole/ema.safetensors"), test_path("parts/ema.safetensors"));
}

/* Another number of processes goes on with the same batches. */
static void test_another_number_of_ranks_goes_on(void **state)
{
    (void)state;
    ranks_train_well(1, SYNTHETIC "-b 8 --epochs 1 --lr 0.002 --sync-bn --steps 1 --out ", "grown");
    ranks_train_well(2, "--resume auto --steps 2 --out ", "grown");
    ranks_train_well(4, "--resume auto --out ", "grown");
    expect_losses("grown", "one", 3, 1e-5);
}

/* 145 training images, 10 for validation, and 12 of which one is broken. */
static int data_make(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 145; i++)
        plain_image_write("train", i % 3, i, 0);
    for (unsigned i = 0; i < 10; i++)
        plain_image_write("val", i % 3, i, 0);
    for (unsigned i = 0; i < 12; i++)
        plain_image_write("broken", i % 3, i, i == 10 ? 200 : 0);
    return 0;
}

/* A set of so many images does not divide evenly: all ranks make the same steps. */
static void test_ranks_make_equal_steps(void **state)
{
    (void)state;
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    char text[512];
    snprintf(text, sizeof text, REFERENCE "%s --epochs 1 -b 48 --out ", test_path("data"));
    ranks_train_well(3, text, "uneven");
    assert_ok(checkpoint_load(test_path("uneven/checkpoint"), &checkpoint));
    assert_int_equal(checkpoint->state.steps_per_epoch, 4);
    snprintf(text, sizeof text, REFERENCE "%s --epochs 1 -b 16 --out ", test_path("data"));
    struct rank_end end = ranks_train(3, true, 0, text, "no");
    expect_message(&end, "cannot be divided evenly over 3 processes x 1 device x 1 micro-batch: "
                         "take --batch-size 15 or 18");
}

/* One image more than a batch: the second batch is filled up. */
static void test_no_rank_trains_on_a_batch_of_one(void **state)
{
    (void)state;
    CLEANUP(history_free) struct history *history = NULL;
    char text[512];
    snprintf(text, sizeof text, REFERENCE "--train %s --epochs 1 -b 144 --out ",
             test_path("data/train"));
    ranks_train_well(2, text, "more");
    assert_ok(history_read(test_path("more"), &history));
    assert_int_equal(history->train_count, 2);
    assert_true(isfinite(history->trains[1].loss));
}

/* Each image counts once for any number of processes, and whatever the batch. */
static void test_evaluation_is_exact(void **state)
{
    (void)state;
    struct metric_sums first = {0};
    char text[512];
    ranks_train_settings.sums_path = test_path("sums");
    for (unsigned size = 1; size <= 4; size++) {
        CLEANUP(buffer_done) struct buffer buffer = {0};
        struct metric_sums sums;
        snprintf(text, sizeof text, "-e --resume %s -b 3 --out ", test_path("uneven"));
        ranks_train_well(size, text, "no");
        assert_ok(file_read_all(test_path("sums"), sizeof sums, &buffer));
        memcpy(&sums, buffer.data, sizeof sums);
        first = size == 1 ? sums : first;
        assert_int_equal(sums.count, 10);
        assert_int_equal(sums.top1, first.top1);
        assert_true(fabs(sums.loss - first.loss) < 1e-5 * first.loss);
    }
    ranks_train_settings.sums_path = NULL;
    assert_false(path_exists(test_path("no")));
}

/* An unreadable image in one process's part: left out of the divisor of all, or the end of all. */
static void test_an_unreadable_image_counts_for_nobody(void **state)
{
    (void)state;
    char text[512];
    snprintf(text, sizeof text,
             REFERENCE "--train %s --epochs 1 -b 12 --lr 0.002 --on-error skip --out ",
             test_path("data/broken"));
    ranks_train_well(1, text, "skip-one");
    snprintf(text, sizeof text,
             REFERENCE "--train %s --epochs 1 -b 12 --lr 0.002 --on-error skip --sync-bn --out ",
             test_path("data/broken"));
    ranks_train_well(2, text, "skip-two");
    expect_losses("skip-two", "skip-one", 1, 1e-5);
    snprintf(text, sizeof text, REFERENCE "--train %s --epochs 1 -b 12 --out ",
             test_path("data/broken"));
    struct rank_end ends[2];
    for (unsigned rank = 0; rank < 2; rank++)
        ends[rank] = ranks_train(2, true, rank, text, rank ? "fail1" : "fail0");
    unsigned finder = strncmp(ends[0].message, "rank", 4) == 0;
    expect_message(&ends[finder], "Premature end");
    char name[32];
    snprintf(name, sizeof name, "rank %u", finder);
    expect_message(&ends[!finder], name);
}

/* What differs between the processes is named before the first step. */
static void test_differences_are_named(void **state)
{
    (void)state;
    const char *common = SYNTHETIC "-b 8 --epochs 1 --out ";
    ranks_train_settings.odd_rank = 2;
    snprintf(ranks_train_settings.odd_arguments, sizeof ranks_train_settings.odd_arguments,
             "%s%s --lr 0.5", common, test_path("no"));
    struct rank_end end = ranks_train(4, true, 1, common, "no");
    expect_message(&end, "the command line of rank 2 is not that of rank 0: --lr is 0.5, expected "
                         "0.01; start all ranks with the same options");

    /* What decides which way a rank goes is compared before any goes there. */
    const struct {
        const char *option, *part;
    } turns[] = {
        {"--resume auto", "--resume is given, expected not given"},
        {"--weights w.safetensors", "--weights is given, expected not given"},
        {"-e", "--evaluate is on, expected off"},
        {"--plan", "--plan is on, expected off"},
        {"--rank-timeout 17", "--rank-timeout is 17, expected 0"},
    };
    ranks_train_settings.odd_rank = 1;
    for (size_t i = 0; i < ARRAY_LENGTH(turns); i++) {
        snprintf(ranks_train_settings.odd_arguments, sizeof ranks_train_settings.odd_arguments,
                 "%s%s %s", common, test_path("no"), turns[i].option);
        end = ranks_train(2, true, i % 2, common, "no");
        expect_message(&end, turns[i].part);
        assert_int_equal(end.status, 2);
    }

    char text[512];
    snprintf(text, sizeof text, REFERENCE "--train %s --epochs 1 -b 4 --out ",
             test_path("data/train"));
    snprintf(ranks_train_settings.odd_arguments, sizeof ranks_train_settings.odd_arguments,
             REFERENCE "--train %s --epochs 1 -b 4 --out %s", test_path("data/val"),
             test_path("no"));
    ranks_train_settings.odd_rank = 1;
    end = ranks_train(2, true, 0, text, "no");
    expect_message(&end, "the data of rank 1 is not that of rank 0: 3 classes");
    expect_message(&end, "10 images in the training set");
    assert_false(path_exists(test_path("no")));
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cores_are_divided),
        cmocka_unit_test(test_losses_are_those_of_one_process),
        cmocka_unit_test(test_micro_batches_are_divided_too),
        cmocka_unit_test(test_a_resumed_run_is_the_same),
        cmocka_unit_test(test_another_number_of_ranks_goes_on),
        cmocka_unit_test(test_ranks_make_equal_steps),
        cmocka_unit_test(test_no_rank_trains_on_a_batch_of_one),
        cmocka_unit_test(test_evaluation_is_exact),
        cmocka_unit_test(test_an_unreadable_image_counts_for_nobody),
        cmocka_unit_test(test_differences_are_named),
    };
    return cmocka_run_group_tests(tests, data_make, NULL);
}
