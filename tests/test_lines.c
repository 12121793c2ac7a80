#include "tests/test.h"

#include "train/lines.h"

static void expect_line(struct status (*append)(struct buffer *, const struct line *),
                        const struct line *line, const char *expected)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const char *text;
    assert_ok(append(&buffer, line));
    assert_ok(buffer_text(&buffer, &text));
    assert_string_equal(text, expected);
}

/* The forms that the guide shows. */
static void test_lines_are_the_guides(void **state)
{
    (void)state;
    const struct line train = {
        .step = 10,
        .steps = 401,
        .time = {.last = .512, .sum = 7.7, .count = 11},
        .data = {.last = .001, .sum = .22, .count = 11},
        .last = {.loss = 6.9316 * 800, .top1 = 1, .top5 = 5, .count = 800},
        .mean = {.loss = 6.94 * 2000, .top1 = 2, .top5 = 11, .count = 2000},
        .images_per_second = 500,
        .lr = .1,
    };
    expect_line(line_append_train, &train,
                "Epoch: [0][ 10/401]\tTime  0.512 ( 0.700)\tData  0.001 ( 0.020)\tLoss 6.9316e+00 "
                "(6.9400e+00)\tAcc@1   0.12 (  0.10)\tAcc@5   0.62 (  0.55)\timages/s 500.0\tlr "
                "0.1");
    const struct line test = {
        .step = 180,
        .steps = 196,
        .time = {.last = .021, .sum = 6.6, .count = 100},
        .last = {.loss = .92615, .top1 = 1, .top5 = 1, .count = 1},
        .mean = {.loss = .90108 * 10000, .top1 = 7786, .top5 = 9387, .count = 10000},
    };
    expect_line(line_append_test, &test,
                "Test: [180/196]\tTime  0.021 ( 0.066)\tLoss 9.2615e-01 (9.0108e-01)\tAcc@1 100.00 "
                "( 77.86)\tAcc@5 100.00 ( 93.87)");
}

static void test_the_summary_has_three_digits(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const struct metric_sums sums = {.top1 = 38945, .top5 = 46943, .count = 50000};
    const char *text;
    assert_ok(line_append_summary(&buffer, &sums));
    assert_ok(buffer_text(&buffer, &text));
    assert_string_equal(text, " * Acc@1 77.890 Acc@5 93.886");
}

static void test_nothing_has_a_mean_of_zero(void **state)
{
    (void)state;
    const struct metric_sums none = {0};
    const struct meter meter = {0};
    assert_true(sums_loss(&none) == 0 && sums_top1(&none) == 0 && meter_mean(&meter) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_the_guides),
        cmocka_unit_test(test_the_summary_has_three_digits),
        cmocka_unit_test(test_nothing_has_a_mean_of_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
