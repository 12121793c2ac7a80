#include "tests/test.h"

#include <math.h>

#include "base/random.h"

static void published_values_come_out(void **state)
{
    (void)state;
    /* The known answers for philox4x32-10 of the authors' own library. */
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint32_t words[4];
        memcpy(words, cases[i].counter, sizeof words);
        philox4x32(words, cases[i].key);
        assert_memory_equal(words, cases[i].expected, sizeof words);
    }
}

static void stream_is_the_documented_counter(void **state)
{
    (void)state;
    struct random_stream stream =
        random_stream_make(0x1122334455667788, RANDOM_CROP, 90, 0x00aabbccddeeff01);
    const uint32_t key[2] = {0x55667788, 0x11223344};
    for (uint32_t block = 0; block < 3; block++) {
        uint32_t words[4] = {block, 90, 0xddeeff01, 0x02aabbcc};
        philox4x32(words, key);
        for (int i = 0; i < 4; i++)
            assert_int_equal(random_u32(&stream), words[i]);
    }
}

static void streams_of_other_names_differ(void **state)
{
    (void)state;
    struct random_stream streams[] = {
        random_stream_make(1, RANDOM_CROP, 0, 0),
        random_stream_make(2, RANDOM_CROP, 0, 0),
        random_stream_make(1, RANDOM_ORDER, 0, 0),
        random_stream_make(1, RANDOM_CROP, 1, 0),
        random_stream_make(1, RANDOM_CROP, 0, 1),
        random_stream_make((uint64_t)1 << 32 | 1, RANDOM_CROP, 0, 0),
        random_stream_make(1, RANDOM_CROP, 0, (uint64_t)1 << 32),
    };
    uint64_t first[ARRAY_LENGTH(streams)];
    for (size_t i = 0; i < ARRAY_LENGTH(streams); i++) {
        first[i] = random_u64(&streams[i]);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(first[i], first[k]);
    }
}

static void numbers_below_a_bound_are_uniform(void **state)
{
    (void)state;
    struct random_stream stream = random_stream_make(7, RANDOM_TEST, 0, 0);
    int counts[6] = {0};
    for (int i = 0; i < 60000; i++)
        counts[random_below(&stream, 6)]++;
    double chi_square = 0;
    for (int i = 0; i < 6; i++)
        chi_square += (counts[i] - 10000.0) * (counts[i] - 10000.0) / 10000.0;
    assert_true(chi_square < 20.5); /* 5 degrees of freedom: once in a thousand seeds */

    assert_int_equal(random_below(&stream, 1), 0);
    const uint64_t bound = ((uint64_t)1 << 63) + 1; /* half of all draws are drawn again */
    for (int i = 0; i < 1000; i++)
        assert_true(random_below(&stream, bound) < bound);
}

static void reals_have_the_right_moments(void **state)
{
    (void)state;
    struct random_stream stream = random_stream_make(3, RANDOM_TEST, 0, 0);
    const int count = 100000;
    double sum = 0, normal_sum = 0, normal_squares = 0, normal_fourth = 0;
    for (int i = 0; i < count; i++) {
        double uniform = random_double(&stream), normal = random_normal(&stream);
        assert_true(uniform >= 0 && uniform < 1);
        sum += uniform;
        normal_sum += normal;
        normal_squares += normal * normal;
        normal_fourth += normal * normal * normal * normal;
    }
    assert_true(fabs(sum / count - 0.5) < 0.004);
    assert_true(fabs(normal_sum / count) < 0.013);
    assert_true(fabs(normal_squares / count - 1) < 0.018);
    assert_true(fabs(normal_fourth / count - 3) < 0.13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values_come_out),
        cmocka_unit_test(stream_is_the_documented_counter),
        cmocka_unit_test(streams_of_other_names_differ),
        cmocka_unit_test(numbers_below_a_bound_are_uniform),
        cmocka_unit_test(reals_have_the_right_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
