/* The thousand real images from archive to batch: bit for bit what torchvision and Pillow make of
 * the files (tests/oracle/real_golden.py), whatever the records' encoding. */

#include "base/digest.h"
#include "index/loader.h"
#include "index/pack.h"
#include "prep/archive_source.h"
#include "tests/support/golden.h"
#include "tests/test.h"

enum { BATCH = 50, SIZE = 224, IMAGE_BYTES = SIZE * SIZE * 3, DIGITS = 8 };

static struct index *index_make(enum record_encoding encoding)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    const struct pack_options options = {.encoding = encoding,
                                         .shard_bytes = PACK_SHARD_BYTES,
                                         .threads = 2};
    struct index *index = NULL;
    char name[32];
    snprintf(name, sizeof name, "real-%d.idx", (int)encoding);
    const char *archive = test_data_path("ILSVRC2012_img_train.tar");
    assert_ok(archive_source_open(archive, NULL, NULL, 1, &source));
    assert_ok(pack_run(source, test_path(name), &options, &report));
    assert_ok(index_open(test_path(name), &index));
    return index;
}

/* The digests of a pass over all images, by record. */
static void digests_make(struct index *index, enum loader_mode mode, uint64_t count,
                         char (*digests)[MD5_HEX_LENGTH + 1])
{
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options;
    loader_options_init(&options);
    options.mode = mode;
    options.global_batch = BATCH;
    options.format = (struct tensor_format){.type = TENSOR_U8, .layout = TENSOR_NHWC};
    assert_int_equal(index_count(index), count);
    assert_ok(loader_open(index, &options, &loader));
    assert_ok(loader_start(loader, 0, 0));
    for (uint64_t step = 0; step < loader_steps(loader); step++) {
        struct batch *batch;
        assert_ok(loader_next(loader, &batch));
        assert_int_equal(batch->valid, BATCH);
        for (uint32_t i = 0; i < BATCH; i++)
            digest_md5_bytes((const uint8_t *)batch->images + (size_t)i * IMAGE_BYTES, IMAGE_BYTES,
                             digests[batch->samples[i].record]);
        batch_release(batch);
    }
}

static void encoding_check(enum record_encoding encoding)
{
    enum { COUNT = 1000 };
    static char train[COUNT][MD5_HEX_LENGTH + 1], eval[COUNT][MD5_HEX_LENGTH + 1];
    CLEANUP(index_close) struct index *index = index_make(encoding);
    CLEANUP(golden_done) struct golden golden = {0};
    uint64_t count = 0;
    digests_make(index, LOADER_TRAIN, COUNT, train);
    digests_make(index, LOADER_EVAL, COUNT, eval);
    assert_ok(golden_open("real_images.txt", &golden));
    for (; golden_line(&golden); count++) {
        const char *name;
        assert_int_equal(golden_number(&golden), count);
        assert_ok(index_name(index, count, &name));
        assert_string_equal(golden_word(&golden), name);
        assert_memory_equal(golden_word(&golden), train[count], DIGITS);
        assert_memory_equal(golden_word(&golden), eval[count], DIGITS);
        assert_false(golden.failed);
    }
    assert_int_equal(count, COUNT);
}

static void test_files(void **state)
{
    (void)state;
    encoding_check(ENCODING_JPEG);
}

static void test_dct_records(void **state)
{
    (void)state;
    encoding_check(ENCODING_DCT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_dct_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
