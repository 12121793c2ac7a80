#include "tests/test.h"

#include "base/crc32c.h"
#include "image/folder_source.h"
#include "image/source.h"

static void write_file(const char *path, const char *text)
{
    CLEANUP(memory_free) char *folder = NULL;
    assert_ok(path_folder(path, &folder));
    assert_ok(folder_create(folder));
    assert_ok(file_write_plain(path, text, strlen(text)));
}

/* A source of two classes over one file of ten bytes. */
static struct source *make_source(void)
{
    static const struct class_entry classes[] = {{"a", "", 0}, {"b", "", 0}};
    struct source *source;
    uint32_t shard;
    write_file(test_path("ten"), "0123456789");
    assert_ok(source_new(&source));
    assert_ok(class_table_make(classes, 2, &source->classes));
    assert_ok(source_add_shard(source, test_path("ten"), 10, SHARD_TAR, &shard));
    assert_int_equal(shard, 0);
    return source;
}

static void add(struct source *source, uint32_t label, const char *name, uint64_t offset,
                uint64_t length)
{
    const struct source_item item = {.label = label, .offset = offset, .length = length};
    assert_ok(source_add_item(source, &item, name, strlen(name)));
}

static void sorts_by_label_and_name(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    add(source, 1, "x.jpg", 0, 1);
    add(source, 0, "x_2.jpg", 1, 2);
    add(source, 0, "x_10.jpg", 3, 3);
    add(source, 0, "x\xff.jpg", 6, 4);
    assert_ok(source_finish(source));
    static const char *const expected[] = {"x_10.jpg", "x_2.jpg", "x\xff.jpg", "x.jpg"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(source->items[i].name, expected[i]);

    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(source_reader_open(source, &reader));
    assert_ok(source_read(reader, 0, &bytes));
    assert_int_equal(bytes.length, 3);
    assert_memory_equal(bytes.data, "345\0\0\0", 6);
    source->items[2].crc_known = true;
    source->items[2].crc32c = crc32c_update(0, "6789", 4);
    assert_ok(source_read(reader, 2, &bytes));
    source->items[2].crc32c ^= 1;
    assert_fails(source_read(reader, 2, &bytes), STATUS_CORRUPT, "record a/x\xff.jpg");
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        uint32_t label;
        uint64_t offset, length;
        enum status_code code;
        const char *part;
    } bad[] = {
        {2, 0, 1, STATUS_CORRUPT, "label 2"},
        {0, 0, 11, STATUS_CORRUPT, "the file ends at 10"},
        {0, 10, 1, STATUS_CORRUPT, "the file ends at 10"},
        {0, UINT64_MAX, 2, STATUS_CORRUPT, "the file ends at 10"},
        {0, 0, (uint64_t)1 << 32, STATUS_UNSUPPORTED, "at most 4 GiB"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        CLEANUP(source_free) struct source *source = make_source();
        add(source, bad[i].label, "x.jpg", bad[i].offset, bad[i].length);
        assert_fails(source_finish(source), bad[i].code, bad[i].part);
    }
    CLEANUP(source_free) struct source *source = make_source();
    assert_fails(source_finish(source), STATUS_NOT_FOUND, "no images");
    add(source, 0, "x.jpg", 0, 1);
    add(source, 1, "x.jpg", 1, 1);
    assert_ok(source_finish(source)); /* the same name in another class is another image */
    add(source, 0, "x.jpg", 5, 1);
    assert_fails(source_finish(source), STATUS_CORRUPT, "two images named x.jpg");

    const struct source_item item = {0};
    static const char *const names[] = {"", ".", "..", "a/b", "/etc"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        assert_fails(source_add_item(source, &item, names[i], strlen(names[i])), STATUS_CORRUPT,
                     "cannot be a file's name");
    assert_fails(source_add_item(source, &item, "a\0b", 3), STATUS_CORRUPT, "cannot be");
}

static void notices_a_changed_file(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    add(source, 0, "x.jpg", 2, 5);
    assert_ok(source_finish(source));
    write_file(test_path("ten"), "01234567890");
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(source_reader_open(source, &reader));
    assert_fails(source_read(reader, 0, &bytes), STATUS_CORRUPT, "changed or replaced");
    assert_ok(file_remove(test_path("ten")));
    assert_fails(source_read(reader, 0, &bytes), STATUS_NOT_FOUND, "record a/x.jpg");
}

static void knows_image_names(void **state)
{
    (void)state;
    static const char *const yes[] = {"a.JPEG", "a.jpg", "a.JpG", "b.c.png", "n01_1.jpeg"};
    static const char *const no[] = {".jpg", ".a.jpg", "a",        "a.jpg.txt",
                                     "jpg",  "a.jpg~", ".DS_Store"};
    for (size_t i = 0; i < ARRAY_LENGTH(yes); i++)
        assert_true(source_is_image_name(yes[i]));
    for (size_t i = 0; i < ARRAY_LENGTH(no); i++)
        assert_false(source_is_image_name(no[i]));
}

static void lists_class_folders(void **state)
{
    (void)state;
    write_file(test_path("a b/图/cat/2.JPEG"), "22");
    write_file(test_path("a b/图/cat/10.jpg"), "1010");
    write_file(test_path("a b/图/ant/x.png"), "x");
    write_file(test_path("a b/图/ant/notes.txt"), "?");
    write_file(test_path("a b/图/.DS_Store"), "?");
    write_file(test_path("a b/图/__MACOSX/cat/2.JPEG"), "?");
    write_file(test_path("a b/图/.ipynb_checkpoints/x.jpg"), "?");
    assert_ok(folder_create(test_path("a b/图/lost+found")));
    assert_ok(folder_create(test_path("a b/图/bee")));
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        CLEANUP(source_free) struct source *source = NULL;
        assert_ok(folder_source_open(test_path("a b/图"), NULL, threads, &source));
        assert_int_equal(class_table_count(source->classes), 3);
        assert_int_equal(class_table_find(source->classes, "bee"), 1);
        assert_int_equal(source->ignored, 5);
        assert_int_equal(source->item_count, 3);
        assert_string_equal(source->items[1].name, "10.jpg");
        assert_int_equal(source->items[1].label, 2);
        assert_int_equal(source->items[1].length, 4);

        CLEANUP(source_reader_close) struct source_reader *reader = NULL;
        CLEANUP(buffer_done) struct buffer bytes = {0};
        assert_ok(source_reader_open(source, &reader));
        assert_ok(source_read(reader, 1, &bytes));
        assert_int_equal(bytes.length, 4);
        assert_memory_equal(bytes.data, "1010", 4);
    }
}

static void takes_labels_from_a_table(void **state)
{
    (void)state;
    write_file(test_path("set/b/1.jpg"), "1");
    static const struct class_entry classes[] = {{"a", "", 0}, {"b", "bee", 9}};
    CLEANUP(class_table_free) struct class_table *table = NULL;
    CLEANUP(source_free) struct source *source = NULL;
    assert_ok(class_table_make(classes, 2, &table));
    assert_ok(folder_source_open(test_path("set"), table, 1, &source));
    assert_int_equal(source->items[0].label, 1);
    assert_string_equal(class_table_at(source->classes, 1)->words, "bee");

    write_file(test_path("set/c/1.jpg"), "1");
    struct source *none;
    assert_fails(folder_source_open(test_path("set"), table, 1, &none), STATUS_CORRUPT,
                 "set/c is not a class");
}

static void knows_imagenet_by_its_folders(void **state)
{
    (void)state;
    write_file(test_path("wnids/n01440764/1.JPEG"), "1");
    CLEANUP(source_free) struct source *source = NULL;
    assert_ok(folder_source_open(test_path("wnids"), NULL, 1, &source));
    assert_string_equal(class_table_at(source->classes, 0)->words, "tench, Tinca tinca");

    write_file(test_path("wnids/n99999999/1.JPEG"), "1");
    CLEANUP(source_free) struct source *other = NULL;
    assert_ok(folder_source_open(test_path("wnids"), NULL, 1, &other));
    assert_string_equal(class_table_at(other->classes, 0)->words, "");
}

static void says_what_to_do_about_other_folders(void **state)
{
    (void)state;
    struct source *none;
    write_file(test_path("flat/ILSVRC2012_val_00000001.JPEG"), "1");
    assert_fails(folder_source_open(test_path("flat"), NULL, 1, &none), STATUS_NOT_FOUND,
                 "headrace organize");
    assert_ok(folder_create(test_path("empty")));
    assert_fails(folder_source_open(test_path("empty"), NULL, 1, &none), STATUS_NOT_FOUND,
                 "expected");
    assert_ok(folder_create(test_path("bare/n01440764")));
    assert_fails(folder_source_open(test_path("bare"), NULL, 1, &none), STATUS_NOT_FOUND,
                 "no images");
    write_file(test_path("above/train/ant/a.JPEG"), "1");
    write_file(test_path("above/val/ant/a.JPEG"), "1");
    write_file(test_path("above/devkit/readme/a.txt"), "1");
    assert_fails(folder_source_open(test_path("above"), NULL, 1, &none), STATUS_NOT_FOUND,
                 "above/train?");
    write_file(test_path("deep/ant/images/a.JPEG"), "1");
    assert_fails(folder_source_open(test_path("deep"), NULL, 1, &none), STATUS_NOT_FOUND,
                 "there are folders such as images, expected");
    write_file(test_path("ids/1/a.JPEG"), "1");
    write_file(test_path("ids/10/a.JPEG"), "1");
    assert_fails(folder_source_open(test_path("ids"), NULL, 1, &none), STATUS_CORRUPT,
                 "WNIDs such as n01440764 were expected");
    assert_fails(folder_source_open(test_path("nowhere"), NULL, 1, &none), STATUS_NOT_FOUND,
                 "nowhere");
}

static void asks_the_disk_for_space(void **state)
{
    (void)state;
    assert_ok(folder_require_space(test_folder(), 1));
    assert_fails(folder_require_space(test_folder(), UINT64_MAX), STATUS_NO_SPACE, "are needed");
    assert_fails(folder_require_space(test_path("gone"), 1), STATUS_NOT_FOUND, "gone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_by_label_and_name),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(notices_a_changed_file),
        cmocka_unit_test(knows_image_names),
        cmocka_unit_test(lists_class_folders),
        cmocka_unit_test(takes_labels_from_a_table),
        cmocka_unit_test(knows_imagenet_by_its_folders),
        cmocka_unit_test(asks_the_disk_for_space),
        cmocka_unit_test(says_what_to_do_about_other_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
