#include "tests/test.h"

#include "base/folder.h"

static void parents_are_made(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("a/b c/図/d/")));
    assert_ok(folder_create(test_path("a/b c/図/d")));
    assert_true(path_is_folder(test_path("a/b c/図/d")));

    assert_ok(file_write_plain(test_path("file"), "", 0));
    assert_fails(folder_create(test_path("file")), STATUS_IO, "is not a folder");
    assert_fails(folder_create(test_path("file/below")), STATUS_IO, "is not a folder");
}

static void names_are_listed_in_order(void **state)
{
    (void)state;
    const char *root = test_path("list");
    assert_ok(folder_create(test_path("list/sub")));
    const char *const files[] = {"list/b", "list/B", "list/a", "list/\xc3\xa4", "list/.hidden"};
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        assert_ok(file_write_plain(test_path(files[i]), "", 0));
    assert_int_equal(symlink("sub", test_path("list/to_folder")), 0);
    assert_int_equal(symlink("a", test_path("list/to_file")), 0);
    assert_int_equal(symlink("missing", test_path("list/to_nothing")), 0);

    static const struct folder_entry expected[] = {
        {".hidden", false, true},   {"B", false, true},           {"a", false, true},
        {"b", false, true},         {"sub", true, false},         {"to_file", false, true},
        {"to_folder", true, false}, {"to_nothing", false, false}, {"\xc3\xa4", false, true},
    };
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(root, &list));
    assert_int_equal(list.count, ARRAY_LENGTH(expected));
    for (size_t i = 0; i < list.count; i++) {
        assert_string_equal(list.entries[i].name, expected[i].name);
        assert_int_equal(list.entries[i].is_folder, expected[i].is_folder);
        assert_int_equal(list.entries[i].is_file, expected[i].is_file);
    }
}

static void empty_and_missing_folders_are_told_apart(void **state)
{
    (void)state;
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_create(test_path("empty")));
    assert_ok(folder_list_read(test_path("empty"), &list));
    assert_int_equal(list.count, 0);
    assert_fails(folder_list_read(test_path("none"), &list), STATUS_NOT_FOUND, "none'");
}

static void removal_follows_no_links(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("kept")));
    assert_ok(file_write_plain(test_path("kept/file"), "", 0));
    assert_ok(folder_create(test_path("tree/x/y")));
    assert_ok(file_write_plain(test_path("tree/x/y/z"), "", 0));
    assert_int_equal(symlink("../kept", test_path("tree/link")), 0);

    assert_ok(folder_remove(test_path("tree")));
    assert_false(path_exists(test_path("tree")));
    assert_true(path_exists(test_path("kept/file")));
    assert_ok(folder_remove(test_path("tree")));
}

static void folders_are_synced(void **state)
{
    (void)state;
    assert_ok(folder_sync(test_folder()));
    assert_ok(folder_sync_tree(test_folder()));
    assert_fails(folder_sync(test_path("none")), STATUS_NOT_FOUND, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parents_are_made),
        cmocka_unit_test(names_are_listed_in_order),
        cmocka_unit_test(empty_and_missing_folders_are_told_apart),
        cmocka_unit_test(removal_follows_no_links),
        cmocka_unit_test(folders_are_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
