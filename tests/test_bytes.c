#include "tests/test.h"

#include "base/bytes.h"

static void numbers_are_little_endian_at_any_address(void **state)
{
    (void)state;
    uint8_t bytes[11] = {0};
    store_le64(bytes + 1, 0x0102030405060708);
    const uint8_t expected[] = {0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0};
    assert_memory_equal(bytes, expected, sizeof bytes);
    assert_int_equal(load_le64(bytes + 1), 0x0102030405060708);
    assert_int_equal(load_le32(bytes + 3), 0x03040506);
    assert_int_equal(load_le16(bytes + 7), 0x0102);
}

static void buffer_holds_what_was_appended(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer buffer = {0};
    assert_ok(buffer_append_u8(&buffer, 0xab));
    assert_ok(buffer_append_le16(&buffer, 0x1234));
    assert_ok(buffer_append_le32(&buffer, 0x89abcdef));
    assert_ok(buffer_append_le64(&buffer, UINT64_MAX - 1));
    assert_ok(buffer_append(&buffer, NULL, 0));
    assert_int_equal(buffer.length, 15);

    struct reader reader = reader_make(buffer.data, buffer.length);
    assert_int_equal(reader_u8(&reader), 0xab);
    assert_int_equal(reader_le16(&reader), 0x1234);
    assert_int_equal(reader_le32(&reader), 0x89abcdef);
    assert_int_equal(reader_le64(&reader), UINT64_MAX - 1);
    assert_int_equal(reader_left(&reader), 0);
    assert_false(reader.overrun);
}

static void buffer_makes_text(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const char *text;
    assert_ok(buffer_text(&buffer, &text));
    assert_string_equal(text, "");
    for (int i = 0; i < 300; i++)
        assert_ok(buffer_append_text(&buffer, "%d,", i));
    assert_ok(buffer_text(&buffer, &text));
    assert_int_equal(strlen(text), buffer.length);
    assert_string_equal(text + buffer.length - 8, "298,299,");
}

static void resized_bytes_are_zero(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer buffer = {0};
    assert_ok(buffer_append(&buffer, "abcd", 4));
    assert_ok(buffer_resize(&buffer, 1));
    assert_ok(buffer_resize(&buffer, 100));
    assert_int_equal(buffer.data[0], 'a');
    for (int i = 1; i < 100; i++)
        assert_int_equal(buffer.data[i], 0);
}

static void ceiling_stops_growth(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer buffer = {.ceiling_bytes = 100};
    assert_ok(buffer_resize(&buffer, 100));
    assert_fails(buffer_append_u8(&buffer, 1), STATUS_NO_MEMORY, "limit of 100");
    assert_fails(buffer_append(&buffer, "", SIZE_MAX), STATUS_NO_MEMORY, "overflows");
    assert_int_equal(buffer.length, 100);

    CLEANUP(buffer_done) struct buffer usual = {0};
    assert_fails(buffer_reserve(&usual, ((size_t)1 << 30) + 1), STATUS_NO_MEMORY, "limit");
}

static void reader_never_leaves_its_bounds(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3};
    struct reader reader = reader_make(bytes, sizeof bytes);
    assert_int_equal(reader_le32(&reader), 0);
    assert_true(reader.overrun);
    assert_int_equal(reader.position, 0); /* nothing moved */
    assert_int_equal(reader_le16(&reader), 0x0201);
    assert_true(reader.overrun); /* remembered */
    assert_null(reader_take(&reader, SIZE_MAX));
    assert_ptr_equal(reader_take(&reader, 1), bytes + 2);
    assert_non_null(reader_take(&reader, 0));
    assert_int_equal(reader_u8(&reader), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_little_endian_at_any_address),
        cmocka_unit_test(buffer_holds_what_was_appended),
        cmocka_unit_test(buffer_makes_text),
        cmocka_unit_test(resized_bytes_are_zero),
        cmocka_unit_test(ceiling_stops_growth),
        cmocka_unit_test(reader_never_leaves_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
