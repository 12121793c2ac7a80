#include "tests/test.h"

#include <math.h>

#include "base/json.h"
#include "base/random.h"

static void assert_written(const struct json *value, bool indented, const char *expected)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *string;
    assert_ok(json_write(value, indented, &text));
    assert_ok(buffer_text(&text, &string));
    assert_string_equal(string, expected);
}

static struct json *parsed(const char *text)
{
    struct json *value = NULL;
    assert_ok(json_parse(text, strlen(text), "test", &value));
    return value;
}

static void keys_keep_their_order(void **state)
{
    (void)state;
    CLEANUP(json_free) struct json *object = json_object_new();
    struct json *array = json_array_new();
    json_set_string(object, "zebra", "a \"b\"\n");
    json_set_integer(object, "apple", INT64_MIN);
    json_set_boolean(object, "mango", true);
    json_set_real(object, "real", 0.5);
    json_set_real(object, "nan", NAN);
    json_set_string(object, "none", NULL);
    json_append_string(array, "x");
    json_append_integer(array, 2);
    json_append_real(array, -INFINITY);
    json_append(array, json_object_new());
    json_set(object, "array", array);
    assert_written(
        object, false,
        "{\"zebra\": \"a \\\"b\\\"\\n\", \"apple\": -9223372036854775808, \"mango\": true, "
        "\"real\": 0.5, \"nan\": null, \"none\": null, \"array\": [\"x\", 2, null, {}]}");
    assert_string_equal(json_key_at(object, 0), "zebra");
    assert_string_equal(json_key_at(object, 6), "array");
    assert_null(json_key_at(object, 7));

    CLEANUP(json_free) struct json *small = parsed("{\"b\":[1],\"a\":{}}");
    assert_written(small, true, "{\n  \"b\": [\n    1\n  ],\n  \"a\": {}\n}");
}

static void bad_bytes_are_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"図 ü 🂡", "図 ü 🂡"},
        {"a\xff"
         "b",
         "a\uFFFD"
         "b"},
        {"\xc3", "\uFFFD"},                               /* cut short */
        {"\xe2\x82", "\uFFFD\uFFFD"},                     /* cut short */
        {"\xc0\xaf", "\uFFFD\uFFFD"},                     /* overlong */
        {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},           /* a surrogate */
        {"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"}, /* above U+10FFFF */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(json_free) struct json *object = json_object_new();
        CLEANUP(buffer_done) struct buffer text = {0};
        json_set_string(object, "k", cases[i].text);
        json_set_string(object, cases[i].text, "v");
        const char *value;
        assert_ok(json_get_string(object, "k", &value));
        assert_string_equal(value, cases[i].expected);
        assert_string_equal(json_key_at(object, 1), cases[i].expected);
        assert_ok(json_write(object, false, &text));
    }
}

static void doubles_come_back(void **state)
{
    (void)state;
    struct random_stream random = random_stream_make(2, RANDOM_TEST, 0, 0);
    for (int i = 0; i < 1000; i++) {
        double before, after;
        uint64_t bits = random_u64(&random);
        memcpy(&before, &bits, sizeof before);
        if (!isfinite(before))
            continue;
        CLEANUP(json_free) struct json *object = json_object_new();
        CLEANUP(json_free) struct json *again = NULL;
        CLEANUP(buffer_done) struct buffer text = {0};
        json_set_real(object, "v", before);
        assert_ok(json_write(object, false, &text));
        assert_ok(json_parse(text.data, text.length, "test", &again));
        assert_ok(json_get_real(again, "v", &after));
        assert_memory_equal(&before, &after, sizeof before);
    }
}

static void values_are_found(void **state)
{
    (void)state;
    CLEANUP(json_free)
    struct json *object = parsed("{\"s\": \"text\", \"i\": 7, \"r\": 2.5, \"b\": false, \"l\": [1, "
                                 "2.5, \"x\"], \"n\": null}");
    const char *string;
    int64_t integer;
    double real;
    bool boolean;
    size_t length;
    assert_ok(json_get_string(object, "s", &string));
    assert_string_equal(string, "text");
    assert_ok(json_get_integer(object, "i", &integer));
    assert_int_equal(integer, 7);
    assert_ok(json_get_real(object, "r", &real));
    assert_true(real == 2.5);
    assert_ok(json_get_real(object, "i", &real)); /* a whole number is a real one too */
    assert_true(real == 7);
    assert_ok(json_get_boolean(object, "b", &boolean));
    assert_false(boolean);
    const struct json *list = json_get(object, "l");
    assert_ok(json_as_array(list, &length));
    assert_int_equal(length, 3);
    assert_int_equal(json_length(object), 6);
    assert_ok(json_as_integer(json_at(list, 0), &integer));
    assert_ok(json_as_real(json_at(list, 1), &real));
    assert_ok(json_as_string(json_at(list, 2), &string));
    assert_null(json_at(list, 3));
    assert_true(json_is_nothing(json_get(object, "n")));
    assert_true(json_is_nothing(json_get(object, "missing")));
    assert_null(json_get(list, "x"));
}

static void wrong_types_name_the_key(void **state)
{
    (void)state;
    CLEANUP(json_free) struct json *object = parsed("{\"s\": \"text\", \"r\": 2.5}");
    const char *string;
    int64_t integer;
    bool boolean;
    size_t length;
    assert_fails(json_get_integer(object, "s", &integer), STATUS_CORRUPT,
                 "\"s\": expected an integer, found a string");
    assert_fails(json_get_integer(object, "r", &integer), STATUS_CORRUPT,
                 "\"r\": expected an integer");
    assert_fails(json_get_string(object, "none", &string), STATUS_CORRUPT,
                 "\"none\": expected a string, found nothing");
    assert_fails(json_get_boolean(object, "r", &boolean), STATUS_CORRUPT, "found a number");
    assert_fails(json_as_array(object, &length), STATUS_CORRUPT,
                 "expected an array, found an object");
}

static void bad_text_gives_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\n \"a\": 1,\n}", "'test' is not valid JSON, line 3, column 1"},
        {"", "'test' is not valid JSON, line 1"},
        {"{\"a\": 1} x", "'test' is not valid JSON"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
        {"[1e999]", "overflow"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct json *value = NULL;
        assert_fails(json_parse(cases[i].text, strlen(cases[i].text), "test", &value),
                     STATUS_CORRUPT, cases[i].message);
        assert_null(value);
    }
    CLEANUP(memory_free) char *deep = NULL;
    assert_ok(memory_alloc(100000, 1, &deep));
    memset(deep, '[', 100000);
    struct json *value = NULL;
    assert_fails(json_parse(deep, 100000, "test", &value), STATUS_CORRUPT, "depth");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_keep_their_order),
        cmocka_unit_test(bad_bytes_are_replaced),
        cmocka_unit_test(doubles_come_back),
        cmocka_unit_test(values_are_found),
        cmocka_unit_test(wrong_types_name_the_key),
        cmocka_unit_test(bad_text_gives_line_and_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
