#include "tests/test.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "prep/archive_source.h"
#include "tests/support/devkit.h"
#include "tests/support/shell.h"
#include "tests/support/tar.h"

static const char *write_file(const char *name, const struct buffer *bytes)
{
    const char *path = test_path(name);
    assert_ok(file_write_atomic(path, bytes->data, bytes->length));
    return path;
}

/* An inner archive with images named CLASS_1.JPEG … CLASS_<count>.JPEG, whose bytes are their
 * names. */
static void add_class(struct buffer *outer, const char *file, const char *class_name, int count)
{
    CLEANUP(buffer_done) struct buffer inner = {0};
    char name[64];
    for (int i = count; i >= 1; i--) {
        int length = snprintf(name, sizeof name, "%s_%d.JPEG", class_name, i);
        assert_ok(tar_add_file(&inner, name, name, (size_t)length));
    }
    assert_ok(tar_end(&inner, 10240));
    assert_ok(tar_add_file(outer, file, inner.data, inner.length));
}

static struct status open_source(const char *path, const char *devkit_path, const char *prefix,
                                 struct source **ret_source)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    if (devkit_path)
        TRY(devkit_open(devkit_path, &devkit));
    return archive_source_open(path, devkit, prefix, 3, ret_source);
}

static void assert_item(struct source *source, size_t item, const char *name, uint32_t label)
{
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_string_equal(source->items[item].name, name);
    assert_int_equal(source->items[item].label, label);
    assert_ok(source_reader_open(source, &reader));
    assert_ok(source_read(reader, item, &bytes));
    assert_int_equal(bytes.length, strlen(name));
    assert_memory_equal(bytes.data, name, bytes.length);
}

static void test_train(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(buffer_done) struct buffer outer = {0};
    add_class(&outer, "n01443537.tar", "n01443537", 2);
    add_class(&outer, "./n01440764.tar", "n01440764", 3);
    assert_ok(tar_add_file(&outer, "README", "x", 1));
    assert_ok(tar_end(&outer, 10240));
    assert_ok(open_source(write_file("train.tar", &outer), NULL, NULL, &source));
    assert_int_equal(source->item_count, 5);
    assert_int_equal(source->ignored, 1);
    assert_int_equal(class_table_count(source->classes), 2);
    assert_string_equal(class_table_at(source->classes, 0)->words, "tench, Tinca tinca");
    assert_item(source, 0, "n01440764_1.JPEG", 0);
    assert_item(source, 4, "n01443537_2.JPEG", 1);
}

static void test_bad_train(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(buffer_done) struct buffer twice = {0}, broken = {0}, empty = {0};
    add_class(&twice, "a/n01440764.tar", "n01440764", 1);
    add_class(&twice, "b/n01440764.tar", "n01440764", 1);
    assert_ok(tar_end(&twice, 512));
    assert_fails(open_source(write_file("twice.tar", &twice), NULL, NULL, &source), STATUS_CORRUPT,
                 "\"n01440764\" occurs twice");

    add_class(&broken, "n01440764.tar", "n01440764", 3);
    memset(broken.data + 512 + 2048, 0x5a, 512);
    assert_ok(tar_end(&broken, 512));
    assert_fails(open_source(write_file("broken.tar", &broken), NULL, NULL, &source),
                 STATUS_CORRUPT,
                 "inner archive n01440764.tar, byte 2048 (after the header of n01440764_2.JPEG)");

    add_class(&empty, "n01440764.tar", "n01440764", 0);
    add_class(&empty, "n01443537.tar", "n01443537", 0);
    assert_ok(tar_end(&empty, 512));
    assert_fails(open_source(write_file("empty.tar", &empty), NULL, NULL, &source),
                 STATUS_NOT_FOUND, "");
}

static const struct test_synset two[] = {
    {1, "n02000000", "b", 0, 2},
    {2, "n01000000", "a", 0, 2},
};

static void test_val(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(buffer_done) struct buffer tar = {0};
    static const char *const names[] = {"ILSVRC2012_val_00000004.JPEG",
                                        "ILSVRC2012_val_00000001.JPEG",
                                        "ILSVRC2012_val_00000002.JPEG"};
    test_devkit_write(test_path("kit"), two, 2, "1\n2\n2\n1\n");
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        assert_ok(tar_add_file(&tar, names[i], names[i], strlen(names[i])));
    assert_ok(tar_end(&tar, 512));
    const char *path = write_file("val.tar", &tar);
    assert_fails(open_source(path, NULL, NULL, &source), STATUS_USAGE, "add --devkit");
    assert_ok(open_source(path, test_path("kit"), NULL, &source));
    assert_int_equal(source->item_count, 3);
    assert_item(source, 0, names[2], 0);
    assert_item(source, 1, names[1], 1);
    assert_item(source, 2, names[0], 1);
}

static void test_class_folders(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *one = NULL, *two_sets = NULL, *plain = NULL;
    CLEANUP(buffer_done) struct buffer tar = {0}, top = {0};
    static const char *const names[] = {"train/b/2.jpg", "train/a/1.jpg", "train/a/.hidden.jpg",
                                        "val/a/1.jpg", "train/notes.txt"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        assert_ok(tar_add_file(&tar, names[i], path_base(names[i]), strlen(path_base(names[i]))));
    assert_ok(tar_end(&tar, 512));
    const char *path = write_file("folders.tar", &tar);
    assert_fails(open_source(path, NULL, NULL, &one), STATUS_USAGE, "--prefix: train, val");
    assert_fails(open_source(path, NULL, "test", &one), STATUS_NOT_FOUND,
                 "prefixes are: train, val");
    assert_ok(open_source(path, NULL, "val/", &one));
    assert_int_equal(one->item_count, 1);
    assert_ok(open_source(path, NULL, "train", &two_sets));
    assert_int_equal(two_sets->item_count, 2);
    assert_item(two_sets, 1, "2.jpg", 1);
    assert_int_equal(two_sets->ignored, 2); /* not the image of val */

    assert_ok(tar_add_file(&top, "a/1.jpg", "1.jpg", 5));
    assert_ok(tar_end(&top, 512));
    assert_ok(open_source(write_file("top.tar", &top), NULL, NULL, &plain));
    assert_item(plain, 0, "1.jpg", 0);
}

static void test_real_archives(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *train = NULL, *val = NULL, *cifar = NULL;
    const char *devkit = test_data_path("ILSVRC2012_devkit_t12.tar.gz");
    assert_ok(open_source(test_data_path("ILSVRC2012_img_train.tar"), NULL, NULL, &train));
    assert_int_equal(train->item_count, 1000);
    assert_int_equal(class_table_hash(train->classes), class_table_hash(class_table_ilsvrc2012()));
    for (size_t i = 0; i < 1000; i++)
        assert_memory_equal(train->items[i].name, class_table_at(train->classes, i)->wnid, 9);

    assert_ok(open_source(test_data_path("ILSVRC2012_img_val.tar"), devkit, NULL, &val));
    assert_int_equal(val->item_count, 1300);
    assert_int_equal(class_table_hash(val->classes), class_table_hash(train->classes));

    assert_ok(open_source(test_data_path("cifar10.tar"), NULL, "train", &cifar));
    assert_int_equal(cifar->item_count, 7000);
    assert_int_equal(class_table_count(cifar->classes), 10);

    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(source_reader_open(train, &reader));
    for (size_t i = 0; i < 1000; i++) {
        assert_ok(source_read(reader, i, &bytes));
        assert_memory_equal(bytes.data, "\xff\xd8", 2);
        assert_memory_equal(bytes.data + bytes.length - 2, "\xff\xd9", 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train),         cmocka_unit_test(test_bad_train),
        cmocka_unit_test(test_val),           cmocka_unit_test(test_class_folders),
        cmocka_unit_test(test_real_archives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
