#include "tests/test.h"

#include <math.h>

#include "tests/support/mini_network.h"
#include "tests/support/reference_f64.h"
#include "tests/support/session.h"
#include "train/cpu/bf16.h"
#include "train/mixup.h"

/* Of Beta(a, a): mean of the share's distance from a half, squared, is 1 / (4 (2a + 1)); of
 * Beta(1, 1) the smaller share is uniform. */
static void test_shares_are_betas(void **state)
{
    (void)state;
    const double alphas[] = {.2, 1, 3};
    const unsigned draws = 20000;
    for (size_t i = 0; i < ARRAY_LENGTH(alphas); i++) {
        double squares = 0, mean = 0;
        for (unsigned step = 0; step < draws; step++) {
            double share = mixup_share(alphas[i], 5, 1, step);
            assert_true(share >= 0 && share <= .5);
            squares += (share - .5) * (share - .5) / draws;
            mean += share / draws;
        }
        double expected = 1 / (4 * (2 * alphas[i] + 1));
        assert_true(fabs(squares - expected) < .03 * expected);
        assert_true(alphas[i] != 1 || fabs(mean - .25) < .005);
    }
    assert_true(mixup_share(0, 1, 2, 3) == 0);
    assert_true(mixup_share(.2, 1, 2, 3) == mixup_share(.2, 1, 2, 3));
    assert_true(mixup_share(.2, 1, 2, 3) != mixup_share(.2, 1, 3, 3));
    assert_true(mixup_share(1e-3, 1, 2, 3) >= 0); /* beyond the range of a double */
}

static const struct mini mini = {true, true, 2, 6, 32, 32, 10};
static const struct plan_config config = {.batch = 6,
                                          .height = 32,
                                          .width = 32,
                                          .label_smoothing = .1f};

struct device {
    const struct backend_module *module; /* NULL: cpu's */
    enum train_dtype dtype;
    double bound; /* of the loss, relative */
};

/* PyTorch's cross-entropy of a row for a target that is `share` of `other` and else `own`. */
static double row_loss(const float *row, int own, int other, double share)
{
    double sum = 0, loss = 0;
    for (int c = 0; c < 10; c++)
        sum += exp(row[c]);
    for (int c = 0; c < 10; c++) {
        double target = .1 / 10 + .9 * ((c == own) * (1 - share) + (c == other) * share);
        loss -= target * (row[c] - log(sum));
    }
    return loss;
}

/* Mixing in the backend is what mixing the images before is, but for the targets; their loss is
 * computed anew from the logits. The last label is -1: its pair stays as it is. */
static void test_images_and_targets_are_mixed(void **state)
{
    const struct device *device = *state;
    const struct backend_module *module =
        device->module ? device->module : cpu_module_for(device->dtype);
    struct network *network = mini_open(&mini);
    struct session s;
    struct batch batch, mixed;
    const float share = .25f; /* exact in bf16's sums of a few bits */
    const size_t size = (size_t)32 * 32 * 3;
    float logits[2][60];
    batch_make(&batch, &config, mini.classes, 1);
    batch_make(&mixed, &config, mini.classes, 1);
    for (size_t n = 0; n < 4; n++)
        for (size_t i = 0; i < size; i++) {
            float value =
                (1 - share) * batch.f32[n * size + i] + share * batch.f32[(n ^ 1) * size + i];
            mixed.f32[n * size + i] = value;
            mixed.bf16[n * size + i] = bf16_from_f32(value);
        }
    session_open(&s, module, device->dtype, network, &config);
    session_initialise(&s, 1, false);
    struct step_input input = session_input(&s, &mixed);
    assert_ok(s.ops->plan_forward_backward(s.train, &input));
    assert_ok(s.ops->plan_logits(s.train, logits[0]));
    session_metrics(&s, s.train);
    input = session_input(&s, &batch);
    input.mixed_in = share;
    assert_ok(s.ops->plan_forward_backward(s.train, &input));
    assert_ok(s.ops->plan_logits(s.train, logits[1]));
    struct step_metrics metrics = session_metrics(&s, s.train);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    double loss = row_loss(logits[1] + 40, batch.labels[4], batch.labels[4], 0);
    for (int n = 0; n < 4; n++)
        loss += row_loss(logits[1] + 10 * n, batch.labels[n], batch.labels[n ^ 1], share);
    assert_int_equal(batch.labels[5], -1);
    assert_int_equal(metrics.count, 5);
    assert_true(fabs(metrics.loss_sum - loss) < device->bound * loss);

    /* The bias's gradient is the logits': softmax − target over the valid ones. */
    double *bias = session_read(&s, ROLE_GRADIENT, network->param_count - 1), expected[10] = {0};
    for (int n = 0; n < 5; n++) {
        double sum = 0, own_share = n < 4 ? share : 0;
        const float *row = logits[1] + 10 * n;
        for (int c = 0; c < 10; c++)
            sum += exp(row[c]);
        for (int c = 0; c < 10; c++)
            expected[c] += (exp(row[c]) / sum - .1 / 10 -
                            .9 * ((c == batch.labels[n]) * (1 - own_share) +
                                  (c == batch.labels[n ^ 1]) * own_share)) /
                           (double)input.divisor;
    }
    for (int c = 0; c < 10; c++)
        assert_true(fabs(bias[c] - expected[c]) < (device->dtype == DTYPE_BF16 ? 3e-3 : 1e-6));
    memory_free(bias);
    session_close(&s);
    batch_done(&batch);
    batch_done(&mixed);
    network_close(network);
}

int main(void)
{
    struct device f64 = {reference_f64_backend_module(), DTYPE_F32, 1e-6};
    struct device f32 = {reference_backend_module(), DTYPE_F32, 1e-6};
    struct device cpu_f32 = {NULL, DTYPE_F32, 1e-6}, cpu_bf16 = {NULL, DTYPE_BF16, 1e-6};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_betas),
        {"f64", test_images_and_targets_are_mixed, NULL, NULL, &f64},
        {"f32", test_images_and_targets_are_mixed, NULL, NULL, &f32},
        {"cpu f32", test_images_and_targets_are_mixed, NULL, NULL, &cpu_f32},
        {"cpu bf16", test_images_and_targets_are_mixed, NULL, NULL, &cpu_bf16},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
