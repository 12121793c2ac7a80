/* The loader: batches are a function of (index, seed, epoch, step), whoever computes them. */

#include <string.h>

#include "base/crc32c.h"
#include "image/decode.h"
#include "image/folder_source.h"
#include "index/loader.h"
#include "index/pack.h"
#include "index/writer.h"
#include "tests/test.h"

enum { IMAGES = 22, CLASSES = 3, BATCH = 4, SIZE = 24 };

static void image_write(const char *path, uint32_t number, uint32_t least_side)
{
    CLEANUP(picture_done) struct picture picture = {0};
    CLEANUP(buffer_done) struct buffer jpeg = {0};
    assert_ok(picture_resize(&picture, least_side + number, least_side + 30 - number));
    for (uint32_t y = 0; y < picture.height; y++)
        for (uint32_t x = 0; x < 3 * picture.width; x++)
            picture.pixels[y * picture.stride_bytes + x] =
                (uint8_t)(number * 11 + x * (1 + number % 3) + y * 2);
    assert_ok(jpeg_encode(&picture, 95, &jpeg));
    assert_ok(file_write_atomic(path, jpeg.data, jpeg.length));
}

/* An index over class folders of JPEGs, all of different sizes. */
static struct index *index_make_sized(const char *name, uint32_t least_side)
{
    CLEANUP(source_free) struct source *source = NULL;
    struct index *index = NULL;
    char path[600];
    assert_ok(folder_create(test_path(name)));
    for (uint32_t i = 0; i < IMAGES; i++) {
        snprintf(path, sizeof path, "%s/class%u", test_path(name), i % CLASSES);
        assert_ok(folder_create(path));
        snprintf(path, sizeof path, "%s/class%u/%02u.jpg", test_path(name), i % CLASSES, i);
        image_write(path, i, least_side);
    }
    assert_ok(folder_source_open(test_path(name), NULL, 1, &source));
    snprintf(path, sizeof path, "%s.idx", test_path(name));
    assert_ok(index_write(source, "{}", path));
    assert_ok(index_open(path, &index));
    return index;
}

static struct index *index_make(const char *name)
{
    return index_make_sized(name, 30);
}

static struct loader_options options_make(enum loader_mode mode, unsigned threads)
{
    struct loader_options options;
    loader_options_init(&options);
    options.mode = mode;
    options.global_batch = BATCH;
    options.image_size = options.val_crop = SIZE;
    options.val_resize = SIZE + 4;
    options.threads = threads;
    options.seed = 9;
    return options;
}

static size_t batch_image_bytes(void)
{
    return (size_t)SIZE * SIZE * 3 * sizeof(float);
}

/* A checksum over pixels, labels and records of `steps` batches. */
static uint32_t batches_checksum(struct loader *loader, uint64_t steps)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < steps; i++) {
        struct batch *batch;
        assert_ok(loader_next(loader, &batch));
        assert_non_null(batch);
        crc = crc32c_update(crc, batch->images, batch->count * batch_image_bytes());
        crc = crc32c_update(crc, batch->labels, batch->count * sizeof *batch->labels);
        for (uint32_t j = 0; j < batch->count; j++)
            crc = crc32c_update(crc, &batch->samples[j].record, sizeof(uint64_t));
        batch_release(batch);
    }
    return crc;
}

static uint32_t run_checksum(struct index *index, const struct loader_options *options)
{
    CLEANUP(loader_close) struct loader *loader = NULL;
    uint32_t crc = 0;
    assert_ok(loader_open(index, options, &loader));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        assert_ok(loader_start(loader, epoch, 0));
        crc = crc * 31 + batches_checksum(loader, loader_steps(loader));
        struct batch *end;
        assert_ok(loader_next(loader, &end));
        assert_null(end);
    }
    return crc;
}

static void test_threads_do_not_matter(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("threads");
    for (int mode = LOADER_TRAIN; mode <= LOADER_EVAL; mode++) {
        struct loader_options one = options_make((enum loader_mode)mode, 1);
        struct loader_options many = options_make((enum loader_mode)mode, 16);
        many.slots = 7;
        assert_int_equal(run_checksum(index, &one), run_checksum(index, &many));
    }
}

/* Each order is another one, and none depends on the threads. */
static void test_orders(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("orders");
    uint32_t checksums[ORDER_SEQUENTIAL + 1];
    for (int order = ORDER_SHUFFLE; order <= ORDER_SEQUENTIAL; order++) {
        struct loader_options one = options_make(LOADER_TRAIN, 1);
        struct loader_options many = options_make(LOADER_TRAIN, 5);
        one.order = many.order = (enum order_kind)order;
        one.window = many.window = 6;
        checksums[order] = run_checksum(index, &one);
        assert_int_equal(checksums[order], run_checksum(index, &many));
        for (int other = 0; other < order; other++)
            assert_int_not_equal(checksums[order], checksums[other]);
    }
}

static void test_seed_and_epoch_matter(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("seeds");
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options = options_make(LOADER_TRAIN, 2);
    struct loader_options other = options;
    other.seed = 10;
    assert_int_not_equal(run_checksum(index, &options), run_checksum(index, &other));
    assert_ok(loader_open(index, &options, &loader));
    assert_ok(loader_start(loader, 0, 0));
    uint32_t first = batches_checksum(loader, 3);
    assert_ok(loader_start(loader, 1, 0));
    assert_int_not_equal(first, batches_checksum(loader, 3));
}

/* Starting at a step gives what the whole epoch gives from there on, whatever was under way. */
static void test_start_at_step(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("resume");
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options = options_make(LOADER_TRAIN, 3);
    assert_ok(loader_open(index, &options, &loader));
    uint64_t steps = loader_steps(loader);
    for (uint64_t first = 0; first <= steps; first++) {
        assert_ok(loader_start(loader, 2, 0));
        batches_checksum(loader, first);
        uint32_t rest = batches_checksum(loader, steps - first);
        assert_ok(loader_start(loader, 1, 0));
        batches_checksum(loader, first / 2);
        assert_ok(loader_start(loader, 2, first));
        assert_int_equal(rest, batches_checksum(loader, steps - first));
    }
    assert_fails(loader_start(loader, 0, steps + 1), STATUS_USAGE, "past the epoch");
}

static void test_training_sees_all_and_fills_up(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("train");
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options = options_make(LOADER_TRAIN, 2);
    assert_ok(loader_open(index, &options, &loader));
    assert_int_equal(loader_steps(loader), (IMAGES + BATCH - 1) / BATCH);
    assert_ok(loader_start(loader, 5, 0));
    unsigned seen[IMAGES] = {0};
    for (uint64_t step = 0; step < loader_steps(loader); step++) {
        struct batch *batch;
        assert_ok(loader_next(loader, &batch));
        assert_int_equal(batch->step, step);
        assert_int_equal(batch->valid, BATCH);
        for (uint32_t i = 0; i < BATCH; i++) {
            struct record record;
            struct batch_sample sample;
            seen[batch->samples[i].record]++;
            assert_ok(index_record(index, batch->samples[i].record, &record));
            assert_int_equal(record.label, batch->labels[i]);
            assert_ok(loader_sample(loader, 5, step, i, &sample));
            assert_memory_equal(&sample.record, &batch->samples[i].record, sizeof sample.record);
            assert_memory_equal(&sample.crop.box, &batch->samples[i].crop.box,
                                sizeof sample.crop.box);
        }
        batch_release(batch);
    }
    unsigned twice = 0;
    for (int i = 0; i < IMAGES; i++) {
        assert_in_range(seen[i], 1, 2);
        twice += seen[i] == 2;
    }
    assert_int_equal(twice, BATCH - IMAGES % BATCH);
}

static void test_evaluation_is_exact(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("eval");
    for (uint32_t world_size = 1; world_size <= 4; world_size *= 2) {
        unsigned seen[IMAGES] = {0};
        for (uint32_t rank = 0; rank < world_size; rank++) {
            CLEANUP(loader_close) struct loader *loader = NULL;
            struct loader_options options = options_make(LOADER_EVAL, 2);
            options.rank = rank;
            options.world_size = world_size;
            assert_ok(loader_open(index, &options, &loader));
            assert_ok(loader_start(loader, 0, 0));
            for (;;) {
                struct batch *batch;
                assert_ok(loader_next(loader, &batch));
                if (!batch)
                    break;
                uint32_t valid = 0;
                for (uint32_t i = 0; i < batch->count; i++)
                    if (batch->labels[i] >= 0) {
                        seen[batch->samples[i].record]++;
                        valid++;
                    }
                assert_int_equal(batch->valid, valid);
                batch_release(batch);
            }
        }
        for (int i = 0; i < IMAGES; i++)
            assert_int_equal(seen[i], 1);
    }
}

static void test_ranks_share_a_global_batch(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("ranks");
    CLEANUP(loader_close) struct loader *whole = NULL;
    struct loader_options options = options_make(LOADER_TRAIN, 2);
    assert_ok(loader_open(index, &options, &whole));
    assert_ok(loader_start(whole, 1, 0));
    struct batch *global;
    assert_ok(loader_next(whole, &global));
    for (uint32_t rank = 0; rank < 2; rank++) {
        CLEANUP(loader_close) struct loader *part = NULL;
        struct batch *batch;
        options.rank = rank;
        options.world_size = 2;
        assert_ok(loader_open(index, &options, &part));
        assert_ok(loader_start(part, 1, 0));
        assert_ok(loader_next(part, &batch));
        assert_int_equal(batch->count, BATCH / 2);
        assert_memory_equal(batch->images,
                            (uint8_t *)global->images + rank * batch->count * batch_image_bytes(),
                            batch->count * batch_image_bytes());
        batch_release(batch);
    }
    batch_release(global);
    options.global_batch = 5;
    struct loader *refused = NULL;
    assert_fails(loader_open(index, &options, &refused), STATUS_USAGE, "evenly");
}

static void test_bad_record(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("bad");
    CLEANUP(buffer_done) struct buffer jpeg = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/class1/04.jpg", test_path("bad"));
    assert_ok(file_read_all(path, 1 << 20, &jpeg));
    memset(jpeg.data, 0, jpeg.length);
    assert_ok(file_write_atomic(path, jpeg.data, jpeg.length));

    struct loader_options options = options_make(LOADER_EVAL, 2);
    CLEANUP(loader_close) struct loader *strict = NULL;
    assert_ok(loader_open(index, &options, &strict));
    assert_ok(loader_start(strict, 0, 0));
    struct status status = OK;
    for (struct batch *batch; status.code == STATUS_DONE;) {
        status = loader_next(strict, &batch);
        if (status.code == STATUS_DONE) {
            assert_non_null(batch);
            batch_release(batch);
        }
    }
    assert_non_null(strstr(status_message(&status), "04.jpg"));
    status_clear(&status);

    CLEANUP(loader_close) struct loader *lenient = NULL;
    options.on_error = LOADER_SKIP;
    assert_ok(loader_open(index, &options, &lenient));
    assert_ok(loader_start(lenient, 0, 0));
    uint32_t valid = 0;
    for (uint64_t i = 0; i < loader_steps(lenient); i++) {
        struct batch *batch;
        assert_ok(loader_next(lenient, &batch));
        valid += batch->valid;
        batch_release(batch);
    }
    struct loader_statistics statistics;
    loader_statistics(lenient, &statistics);
    assert_int_equal(valid, IMAGES - 1);
    assert_int_equal(statistics.bad_records, 1);
}

/* A caller that keeps its batches gets more of them, then an error: never a deadlock. */
static void test_held_batches(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("held");
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options = options_make(LOADER_TRAIN, 2);
    options.global_batch = 1;
    options.slots = 2;
    assert_ok(loader_open(index, &options, &loader));
    assert_ok(loader_start(loader, 0, 0));
    struct batch *held[8];
    for (int i = 0; i < 8; i++)
        assert_ok(loader_next(loader, &held[i]));
    struct batch *more;
    assert_fails(loader_next(loader, &more), STATUS_NO_MEMORY, "release");
    batch_release(held[3]);
    assert_ok(loader_next(loader, &more));
    assert_int_equal(more->step, 8);
}

static void test_label_map(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("map");
    CLEANUP(loader_close) struct loader *loader = NULL;
    const int32_t map[CLASSES] = {900, 3, 77};
    const int32_t gap[CLASSES] = {900, -1, 77};
    struct loader_options options = options_make(LOADER_EVAL, 1);
    struct batch *batch;
    options.label_map = map;
    assert_ok(loader_open(index, &options, &loader));
    assert_ok(loader_start(loader, 0, 0));
    assert_ok(loader_next(loader, &batch));
    assert_int_equal(batch->labels[0], 900);
    batch_release(batch);
    options.label_map = gap;
    struct loader *refused = NULL;
    assert_fails(loader_open(index, &options, &refused), STATUS_CORRUPT, "class1");
}

/* The same images as packed records. */
static struct index *packed_make(const char *folder, enum record_encoding encoding)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    const struct pack_options options = {.encoding = encoding,
                                         .shard_bytes = PACK_SHARD_BYTES,
                                         .threads = 1};
    struct index *index = NULL;
    char path[600];
    snprintf(path, sizeof path, "%s-%d.idx", test_path(folder), (int)encoding);
    assert_ok(folder_source_open(test_path(folder), NULL, 1, &source));
    assert_ok(pack_run(source, path, &options, &report));
    assert_int_equal(report.encodings[encoding], IMAGES);
    assert_ok(index_open(path, &index));
    return index;
}

/* Whatever the encoding, the pixels are the same. */
static void test_encodings_and_pixels(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *files = index_make("encodings");
    CLEANUP(index_close) struct index *jpeg = packed_make("encodings", ENCODING_JPEG);
    CLEANUP(index_close) struct index *dct = packed_make("encodings", ENCODING_DCT);
    for (int mode = LOADER_TRAIN; mode <= LOADER_EVAL; mode++) {
        struct loader_options options = options_make((enum loader_mode)mode, 2);
        uint32_t exact = run_checksum(files, &options);
        assert_int_equal(run_checksum(jpeg, &options), exact);
        assert_int_equal(run_checksum(dct, &options), exact);
        options.pixels = PIXELS_PILLOW13;
        assert_int_equal(run_checksum(dct, &options), run_checksum(jpeg, &options));
        options.pixels = PIXELS_FAST;
        uint32_t fast = run_checksum(dct, &options);
        assert_int_not_equal(fast, exact);
        assert_int_equal(run_checksum(jpeg, &options), fast);
    }
}

/* One epoch without looking at it. */
static void run_through(struct loader *loader)
{
    assert_ok(loader_start(loader, 0, 0));
    for (uint64_t i = 0; i < loader_steps(loader); i++) {
        struct batch *batch;
        assert_ok(loader_next(loader, &batch));
        batch_release(batch);
    }
}

/* The least that is asked for suffices, is held, and changes no pixel. */
static void test_memory_is_held(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("memory");
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options = options_make(LOADER_TRAIN, 5);
    struct loader_statistics statistics;
    uint32_t checksum = run_checksum(index, &options);
    options.memory_bytes = 1 << 20;
    struct status status = loader_open(index, &options, &loader);
    assert_int_equal(status.code, STATUS_USAGE);
    const char *least = strstr(status_message(&status), "need ");
    assert_non_null(least);
    options.memory_bytes = strtoull(least + 5, NULL, 10);
    status_clear(&status);

    assert_ok(loader_open(index, &options, &loader));
    run_through(loader);
    loader_statistics(loader, &statistics);
    assert_in_range(statistics.memory_bytes, 2 * BATCH * batch_image_bytes(), options.memory_bytes);
    struct batch *held[2], *more;
    assert_ok(loader_start(loader, 1, 0));
    assert_ok(loader_next(loader, &held[0]));
    assert_ok(loader_next(loader, &held[1]));
    assert_fails(loader_next(loader, &more), STATUS_NO_MEMORY, "more memory");
    batch_release(held[0]);
    batch_release(held[1]);
    assert_int_equal(checksum, run_checksum(index, &options));
    options.memory_bytes--;
    struct loader *refused = NULL;
    assert_fails(loader_open(index, &options, &refused), STATUS_USAGE, "--memory");
}

/* Images that need more than a thread keeps take turns, and change no pixel. */
static void test_large_images_take_turns(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make_sized("large", 700);
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options = options_make(LOADER_EVAL, 4);
    struct loader_statistics statistics;
    uint32_t checksum = run_checksum(index, &options);
    /* A megabyte a thread, and eight for images of six to seven megabytes each. */
    options.memory_bytes = 2 * BATCH * (batch_image_bytes() + 64) + (12 << 20);
    assert_ok(loader_open(index, &options, &loader));
    run_through(loader);
    loader_statistics(loader, &statistics);
    assert_in_range(statistics.memory_bytes, 8 << 20, options.memory_bytes);
    assert_int_equal(checksum, run_checksum(index, &options));
}

static void test_statistics(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make("statistics");
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options = options_make(LOADER_EVAL, 2);
    struct loader_statistics statistics;
    assert_ok(loader_open(index, &options, &loader));
    run_through(loader);
    loader_statistics(loader, &statistics);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < IMAGES; i++) {
        struct record record;
        assert_ok(index_record(index, i, &record));
        bytes += record.length;
    }
    assert_int_equal(statistics.images, IMAGES);
    assert_int_equal(statistics.bytes, bytes);
    assert_int_equal(statistics.threads, 2);
    assert_true(statistics.read_seconds > 0 && statistics.decode_seconds > 0);
    assert_true(statistics.wait_seconds <= statistics.seconds);

    char text[128];
    const struct loader_statistics known = {.threads = 4,
                                            .seconds = 300,
                                            .read_seconds = 36,
                                            .decode_seconds = 1056,
                                            .wait_seconds = 12};
    assert_string_equal(loader_statistics_text(&known, text),
                        "loader: read 3 %, decode 88 %, waited for batches 12 s of 300 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_encodings_and_pixels),
        cmocka_unit_test(test_seed_and_epoch_matter),
        cmocka_unit_test(test_start_at_step),
        cmocka_unit_test(test_training_sees_all_and_fills_up),
        cmocka_unit_test(test_evaluation_is_exact),
        cmocka_unit_test(test_ranks_share_a_global_batch),
        cmocka_unit_test(test_bad_record),
        cmocka_unit_test(test_held_batches),
        cmocka_unit_test(test_label_map),
        cmocka_unit_test(test_memory_is_held),
        cmocka_unit_test(test_large_images_take_turns),
        cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
