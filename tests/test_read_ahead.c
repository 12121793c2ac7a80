/* What is read ahead: the records that are coming, in the order of the files, neighbours in one go.
 */

#include "image/folder_source.h"
#include "index/pack.h"
#include "index/read_ahead.h"
#include "tests/support/jpeg_folder.h"
#include "tests/test.h"

enum { BATCH = 6 };

/* 40 records in shards of at least one record and about 8 KiB. */
static struct index *index_make(void)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    const struct pack_options options = {.shard_bytes = 8192, .threads = 1};
    struct index *index = NULL;
    jpeg_folder_make(test_path("folder"));
    assert_ok(folder_source_open(test_path("folder"), NULL, 1, &source));
    assert_ok(pack_run(source, test_path("set.idx"), &options, &report));
    assert_ok(index_open(test_path("set.idx"), &index));
    assert_true(index_shard_count(index) > 2);
    return index;
}

static bool record_is_covered(const struct index *index, uint64_t number,
                              const struct read_range *ranges, size_t count)
{
    struct record record;
    assert_ok(index_record(index, number, &record));
    for (size_t i = 0; i < count; i++)
        if (ranges[i].shard == record.shard && ranges[i].offset <= record.offset &&
            ranges[i].offset + ranges[i].length >= record.offset + record.length)
            return true;
    return false;
}

static void assert_sorted(const struct read_range *ranges, size_t count)
{
    for (size_t i = 1; i < count; i++)
        assert_true(ranges[i - 1].shard < ranges[i].shard ||
                    (ranges[i - 1].shard == ranges[i].shard &&
                     ranges[i - 1].offset + ranges[i - 1].length < ranges[i].offset));
}

static void test_coming_records_are_listed(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(memory_free) struct read_range *ranges = NULL;
    size_t capacity = 0, count;
    for (int kind = ORDER_SHUFFLE; kind <= ORDER_SEQUENTIAL; kind++) {
        struct order order =
            order_make((enum order_kind)kind, 16, index_count(index), BATCH, false, 4);
        /* The second of two ranks, to the epoch's end, where places stay empty. */
        for (uint64_t first = 0; first < order_steps(&order, false); first += 3) {
            uint64_t end = order_steps(&order, false);
            end = first + 3 < end ? first + 3 : end;
            assert_ok(read_ranges_list(index, &order, BATCH / 2, BATCH / 2, first, end, &ranges,
                                       &capacity, &count));
            assert_sorted(ranges, count);
            for (uint64_t step = first; step < end; step++)
                for (uint32_t slot = BATCH / 2; slot < BATCH; slot++) {
                    uint64_t record = order_record(&order, step, slot);
                    assert_true(record == ORDER_NO_RECORD ||
                                record_is_covered(index, record, ranges, count));
                }
        }
    }
}

/* Small shards are read whole: one range each. */
static void test_neighbours_are_joined(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(memory_free) struct read_range *ranges = NULL;
    size_t capacity = 0, count;
    struct order order = order_make(ORDER_SHUFFLE, 0, index_count(index), BATCH, true, 4);
    assert_ok(read_ranges_list(index, &order, 0, BATCH, 0, order_steps(&order, false), &ranges,
                               &capacity, &count));
    assert_int_equal(count, index_shard_count(index));
}

static void test_epochs_begin_and_end(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(read_ahead_close) struct read_ahead *ahead = NULL;
    struct order order = order_make(ORDER_WINDOW, 16, index_count(index), BATCH, true, 4);
    assert_ok(read_ahead_open(index, 0, BATCH, &ahead));
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        order_set_epoch(&order, epoch);
        read_ahead_start(ahead, &order, epoch % 3, order_steps(&order, false));
        for (uint64_t step = epoch % 3; step < epoch % 7; step++)
            read_ahead_advance(ahead, step);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coming_records_are_listed),
        cmocka_unit_test(test_neighbours_are_joined),
        cmocka_unit_test(test_epochs_begin_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
