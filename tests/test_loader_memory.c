/* A byte budget is held: what the loader allocates is counted at malloc itself, for every order,
 * with records of each encoding and images much larger than a thread's share. */

#include "tests/test.h"

#include <malloc.h>
#include <stdatomic.h>

#include "base/crc32c.h"
#include "base/progress.h"
#include "index/loader.h"
#include "index/pack.h"
#include "tests/support/jpeg_folder.h"
#include "tests/support/jpeg_make.h"

/* Sanitizers have a malloc of their own. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_BYTES 1
#else
#define COUNTS_BYTES 0
#endif

static atomic_size_t heap_bytes, heap_peak_bytes;

#if COUNTS_BYTES
void *__libc_malloc(size_t size_bytes);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *block, size_t size_bytes);
void *__libc_memalign(size_t alignment, size_t size_bytes);
void __libc_free(void *block);

static void *heap_add(void *block)
{
    size_t now =
        atomic_fetch_add(&heap_bytes, malloc_usable_size(block)) + malloc_usable_size(block);
    size_t peak = atomic_load(&heap_peak_bytes);
    while (now > peak && !atomic_compare_exchange_weak(&heap_peak_bytes, &peak, now))
        ;
    return block;
}

static void *heap_remove(void *block)
{
    atomic_fetch_sub(&heap_bytes, malloc_usable_size(block));
    return block;
}

void *malloc(size_t size_bytes)
{
    return heap_add(__libc_malloc(size_bytes));
}

void *calloc(size_t count, size_t size_bytes)
{
    return heap_add(__libc_calloc(count, size_bytes));
}

void *realloc(void *block, size_t size_bytes)
{
    return heap_add(__libc_realloc(heap_remove(block), size_bytes));
}

void *aligned_alloc(size_t alignment, size_t size_bytes)
{
    return heap_add(__libc_memalign(alignment, size_bytes));
}

void free(void *block)
{
    __libc_free(heap_remove(block));
}
#endif

enum { SIZE = 32, KINDS = 6, SMALL_IMAGES = 40 };

/* Of 900 x 700 pixels each: half a megapixel and more. */
static const struct jpeg_kind large[KINDS] = {
    {.name = "420.JPEG", .components = 3, .factors = JPEG_FACTORS_420},
    {.name = "444.JPEG", .components = 3, .factors = JPEG_FACTORS_444},
    {.name = "gray.JPEG", .components = 1, .factors = JPEG_FACTORS_444},
    {.name = "progressive.JPEG", .components = 3, .factors = JPEG_FACTORS_444, .progressive = true},
    {.name = "cmyk.JPEG", .components = 4, .factors = JPEG_FACTORS_444, .keep_rgb = true},
    {.name = "cmyk-progressive.JPEG",
     .components = 4,
     .factors = JPEG_FACTORS_444,
     .progressive = true},
};

static struct index *index_make(enum record_encoding encoding)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    const struct pack_options options = {.encoding = encoding,
                                         .shard_bytes = PACK_SHARD_BYTES,
                                         .threads = 2};
    struct index *index = NULL;
    char name[32];
    jpeg_folder_make(test_path("images"));
    for (size_t i = 0; i < KINDS; i++) {
        assert_ok(jpeg_make(&large[i], i, 900, 700, &bytes));
        jpeg_folder_add(test_path("images"), "b", large[i].name, &bytes);
    }
    source = jpeg_folder_open(test_path("images"));
    snprintf(name, sizeof name, "images-%d.idx", (int)encoding);
    assert_ok(pack_run(source, test_path(name), &options, &report));
    assert_ok(index_open(test_path(name), &index));
    return index;
}

static struct loader_options options_make(enum order_kind order, uint32_t batch, unsigned threads)
{
    struct loader_options options;
    loader_options_init(&options);
    options.global_batch = batch;
    options.image_size = SIZE;
    options.threads = threads;
    options.order = order;
    options.window = 10;
    options.seed = 3;
    return options;
}

/* A checksum of an epoch's pixels. */
static uint32_t epoch_run(struct index *index, const struct loader_options *options)
{
    CLEANUP(loader_close) struct loader *loader = NULL;
    uint32_t crc = 0;
    assert_ok(loader_open(index, options, &loader));
    assert_ok(loader_start(loader, 0, 0));
    for (uint64_t step = 0; step < loader_steps(loader); step++) {
        struct batch *batch;
        assert_ok(loader_next(loader, &batch));
        crc = crc32c_update(crc, batch->images,
                            (size_t)batch->count * SIZE * SIZE * 3 * sizeof(float));
        batch_release(batch);
    }
    return crc;
}

/* The bytes that an epoch takes at most, beyond what is there already. */
static size_t epoch_count(struct index *index, const struct loader_options *options,
                          uint32_t expected)
{
    size_t before = atomic_load(&heap_bytes);
    atomic_store(&heap_peak_bytes, before);
    assert_int_equal(epoch_run(index, options), expected);
    return atomic_load(&heap_peak_bytes) - before;
}

/* What a budget that is too small is told to be at least. */
static uint64_t least_find(struct index *index, struct loader_options options)
{
    struct loader *loader = NULL;
    options.memory_bytes = 1000;
    struct status status = loader_open(index, &options, &loader);
    const char *least = strstr(status_message(&status), "need ");
    assert_int_equal(status.code, STATUS_USAGE);
    assert_non_null(least);
    assert_non_null(strstr(status_message(&status), "--memory"));
    uint64_t bytes = strtoull(least + 5, NULL, 10);
    status_clear(&status);
    return bytes;
}

static void budget_check(struct index *index, enum order_kind order, uint32_t batch,
                         unsigned threads)
{
    struct loader_options options = options_make(order, batch, threads);
    uint32_t expected = epoch_run(index, &options);
    uint64_t least = least_find(index, options);
    for (unsigned quarters = 4; quarters <= 10; quarters += 3) {
        options.memory_bytes = least * quarters / 4;
        size_t bytes = epoch_count(index, &options, expected);
        if (COUNTS_BYTES && bytes > options.memory_bytes)
            fail_msg("order %s, batch %u, %u threads: %zu bytes of %zu", order_kind_names[order],
                     batch, threads, bytes, (size_t)options.memory_bytes);
    }
}

static void budgets_are_held(enum record_encoding encoding)
{
    static const uint32_t batches[] = {1, 8, 46};
    CLEANUP(index_close) struct index *index = index_make(encoding);
    for (int order = ORDER_SHUFFLE; order <= ORDER_SEQUENTIAL; order++)
        for (size_t i = 0; i < ARRAY_LENGTH(batches); i++)
            for (unsigned threads = 1; threads <= 5; threads += 2)
                budget_check(index, (enum order_kind)order, batches[i], threads);
}

static void budgets_are_held_over_files(void **state)
{
    (void)state;
    budgets_are_held(ENCODING_JPEG);
}

static void budgets_are_held_over_dct_records(void **state)
{
    (void)state;
    budgets_are_held(ENCODING_DCT);
}

/* Else the others would prove nothing. */
static void bytes_are_counted(void **state)
{
    (void)state;
    CLEANUP(memory_free) uint8_t *block = NULL;
    size_t before = atomic_load(&heap_bytes);
    assert_ok(memory_alloc(1000, 1000, &block));
    if (COUNTS_BYTES)
        assert_in_range(atomic_load(&heap_bytes) - before, 1000000, 1010000);
}

int main(void)
{
    progress_set_quiet(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(budgets_are_held_over_files),
        cmocka_unit_test(budgets_are_held_over_dct_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
