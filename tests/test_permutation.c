#include "tests/test.h"

#include <math.h>

#include "base/permutation.h"

static void assert_bijective(uint64_t count, uint64_t seed, uint64_t stream)
{
    struct permutation permutation = permutation_make(count, seed, stream);
    CLEANUP(memory_free) uint8_t *seen = NULL;
    assert_ok(memory_alloc(count, 1, &seen));
    for (uint64_t position = 0; position < count; position++) {
        uint64_t element = permutation_at(&permutation, position);
        assert_true(element < count && !seen[element]);
        seen[element] = 1;
        assert_int_equal(permutation_position(&permutation, element), position);
    }
}

static void every_count_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t count = 0; count < 300; count++)
        assert_bijective(count, 5, count % 7);
    const uint64_t counts[] = {1023, 1024, 1025, 4096, 4097, 50000, 65536, 65537};
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        assert_bijective(counts[i], 9, i);
}

static void huge_counts_are_inverted(void **state)
{
    (void)state;
    const uint64_t counts[] = {(uint64_t)1 << 40, ((uint64_t)1 << 62) + 1, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        struct permutation permutation = permutation_make(counts[i], 1, 2);
        for (uint64_t k = 0; k < 100; k++) {
            uint64_t position = counts[i] / 100 * k;
            uint64_t element = permutation_at(&permutation, position);
            assert_true(element < counts[i]);
            assert_int_equal(permutation_position(&permutation, element), position);
        }
    }
}

/* The order of a training run is stored nowhere: if these values change, old runs cannot be resumed
 * or replayed. */
static void order_is_the_same_for_ever(void **state)
{
    (void)state;
    static const uint64_t expected[] = {323948, 40333, 258324, 1139657, 607647, 906269};
    struct permutation permutation = permutation_make(1281167, 42, 3);
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++)
        assert_int_equal(permutation_at(&permutation, i), expected[i]);
}

static double chi_square(const int *counts, int buckets, double expected)
{
    double sum = 0;
    for (int i = 0; i < buckets; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

static void all_orders_of_few_are_equally_likely(void **state)
{
    (void)state;
    int counts[256] = {0}, orders[24], found = 0;
    for (uint64_t stream = 0; stream < 24000; stream++) {
        struct permutation permutation = permutation_make(4, 7, stream);
        unsigned code = 0;
        for (uint64_t i = 0; i < 4; i++)
            code = code * 4 + (unsigned)permutation_at(&permutation, i);
        counts[code]++;
    }
    for (int code = 0; code < 256; code++)
        if (counts[code] && found < 24)
            orders[found++] = counts[code];
    assert_int_equal(found, 24);
    assert_true(chi_square(orders, 24, 1000) <
                50); /* 23 degrees of freedom: once in a thousand seeds */
}

static void many_are_well_mixed(void **state)
{
    (void)state;
    enum { COUNT = 80000, BUCKETS = 64 };
    struct permutation permutation = permutation_make(COUNT, 11, 0);
    int steps[BUCKETS] = {0};
    double covariance = 0;
    uint64_t last = COUNT - 1;
    for (uint64_t position = 0; position < COUNT; position++) {
        uint64_t element = permutation_at(&permutation, position);
        steps[(element + COUNT - last) % COUNT * BUCKETS / COUNT]++;
        covariance += ((double)position / COUNT - 0.5) * ((double)element / COUNT - 0.5);
        last = element;
    }
    assert_true(chi_square(steps, BUCKETS, COUNT / BUCKETS) < 104); /* 63 degrees of freedom */
    assert_true(fabs(covariance / COUNT * 12) < 4 / sqrt(COUNT));   /* correlation, four sigma */
}

static void epochs_differ(void **state)
{
    (void)state;
    struct permutation a = permutation_make(1000, 1, 0), b = permutation_make(1000, 1, 1);
    struct permutation c = permutation_make(1000, 2, 0);
    int same_ab = 0, same_ac = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same_ab += permutation_at(&a, i) == permutation_at(&b, i);
        same_ac += permutation_at(&a, i) == permutation_at(&c, i);
    }
    assert_true(same_ab < 10 && same_ac < 10); /* one on average */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_is_a_bijection),
        cmocka_unit_test(huge_counts_are_inverted),
        cmocka_unit_test(order_is_the_same_for_ever),
        cmocka_unit_test(all_orders_of_few_are_equally_likely),
        cmocka_unit_test(many_are_well_mixed),
        cmocka_unit_test(epochs_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
