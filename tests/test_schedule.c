#include "tests/test.h"

#include <math.h>

#include "train/schedule.h"

static void check(const struct schedule *schedule, uint64_t step, double expected)
{
    assert_true(fabs(schedule_lr(schedule, step) - expected) <= 1e-12 * fabs(expected) + 1e-15);
}

/* The guide's trainer: a tenth every 30 epochs, no warm-up. */
static void test_step_drops_every_30_epochs(void **state)
{
    (void)state;
    const struct schedule schedule = {.base_lr = .1,
                                      .step_epochs = 30,
                                      .step_factor = .1,
                                      .epochs = 120,
                                      .steps_per_epoch = 5005};
    check(&schedule, 0, .1);
    check(&schedule, 30 * 5005 - 1, .1);
    check(&schedule, 30 * 5005, .01);
    check(&schedule, 60 * 5005, .001);
    check(&schedule, 120 * 5005 - 1, .0001);
}

/* Values of NVIDIA's lr_cosine_policy(2.048, 8, 90). */
static void test_cosine_changes_by_epoch(void **state)
{
    (void)state;
    const struct schedule schedule = {.shape = SCHEDULE_COSINE,
                                      .base_lr = 2.048,
                                      .warmup_epochs = 8,
                                      .epochs = 90,
                                      .steps_per_epoch = 10};
    check(&schedule, 0, .256);
    check(&schedule, 9, .256);
    check(&schedule, 70, 2.048);
    check(&schedule, 80, 2.048);
    check(&schedule, 490, 1.024);
    check(&schedule, 899, .5 * 2.048 * (1 + cos(M_PI * 81 / 82)));
}

/* FFCV's get_lr: interpolation between (0, 1e-4 lr), (2, lr), (16, 0), for each step. */
static void test_linear_changes_by_step(void **state)
{
    (void)state;
    const struct schedule schedule = {.shape = SCHEDULE_LINEAR,
                                      .base_lr = 1.7,
                                      .warmup_epochs = 2,
                                      .epochs = 16,
                                      .steps_per_epoch = 100};
    check(&schedule, 0, 1.7e-4);
    check(&schedule, 100, 1.7 * (1 + 1e-4) / 2);
    check(&schedule, 200, 1.7);
    check(&schedule, 900, .85);
    check(&schedule, 1599, 1.7 / 1400);
    check(&schedule, 1600, 0);
}

/* MLPerf's reference, PolynomialDecayWithWarmup: warm-up from 0, then to 1e-4 by the square of what
 * is left of decay_steps = 1000 - 50 + 1. */
static void test_polynomial_changes_by_step(void **state)
{
    (void)state;
    const struct schedule schedule = {.shape = SCHEDULE_POLYNOMIAL,
                                      .base_lr = 10,
                                      .end_lr = 1e-4,
                                      .warmup_epochs = 5,
                                      .epochs = 100,
                                      .steps_per_epoch = 10};
    check(&schedule, 0, 0);
    check(&schedule, 25, 5);
    check(&schedule, 50, 10);
    check(&schedule, 500, 1e-4 + (10 - 1e-4) * pow(1 - 450 / 951., 2));
    check(&schedule, 999, 1e-4 + (10 - 1e-4) * pow(2 / 951., 2));
    check(&schedule, 1001, 1e-4);
}

static void test_unit_can_be_chosen(void **state)
{
    (void)state;
    struct schedule schedule = {.shape = SCHEDULE_COSINE,
                                .unit = SCHEDULE_UNIT_STEP,
                                .base_lr = 1,
                                .epochs = 2,
                                .steps_per_epoch = 4};
    check(&schedule, 2, .5 * (1 + cos(M_PI / 4)));
    schedule.unit = SCHEDULE_UNIT_EPOCH;
    check(&schedule, 2, 1);
    check(&schedule, 4, .5);
}

/* A warm-up as long as the run never meets its end, nor divides by it. */
static void test_warmup_may_fill_the_run(void **state)
{
    (void)state;
    const struct schedule schedule = {.shape = SCHEDULE_COSINE,
                                      .base_lr = 1,
                                      .warmup_epochs = 2,
                                      .epochs = 2,
                                      .steps_per_epoch = 1};
    check(&schedule, 0, .5);
    check(&schedule, 1, 1);
    check(&schedule, 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_drops_every_30_epochs),
        cmocka_unit_test(test_cosine_changes_by_epoch),
        cmocka_unit_test(test_linear_changes_by_step),
        cmocka_unit_test(test_polynomial_changes_by_step),
        cmocka_unit_test(test_unit_can_be_chosen),
        cmocka_unit_test(test_warmup_may_fill_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
