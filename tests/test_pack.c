#include "tests/test.h"

#include <inttypes.h>

#include "base/disk.h"
#include "base/progress.h"
#include "image/decode.h"
#include "index/index.h"
#include "index/pack.h"
#include "tests/support/index_set.h"
#include "tests/support/jpeg_folder.h"

/* Class folders a, b, c with 40 JPEGs in all. */
static const char *make_folder(const char *name)
{
    const char *folder = test_path(name);
    jpeg_folder_make(folder);
    return folder;
}

static const struct pack_options small_shards = {.shard_bytes = 16384, .threads = 1};

static void pack(const struct source *source, const char *path, const struct pack_options *options)
{
    CLEANUP(pack_report_done) struct pack_report report = {0};
    assert_ok(pack_run(source, path, options, &report));
    assert_int_equal(report.problems.count, 0);
}

static size_t files_in(const char *folder)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(folder, &list));
    return list.count;
}

/* The records of an index are, in order, those of a folder, with right sizes and bytes. */
static void assert_holds_folder(const char *index_path, const char *folder)
{
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(folder);
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(buffer_done) struct buffer original = {0};
    assert_ok(index_open(index_path, &index));
    assert_int_equal(index_count(index), source->item_count);
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        struct image_info info;
        const char *name;
        char path[700];
        assert_ok(index_record(index, i, &record));
        assert_ok(index_name(index, i, &name));
        assert_string_equal(name, source->items[i].name);
        assert_int_equal(record.label, source->items[i].label);
        snprintf(path, sizeof path, "%s/%s/%s", folder,
                 class_table_at(index_classes(index), record.label)->wnid, name);
        assert_ok(file_read_all(path, 1 << 24, &original));
        assert_ok(index_read(index, i, &bytes));
        assert_int_equal(bytes.length, original.length);
        assert_memory_equal(bytes.data, original.data, bytes.length);
        assert_ok(image_probe(bytes.data, bytes.length, &info));
        assert_true(record.crc_known);
        assert_int_equal(record.width, info.width);
        assert_int_equal(record.height, info.height);
        if (index_shard(index, record.shard)->kind == SHARD_PACKED)
            assert_int_equal(record.offset % 64, 0);
    }
}

static void bytes_depend_on_the_images_alone(void **state)
{
    (void)state;
    const char *folder = make_folder("set");
    CLEANUP(source_free) struct source *source = jpeg_folder_open(folder);
    assert_ok(folder_create(test_path("one")));
    assert_ok(folder_create(test_path("four")));
    assert_ok(folder_create(test_path("again")));
    struct pack_options options = small_shards;
    pack(source, test_path("one/set.idx"), &options);
    options.threads = 4;
    pack(source, test_path("four/set.idx"), &options);
    assert_same_file(test_path("one/set.idx"), test_path("four/set.idx"));
    assert_holds_folder(test_path("one/set.idx"), folder);

    /* From the index again: the same shards. */
    CLEANUP(source_free) struct source *packed = index_set_open(test_path("one/set.idx"));
    assert_true(packed->shard_count > 2);
    pack(packed, test_path("again/set.idx"), &options);
    for (size_t i = 0; i < packed->shard_count; i++) {
        char name[3][64];
        snprintf(name[0], sizeof name[0], "one/set-%05zu.shard", i);
        snprintf(name[1], sizeof name[1], "four/set-%05zu.shard", i);
        snprintf(name[2], sizeof name[2], "again/set-%05zu.shard", i);
        assert_same_file(test_path(name[0]), test_path(name[1]));
        assert_same_file(test_path(name[0]), test_path(name[2]));
    }
    assert_int_equal(files_in(test_path("one")), packed->shard_count + 1);
}

static void prediction_is_what_is_written(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("predicted"));
    CLEANUP(pack_report_done) struct pack_report report = {0};
    struct pack_prediction prediction;
    assert_ok(pack_predict(source, &small_shards, &prediction));
    assert_ok(pack_run(source, test_path("predicted.idx"), &small_shards, &report));
    assert_int_equal(prediction.images, 40);
    assert_int_equal(prediction.shards, report.shards);
    assert_int_equal(prediction.source_bytes, report.image_bytes);
    assert_in_range(prediction.shard_bytes, report.written_bytes, 2 * report.written_bytes);
    assert_true(pack_is_done(source, test_path("predicted.idx"), &small_shards));
    const struct pack_options in_place = {.in_place = true, .threads = 1};
    assert_false(pack_is_done(source, test_path("predicted.idx"), &in_place));
    source->items[3].length++;
    assert_false(pack_is_done(source, test_path("predicted.idx"), &small_shards));
}

static void a_shard_is_an_index_of_its_records(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("trailer"));
    pack(source, test_path("trailer.idx"), &small_shards);
    CLEANUP(source_free) struct source *whole = index_set_open(test_path("trailer.idx"));
    CLEANUP(buffer_done) struct buffer a = {0};
    CLEANUP(buffer_done) struct buffer b = {0};
    CLEANUP(index_close) struct index *index = NULL;
    assert_ok(index_open(test_path("trailer.idx"), &index));
    size_t record = 0;
    for (size_t s = 0; s < whole->shard_count; s++) {
        CLEANUP(index_close) struct index *part = NULL;
        assert_ok(index_open(whole->shards[s].path, &part));
        assert_int_equal(class_table_hash(index_classes(part)), class_table_hash(source->classes));
        for (uint64_t i = 0; i < index_count(part); i++, record++) {
            const char *name;
            assert_ok(index_name(part, i, &name));
            assert_string_equal(name, whole->items[record].name);
            assert_ok(index_read(part, i, &a));
            assert_ok(index_read(index, record, &b));
            assert_int_equal(a.length, b.length);
            assert_memory_equal(a.data, b.data, a.length);
        }
    }
    assert_int_equal(record, whole->item_count);

    /* A shard that was cut off lost its trailer. */
    assert_int_equal(truncate(whole->shards[0].path, 10000), 0);
    struct index *none = NULL;
    assert_fails(index_open(whole->shards[0].path, &none), STATUS_CORRUPT, "last 64 bytes");
}

static void in_place_copies_nothing(void **state)
{
    (void)state;
    const char *folder = make_folder("place");
    CLEANUP(source_free) struct source *source = jpeg_folder_open(folder);
    CLEANUP(pack_report_done) struct pack_report report = {0};
    struct pack_options options = {.in_place = true, .threads = 2};
    assert_ok(pack_run(source, test_path("place.idx"), &options, &report));
    CLEANUP(source_free) struct source *plain = index_set_open(test_path("place.idx"));
    assert_int_equal(plain->item_count, 40);
    assert_int_equal(plain->shards[0].kind, SHARD_FOLDER);
    assert_false(plain->items[0].crc_known);
    assert_int_equal(plain->items[0].width, 0);

    options.crc = true;
    pack(source, test_path("place.idx"), &options);
    assert_holds_folder(test_path("place.idx"), folder);
}

static void bad_images_follow_the_policy(void **state)
{
    (void)state;
    const char *folder = make_folder("bad");
    CLEANUP(buffer_done) struct buffer bytes = {0};
    jpeg_folder_image(1, &bytes);
    bytes.length = bytes.length * 6 / 10;
    jpeg_folder_add(folder, "a", "cut.JPEG", &bytes);
    bytes.length = 2;
    jpeg_folder_add(folder, "b", "soi.JPEG", &bytes);
    bytes.length = 0;
    jpeg_folder_add(folder, "c", "empty.JPEG", &bytes);
    CLEANUP(source_free) struct source *source = jpeg_folder_open(folder);
    assert_int_equal(source->item_count, 43);

    struct pack_options options = {.shard_bytes = 16384, .threads = 3, .decode = true};
    CLEANUP(pack_report_done) struct pack_report failed = {0};
    assert_fails(pack_run(source, test_path("bad.idx"), &options, &failed), STATUS_CORRUPT,
                 "a/cut.JPEG");
    assert_false(path_exists(test_path("bad.idx")));
    assert_false(path_exists(test_path("bad-00000.shard")));

    CLEANUP(pack_report_done) struct pack_report skipped = {0};
    options.on_error = PACK_SKIP;
    assert_ok(pack_run(source, test_path("bad.idx"), &options, &skipped));
    assert_int_equal(skipped.images, 40);
    assert_int_equal(skipped.problems.count, 3);
    assert_string_equal(skipped.problems.items[1].record, "b/soi.JPEG");
    CLEANUP(index_close) struct index *index = NULL;
    assert_ok(index_open(test_path("bad.idx"), &index));
    assert_non_null(strstr(index_provenance(index), "\"c/empty.JPEG\""));
    assert_true(pack_is_done(source, test_path("bad.idx"), &options));
    options.on_error = PACK_FAIL;
    assert_false(pack_is_done(source, test_path("bad.idx"), &options));

    /* Without decoding all: the cut image has a good header, but no end. */
    CLEANUP(pack_report_done) struct pack_report kept = {0};
    options.on_error = PACK_KEEP;
    options.decode = false;
    assert_ok(pack_run(source, test_path("kept.idx"), &options, &kept));
    assert_int_equal(kept.images, 43);
    assert_int_equal(kept.problems.count, 3);
    assert_string_equal(kept.problems.items[0].record, "a/cut.JPEG");
    CLEANUP(source_free) struct source *all = index_set_open(test_path("kept.idx"));
    for (size_t i = 0; i < all->item_count; i++) {
        assert_true(all->items[i].crc_known);
        bool is_bad = all->items[i].length <= 2 || strcmp(all->items[i].name, "cut.JPEG") == 0;
        assert_int_equal(all->items[i].width == 0, is_bad);
    }
}

static void assert_no_temporary_files(const char *folder)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(folder, &list));
    for (size_t i = 0; i < list.count; i++)
        assert_null(strstr(list.entries[i].name, ".tmp."));
}

static void nothing_stays_behind_after_a_failure(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("faulty"));
    const char *folder = test_path("faults");
    assert_ok(folder_create(folder));
    unsigned failures = 0;
    for (unsigned call = 1; failures + 1 == call; call++) {
        CLEANUP(pack_report_done) struct pack_report report = {0};
        char fault[32];
        snprintf(fault, sizeof fault, "ENOSPC:%u", call);
        disk_set_fault(fault);
        struct status status = pack_run(source, test_path("faults/x.idx"), &small_shards, &report);
        disk_set_fault(NULL);
        if (status.code != STATUS_DONE) {
            failures++;
            assert_int_equal(status.code, STATUS_NO_SPACE);
            if (path_exists(test_path("faults/x.idx"))) /* only the folder's last sync failed */
                assert_true(pack_is_done(source, test_path("faults/x.idx"), &small_shards));
            if (!strstr(status_message(&status), "cannot remove")) /* then nothing can be removed */
                assert_no_temporary_files(folder);
        }
        status_clear(&status);
    }
    assert_true(failures > 20);
    assert_true(pack_is_done(source, test_path("faults/x.idx"), &small_shards));
}

static void a_shorter_set_removes_the_shards_of_a_longer_one(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("longer"));
    assert_ok(folder_create(test_path("sets")));
    pack(source, test_path("sets/x.idx"), &small_shards);
    assert_true(files_in(test_path("sets")) > 3);
    const struct pack_options options = {.shard_bytes = PACK_SHARD_BYTES,
                                         .threads = 1,
                                         .force = true};
    assert_ok(file_write_plain(test_path("sets/.x-00001.shard.tmp.1"), "left by a kill", 14));
    assert_ok(file_write_plain(test_path("sets/.x.idx.tmp.1"), "left by a kill", 14));
    pack(source, test_path("sets/x.idx"), &options);
    assert_int_equal(files_in(test_path("sets")), 2);
    assert_no_temporary_files(test_path("sets"));
}

/* A lost index leaves shards that it can be made from again; they are no free place. */
static void shards_without_an_index_are_kept(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("lost"));
    CLEANUP(pack_report_done) struct pack_report report = {0};
    assert_ok(folder_create(test_path("orphans")));
    const char *path = test_path("orphans/x.idx");
    pack(source, path, &small_shards);
    CLEANUP(source_free) struct source *itself = index_set_open(path);
    const struct pack_options forced = {.shard_bytes = 16384, .threads = 1, .force = true};
    assert_fails(pack_run(itself, path, &forced, &report), STATUS_USAGE, "images of the source");
    assert_ok(file_remove(path));
    const struct pack_options larger = {.shard_bytes = PACK_SHARD_BYTES, .threads = 1};
    assert_fails(pack_run(source, path, &larger, &report), STATUS_FAILED, "holds other images");
    assert_false(path_exists(path));
    pack(source, path, &small_shards);
    assert_true(pack_is_done(source, path, &small_shards));
    assert_int_equal(truncate(test_path("orphans/x-00001.shard"), 100), 0);
    assert_false(pack_is_done(source, path, &small_shards));
}

static void names_of_indexes_are_checked(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = jpeg_folder_open(make_folder("named"));
    CLEANUP(pack_report_done) struct pack_report report = {0};
    static const char *const bad[] = {"x", "x.index", ".idx", "idx"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_fails(pack_run(source, test_path(bad[i]), &small_shards, &report), STATUS_USAGE,
                     "ends in .idx");
}

int main(void)
{
    progress_set_quiet(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_depend_on_the_images_alone),
        cmocka_unit_test(prediction_is_what_is_written),
        cmocka_unit_test(a_shard_is_an_index_of_its_records),
        cmocka_unit_test(in_place_copies_nothing),
        cmocka_unit_test(bad_images_follow_the_policy),
        cmocka_unit_test(nothing_stays_behind_after_a_failure),
        cmocka_unit_test(a_shorter_set_removes_the_shards_of_a_longer_one),
        cmocka_unit_test(shards_without_an_index_are_kept),
        cmocka_unit_test(names_of_indexes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
