#include "tests/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/path.h"
#include "tests/support/train_run.h"
#include "train/checkpoint.h"
#include "train/ema.h"
#include "train/safetensors.h"

/* torchvision's recipe of 600 epochs: 0.99998 on 8 GPUs with 128 images each. */
static void test_the_decay_is_rescaled(void **state)
{
    (void)state;
    const struct ema recipe = {.decay = .99998, .every = 32, .batch = 1024, .epochs = 600};
    assert_true(fabs(ema_rescaled_decay(&recipe) - .99891) < 5e-6);
    const struct ema tiny = {.decay = .5, .every = 32, .batch = 256, .epochs = 1};
    assert_true(ema_rescaled_decay(&tiny) == 0);
}

static void test_when_it_moves(void **state)
{
    (void)state;
    const struct ema ema = {
        .decay = .9999, .every = 4, .batch = 8, .epochs = 10, .warmup_epochs = 2};
    const struct ema none = {.every = 4, .batch = 8, .epochs = 10};
    double decay = -1, rescaled = ema_rescaled_decay(&ema);
    assert_false(ema_is_due(&ema, 0, 3, &decay));
    assert_false(ema_is_due(&none, 0, 4, &decay));
    assert_true(ema_is_due(&ema, 0, 0, &decay) && decay == 0);
    assert_true(ema_is_due(&ema, 1, 4, &decay) && decay == 0);
    assert_true(ema_is_due(&ema, 2, 0, &decay) &&
                decay == 0); /* the one before was in the warm-up */
    assert_true(ema_is_due(&ema, 2, 4, &decay) && decay == rescaled);
    assert_true(ema_is_due(&ema, 3, 0, &decay) && decay == rescaled);
}

#define SYNTHETIC                                                                                  \
    "--device reference --synthetic --synthetic-images 10 --synthetic-classes 6 -b 3 "             \
    "--image-size 32 --lr 0.01 --epochs 2 --threads 1 "
#define EMA "--ema 0.9 --ema-steps 1 "

static void run(const char *arguments, const char *out)
{
    char text[512];
    snprintf(text, sizeof text, "%s--out %s", arguments, test_path(out));
    assert_ok(train_run(text));
}

static struct checkpoint *loaded(const char *stem)
{
    struct checkpoint *checkpoint = NULL;
    assert_ok(checkpoint_load(test_path(stem), &checkpoint));
    return checkpoint;
}

/* The first average is the weights; then 1 - (1 - 0.9) 3 / 2 = 0.85 of it stays. */
static void test_the_average_of_two_steps(void **state)
{
    (void)state;
    run(SYNTHETIC EMA "--steps 1 ", "ema");
    CLEANUP(checkpoint_free) struct checkpoint *first = loaded("ema/checkpoint");
    run("--resume auto --steps 2 ", "ema");
    CLEANUP(checkpoint_free) struct checkpoint *second = loaded("ema/checkpoint");
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    assert_ok(safetensors_open(test_path("ema/ema.safetensors"), &file));
    const float keep = .85f, take = (float)(1 - .85);
    for (size_t p = 0; p < first->network->param_count; p++) {
        const struct param *param = &first->network->params[p];
        CLEANUP(memory_free) float *values = NULL;
        if (param->kind == PARAM_COUNTER)
            continue;
        assert_memory_equal(first->weights->average[p], first->weights->values[p],
                            param->count * sizeof(float));
        for (uint64_t i = 0; i < param->count; i++) {
            float expected =
                keep * first->weights->values[p][i] + take * second->weights->values[p][i];
            assert_true(fabsf(second->weights->average[p][i] - expected) <=
                        1e-6f * fabsf(expected) + 1e-12f);
        }
        assert_ok(memory_alloc(param->count, sizeof *values, &values));
        assert_ok(safetensor_read(safetensors_find(file, param->name), values));
        assert_memory_equal(values, second->weights->average[p], param->count * sizeof(float));
    }
}

/* The loss of the last record of a kind in a run's log. */
static double loss_logged(const char *run_folder, const char *kind)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *content, *last = NULL;
    char path[64], start[64];
    snprintf(path, sizeof path, "%s/log.jsonl", run_folder);
    snprintf(start, sizeof start, "{\"kind\": \"%s\"", kind);
    assert_ok(file_read_all(test_path(path), 1 << 20, &text));
    assert_ok(buffer_text(&text, &content));
    while ((content = strstr(content, start)))
        last = content++;
    assert_non_null(last);
    return strtod(strstr(last, "\"loss\": ") + 8, NULL);
}

/* Cut anywhere or not, with the same average at the end; the weights are those of a run without. */
static void test_runs_go_on_bit_for_bit(void **state)
{
    (void)state;
    run("--resume auto ", "ema");
    run(SYNTHETIC EMA, "whole");
    run(SYNTHETIC, "without");
    assert_same_file(test_path("whole/ema.safetensors"), test_path("ema/ema.safetensors"));
    assert_same_file(test_path("whole/checkpoint.safetensors"),
                     test_path("ema/checkpoint.safetensors"));
    assert_same_file(test_path("whole/checkpoint.safetensors"),
                     test_path("without/checkpoint.safetensors"));

    char arguments[512];
    struct metric_sums sums;
    snprintf(arguments, sizeof arguments, SYNTHETIC "-e --weights %s",
             test_path("whole/ema.safetensors"));
    assert_ok(train_run_sums(arguments, NULL, &sums));
    double loss = loss_logged("whole", "eval_ema");
    assert_true(fabs(loss - sums.loss / (double)sums.count) < 1e-9);
    assert_true(fabs(loss - loss_logged("whole", "eval")) > 1e-9);
}

/* |a − b| / |b| over all tensors, by parameter. */
static double tensors_apart(const struct network *network, float *const *a, float *const *b)
{
    double apart = 0, norm = 0;
    for (size_t p = 0; p < network->param_count; p++) {
        const float *ours = a[p], *theirs = b[p];
        for (uint64_t i = 0; ours && i < network->params[p].count; i++) {
            apart += pow((double)ours[i] - (double)theirs[i], 2);
            norm += pow((double)theirs[i], 2);
        }
    }
    return sqrt(apart / norm);
}

#define SMALL                                                                                      \
    "-a resnet18 --synthetic --synthetic-images 8 --synthetic-classes 6 -b 4 --image-size 48 "     \
    "--lr 0.01 --epochs 2 " EMA
#define ON_GPU SMALL "--device cuda --dtype f32 "

/* The folder of the CUDA module on a stand-in for a device. */
static const char *trial_folder(void)
{
    CLEANUP(memory_free) char *beside = NULL;
    assert_ok(path_program_folder(&beside));
    return test_join(beside, "../trial");
}

/* The same by the CUDA backend, which keeps the average itself, on a stand-in for a device. */
static void test_a_device_keeps_it_too(void **state)
{
    (void)state;
    const char *trial = trial_folder();
    if (!path_exists(test_join(trial, "headrace-cuda.so")))
        skip();
    setenv("HEADRACE_MODULES", trial, 1);
    run(SMALL "--device reference ", "small");
    run(ON_GPU, "gpu");
    CLEANUP(checkpoint_free) struct checkpoint *theirs = loaded("small/checkpoint");
    CLEANUP(checkpoint_free) struct checkpoint *ours = loaded("gpu/checkpoint");
    const struct network *network = ours->network;
    double averages = tensors_apart(network, ours->weights->average, theirs->weights->average);
    double values = tensors_apart(network, ours->weights->values, theirs->weights->values);
    double moved = tensors_apart(network, ours->weights->average, ours->weights->values);
    print_message("averages off by %.2g, weights by %.2g; %.2g from each other\n", averages, values,
                  moved);
    assert_true(averages <= values && 4 * values < moved);
    run(ON_GPU "--steps 1 ", "cut");
    run("--resume auto --steps 0 ", "cut");
    assert_same_file(test_path("cut/ema.safetensors"), test_path("gpu/ema.safetensors"));
    unsetenv("HEADRACE_MODULES");
}

/* Going on without --ema drops the average. */
static void test_it_can_be_left(void **state)
{
    (void)state;
    run("--resume auto --epochs 3 --ema 0 --steps 9 ", "whole");
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = loaded("whole/checkpoint");
    assert_null(checkpoint->weights->average);
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_decay_is_rescaled),
        cmocka_unit_test(test_when_it_moves),
        cmocka_unit_test(test_the_average_of_two_steps),
        cmocka_unit_test(test_runs_go_on_bit_for_bit),
        cmocka_unit_test(test_a_device_keeps_it_too),
        cmocka_unit_test(test_it_can_be_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
