#include "tests/test.h"

#include "base/number.h"

static void whole_numbers_fill_their_range(void **state)
{
    (void)state;
    int64_t number;
    uint64_t unsigned_number;
    assert_true(number_parse_i64("-9223372036854775808", &number) && number == INT64_MIN);
    assert_true(number_parse_i64("9223372036854775807", &number) && number == INT64_MAX);
    assert_true(number_parse_i64("-0", &number) && number == 0);
    assert_true(number_parse_i64("007", &number) && number == 7);
    assert_true(number_parse_u64("18446744073709551615", &unsigned_number));
    assert_true(unsigned_number == UINT64_MAX);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    const char *const wrong[] = {"",
                                 "-",
                                 "+1",
                                 " 1",
                                 "1 ",
                                 "1x",
                                 "0x10",
                                 "1.5",
                                 "1e3",
                                 "--1",
                                 "1\n",
                                 "９",
                                 "9223372036854775808"};
    int64_t number = 42;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        assert_false(number_parse_i64(wrong[i], &number));
    assert_int_equal(number, 42);
    uint64_t unsigned_number;
    assert_false(number_parse_u64("-1", &unsigned_number));
    assert_false(number_parse_u64("18446744073709551616", &unsigned_number));
    assert_false(number_parse_i64("-9223372036854775809", &number));
}

static void reals_are_exact(void **state)
{
    (void)state;
    double real;
    assert_true(number_parse_real("0.1", &real) && real == 0.1);
    assert_true(number_parse_real("-1e-4", &real) && real == -1e-4);
    assert_true(number_parse_real(".5", &real) && real == 0.5);
    assert_true(number_parse_real("5.", &real) && real == 5);
    assert_true(number_parse_real("1E+3", &real) && real == 1000);
    const char *const wrong[] = {"",    ".",     "-",   "1e", "1e999", "inf",
                                 "nan", "0x1p3", "1,5", " 1", "+1"};
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        assert_false(number_parse_real(wrong[i], &real));
}

static void sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"512", 512},
        {"512B", 512},
        {"3k", 3000},
        {"3K", 3000},
        {"3Ki", 3072},
        {"2M", 2000000},
        {"2MiB", 2 << 20},
        {"1G", 1000000000},
        {"1GB", 1000000000},
        {"4Gi", 4ull << 30},
        {"2T", 2000000000000},
        {"1Ti", 1ull << 40},
        {"16777215Ti", 16777215ull << 40},
    };
    uint64_t bytes;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_true(number_parse_size(cases[i].text, &bytes));
        assert_int_equal(bytes, cases[i].bytes);
    }
    const char *const wrong[] = {"",   "k",    "1x",  "1kk",        "1i",
                                 "-1", "1.5G", "1 G", "16777216Ti", "1Gib"};
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        assert_false(number_parse_size(wrong[i], &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_fill_their_range),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(reals_are_exact),
        cmocka_unit_test(sizes_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
