#include "tests/test.h"

#include "base/path.h"

static void assert_join(const char *folder, const char *name, const char *expected)
{
    CLEANUP(memory_free) char *path = NULL;
    assert_ok(path_join(folder, name, &path));
    assert_string_equal(path, expected);
}

static void parts_are_joined(void **state)
{
    (void)state;
    assert_join("a", "b", "a/b");
    assert_join("a/", "b", "a/b");
    assert_join("/", "b", "/b");
    assert_join("a", "/b", "/b");
    assert_join("a", "", "a");
    assert_join("", "b", "b");
    assert_join("a b", "図", "a b/図");
}

static void assert_parts(const char *path, const char *folder, const char *base)
{
    CLEANUP(memory_free) char *found = NULL;
    assert_ok(path_folder(path, &found));
    assert_string_equal(found, folder);
    assert_string_equal(path_base(path), base);
}

static void paths_are_taken_apart(void **state)
{
    (void)state;
    assert_parts("a/b/c", "a/b", "c");
    assert_parts("c", ".", "c");
    assert_parts("/c", "/", "c");
    assert_parts("a/", "a", "");
}

static void assert_relative(const char *path, const char *folder, const char *expected)
{
    CLEANUP(memory_free) char *relative = NULL;
    assert_ok(path_relative(path, folder, &relative));
    assert_string_equal(relative, expected);
}

static void paths_below_a_folder_are_relative(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *root = NULL;
    CLEANUP(memory_free) char *outside = NULL;
    assert_ok(folder_create(test_path("root/sub")));
    assert_ok(folder_create(test_path("root2")));
    assert_ok(path_real(test_path("root"), &root));
    assert_ok(path_real(test_path("root2"), &outside));

    assert_relative(test_path("root/sub"), root, "sub");
    assert_relative(test_path("root/sub/new.shard"), root, "sub/new.shard");
    assert_relative(test_path("root/sub/../new"), root, "new");
    assert_relative(test_path("root2"), root, outside); /* only begins alike */
    assert_relative(test_path("root"), root, root);
    assert_relative(root, "/", root + 1);

    assert_int_equal(symlink("root", test_path("link")), 0);
    assert_relative(test_path("link/sub"), root, "sub");
    char *none = NULL;
    assert_fails(path_relative(test_path("missing/file"), root, &none), STATUS_NOT_FOUND,
                 "missing");
    assert_fails(path_real(test_path("missing"), &none), STATUS_NOT_FOUND, "missing");
}

static void kinds_are_told(void **state)
{
    (void)state;
    assert_ok(file_write_plain(test_path("file"), "x", 1));
    assert_true(path_exists(test_path("file")));
    assert_false(path_is_folder(test_path("file")));
    assert_true(path_is_folder(test_folder()));
    assert_false(path_exists(test_path("nothing")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_joined),
        cmocka_unit_test(paths_are_taken_apart),
        cmocka_unit_test(paths_below_a_folder_are_relative),
        cmocka_unit_test(kinds_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
