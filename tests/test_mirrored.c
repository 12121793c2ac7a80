#include "tests/test.h"

#include <math.h>

#include "base/random.h"
#include "tests/support/mini_network.h"
#include "tests/support/train_run.h"
#include "train/checkpoint.h"
#include "train/initialise.h"
#include "train/logits.h"
#include "train/mirrored.h"

static void test_what_logits_say(void **state)
{
    (void)state;
    const float logits[] = {1, 3, NAN, 3, -1000};
    assert_int_equal(logits_rank(logits, 5, 1), 1); /* after what is not a number */
    assert_int_equal(logits_rank(logits, 5, 3), 2);
    assert_int_equal(logits_rank(logits, 5, 2), 4);
    const float large[] = {1000, 1000};
    assert_true(fabs(logits_log_sum(large, 2) - 1000 - log(2)) < 1e-12);
}

enum { BATCH = 3, SIDE = 32, CLASSES = 10, IMAGE = 3 * SIDE * SIDE };
static const struct plan_config config = {.mode = PLAN_EVAL,
                                          .batch = BATCH,
                                          .height = SIDE,
                                          .width = SIDE};

static void images_draw(float *images)
{
    struct random_stream stream = random_stream_make(3, RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < (size_t)BATCH * IMAGE; i++)
        images[i] = (float)random_normal(&stream);
}

/* Loss and ranks of the mean of both logits, and the same ones for the mirrored batch. */
static void test_logits_of_both_count(void **state)
{
    (void)state;
    CLEANUP(network_close)
    struct network *network = mini_open(&(struct mini){true, true, 2, BATCH, SIDE, SIDE, CLASSES});
    CLEANUP(model_close) struct model *model = NULL;
    CLEANUP(mirrored_close) struct mirrored *mirrored = NULL;
    CLEANUP(memory_free) float *images = NULL;
    CLEANUP(memory_free) float *turned = NULL;
    const int32_t labels[BATCH] = {4, -1, 9};
    struct step_metrics metrics[2];
    struct plan *plan;
    float logits[2][BATCH * CLASSES];
    assert_ok(memory_alloc((size_t)BATCH * IMAGE, sizeof *images, &images));
    assert_ok(memory_alloc((size_t)BATCH * IMAGE, sizeof *turned, &turned));
    images_draw(images);
    tensor_mirror(&tensor_format_imagenet, SIDE, SIDE, BATCH, images, turned);
    assert_ok(model_open(network, "reference", &(struct backend_config){.threads = 1}, &model));
    assert_ok(initialise_store(network, model->ops, model->store, 1, false));
    assert_ok(model->ops->plan_open(model->store, &config, &plan));
    assert_ok(mirrored_open(model, &config, &tensor_format_imagenet, &mirrored));
    const struct step_input inputs[] = {{.images = images, .labels = labels, .valid = 2},
                                        {.images = turned, .labels = labels, .valid = 2}};
    for (int i = 0; i < 2; i++) {
        assert_ok(mirrored_forward(mirrored, plan, &inputs[i], &metrics[i]));
        assert_ok(model->ops->plan_forward(plan, &inputs[i]));
        assert_ok(model->ops->plan_logits(plan, logits[i]));
    }
    double loss = 0;
    uint32_t top1 = 0;
    for (int n = 0; n < BATCH; n += 2) {
        double sum = 0, mean[CLASSES];
        int best = 0;
        for (int c = 0; c < CLASSES; c++) {
            mean[c] = (logits[0][n * CLASSES + c] + logits[1][n * CLASSES + c]) / 2;
            sum += exp(mean[c]);
            best = mean[c] > mean[best] ? c : best;
        }
        loss += log(sum) - mean[labels[n]];
        top1 += best == labels[n];
    }
    assert_true(fabs(metrics[0].loss_sum - loss) < 1e-5 * loss);
    assert_int_equal(metrics[0].top1, top1);
    assert_int_equal(metrics[0].count, 2);
    assert_memory_equal(&metrics[0], &metrics[1], sizeof metrics[0]);
    model->ops->plan_close(plan);
}

#define SYNTHETIC                                                                                  \
    "--device reference --synthetic --synthetic-images 60 --synthetic-classes 6 -b 3 "             \
    "--image-size 32 --lr 0.01 --epochs 1 --threads 1 --steps 1 "

/* Each image counts once, for any batch, and the checkpoint remembers how it was evaluated. */
static void test_a_run_is_evaluated_so(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, SYNTHETIC "--val-flip --out %s", test_path("run"));
    assert_ok(train_run(arguments));
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    assert_ok(checkpoint_load(test_path("run/checkpoint"), &checkpoint));
    assert_true(checkpoint->state.val_flip);
    const char *const how[] = {"", "-b 2", "--no-val-flip"};
    struct metric_sums sums[3];
    for (size_t i = 0; i < ARRAY_LENGTH(how); i++) {
        snprintf(arguments, sizeof arguments, "-e --resume %s %s", test_path("run"), how[i]);
        char *end = arguments + strlen(arguments) - 1;
        if (*end == ' ')
            *end = '\0';
        assert_ok(train_run_sums(arguments, NULL, &sums[i]));
        assert_int_equal(sums[i].count, 3);
    }
    assert_true(fabs(sums[0].loss - sums[1].loss) < 1e-6);
    assert_true(fabs(sums[0].loss - sums[2].loss) > 1e-6);
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_logits_say),
        cmocka_unit_test(test_logits_of_both_count),
        cmocka_unit_test(test_a_run_is_evaluated_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
