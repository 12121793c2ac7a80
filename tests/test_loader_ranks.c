/* The loader for several ranks, in each order: together they see each record once, in the batches
 * of one rank alone, from whatever step they go on. */

#include "tests/test.h"

#include "base/crc32c.h"
#include "base/progress.h"
#include "index/loader.h"
#include "index/pack.h"
#include "tests/support/jpeg_folder.h"

enum { IMAGES = 40, BATCH = 8, STEPS = IMAGES / BATCH, EPOCHS = 2, SIZE = 16 };

static struct index *images;

/* What an epoch's global batches hold: a record, and a checksum of its pixels and label, for each
 * slot. */
struct epoch {
    uint64_t records[STEPS][BATCH];
    uint32_t checksums[STEPS][BATCH];
};

static const struct {
    enum order_kind order;
    uint64_t window;
} orders[] = {
    {ORDER_SHUFFLE, 0},   {ORDER_SEQUENTIAL, 0}, {ORDER_WINDOW, 3},
    {ORDER_WINDOW, 16},   {ORDER_WINDOW, 24}, /* rounded down to a chunk; the rest of the records
                                                 fill none */
    {ORDER_WINDOW, 1000},
};

static struct loader_options options_make(size_t order, uint32_t rank, uint32_t world_size)
{
    struct loader_options options;
    loader_options_init(&options);
    options.global_batch = BATCH;
    options.image_size = options.val_crop = SIZE;
    options.val_resize = SIZE + 2;
    options.threads = 2;
    options.seed = 5;
    options.order = orders[order].order;
    options.window = orders[order].window;
    options.rank = rank;
    options.world_size = world_size;
    return options;
}

/* Adds what a rank sees of an epoch from a step on. */
static void epoch_add(struct loader *loader, const struct loader_options *options, uint64_t number,
                      uint64_t first_step, struct epoch *epoch)
{
    const size_t image_bytes = (size_t)SIZE * SIZE * 3 * sizeof(float);
    struct batch *batch;
    assert_int_equal(loader_steps(loader), STEPS);
    assert_ok(loader_start(loader, number, first_step));
    for (uint64_t step = first_step; step < STEPS; step++) {
        assert_ok(loader_next(loader, &batch));
        assert_non_null(batch);
        assert_int_equal(batch->step, step);
        assert_int_equal(batch->count, BATCH / options->world_size);
        for (uint32_t i = 0; i < batch->count; i++) {
            uint32_t slot = options->rank * batch->count + i;
            const uint8_t *image = (const uint8_t *)batch->images + i * image_bytes;
            epoch->records[step][slot] = batch->samples[i].record;
            epoch->checksums[step][slot] =
                crc32c_update(crc32c_update(0, &batch->labels[i], sizeof batch->labels[i]), image,
                              image_bytes);
        }
        batch_release(batch);
    }
    assert_ok(loader_next(loader, &batch));
    assert_null(batch);
}

/* An epoch from its first step on, put together from all ranks. */
static void epoch_collect(size_t order, enum loader_mode mode, uint32_t world_size, uint64_t number,
                          struct epoch *epoch)
{
    memset(epoch, 0xFF, sizeof *epoch);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        CLEANUP(loader_close) struct loader *loader = NULL;
        struct loader_options options = options_make(order, rank, world_size);
        options.mode = mode;
        assert_ok(loader_open(images, &options, &loader));
        epoch_add(loader, &options, number, 0, epoch);
    }
}

static void each_record_is_seen_once_in_the_batches_of_one_rank(void **state)
{
    (void)state;
    for (size_t order = 0; order < ARRAY_LENGTH(orders); order++)
        for (int mode = LOADER_TRAIN; mode <= LOADER_EVAL; mode++)
            for (uint64_t number = 0; number < EPOCHS; number++) {
                struct epoch alone, together;
                unsigned seen[IMAGES] = {0};
                epoch_collect(order, (enum loader_mode)mode, 1, number, &alone);
                for (size_t i = 0; i < IMAGES; i++) {
                    uint64_t record = alone.records[i / BATCH][i % BATCH];
                    assert_in_range(record, 0, IMAGES - 1);
                    seen[record]++;
                }
                for (size_t i = 0; i < IMAGES; i++)
                    assert_int_equal(seen[i], 1);
                for (uint32_t world_size = 2; world_size <= BATCH; world_size *= 2) {
                    epoch_collect(order, (enum loader_mode)mode, world_size, number, &together);
                    assert_memory_equal(&together, &alone, sizeof alone);
                }
            }
}

static void epochs_differ_unless_in_sequence(void **state)
{
    (void)state;
    for (size_t order = 0; order < ARRAY_LENGTH(orders); order++) {
        struct epoch first, second;
        epoch_collect(order, LOADER_TRAIN, 1, 0, &first);
        epoch_collect(order, LOADER_TRAIN, 1, 1, &second);
        bool is_same = memcmp(first.records, second.records, sizeof first.records) == 0;
        assert_int_equal(is_same, orders[order].order == ORDER_SEQUENTIAL);
        assert_memory_not_equal(first.checksums, second.checksums, sizeof first.checksums);
    }
}

/* With another number of ranks than before, too. */
static void ranks_go_on_at_any_step(void **state)
{
    (void)state;
    for (size_t order = 0; order < ARRAY_LENGTH(orders); order++) {
        struct epoch whole, resumed;
        epoch_collect(order, LOADER_TRAIN, 1, 1, &whole);
        for (uint64_t step = 0; step <= STEPS; step++) {
            uint32_t world_size = 1U << step % 4;
            resumed = whole;
            memset(&resumed.records[step], 0xFF, (STEPS - step) * sizeof *resumed.records);
            memset(&resumed.checksums[step], 0xFF, (STEPS - step) * sizeof *resumed.checksums);
            for (uint32_t rank = 0; rank < world_size; rank++) {
                CLEANUP(loader_close) struct loader *loader = NULL;
                struct loader_options options = options_make(order, rank, world_size);
                assert_ok(loader_open(images, &options, &loader));
                epoch_add(loader, &options, 1, step, &resumed);
            }
            assert_memory_equal(&resumed, &whole, sizeof whole);
        }
    }
}

int main(void)
{
    progress_set_quiet(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_record_is_seen_once_in_the_batches_of_one_rank),
        cmocka_unit_test(epochs_differ_unless_in_sequence),
        cmocka_unit_test(ranks_go_on_at_any_step),
    };
    CLEANUP(pack_report_done) struct pack_report report = {0};
    const struct pack_options options = {.encoding = ENCODING_DCT,
                                         .shard_bytes = 65536,
                                         .threads = 2};
    jpeg_folder_make(test_path("images"));
    CLEANUP(source_free) struct source *source = jpeg_folder_open(test_path("images"));
    assert_ok(pack_run(source, test_path("images.idx"), &options, &report));
    assert_ok(index_open(test_path("images.idx"), &images));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    index_close(images);
    return failed;
}
