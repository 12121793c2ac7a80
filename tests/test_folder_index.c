#include "tests/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "index/folder_index.h"

static char root[512];

static void image_write(const char *class_name, const char *name)
{
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *path = NULL;
    assert_ok(path_join(root, class_name, &folder));
    assert_ok(path_join(folder, name, &path));
    assert_ok(folder_create(folder));
    assert_ok(file_write_plain(path, "\xff\xd8\xff", 3));
}

static char *beside(void)
{
    char *path;
    assert_ok(string_format(&path, "%s.idx", root));
    return path;
}

/* Sets a file's time, in seconds from now. */
static void age(const char *path, int seconds)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) + seconds}, {.tv_sec = time(NULL) + seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static uint64_t images(const struct class_table *classes)
{
    CLEANUP(index_close) struct index *index = NULL;
    assert_ok(folder_index_open(root, classes, 2, &index));
    return index_count(index);
}

static int root_make(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "%s", test_path("set"));
    setenv("XDG_CACHE_HOME", test_path("cache"), 1);
    assert_ok(folder_remove(root));
    assert_ok(folder_remove(test_path("cache")));
    assert_ok(file_remove(test_path("set.idx")));
    image_write("ant", "1.JPEG");
    image_write("bee", "2.JPEG");
    return 0;
}

static void test_it_is_made_once_and_again_after_a_change(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *path = beside();
    assert_int_equal(images(NULL), 2);
    assert_true(path_exists(path));
    struct stat before, after;
    age(root, -20);
    age(test_path("set/ant"), -20);
    age(test_path("set/bee"), -20);
    age(path, -10);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(images(NULL), 2);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    image_write("bee", "3.JPEG");
    assert_int_equal(images(NULL), 3);
}

static void test_labels_follow_the_classes_given(void **state)
{
    (void)state;
    const struct class_entry entries[] = {{"aaa", "", 0}, {"ant", "", 0}, {"bee", "", 0}};
    CLEANUP(class_table_free) struct class_table *classes = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    const int32_t *labels;
    assert_ok(class_table_make(entries, 3, &classes));
    assert_int_equal(images(NULL), 2);
    assert_ok(folder_index_open(root, classes, 1, &index));
    assert_ok(index_labels(index, &labels));
    assert_int_equal(labels[0], 1);
    assert_int_equal(labels[1], 2);
}

static void test_a_foreign_or_broken_index_is_left_alone(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *path = beside();
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(file_write_plain(path, "mine", 4));
    assert_int_equal(images(NULL), 2);
    assert_ok(file_read_all(path, 100, &bytes));
    assert_int_equal(bytes.length, 4);
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(test_path("cache/headrace"), &list));
    assert_int_equal(list.count, 1);
    CLEANUP(memory_free) char *cached = NULL;
    assert_ok(path_join(test_path("cache/headrace"), list.entries[0].name, &cached));
    assert_ok(file_write_plain(cached, "cut", 3));
    assert_int_equal(images(NULL), 2);
    CLEANUP(index_close) struct index *index = NULL;
    assert_ok(index_open(cached, &index));
    assert_true(folder_index_is_own(index));
}

static void test_no_place_is_needed(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *path = beside();
    assert_ok(file_write_plain(path, "mine", 4));
    assert_ok(file_write_plain(test_path("cache"), "", 0));
    CLEANUP(index_close) struct index *index = NULL;
    assert_ok(folder_index_open(root, NULL, 2, &index));
    assert_int_equal(index_count(index), 2);
    assert_string_equal(index_path(index), root);
    /* No folder for temporary files either: memory has one. */
    CLEANUP(index_close) struct index *again = NULL;
    setenv("TMPDIR", test_path("nowhere"), 1);
    assert_ok(folder_index_open(root, NULL, 2, &again));
    unsetenv("TMPDIR");
    assert_int_equal(index_count(again), 2);
    assert_ok(file_remove(test_path("cache")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_it_is_made_once_and_again_after_a_change, root_make),
        cmocka_unit_test_setup(test_labels_follow_the_classes_given, root_make),
        cmocka_unit_test_setup(test_a_foreign_or_broken_index_is_left_alone, root_make),
        cmocka_unit_test_setup(test_no_place_is_needed, root_make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
