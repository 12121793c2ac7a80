/* The flat interface for other languages: what it gives is what the library gives, what it refuses
 * has a message, and a batch that is held outlives the loader's threads. */

#include "tests/test.h"

#include <pthread.h>

#include "base/crc32c.h"
#include "binding/binding.h"
#include "index/format.h"
#include "index/record_image.h"
#include "index/record_original.h"
#include "tests/support/jpeg_folder.h"

enum { SIDE = 16, BATCH = 6 };

static struct index *index_make(void)
{
    struct index *index = NULL;
    setenv("XDG_CACHE_HOME", test_path("cache"), 1);
    if (!path_exists(test_path("set")))
        jpeg_folder_make(test_path("set"));
    if (binding_index_open(test_path("set"), NULL, &index) != 0)
        fail_msg("%s", binding_message());
    return index;
}

static struct binding_reader *scratch_make(struct index *index)
{
    struct binding_reader *reader = NULL;
    assert_int_equal(binding_reader_open(index, NULL, "pillow", &reader), 0);
    return reader;
}

static struct binding_loader_options options_make(void)
{
    struct binding_loader_options options = {.size_bytes = sizeof options};
    assert_int_equal(binding_loader_options_init(&options), 0);
    options.global_batch = BATCH;
    options.image_size = SIDE;
    options.threads = 3;
    options.seed = 5;
    return options;
}

static void test_versions(void **state)
{
    (void)state;
    assert_int_equal(binding_version(), BINDING_VERSION);
    assert_string_equal(binding_release(), HEADRACE_VERSION);
}

static void test_failures_have_codes_and_messages(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    struct index *none = NULL;
    struct binding_reader *reader = NULL;
    const void *column;
    uint64_t number;
    assert_int_equal(binding_index_open(test_path("absent.idx"), NULL, &none), STATUS_NOT_FOUND);
    assert_non_null(strstr(binding_message(), "absent.idx"));
    assert_null(none);
    assert_int_equal(binding_index_column(index, SECTION_NAMES, &column), STATUS_USAGE);
    assert_int_equal(binding_index_column(index, UINT32_MAX, &column), STATUS_USAGE);
    assert_int_equal(binding_index_find(index, 0, "absent.JPEG", &number), STATUS_NOT_FOUND);
    assert_non_null(strstr(binding_message(), "absent.JPEG"));
    assert_int_equal(binding_reader_open(index, NULL, "sharp", &reader), STATUS_USAGE);
    assert_string_equal(binding_message(), "pixels is 'sharp', expected pillow, pillow13 or fast");
}

static void test_messages_have_the_callers_names(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    struct access *access = NULL;
    struct index *index = NULL;
    assert_int_equal(binding_cache_open(test_path("empty"), NULL, &cache), STATUS_USAGE);
    assert_non_null(strstr(binding_message(), "could be kept; give one: cache_size"));
    assert_int_equal(binding_access_open(NULL, NULL, "secret", NULL, NULL, &access), STATUS_USAGE);
    assert_non_null(strstr(binding_message(), "give user, or HEADRACE_USER"));
    /* What only looks like one. */
    assert_int_equal(binding_index_open("--memory-x", NULL, &index), STATUS_NOT_FOUND);
    assert_non_null(strstr(binding_message(), "'--memory-x'"));
    assert_int_equal(binding_index_open(" --memory2 x--user --cache", NULL, &index),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(binding_message(), "' --memory2 x--user --cache'"));
}

static void test_an_access_is_opened_and_checked(void **state)
{
    (void)state;
    struct access *access = NULL;
    assert_int_equal(binding_access_open("a b", NULL, NULL, NULL, NULL, &access), STATUS_USAGE);
    assert_null(access);
    assert_int_equal(binding_access_open("one,two:8080", "user", "password", NULL,
                                         test_path("absent.pem"), &access),
                     STATUS_NOT_FOUND);
    assert_null(access);
    assert_int_equal(binding_access_open("one,two:8080", "user", "password", NULL, NULL, &access),
                     0);
    struct index *none = NULL;
    assert_int_equal(binding_index_open(test_path("absent.idx"), access, &none), STATUS_NOT_FOUND);
    binding_access_close(access);
    binding_access_close(NULL);
}

static void test_columns_are_the_records(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    struct binding_index description;
    const void *labels, *offsets, *lengths;
    binding_index_describe(index, &description);
    assert_int_equal(description.count, 40);
    assert_int_equal(description.classes, 3);
    assert_int_equal(description.shards, 1);
    assert_int_equal(binding_index_column(index, SECTION_LABELS, &labels), 0);
    assert_int_equal(binding_index_column(index, SECTION_OFFSETS, &offsets), 0);
    assert_int_equal(binding_index_column(index, SECTION_LENGTHS, &lengths), 0);
    for (uint64_t i = 0; i < description.count; i++) {
        struct record record;
        const char *name;
        uint64_t found;
        assert_ok(index_record(index, i, &record));
        assert_int_equal(((const int32_t *)labels)[i], record.label);
        assert_int_equal(((const uint64_t *)offsets)[i], record.offset);
        assert_int_equal(((const uint32_t *)lengths)[i], record.length);
        assert_int_equal(binding_index_name(index, i, &name), 0);
        assert_int_equal(binding_index_find(index, record.label, name, &found), 0);
        assert_int_equal(found, i);
    }
}

static void test_originals(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(binding_reader_close) struct binding_reader *reader = scratch_make(index);
    CLEANUP(restorer_done) struct restorer restorer = {0};
    CLEANUP(buffer_done) struct buffer expected = {0};
    for (uint64_t i = 0; i < index_count(index); i++) {
        const uint8_t *bytes;
        uint64_t length;
        assert_int_equal(binding_reader_original(reader, i, &bytes, &length), 0);
        assert_ok(record_original(&restorer, index, i, &expected));
        assert_int_equal(length, expected.length);
        assert_memory_equal(bytes, expected.data, length);
        CLEANUP(memory_free) uint8_t *into = NULL;
        assert_ok(memory_alloc(length, 1, &into)); /* not a byte more, for the sanitizers */
        assert_int_equal(binding_reader_original_into(reader, i, into, length), 0);
        assert_memory_equal(into, expected.data, length);
        assert_int_equal(binding_reader_original_into(reader, i, into, length - 1), STATUS_USAGE);
    }
}

/* The whole, and a rectangle of it. */
static void test_images(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(binding_reader_close) struct binding_reader *reader = scratch_make(index);
    CLEANUP(record_image_close) struct record_image *image = NULL;
    CLEANUP(picture_done) struct picture picture = {0};
    assert_ok(record_image_open(index, PIXELS_PILLOW, &image));
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        struct binding_image whole, part;
        uint32_t width, height;
        assert_ok(record_image_read(image, i, &record));
        assert_ok(record_image_decode(image, NULL, &picture));
        assert_int_equal(binding_reader_size(reader, i, &width, &height), 0);
        assert_int_equal(binding_reader_image(reader, i, NULL, &whole), 0);
        assert_int_equal(whole.width, width);
        assert_int_equal(whole.height, height);
        for (uint32_t y = 0; y < height; y++)
            assert_memory_equal(whole.pixels + y * whole.stride_bytes,
                                picture.pixels + y * picture.stride_bytes, 3 * width);
        const uint32_t region[4] = {width / 3, height / 4, width / 2, height / 2};
        assert_int_equal(binding_reader_image(reader, i, region, &part), 0);
        assert_int_equal(part.width, width / 2);
        for (uint32_t y = 0; y < part.height; y++)
            assert_memory_equal(part.pixels + y * part.stride_bytes,
                                picture.pixels + (region[1] + y) * picture.stride_bytes +
                                    (size_t)region[0] * 3,
                                3 * part.width);
    }
}

static void test_crops(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(binding_reader_close) struct binding_reader *reader = scratch_make(index);
    CLEANUP(record_image_close) struct record_image *image = NULL;
    const struct tensor_format format = {.type = TENSOR_U8, .layout = TENSOR_NHWC};
    assert_ok(record_image_open(index, PIXELS_PILLOW, &image));
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        uint32_t width, height;
        uint8_t expected[10 * 12 * 3], given[10 * 12 * 3];
        assert_int_equal(binding_reader_size(reader, i, &width, &height), 0);
        struct binding_crop crop = {.box = {1, 2, width - 2, height - 3},
                                    .out_width = 14,
                                    .out_height = 11,
                                    .window = {2, 1, 12, 10},
                                    .flip = i % 2};
        struct crop same = {{1, 2, width - 2, height - 3}, 14, 11, {2, 1, 12, 10}, i % 2};
        assert_ok(record_image_read(image, i, &record));
        assert_ok(record_image_tensor(image, &same, &format, expected));
        assert_int_equal(binding_reader_crop(reader, i, &crop, given), 0);
        assert_memory_equal(given, expected, sizeof given);
        crop.box[2] = width;
        assert_int_equal(binding_reader_crop(reader, i, &crop, given), STATUS_FAILED);
        crop.box[2] = 1;
        crop.window[0] = UINT32_MAX;
        assert_int_equal(binding_reader_crop(reader, i, &crop, given), STATUS_FAILED);
    }
}

static void test_options_are_checked(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    struct loader *loader = NULL;
    struct binding_loader_options options = options_make();
    options.order = "random";
    assert_int_equal(binding_loader_open(index, &options, &loader), STATUS_USAGE);
    assert_non_null(strstr(binding_message(), "expected shuffle, window or sequential"));
    options = options_make();
    options.image_size = 1 << 30;
    assert_int_equal(binding_loader_open(index, &options, &loader), STATUS_USAGE);
    assert_non_null(strstr(binding_message(), "image_size is"));
    options = options_make();
    options.scale_min = -1;
    assert_int_equal(binding_loader_open(index, &options, &loader), STATUS_USAGE);
    options = options_make();
    options.size_bytes -= 8;
    assert_int_equal(binding_loader_open(index, &options, &loader), STATUS_USAGE);
    assert_int_equal(binding_loader_options_init(&options), STATUS_USAGE);
    assert_null(loader);
}

/* Takes the next batch, however often it has to be waited for. */
static uint32_t next(struct loader *loader, struct binding_batch *batch)
{
    uint32_t what;
    do
        assert_int_equal(binding_loader_next(loader, 1, batch, &what), 0);
    while (what == BINDING_WAITING);
    return what;
}

static uint32_t batch_checksum(const struct binding_batch *batch)
{
    uint32_t crc = crc32c_update(0, batch->images, (size_t)batch->count * SIDE * SIDE * 3 * 4);
    crc = crc32c_update(crc, batch->labels, batch->count * sizeof *batch->labels);
    for (uint32_t i = 0; i < batch->count; i++)
        crc = crc32c_update(crc, (const char *)batch->records + i * batch->record_stride_bytes,
                            sizeof *batch->records);
    return crc;
}

static void test_batches_are_the_loaders(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(loader_close) struct loader *ours = NULL;
    CLEANUP(loader_close) struct loader *theirs = NULL;
    struct binding_loader_options options = options_make();
    struct loader_options same;
    loader_options_init(&same);
    same.global_batch = BATCH;
    same.image_size = SIDE;
    same.seed = 5;
    assert_int_equal(binding_loader_open(index, &options, &ours), 0);
    assert_ok(loader_open(index, &same, &theirs));
    assert_int_equal(binding_loader_steps(ours), (40 + BATCH - 1) / BATCH);
    assert_int_equal(binding_loader_start(ours, 3, 2), 0);
    assert_ok(loader_start(theirs, 3, 2));
    struct binding_batch batch;
    uint64_t step = 2;
    for (; next(ours, &batch) == BINDING_BATCH; step++) {
        struct batch *other;
        assert_ok(loader_next(theirs, &other));
        assert_int_equal(batch.step, step);
        assert_int_equal(batch.valid, BATCH);
        assert_memory_equal(batch.images, other->images, BATCH * SIDE * SIDE * 3 * 4);
        assert_memory_equal(batch.labels, other->labels, BATCH * sizeof *batch.labels);
        assert_int_equal(*batch.records, other->samples[0].record);
        batch_release(other);
        binding_batch_release(batch.batch);
    }
    assert_int_equal(step, binding_loader_steps(ours));
    struct binding_statistics statistics;
    binding_loader_statistics(ours, &statistics);
    assert_int_equal(statistics.images, 5 * BATCH);
    assert_int_equal(statistics.threads, 3);
}

static void test_a_held_batch_outlives_the_threads(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct binding_loader_options options = options_make();
    struct binding_batch held, more;
    uint32_t what;
    assert_int_equal(binding_loader_open(index, &options, &loader), 0);
    assert_int_equal(binding_loader_start(loader, 0, 0), 0);
    assert_int_equal(next(loader, &held), BINDING_BATCH);
    uint32_t checksum = batch_checksum(&held);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(next(loader, &more), BINDING_BATCH);
        binding_batch_release(more.batch);
    }
    binding_loader_stop(loader);
    assert_int_equal(batch_checksum(&held), checksum);
    assert_int_equal(binding_loader_next(loader, 1000, &more, &what), STATUS_STOPPED);
    binding_loader_stop(loader);
    binding_batch_release(held.batch);
}

/* A batch is released by another thread than the one that takes them: what a garbage collector
 * does. */
struct release_queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct batch *batch;
    bool end;
};

static void *release_main(void *context)
{
    struct release_queue *queue = context;
    pthread_mutex_lock(&queue->mutex);
    while (!queue->end || queue->batch) {
        if (queue->batch)
            binding_batch_release(queue->batch);
        queue->batch = NULL;
        pthread_cond_broadcast(&queue->changed);
        pthread_cond_wait(&queue->changed, &queue->mutex);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

static void queue_put(struct release_queue *queue, struct batch *batch)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->batch)
        pthread_cond_wait(&queue->changed, &queue->mutex);
    queue->batch = batch;
    queue->end = !batch;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
}

static void test_batches_are_released_elsewhere(void **state)
{
    (void)state;
    CLEANUP(index_close) struct index *index = index_make();
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct binding_loader_options options = options_make();
    struct release_queue queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false};
    struct binding_batch batch;
    pthread_t thread;
    assert_int_equal(binding_loader_open(index, &options, &loader), 0);
    assert_int_equal(pthread_create(&thread, NULL, release_main, &queue), 0);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        /* The second and fourth are left in the middle. */
        assert_int_equal(binding_loader_start(loader, epoch, 0), 0);
        for (int i = 0; (epoch % 2 == 0 || i < 2) && next(loader, &batch) == BINDING_BATCH; i++)
            queue_put(&queue, batch.batch);
    }
    queue_put(&queue, NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_failures_have_codes_and_messages),
        cmocka_unit_test(test_messages_have_the_callers_names),
        cmocka_unit_test(test_an_access_is_opened_and_checked),
        cmocka_unit_test(test_columns_are_the_records),
        cmocka_unit_test(test_originals),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_crops),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_batches_are_the_loaders),
        cmocka_unit_test(test_a_held_batch_outlives_the_threads),
        cmocka_unit_test(test_batches_are_released_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
