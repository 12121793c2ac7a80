#include "tests/test.h"

#include "prep/flat_source.h"
#include "prep/layout.h"
#include "tests/support/devkit.h"

/* Label order a, b, c. */
static const struct test_synset synsets[] = {
    {1, "n03000000", "c", 0, 3},
    {2, "n01000000", "a", 0, 1},
    {3, "n02000000", "b", 0, 2},
};
static struct devkit *devkit;

static void write_image(const char *name)
{
    assert_ok(file_write_atomic(test_path(name), name, strlen(name)));
}

static void test_labels(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(folder_create(test_path("val/litter")));
    write_image("val/ILSVRC2012_val_00000001.JPEG");
    write_image("val/ILSVRC2012_val_00000002.jpeg");
    write_image("val/ILSVRC2012_val_00000005.JPEG");
    write_image("val/README.txt");
    assert_ok(flat_source_open(test_path("val"), devkit, NULL, 2, &source));
    assert_int_equal(source->item_count, 3);
    assert_int_equal(source->ignored, 2);
    assert_int_equal(class_table_count(source->classes), 3);
    /* In the order of (label, name): IDs 2, 2 and 1. */
    assert_string_equal(source->items[0].name, "ILSVRC2012_val_00000002.jpeg");
    assert_string_equal(source->items[1].name, "ILSVRC2012_val_00000005.JPEG");
    assert_int_equal(source->items[1].label, 0);
    assert_int_equal(source->items[2].label, 2);
    assert_int_equal(source->shards[0].kind, SHARD_FLAT);
    assert_ok(source_reader_open(source, &reader));
    assert_ok(source_read(reader, 2, &bytes));
    assert_memory_equal(bytes.data, "val/ILSVRC2012_val_00000001.JPEG", bytes.length);
}

static void test_other_table(void **state)
{
    (void)state;
    static const struct class_entry entries[] = {{"n00000001", "", 0}, {"n01000000", "", 0}};
    CLEANUP(class_table_free) struct class_table *table = NULL;
    CLEANUP(source_free) struct source *source = NULL;
    struct source *none;
    assert_ok(class_table_make(entries, 2, &table));
    assert_ok(folder_create(test_path("two")));
    write_image("two/ILSVRC2012_val_00000002.JPEG");
    assert_ok(flat_source_open(test_path("two"), devkit, table, 1, &source));
    assert_int_equal(source->items[0].label, 1);
    write_image("two/ILSVRC2012_val_00000001.JPEG");
    assert_fails(flat_source_open(test_path("two"), devkit, table, 1, &none), STATUS_CORRUPT,
                 "00001.JPEG is of class n03000000, which is none of the 2 classes");
}

static void test_refusals(void **state)
{
    (void)state;
    struct source *none;
    assert_ok(folder_create(test_path("odd")));
    assert_fails(flat_source_open(test_path("odd"), devkit, NULL, 1, &none), STATUS_NOT_FOUND,
                 "odd holds no images");
    write_image("odd/ILSVRC2012_val_00000006.JPEG");
    assert_fails(flat_source_open(test_path("odd"), devkit, NULL, 1, &none), STATUS_CORRUPT,
                 "odd: ILSVRC2012_val_00000006.JPEG has a number beyond the ground truth");
    assert_ok(file_rename(test_path("odd/ILSVRC2012_val_00000006.JPEG"), test_path("odd/a.JPEG")));
    assert_fails(flat_source_open(test_path("odd"), devkit, NULL, 1, &none), STATUS_CORRUPT,
                 "a.JPEG is not named like a validation image");
}

/* The label source that a folder of flat images has: the nearest, at most four folders up. */
static void test_label_sources(void **state)
{
    (void)state;
    CLEANUP(devkit_free) struct devkit *found = NULL;
    enum image_set set;
    assert_ok(folder_create(test_path("up/1/2/3/4/5")));
    write_image("up/1/2/3/4/ILSVRC2012_val_00000001.JPEG");
    assert_ok(layout_flat_set(test_path("up/1/2/3/4"), &set)); /* 5 would be its class */
    assert_int_equal(set, IMAGE_SET_OTHER);
    assert_ok(layout_open_labels(test_path("up/1/2/3/4"), &found));
    assert_null(found);
    write_image("up/1/2/3/4/5/ILSVRC2012_val_00000001.JPEG");
    assert_ok(layout_flat_set(test_path("up/1/2/3/4/5"), &set));
    assert_int_equal(set, IMAGE_SET_VAL);
    test_devkit_write(test_path("up"), synsets, 3, "1\n");
    assert_ok(layout_open_labels(test_path("up/1/2/3/4/5"), &found));
    assert_null(found);
    test_devkit_write(test_path("up/1"), synsets, 3, "1\n2\n");
    assert_ok(layout_open_labels(test_path("up/1/2/3/4/5"), &found));
    assert_int_equal(devkit_val_count(found), 2);
    devkit_free(found);
    found = NULL;
    assert_ok(file_remove(test_path("up/1/2/3/4/5/ILSVRC2012_val_00000001.JPEG")));
    write_image("up/1/2/3/4/5/n01440764_1_n01440764.JPEG");
    assert_ok(layout_open_labels(test_path("up/1/2/3/4/5"), &found));
    assert_true(devkit_is_built_in(found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_other_table),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_label_sources),
    };
    test_devkit_write(test_path("kit"), synsets, 3, "1\n2\n3\n1\n2\n");
    assert_ok(devkit_open(test_path("kit"), &devkit));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    devkit_free(devkit);
    return failed;
}
