#include "tests/test.h"

#include "train/division.h"

static void expect_text(struct division division, uint32_t batch, const char *expected)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const char *text;
    assert_ok(division_make(batch, &division));
    assert_ok(division_append(&division, &buffer));
    assert_ok(buffer_text(&buffer, &text));
    assert_string_equal(text, expected);
    assert_int_equal(division_micro_batch(&division) * division.accumulate, batch);
}

static void test_a_batch_is_told_by_its_parts(void **state)
{
    (void)state;
    expect_text((struct division){1, 0, 1, 1, 0}, 256, "1 device x 256");
    expect_text((struct division){2, 1, 4, 1, 0}, 256, "2 processes x 4 devices x 32");
    expect_text((struct division){1, 0, 1, 4, 0}, 64, "1 device x 4 micro-batches x 16");
}

static void test_a_remainder_is_refused(void **state)
{
    (void)state;
    struct division division = {.processes = 3, .replicas = 1, .accumulate = 2};
    assert_fails(division_make(16, &division), STATUS_USAGE,
                 "16 cannot be divided evenly over 3 processes x 1 device x 2 micro-batches: take "
                 "--batch-size 12 or 18");
    assert_fails(division_make(2, &division), STATUS_USAGE, "take --batch-size 6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_is_told_by_its_parts),
        cmocka_unit_test(test_a_remainder_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
