#include "tests/test.h"

#include "base/text_list.h"

static void write_text(const char *text, size_t length)
{
    assert_ok(file_write_plain(test_path("list"), text, length));
}

static void reads_what_people_write(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf"
                               "one\r\n\n  two words \t\r\n# a comment\n   \nlast";
    CLEANUP(text_list_done) struct text_list lines = {0};
    write_text(text, sizeof text - 1);
    assert_ok(text_list_read(test_path("list"), &lines));
    assert_int_equal(lines.count, 3);
    assert_string_equal(lines.items[0].text, "one");
    assert_string_equal(lines.items[1].text, "two words");
    assert_int_equal(lines.items[1].number, 3);
    assert_string_equal(lines.items[2].text, "last");
    assert_int_equal(lines.items[2].number, 6);
}

static void refuses_what_is_no_list(void **state)
{
    (void)state;
    struct text_list lines = {0};
    write_text("a\nb\0c\n", 6);
    assert_fails(text_list_read(test_path("list"), &lines), STATUS_CORRUPT, "line 2");
    assert_fails(text_list_read(test_path("none"), &lines), STATUS_NOT_FOUND, "none");
    assert_int_equal(lines.count, 0);
}

static void an_empty_file_is_an_empty_list(void **state)
{
    (void)state;
    CLEANUP(text_list_done) struct text_list lines = {0};
    write_text("", 0);
    assert_ok(text_list_read(test_path("list"), &lines));
    assert_int_equal(lines.count, 0);
    assert_ok(text_list_add(&lines, "more"));
    assert_string_equal(lines.items[0].text, "more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_people_write),
        cmocka_unit_test(refuses_what_is_no_list),
        cmocka_unit_test(an_empty_file_is_an_empty_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
