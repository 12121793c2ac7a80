/* A loader with a cache: the same batches and failures as without, from the cache where it can. */

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/crc32c.h"
#include "image/folder_source.h"
#include "index/cache.h"
#include "index/cache_fetch.h"
#include "index/cache_reader.h"
#include "index/loader.h"
#include "index/pack.h"
#include "tests/support/jpeg_folder.h"
#include "tests/test.h"

enum { IMAGES = 150, BATCH = 8, SIZE = 16, BUDGET = 1 << 20, LARGE = 4 << 20 };

/* JPEG files in shards of about 64 KiB, and no cache. */
static struct index *index_make(const char *name)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    const struct pack_options options = {.shard_bytes = 65536, .threads = 1};
    struct index *index = NULL;
    char path[600], file[32];
    assert_ok(folder_remove(test_path("cache")));
    for (unsigned i = 0; i < IMAGES; i++) {
        snprintf(file, sizeof file, "x_%u.JPEG", i);
        jpeg_folder_image(i, &bytes);
        jpeg_folder_add(test_path(name), i % 3 ? "a" : "b", file, &bytes);
    }
    assert_ok(folder_source_open(test_path(name), NULL, 1, &source));
    snprintf(path, sizeof path, "%s.idx", test_path(name));
    assert_ok(pack_run(source, path, &options, &report));
    assert_ok(index_open(path, &index));
    return index;
}

static struct loader_options options_make(enum loader_mode mode, struct cache *cache)
{
    struct loader_options options;
    loader_options_init(&options);
    options.mode = mode;
    options.global_batch = BATCH;
    options.image_size = options.val_crop = SIZE;
    options.val_resize = SIZE + 4;
    options.threads = 3;
    options.seed = 9;
    options.cache = cache;
    return options;
}

/* A checksum over the rest of the epoch. */
static uint32_t epoch_checksum(struct loader *loader, uint64_t epoch, uint64_t first,
                               struct loader_statistics *ret_statistics)
{
    uint32_t crc = 0;
    assert_ok(loader_start(loader, epoch, first));
    for (;;) {
        struct batch *batch;
        assert_ok(loader_next(loader, &batch));
        if (!batch)
            break;
        crc = crc32c_update(crc, batch->images,
                            batch->count * (size_t)SIZE * SIZE * 3 * sizeof(float));
        crc = crc32c_update(crc, batch->labels, batch->count * sizeof *batch->labels);
        for (uint32_t i = 0; i < batch->count; i++)
            crc = crc32c_update(crc, &batch->samples[i].record, sizeof(uint64_t));
        batch_release(batch);
    }
    loader_statistics(loader, ret_statistics);
    return crc;
}

static struct loader *loader_make(struct index *index, const struct loader_options *options)
{
    struct loader *loader = NULL;
    assert_ok(loader_open(index, options, &loader));
    return loader;
}

/* Whatever fits: batches are the same, in any epoch, from its middle, and when it is cut short. */
static void test_batches_stay_the_same(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("same");
    for (int mode = LOADER_TRAIN; mode <= LOADER_EVAL; mode++)
        for (int large = 0; large < 2; large++) {
            CLEANUP(cache_close) struct cache *cache = NULL;
            CLEANUP(loader_close) struct loader *plain = NULL;
            CLEANUP(loader_close) struct loader *cached = NULL;
            assert_ok(
                cache_open(large ? test_path("cache") : NULL, large ? LARGE : BUDGET, &cache));
            struct loader_options options = options_make((enum loader_mode)mode, NULL);
            plain = loader_make(index, &options);
            options.cache = cache;
            cached = loader_make(index, &options);
            for (uint64_t epoch = 0; epoch < 4; epoch++) {
                struct loader_statistics statistics, none;
                uint64_t first = epoch == 2 ? 5 : 0;
                uint32_t expected = epoch_checksum(plain, epoch, first, &none);
                assert_int_equal(epoch_checksum(cached, epoch, first, &statistics), expected);
                assert_false(none.has_cache);
                assert_true(statistics.has_cache);
                /* The second mode finds what the first has left. */
                bool is_new = epoch == 0 && !(large && mode == LOADER_EVAL);
                if (is_new && large)
                    assert_int_equal(statistics.fetched, IMAGES);
                else if (is_new) /* the first ones come once more at the end, or are gone */
                    assert_in_range(statistics.fetched, IMAGES, statistics.images);
                else if (large)
                    assert_int_equal(statistics.fetched, 0);
                else
                    assert_true(statistics.fetched < IMAGES - 20);
            }
            assert_ok(loader_start(cached, 7, 0));
            struct batch *batch;
            assert_ok(loader_next(cached, &batch));
            batch_release(batch);
        }
}

/* Pixels of what became `dct` are those of the files. */
static void test_converted_in_the_background(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("converted");
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(loader_close) struct loader *plain = NULL;
    CLEANUP(loader_close) struct loader *cached = NULL;
    struct loader_statistics statistics, none;
    assert_ok(cache_open(test_path("cache"), LARGE, &cache));
    struct loader_options options = options_make(LOADER_TRAIN, NULL);
    plain = loader_make(index, &options);
    options.cache = cache;
    cached = loader_make(index, &options);
    epoch_checksum(cached, 0, 0, &statistics);
    while (cache_statistics(cache).raw_records > 0)
        usleep(1000);
    assert_int_equal(epoch_checksum(cached, 1, 0, &statistics), epoch_checksum(plain, 1, 0, &none));
    assert_int_equal(statistics.converted, IMAGES);
    assert_int_equal(statistics.fetched, 0);
    assert_true(statistics.bytes != none.bytes);
}

/* Whether the record is in the cache: a read that the shards cannot answer any more. */
static bool is_held(struct cache_reader *reader, uint64_t record)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    uint8_t encoding;
    struct status status = cache_reader_read(reader, record, &bytes, &encoding);
    bool held = status.code == STATUS_DONE;
    status_ignore(status);
    return held;
}

/* Nobody knows when a record is needed: a full cache keeps the first ones of the index, pass after
 * pass, and lets go of them for a loader, which knows. */
static void test_any_order(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("any");
    CLEANUP(index_close) struct index *bare = NULL;
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(cache_reader_close) struct cache_reader *reader = NULL;
    CLEANUP(cache_reader_close) struct cache_reader *bare_reader = NULL;
    CLEANUP(loader_close) struct loader *loader = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(buffer_done) struct buffer expected = {0};
    struct order order = order_make(ORDER_SHUFFLE, 0, IMAGES, 1, false, 3);
    struct loader_statistics statistics;
    assert_ok(cache_open(NULL, BUDGET, &cache));
    assert_ok(cache_reader_open(index, cache, &reader));
    for (uint64_t i = 0; i < 4 * IMAGES; i++) {
        uint8_t encoding;
        order_set_epoch(&order, i / IMAGES);
        uint64_t record = order_record(&order, i % IMAGES, 0);
        assert_ok(cache_reader_read(reader, record, &bytes, &encoding));
        assert_ok(index_read(index, record, &expected));
        assert_int_equal(encoding, ENCODING_JPEG);
        assert_int_equal(bytes.length, expected.length);
        assert_memory_equal(bytes.data, expected.data, bytes.length);
    }
    assert_ok(index_open(index_path(index), &bare));
    for (size_t i = 0; i < index_shard_count(index); i++)
        assert_int_equal(rename(index_shard(index, i)->path, test_path("aside")), 0);
    assert_ok(cache_reader_open(bare, cache, &bare_reader));
    uint64_t kept = cache_statistics(cache).records, held = 0;
    assert_in_range(kept, 20, IMAGES - 20);
    for (uint64_t i = 0; i < kept; i++)
        held += is_held(bare_reader, i);
    assert_in_range(held, kept - 4, kept);
    assert_false(is_held(bare_reader, IMAGES - 1));
    struct loader_options options = options_make(LOADER_TRAIN, cache);
    loader = loader_make(index, &options);
    epoch_checksum(loader, 0, 0, &statistics);
    assert_true(statistics.fetched < IMAGES);
    epoch_checksum(loader, 1, 0, &statistics);
    assert_true(statistics.fetched < IMAGES - 20);
}

/* Threads of this process that run when nothing else would. */
static unsigned idle_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    unsigned count = 0;
    assert_non_null(tasks);
    while ((task = readdir(tasks)))
        count += task->d_name[0] != '.' &&
                 sched_getscheduler((int)strtol(task->d_name, NULL, 10)) == SCHED_IDLE;
    closedir(tasks);
    return count;
}

/* Converting waits for idle processors unless a training set stays in the cache as a whole. */
static void test_converting_gives_way(void **state)
{
    (void)state;
    const struct {
        enum loader_mode mode;
        uint64_t bytes;
        unsigned idle;
    } cases[] = {{LOADER_EVAL, LARGE, 2}, {LOADER_TRAIN, BUDGET, 2}, {LOADER_TRAIN, LARGE, 0}};
    CLEANUP(index_close) struct index *index = index_make("gives_way");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CLEANUP(cache_close) struct cache *cache = NULL;
        CLEANUP(loader_close) struct loader *loader = NULL;
        struct loader_statistics statistics;
        assert_ok(cache_open(NULL, cases[i].bytes, &cache));
        struct loader_options options = options_make(cases[i].mode, cache);
        loader = loader_make(index, &options);
        epoch_checksum(loader, 0, 0, &statistics);
        assert_int_equal(idle_threads(), cases[i].idle);
    }
}

/* Ranks share what they bring: the second one finds it. */
static void test_ranks_share(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("ranks");
    CLEANUP(cache_close) struct cache *first = NULL;
    CLEANUP(cache_close) struct cache *second = NULL;
    assert_ok(cache_open(test_path("cache"), LARGE, &first));
    assert_ok(cache_open(test_path("cache"), LARGE, &second));
    uint64_t fetched = 0;
    for (uint32_t rank = 0; rank < 2; rank++) {
        CLEANUP(loader_close) struct loader *plain = NULL;
        CLEANUP(loader_close) struct loader *cached = NULL;
        struct loader_options options = options_make(LOADER_TRAIN, NULL);
        options.world_size = 2;
        options.rank = rank;
        plain = loader_make(index, &options);
        options.cache = rank ? second : first;
        cached = loader_make(index, &options);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            struct loader_statistics statistics, none;
            uint32_t expected = epoch_checksum(plain, epoch, 0, &none);
            assert_int_equal(epoch_checksum(cached, epoch, 0, &statistics), expected);
            fetched += statistics.fetched;
        }
    }
    assert_int_equal(fetched, IMAGES);
}

/* Flips a byte in the middle of a record. */
static void record_damage(const struct index *index, uint64_t number)
{
    struct record record;
    uint8_t byte;
    assert_ok(index_record(index, number, &record));
    FILE *file = fopen(index_shard(index, record.shard)->path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(record.offset + record.length / 2), SEEK_SET), 0);
    assert_int_equal(fread(&byte, 1, 1, file), 1);
    byte ^= 1;
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fwrite(&byte, 1, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static struct status first_failure(struct loader *loader)
{
    struct batch *batch = NULL;
    struct status status = loader_start(loader, 0, 0);
    do {
        if (batch)
            batch_release(batch);
        if (status.code == STATUS_DONE)
            status = loader_next(loader, &batch);
    } while (status.code == STATUS_DONE && batch);
    return status;
}

static void test_failures_stay_the_same(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("failures");
    CLEANUP(cache_close) struct cache *cache = NULL;
    assert_ok(cache_open(NULL, LARGE, &cache));
    record_damage(index, 77);
    struct status failures[2];
    for (int cached = 0; cached < 2; cached++) {
        struct loader_options options = options_make(LOADER_TRAIN, cached ? cache : NULL);
        CLEANUP(loader_close) struct loader *loader = loader_make(index, &options);
        failures[cached] = first_failure(loader);
    }
    assert_int_equal(failures[0].code, STATUS_CORRUPT);
    assert_string_equal(status_message(&failures[0]), status_message(&failures[1]));
    status_clear(&failures[0]);
    status_clear(&failures[1]);
    struct loader_options options = options_make(LOADER_TRAIN, cache);
    options.on_error = LOADER_SKIP;
    CLEANUP(loader_close) struct loader *loader = loader_make(index, &options);
    struct loader_statistics statistics;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        epoch_checksum(loader, epoch, 0, &statistics);
        assert_true(statistics.bad_records >= 1);
    }
}

/* An index is the same when it is opened again; changed images do not meet old ones. */
static void test_identities(void **state)
{
    (void)state;
    uint64_t one, same, other;
    bool lasts;
    CLEANUP(index_close) struct index *index = index_make("one");
    CLEANUP(index_close) struct index *again = NULL;
    CLEANUP(index_close) struct index *changed = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    const struct pack_options options = {.shard_bytes = 65536, .threads = 1, .force = true};
    assert_ok(index_open(test_path("one.idx"), &again));
    assert_ok(index_identity(index, &one, &lasts));
    assert_ok(index_identity(again, &same, &lasts));
    assert_int_equal(one, same);
    assert_true(lasts);
    jpeg_folder_image(IMAGES, &bytes);
    jpeg_folder_add(test_path("one"), "a", "x_1.JPEG", &bytes);
    assert_ok(folder_source_open(test_path("one"), NULL, 1, &source));
    assert_ok(pack_run(source, test_path("one.idx"), &options, &report));
    assert_ok(index_open(test_path("one.idx"), &changed));
    assert_ok(index_identity(changed, &other, &lasts));
    assert_true(one != other);
}

static void test_fetch(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("fetch");
    CLEANUP(cache_close) struct cache *cache = NULL;
    struct cache_fetch_report report;
    struct cache_fetch_options options = {.parts = 4, .converters = 2};
    uint64_t fetched = 0;
    assert_ok(cache_open(test_path("cache"), LARGE, &cache));
    for (options.part = 0; options.part < 4; options.part++) {
        assert_ok(cache_fetch(index, cache, &options, NULL, &report));
        assert_int_equal(report.fetched, report.records);
        assert_int_equal(report.converted, report.records);
        fetched += report.fetched;
    }
    assert_int_equal(fetched, IMAGES);
    options = (struct cache_fetch_options){.parts = 1};
    assert_ok(cache_fetch(index, cache, &options, NULL, &report));
    assert_int_equal(report.held, IMAGES);
    struct loader_options loading = options_make(LOADER_TRAIN, cache);
    CLEANUP(loader_close) struct loader *loader = loader_make(index, &loading);
    struct loader_statistics statistics;
    epoch_checksum(loader, 0, 0, &statistics);
    assert_int_equal(statistics.fetched, 0);
    /* A small one takes what fits. */
    CLEANUP(cache_close) struct cache *small = NULL;
    assert_ok(cache_open(NULL, BUDGET, &small));
    assert_ok(cache_fetch(index, small, &options, NULL, &report));
    assert_true(report.no_room > 0 && report.fetched > 30);
    assert_int_equal(report.no_room + report.fetched, IMAGES);
}

struct watch {
    atomic_bool ends;
    unsigned idle; /* threads, at most */
};

static void *watch_main(void *context)
{
    struct watch *watch = context;
    while (!atomic_load(&watch->ends)) {
        unsigned idle = idle_threads();
        watch->idle = idle > watch->idle ? idle : watch->idle;
    }
    return NULL;
}

/* A fetch ends on a machine whose processors have nothing left: a thread that gave way could not
 * take that back without a privilege. */
static void test_fetch_does_not_give_way(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("busy");
    CLEANUP(cache_close) struct cache *cache = NULL;
    const struct cache_fetch_options options = {.parts = 1, .converters = 2};
    struct cache_fetch_report report;
    struct watch watch = {0};
    pthread_t thread;
    assert_ok(cache_open(NULL, LARGE, &cache));
    assert_int_equal(pthread_create(&thread, NULL, watch_main, &watch), 0);
    struct status status = cache_fetch(index, cache, &options, NULL, &report);
    atomic_store(&watch.ends, true);
    pthread_join(thread, NULL);
    assert_ok(status);
    assert_int_equal(report.converted, IMAGES);
    assert_int_equal(watch.idle, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_stay_the_same),
        cmocka_unit_test(test_converted_in_the_background),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_converting_gives_way),
        cmocka_unit_test(test_ranks_share),
        cmocka_unit_test(test_failures_stay_the_same),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_fetch),
        cmocka_unit_test(test_fetch_does_not_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
