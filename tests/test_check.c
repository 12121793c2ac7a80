#include "tests/test.h"

#include <inttypes.h>

#include "base/crc32c.h"
#include "base/progress.h"
#include "base/random.h"
#include "image/folder_source.h"
#include "index/check.h"
#include "index/pack.h"
#include "index/writer.h"
#include "tests/support/index_set.h"
#include "tests/support/jpeg_folder.h"

/* Packs what lies in images/. */
static const char *pack_images(const char *name, struct pack_options options)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    options.shard_bytes = 65536;
    options.threads = 2;
    options.on_error = PACK_KEEP;
    assert_ok(folder_source_open(test_path("images"), NULL, 1, &source));
    const char *path = test_path(name);
    assert_ok(pack_run(source, path, &options, &report));
    return path;
}

/* Packs 40 JPEGs into NAME.idx and a few shards. */
static const char *make_index(const char *name, bool in_place)
{
    jpeg_folder_make(test_path("images"));
    return pack_images(name, (struct pack_options){.in_place = in_place});
}

static const struct check_options everything = {.read = true, .decode = true, .threads = 3};

static void check(const char *path, const struct check_options *options,
                  struct check_report *report)
{
    CLEANUP(index_close) struct index *index = NULL;
    assert_ok(index_open(path, &index));
    assert_ok(index_check(index, options, report));
}

/* Flips a bit of a file; a negative offset counts from its end. */
static void flip(const char *path, int64_t offset)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(file_read_all(path, 1 << 24, &bytes));
    bytes.data[offset < 0 ? (int64_t)bytes.length + offset : offset] ^= 0x10;
    assert_ok(file_write_plain(path, bytes.data, bytes.length));
}

static void finds_nothing_where_nothing_is(void **state)
{
    (void)state;
    for (int in_place = 0; in_place <= 1; in_place++) {
        CLEANUP(check_report_done) struct check_report report = {0};
        check(make_index("good.idx", in_place), &everything, &report);
        assert_int_equal(report.finding_count, 0);
        assert_int_equal(report.records, 40);
        assert_int_equal(report.crc_unknown, in_place ? 40 : 0);
        assert_int_equal(report.class_counts[0], 8);
        assert_int_equal(report.class_counts[1], 11);
        assert_int_equal(report.class_counts[2], 21);
    }
}

static void expect_finding(const char *path, const char *where, const char *what)
{
    CLEANUP(check_report_done) struct check_report report = {0};
    check(path, &everything, &report);
    for (size_t i = 0; i < report.finding_count; i++) {
        if (strstr(report.findings[i].where, where) && strstr(report.findings[i].what, what))
            return;
    }
    fail_msg("no finding about %s: %s (of %zu)", where, what, report.finding_count);
}

static void finds_damage_everywhere(void **state)
{
    (void)state;
    const char *path = make_index("bad.idx", false);
    const char *shard = test_path("bad-00000.shard");
    flip(shard, 200); /* in the first record */
    expect_finding(path, "a/x_0.JPEG", "damaged");
    flip(shard, 200);
    flip(shard, 20);
    expect_finding(path, "bad-00000.shard", "shard's header");
    flip(shard, 20);
    flip(shard, -40);
    expect_finding(path, "bad-00000.shard", "last 64 bytes");
    flip(shard, -40);
    flip(shard, -64 - 130); /* the names of the trailer */
    expect_finding(path, "bad-00000.shard", "section names");
    assert_ok(file_remove(shard));
    expect_finding(path, "bad-00000.shard", "cannot open");

    path = make_index("bad2.idx", false);
    flip(path, -130);
    CLEANUP(check_report_done) struct check_report report = {0};
    check(path, &everything, &report);
    assert_int_equal(report.finding_count, 1);
    assert_int_equal(report.findings[0].record, CHECK_NO_RECORD);
    assert_non_null(strstr(report.findings[0].what, "section names"));
}

/* Exchanged for one of the same size, which holds other images. */
static void tells_a_shard_of_another_index(void **state)
{
    (void)state;
    const char *path = make_index("one.idx", false);
    flip(test_path("images/a/x_0.JPEG"), -20);
    pack_images("two.idx", (struct pack_options){0});
    assert_int_equal(rename(test_path("two-00000.shard"), test_path("one-00000.shard")), 0);
    CLEANUP(check_report_done) struct check_report report = {0};
    check(path, &everything, &report);
    assert_int_equal(report.finding_count, 2);
    assert_string_equal(report.findings[0].where, test_path("one-00000.shard"));
    assert_non_null(strstr(report.findings[0].what, "shard of another index"));
    assert_string_equal(report.findings[1].where, "a/x_0.JPEG");
    assert_non_null(strstr(report.findings[1].what, "record 0: "));
}

/* Changes some bits of each record and sets the CRCs to what is there then. */
static void mutate_below_crcs(struct source *source, uint64_t seed)
{
    struct random_stream random = random_stream_make(seed, RANDOM_TEST, 0, 0);
    for (size_t s = 0; s < source->shard_count; s++) {
        CLEANUP(buffer_done) struct buffer bytes = {0};
        assert_ok(file_read_all(source->shards[s].path, 1 << 24, &bytes));
        for (size_t i = 0; i < source->item_count; i++) {
            struct source_item *item = &source->items[i];
            uint8_t *record = bytes.data + item->offset;
            if (item->shard != s)
                continue;
            for (int k = 0; k < 3; k++)
                record[random_below(&random, item->length)] ^= 1U << random_below(&random, 8);
            item->crc32c = crc32c_update(0, record, item->length);
        }
        assert_ok(file_write_plain(source->shards[s].path, bytes.data, bytes.length));
    }
}

/* Some of the changes only give other pixels; each of the others is told with the record, its image
 * and its place. */
static void tells_where_damage_below_the_crc_is(void **state)
{
    (void)state;
    uint64_t findings = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        jpeg_folder_make(test_path("images"));
        const char *path =
            pack_images("deep.idx", (struct pack_options){.encoding = ENCODING_DCT, .force = true});
        CLEANUP(source_free) struct source *source = index_set_open(path);
        CLEANUP(check_report_done) struct check_report report = {0};
        mutate_below_crcs(source, seed);
        assert_ok(index_write(source, "{}", path));
        check(path, &everything, &report);
        for (size_t i = 0; i < report.finding_count; i++) {
            const struct check_finding *finding = &report.findings[i];
            char start[700];
            if (finding->record == CHECK_NO_RECORD) {
                assert_non_null(strstr(finding->what, "shard of another index"));
                continue;
            }
            const struct source_item *item = &source->items[finding->record];
            snprintf(start, sizeof start,
                     "record %" PRIu64 ": '%s': the %" PRIu64 " bytes at offset %" PRIu64 ": ",
                     finding->record, source->shards[item->shard].path, item->length, item->offset);
            assert_memory_equal(finding->what, start, strlen(start));
            assert_non_null(strstr(finding->where, item->name));
            findings++;
        }
    }
    assert_true(findings > 200);
}

static void finds_images_that_do_not_decode(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    jpeg_folder_image(3, &bytes);
    bytes.length /= 2;
    jpeg_folder_add(test_path("images"), "b", "cut.JPEG", &bytes);
    const char *path = make_index("cut.idx", false);
    assert_ok(folder_remove(test_path("images/b")));

    CLEANUP(check_report_done) struct check_report read = {0};
    struct check_options options = {.read = true, .threads = 1};
    check(path, &options, &read);
    assert_int_equal(read.finding_count, 0); /* its header and CRC are right */
    CLEANUP(check_report_done) struct check_report decoded = {0};
    check(path, &everything, &decoded);
    assert_int_equal(decoded.finding_count, 1);
    assert_string_equal(decoded.findings[0].where, "b/cut.JPEG");
}

static void finds_records_out_of_order(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = index_set_make(test_path("order"), 30, 3);
    struct source_item item = source->items[4];
    source->items[4] = source->items[5];
    source->items[5] = item;
    source->items[8].name = source->items[7].name;
    assert_ok(index_write(source, "{}", test_path("order.idx")));
    CLEANUP(check_report_done) struct check_report report = {0};
    const struct check_options options = {.threads = 1};
    check(test_path("order.idx"), &options, &report);
    assert_int_equal(report.finding_count, 2);
    assert_int_equal(report.findings[0].record, 5);
    assert_string_equal(report.findings[0].what, "record 5: it stands behind record 4, but comes "
                                                 "before it by label and name");
    assert_int_equal(report.findings[1].record, 8);
    assert_non_null(strstr(report.findings[1].what, "two records of this name"));
    assert_int_equal(report.read_bytes, 0);
}

/* However many: nothing is only counted, but records of a shard that is not there. */
static void keeps_every_finding(void **state)
{
    (void)state;
    static const size_t records = 12000;
    CLEANUP(source_free) struct source *source = index_set_make(test_path("many"), records, 2);
    CLEANUP(check_report_done) struct check_report missing = {0};
    CLEANUP(check_report_done) struct check_report report = {0};
    assert_ok(index_write(source, "{}", test_path("many.idx")));
    assert_ok(file_remove(test_path("many")));
    check(test_path("many.idx"), &everything, &missing);
    assert_int_equal(missing.finding_count, 1);
    assert_int_equal(missing.records, 0);
    assert_string_equal(missing.findings[0].where, test_path("many"));
    assert_non_null(strstr(missing.findings[0].what, "; none of its 12000 records can be read"));
    assert_ok(file_write_plain(test_path("many"), "", 0));
    check(test_path("many.idx"), &everything, &report);
    assert_int_equal(report.finding_count, records + 1);
    assert_int_equal(report.findings[records].record, records - 1);
}

static void finds_a_wrong_size(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    jpeg_folder_make(test_path("images"));
    assert_ok(folder_source_open(test_path("images"), NULL, 1, &source));
    source->items[9].width = 5;
    source->items[9].height = 5;
    assert_ok(index_write(source, "{}", test_path("size.idx")));
    expect_finding(test_path("size.idx"), "b/", "the index says 5 x 5");
}

int main(void)
{
    progress_set_quiet(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_nothing_where_nothing_is),
        cmocka_unit_test(finds_damage_everywhere),
        cmocka_unit_test(tells_a_shard_of_another_index),
        cmocka_unit_test(tells_where_damage_below_the_crc_is),
        cmocka_unit_test(finds_images_that_do_not_decode),
        cmocka_unit_test(finds_records_out_of_order),
        cmocka_unit_test(keeps_every_finding),
        cmocka_unit_test(finds_a_wrong_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
