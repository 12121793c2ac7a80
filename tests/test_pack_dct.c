/* Packing into `dct` and back, and lossy packing. */

#include "tests/test.h"

#include "base/progress.h"
#include "image/decode.h"
#include "index/check.h"
#include "index/pack.h"
#include "index/record_original.h"
#include "index/unpack.h"
#include "prep/archive_source.h"
#include "tests/support/index_set.h"
#include "tests/support/jpeg_folder.h"
#include "tests/support/jpeg_make.h"

/* What FOLDER/d holds, beside the plain JPEGs of a, b and c. */
static const struct {
    const char *name;
    struct jpeg_kind kind;
    enum jpeg_refusal refusal;
} others[] = {
    {"gray.JPEG", {.components = 1, .factors = JPEG_FACTORS_444}, JPEG_TAKEN},
    {"420.JPEG", {.components = 3, .factors = JPEG_FACTORS_420}, JPEG_TAKEN},
    {"411.JPEG", {.components = 3, .factors = {{4, 1}, {1, 1}, {1, 1}}}, JPEG_TAKEN},
    {"rgb.JPEG", {.components = 3, .factors = JPEG_FACTORS_444, .keep_rgb = true}, JPEG_TAKEN},
    {"scans.JPEG",
     {.components = 3, .factors = JPEG_FACTORS_444, .separate_scans = true},
     JPEG_TAKEN},
    {"restarts.JPEG",
     {.components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}, .restart_blocks = 2},
     JPEG_TAKEN},
    {"coarse.JPEG", {.components = 3, .factors = JPEG_FACTORS_420, .quality = 1}, JPEG_TAKEN},
    {"progressive.JPEG",
     {.components = 3, .factors = JPEG_FACTORS_444, .progressive = true},
     JPEG_REFUSED_PROGRESSIVE},
    {"arithmetic.JPEG",
     {.components = 3, .factors = JPEG_FACTORS_444, .arithmetic = true},
     JPEG_REFUSED_ARITHMETIC},
    {"cmyk.JPEG",
     {.components = 4, .factors = JPEG_FACTORS_444, .keep_rgb = true},
     JPEG_REFUSED_COMPONENTS},
};
#define PLAIN_IMAGES 40
#define IMAGES (PLAIN_IMAGES + ARRAY_LENGTH(others) + 1) /* and a PNG */

static void add_png(const char *folder)
{
    CLEANUP(picture_done) struct picture picture = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(picture_resize(&picture, 31, 17));
    for (uint32_t y = 0; y < picture.height; y++)
        memset(picture.pixels + y * picture.stride_bytes, (int)y * 9, 3 * (size_t)picture.width);
    assert_ok(png_encode(&picture, &bytes));
    jpeg_folder_add(folder, "d", "png.JPEG", &bytes);
}

static const char *make_folder(const char *name)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    const char *folder = test_path(name);
    jpeg_folder_make(folder);
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        assert_ok(jpeg_make(&others[i].kind, i, 75 + (uint32_t)i, 60, &bytes));
        jpeg_folder_add(folder, "d", others[i].name, &bytes);
    }
    add_png(folder);
    return folder;
}

static void pack(const struct source *source, const char *path, const struct pack_options *options,
                 struct pack_report *report)
{
    *report = (struct pack_report){0};
    assert_ok(pack_run(source, path, options, report));
}

static void assert_same_shards(const char *a, const char *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char p[64], q[64];
        snprintf(p, sizeof p, "%s-%05zu.shard", a, i);
        snprintf(q, sizeof q, "%s-%05zu.shard", b, i);
        assert_same_file(test_path(p), test_path(q));
    }
}

/* A folder holds the files of another, no more and no less. */
static void assert_same_folder(const char *a, const char *b)
{
    CLEANUP(source_free) struct source *p = jpeg_folder_open(a);
    CLEANUP(source_free) struct source *q = jpeg_folder_open(b);
    assert_int_equal(p->item_count, q->item_count);
    for (size_t i = 0; i < p->item_count; i++) {
        char file[2][700];
        const char *class_name = class_table_at(p->classes, p->items[i].label)->wnid;
        snprintf(file[0], sizeof file[0], "%s/%s/%s", a, class_name, p->items[i].name);
        snprintf(file[1], sizeof file[1], "%s/%s/%s", b, class_name, q->items[i].name);
        assert_same_file(file[0], file[1]);
    }
}

static const struct pack_options dct_options = {.encoding = ENCODING_DCT,
                                                .shard_bytes = 65536,
                                                .threads = 1};
static const struct pack_options jpeg_options = {.encoding = ENCODING_JPEG,
                                                 .shard_bytes = 65536,
                                                 .threads = 1};

static void counts_what_it_keeps_by_reason(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("counted"));
    CLEANUP(pack_report_done) struct pack_report report;
    uint64_t refused = 0;
    pack(source, test_path("counted.idx"), &dct_options, &report);
    assert_int_equal(report.images, IMAGES);
    assert_int_equal(report.problems.count, 0);
    assert_int_equal(report.png_count, 1);
    assert_int_equal(report.refusals[JPEG_REFUSED_KIND], 1);
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        if (others[i].refusal != JPEG_TAKEN)
            assert_int_equal(report.refusals[others[i].refusal], 1);
    for (unsigned reason = 0; reason < JPEG_REFUSALS; reason++)
        refused += report.refusals[reason];
    assert_int_equal(report.encodings[ENCODING_JPEG], refused);
    assert_int_equal(report.encodings[ENCODING_DCT], IMAGES - refused);

    /* Sizes and encodings stand in the index. */
    CLEANUP(source_free) struct source *packed = index_set_open(test_path("counted.idx"));
    for (size_t i = 0; i < packed->item_count; i++) {
        assert_int_not_equal(packed->items[i].width, 0);
        assert_true(packed->items[i].crc_known);
        for (size_t k = 0; k < ARRAY_LENGTH(others); k++)
            if (strcmp(packed->items[i].name, others[k].name) == 0) {
                assert_int_equal(packed->items[i].width, 75 + k);
                assert_int_equal(packed->items[i].encoding == ENCODING_DCT,
                                 others[k].refusal == JPEG_TAKEN);
            }
    }
}

static void the_files_come_back(void **state)
{
    (void)state;
    const char *folder = make_folder("there");
    CLEANUP(source_free) struct source *source = jpeg_folder_open(folder);
    CLEANUP(pack_report_done) struct pack_report report;
    CLEANUP(index_close) struct index *index = NULL;
    const struct unpack_options unpacking = {.threads = 2};
    struct unpack_report unpacked = {0}, again = {0};
    pack(source, test_path("there.idx"), &dct_options, &report);
    assert_ok(index_open(test_path("there.idx"), &index));
    assert_ok(index_unpack(index, test_path("back"), &unpacking, &unpacked));
    assert_int_equal(unpacked.images, IMAGES);
    assert_same_folder(folder, test_path("back"));
    assert_ok(index_unpack(index, test_path("back"), &unpacking, &again));
    assert_int_equal(again.images, 0);
    assert_int_equal(again.kept, IMAGES);
}

static void records_are_verified_by_making_the_files(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("checked"));
    CLEANUP(pack_report_done) struct pack_report report;
    CLEANUP(check_report_done) struct check_report check = {0};
    CLEANUP(index_close) struct index *index = NULL;
    pack(source, test_path("checked.idx"), &dct_options, &report);
    assert_ok(index_open(test_path("checked.idx"), &index));
    assert_ok(index_check(index, &(struct check_options){.decode = true, .threads = 2}, &check));
    assert_int_equal(check.finding_count, 0);
    assert_int_equal(check.records, IMAGES);
}

static void bytes_depend_on_the_images_alone(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("set"));
    CLEANUP(pack_report_done) struct pack_report report;
    struct pack_options options = dct_options;
    pack(source, test_path("one.idx"), &options, &report);
    size_t shards = report.shards;
    assert_true(shards > 2);
    pack_report_done(&report);
    options.threads = 4;
    pack(source, test_path("four.idx"), &options, &report);
    assert_same_shards("one", "four", shards);
    pack_report_done(&report);

    /* From an index of either encoding, into either. */
    pack(source, test_path("plain.idx"), &jpeg_options, &report);
    size_t plain_shards = report.shards;
    pack_report_done(&report);
    CLEANUP(source_free) struct source *plain = index_set_open(test_path("plain.idx"));
    CLEANUP(source_free) struct source *dct = index_set_open(test_path("one.idx"));
    pack(plain, test_path("plain-dct.idx"), &options, &report);
    assert_same_shards("one", "plain-dct", shards);
    pack_report_done(&report);
    pack(dct, test_path("dct-dct.idx"), &options, &report);
    assert_same_shards("one", "dct-dct", shards);
    pack_report_done(&report);
    pack(dct, test_path("dct-plain.idx"), &jpeg_options, &report);
    assert_same_shards("plain", "dct-plain", plain_shards);
}

static void knows_when_it_is_done(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("done"));
    CLEANUP(pack_report_done) struct pack_report report;
    struct pack_prediction prediction;
    const char *path = test_path("done.idx");
    assert_ok(pack_predict(source, &dct_options, &prediction));
    assert_true(prediction.is_estimate);
    pack(source, path, &dct_options, &report);
    assert_in_range(prediction.shard_bytes, report.written_bytes * 3 / 4, 2 * report.written_bytes);
    assert_true(pack_is_done(source, path, &dct_options));
    assert_false(pack_is_done(source, path, &jpeg_options));
    struct pack_options lossy = dct_options;
    lossy.quality = 70;
    assert_false(pack_is_done(source, path, &lossy));
    source->items[3].length++;
    assert_false(pack_is_done(source, path, &dct_options));
}

static void problems_with_images_follow_the_policy(void **state)
{
    (void)state;
    const char *folder = make_folder("bad");
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(buffer_append(&bytes, "no image", 8));
    jpeg_folder_add(folder, "a", "bad.JPEG", &bytes);
    CLEANUP(source_free) struct source *source = jpeg_folder_open(folder);
    CLEANUP(pack_report_done) struct pack_report report = {0};
    struct pack_options options = dct_options;
    assert_fails(pack_run(source, test_path("bad.idx"), &options, &report), STATUS_CORRUPT,
                 "--on-error skip");
    options.on_error = PACK_SKIP;
    pack(source, test_path("bad.idx"), &options, &report);
    assert_int_equal(report.images, IMAGES);
    assert_int_equal(report.problems.count, 1);
    assert_true(pack_is_done(source, test_path("bad.idx"), &options));
    pack_report_done(&report);
    options.on_error = PACK_KEEP;
    pack(source, test_path("kept.idx"), &options, &report);
    assert_int_equal(report.images, IMAGES + 1);
    assert_int_equal(report.problems.count, 1);
}

/* Calls `check` for each record's image. */
static void for_each_image(const char *path, void (*check)(const struct image_info *info))
{
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(restorer_done) struct restorer restorer = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(index_open(path, &index));
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct image_info info;
        struct record record;
        assert_ok(index_record(index, i, &record));
        assert_ok(record_original(&restorer, index, i, &bytes));
        assert_ok(image_probe(bytes.data, bytes.length, &info));
        assert_int_equal(info.width, record.width);
        assert_int_equal(info.height, record.height);
        check(&info);
    }
}

static void check_small(const struct image_info *info)
{
    assert_true(info->width <= 40 && info->height <= 40);
}

static void check_jpeg(const struct image_info *info)
{
    assert_int_equal(info->kind, IMAGE_JPEG);
    assert_int_equal(info->components, 3);
    assert_false(info->progressive);
}

static uint64_t count_lossy(const char *path)
{
    CLEANUP(source_free) struct source *source = index_set_open(path);
    uint64_t count = 0;
    for (size_t i = 0; i < source->item_count; i++)
        count += source->items[i].is_lossy;
    return count;
}

static void lossy_packing_shrinks_and_encodes_anew(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("lossy"));
    CLEANUP(pack_report_done) struct pack_report report;
    struct pack_options options = dct_options;
    options.max_side = 40;
    pack(source, test_path("small.idx"), &options, &report);
    assert_in_range(report.shrunk, ARRAY_LENGTH(others), IMAGES - 1);
    for_each_image(test_path("small.idx"), check_small);
    assert_int_equal(report.encodings[ENCODING_JPEG], 1); /* the PNG is small already */
    assert_int_equal(count_lossy(test_path("small.idx")), report.shrunk);
    assert_true(pack_is_done(source, test_path("small.idx"), &options));
    uint64_t shrunk = report.shrunk;
    assert_int_equal(report.shards, 2);
    pack_report_done(&report);

    options.quality = 70;
    assert_false(pack_is_done(source, test_path("small.idx"), &options));
    pack(source, test_path("coarse.idx"), &options, &report);
    for_each_image(test_path("coarse.idx"), check_small);
    for_each_image(test_path("coarse.idx"), check_jpeg);
    assert_int_equal(report.encodings[ENCODING_DCT], IMAGES);
    assert_int_equal(count_lossy(test_path("coarse.idx")), IMAGES);
    pack_report_done(&report);

    /* What is lost stays lost in another encoding, and in an index of the shards alone. */
    CLEANUP(source_free) struct source *coarse = index_set_open(test_path("coarse.idx"));
    pack(coarse, test_path("coarse-files.idx"), &jpeg_options, &report);
    assert_int_equal(count_lossy(test_path("coarse-files.idx")), IMAGES);
    assert_int_equal(count_lossy(test_path("small-00000.shard")) +
                         count_lossy(test_path("small-00001.shard")),
                     shrunk);
    pack_report_done(&report);

    options.encoding = ENCODING_JPEG;
    pack(source, test_path("coarse-jpeg.idx"), &options, &report);
    for_each_image(test_path("coarse-jpeg.idx"), check_jpeg);
    assert_int_equal(report.encodings[ENCODING_JPEG], IMAGES);
}

/* A few of the real images are many times larger than the others; shrunk, they no longer are. */
static void a_few_large_images_do_not_speak_for_all(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report;
    struct pack_options options = jpeg_options;
    struct pack_prediction prediction;
    assert_ok(
        archive_source_open(test_data_path("ILSVRC2012_img_train.tar"), NULL, NULL, 1, &source));
    options.max_side = 128;
    assert_ok(pack_predict(source, &options, &prediction));
    pack(source, test_path("real.idx"), &options, &report);
    assert_in_range(prediction.shard_bytes, report.written_bytes * 17 / 20,
                    report.written_bytes * 23 / 20);
}

int main(void)
{
    progress_set_quiet(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_it_keeps_by_reason),
        cmocka_unit_test(the_files_come_back),
        cmocka_unit_test(records_are_verified_by_making_the_files),
        cmocka_unit_test(bytes_depend_on_the_images_alone),
        cmocka_unit_test(knows_when_it_is_done),
        cmocka_unit_test(problems_with_images_follow_the_policy),
        cmocka_unit_test(lossy_packing_shrinks_and_encodes_anew),
        cmocka_unit_test(a_few_large_images_do_not_speak_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
