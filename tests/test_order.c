/* Orders: each epoch shows every record once, and every position is computed by itself. */

#include "base/random.h"
#include "index/order.h"
#include "tests/test.h"

/* All positions of an epoch, in batches. */
static void order_list(const struct order *order, uint64_t *ret_records)
{
    uint64_t count = 0;
    for (uint64_t step = 0; step < order_steps(order, false); step++)
        for (uint32_t slot = 0; slot < order->global_batch; slot++)
            if (count < order->records)
                ret_records[count++] = order_record(order, step, slot);
}

static void assert_permutation(const struct order *order, const uint64_t *records)
{
    unsigned char *seen = test_calloc(order->records, 1);
    for (uint64_t i = 0; i < order->records; i++) {
        assert_true(records[i] < order->records);
        assert_false(seen[records[i]]);
        seen[records[i]] = 1;
    }
    test_free(seen);
}

static void test_last_batches(void **state)
{
    (void)state;
    struct order order = order_make(ORDER_SHUFFLE, 0, 5, 4, true, 1);
    assert_int_equal(order_steps(&order, false), 2);
    assert_int_equal(order_steps(&order, true), 1);
    assert_int_equal(order_record(&order, 1, 1), order_record(&order, 0, 0));
    struct order tiny = order_make(ORDER_SHUFFLE, 0, 1, 4, true, 1);
    assert_int_equal(order_record(&tiny, 0, 3), 0);
    struct order exact = order_make(ORDER_SEQUENTIAL, 0, 5, 4, false, 1);
    assert_int_equal(order_record(&exact, 1, 0), 4);
    assert_true(order_record(&exact, 1, 1) == ORDER_NO_RECORD);
}

/* Whatever the sizes: less than a chunk, than a window, with and without remainders. */
static void test_each_record_once(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 5003};
    static const uint64_t windows[] = {1, 5, 16, 64, 70, 0};
    uint64_t records[5003], again[5003];
    for (int kind = ORDER_SHUFFLE; kind <= ORDER_SEQUENTIAL; kind++)
        for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
            for (size_t j = 0; j < ARRAY_LENGTH(windows); j++) {
                struct order order =
                    order_make((enum order_kind)kind, windows[j], counts[i], 7, true, 3);
                for (uint64_t epoch = 0; epoch < 3; epoch++) {
                    order_set_epoch(&order, epoch);
                    order_list(&order, records);
                    assert_permutation(&order, records);
                    for (uint64_t at = 0; at < counts[i]; at++)
                        assert_int_equal(order_position(&order, records[at]), at);
                }
                order_set_epoch(&order, 1);
                order_list(&order, again);
                if (kind != ORDER_SEQUENTIAL && counts[i] >= 64)
                    assert_memory_not_equal(records, again, counts[i] * sizeof *records);
            }
}

/* The batch size, and what was asked before, change nothing. */
static void test_positions_stand_alone(void **state)
{
    (void)state;
    const uint64_t count = 1281167;
    struct order whole = order_make(ORDER_WINDOW, 0, count, 256, true, 11);
    struct order single = order_make(ORDER_WINDOW, 0, count, 1, true, 11);
    order_set_epoch(&whole, 77);
    order_set_epoch(&single, 77);
    struct random_stream stream = random_stream_make(1, RANDOM_TEST, 0, 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t position = random_below(&stream, count);
        assert_true(order_record(&whole, position / 256, (uint32_t)(position % 256)) ==
                    order_record(&single, position, 0));
    }
}

static int compare_records(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Runs of neighbours in a sorted list. */
static uint64_t runs_count(const uint64_t *records, uint64_t count)
{
    uint64_t runs = 1;
    for (uint64_t i = 1; i < count; i++)
        runs += records[i] != records[i - 1] + 1;
    return runs;
}

/* A window reads long runs, and still mixes the classes of a set that is sorted by class. */
static void test_windows_read_long_and_mix(void **state)
{
    (void)state;
    enum { COUNT = 1281167, CLASSES = 1000, BATCH = 256, BATCHES = ORDER_WINDOW_RECORDS / BATCH };
    struct order order = order_make(ORDER_WINDOW, 0, COUNT, BATCH, true, 5);
    uint64_t records[ORDER_WINDOW_RECORDS], distinct = 0;
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        bool seen[CLASSES] = {false};
        for (uint32_t slot = 0; slot < BATCH; slot++) {
            uint64_t record = order_record(&order, 3 * BATCHES + batch, slot);
            uint64_t label = record * CLASSES / COUNT;
            records[batch * BATCH + slot] = record;
            distinct += !seen[label];
            seen[label] = true;
        }
    }
    /* A full shuffle has 226 on average. */
    assert_in_range(distinct / BATCHES, 130, 226);
    qsort(records, ORDER_WINDOW_RECORDS, sizeof *records, compare_records);
    assert_true(runs_count(records, ORDER_WINDOW_RECORDS) <=
                ORDER_WINDOW_RECORDS / ORDER_CHUNK_RECORDS + 1);
}

/* Chunks begin elsewhere in another epoch, so that neighbours do not stay together for ever. */
static void test_chunks_move(void **state)
{
    (void)state;
    struct order order = order_make(ORDER_WINDOW, 64, 4096, 64, true, 5);
    uint64_t starts = 0;
    for (uint64_t epoch = 0; epoch < 40; epoch++) {
        order_set_epoch(&order, epoch);
        starts |= (uint64_t)1 << order.first % ORDER_CHUNK_RECORDS;
    }
    assert_true(__builtin_popcountll(starts) > ORDER_CHUNK_RECORDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_batches),
        cmocka_unit_test(test_each_record_once),
        cmocka_unit_test(test_positions_stand_alone),
        cmocka_unit_test(test_windows_read_long_and_mix),
        cmocka_unit_test(test_chunks_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
