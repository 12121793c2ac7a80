#include "tests/test.h"

#include "base/shell.h"
#include "tests/support/shell.h"

static void assert_command(const char *word, const char *expected)
{
    CLEANUP(memory_free) char *command = NULL;
    assert_ok(shell_command(&command, "x %s --y %s", word, "z"));
    CLEANUP(memory_free) char *whole = NULL;
    assert_ok(string_format(&whole, "x %s --y z", expected));
    assert_string_equal(command, whole);
}

static void test_words(void **state)
{
    (void)state;
    assert_command("a/b-c_1.tar", "a/b-c_1.tar");
    assert_command("图/é", "图/é");
    assert_command("", "''");
    assert_command("a b", "'a b'");
    assert_command("it's", "'it'\\''s'");
    assert_command("~", "'~'");
    assert_command("$HOME", "'$HOME'");
    assert_command("a\\b", "'a\\b'");
    assert_command("#x", "'#x'");
    assert_command("A=b", "'A=b'");
    assert_command("--all", "./--all");
    assert_command("-a b", "./'-a b'");
    assert_command("a\nb", "$'a\\012b'");
    assert_command("'\\\x1b[31m", "$'\\'\\\\\\033[31m'");
    assert_command("\xc2\x9b", "$'\\302\\233'");
}

/* Whatever the word, a shell makes the same of it. */
static void test_shell_reads_it(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer word = {0}, back = {0};
    const char *text;
    for (int c = 1; c < 256; c++)
        assert_ok(buffer_append_u8(&word, (uint8_t)c));
    assert_ok(buffer_text(&word, &text));
    const char *const words[] = {text,    "plain", "a b", "'", "\"", "$(x) `x` ;&|<>*?[a]{a,b}!",
                                 "\n\t7", "#",     "",    "~", "~a"};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        CLEANUP(memory_free) char *command = NULL;
        CLEANUP(memory_free) char *line = NULL;
        assert_ok(shell_command(&command, "printf %s %s", "%s", words[i]));
        assert_ok(file_write_atomic(test_path("line.sh"), command, strlen(command)));
        assert_ok(string_format(&line, "bash %s >%s", test_path("line.sh"), test_path("back")));
        assert_int_equal(test_shell(line), 0);
        back.length = 0;
        assert_ok(file_read_all(test_path("back"), 4096, &back));
        assert_int_equal(back.length, strlen(words[i]));
        assert_memory_equal(back.data, words[i], back.length);
    }
}

static void test_printable(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *shown;
    assert_ok(shell_append_printable(&text, "a\x1b[2J\tb\r\n\x7f\xc2\x9b\xc2\xa0 图\\", "\n"));
    assert_ok(buffer_text(&text, &shown));
    assert_string_equal(shown, "a\\x1b[2J\\x09b\\x0d\n\\x7f\\xc2\\x9b\xc2\xa0 图\\");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_shell_reads_it),
        cmocka_unit_test(test_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
