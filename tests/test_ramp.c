#include "tests/test.h"

#include "train/ramp.h"

/* FFCV's get_resolution(epoch, 160, 192, end_ramp, start_ramp) for its 16, 24 and 88 epochs. */
static void test_sizes_are_ffcvs(void **state)
{
    (void)state;
    static const struct {
        uint64_t first_epoch, last_epoch, epoch;
        uint32_t size;
    } expected[] = {
        {11, 13, 0, 160},  {11, 13, 11, 160}, {11, 13, 12, 192}, {11, 13, 13, 192},
        {17, 20, 18, 160}, {17, 20, 19, 192}, {65, 76, 65, 160}, {65, 76, 70, 160},
        {65, 76, 71, 192}, {65, 76, 87, 192},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        const struct ramp ramp = {160, 192, expected[i].first_epoch, expected[i].last_epoch};
        assert_int_equal(ramp_size(&ramp, expected[i].epoch), expected[i].size);
    }
}

static void test_sizes_stay_between_the_ends(void **state)
{
    (void)state;
    const struct ramp half = {128, 160, 0, 2}; /* 144 = 4.5 x 32 */
    assert_int_equal(ramp_size(&half, 1), 128);
    const struct ramp small = {8, 20, 0, 3}, odd = {40, 45, 0, 2}, none = {224, 224, 0, 0};
    assert_int_equal(ramp_size(&small, 1), 8);
    assert_int_equal(ramp_size(&small, 2), 8); /* 16 = 0.5 x 32 */
    assert_int_equal(ramp_size(&small, 3), 20);
    assert_int_equal(ramp_size(&odd, 1), 40);
    assert_int_equal(ramp_size(&none, 0), 224);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_are_ffcvs),
        cmocka_unit_test(test_sizes_stay_between_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
