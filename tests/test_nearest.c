#include "tests/test.h"

#include "base/nearest.h"

static void distance_counts_the_slips(void **state)
{
    (void)state;
    assert_int_equal(nearest_distance("epochs", "epochs"), 0);
    assert_int_equal(nearest_distance("batch_size", "batch-size"), 0);
    assert_int_equal(nearest_distance("epoch", "epochs"), 1);
    assert_int_equal(nearest_distance("eopchs", "epochs"), 1); /* swapped */
    assert_int_equal(nearest_distance("", "abc"), 3);
    assert_int_equal(nearest_distance("abc", "xyz"), 3);
}

static const char *suggestion(const char *typed)
{
    static const char *const names[] = {"pack", "prep", "verify", "extract"};
    struct nearest nearest = nearest_begin(typed);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        nearest_offer(&nearest, names[i]);
    return nearest_found(&nearest);
}

static void near_names_are_suggested(void **state)
{
    (void)state;
    assert_string_equal(suggestion("verfiy"), "verify");
    assert_string_equal(suggestion("pakc"), "pack");
    assert_string_equal(suggestion("ext"), "extract"); /* a beginning */
    assert_null(suggestion("train"));
    assert_null(suggestion(""));
    assert_null(suggestion("a-very-long-name-that-is-longer-than-all-the-letters-that-count"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_the_slips),
        cmocka_unit_test(near_names_are_suggested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
