#include "tests/test.h"

#include <math.h>

#include "base/bytes.h"
#include "base/random.h"
#include "train/safetensors.h"

static struct status sink_buffer(const void *bytes, size_t length, void *context)
{
    return buffer_append(context, bytes, length);
}

/* A file from header text and data of `data_bytes` bytes that count up from 0. */
static void file_make(const char *header, size_t data_bytes, struct buffer *file)
{
    file->length = 0;
    assert_ok(buffer_append_le64(file, strlen(header)));
    assert_ok(buffer_append(file, header, strlen(header)));
    for (size_t i = 0; i < data_bytes; i++)
        assert_ok(buffer_append_u8(file, (uint8_t)i));
}

static void expect_bad(const char *header, size_t data_bytes, const char *part)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    file_make(header, data_bytes, &bytes);
    struct status status = safetensors_parse(bytes.data, bytes.length, "f", &file);
    assert_true(status.code == STATUS_CORRUPT || status.code == STATUS_UNSUPPORTED);
    assert_null(file);
    if (!strstr(status.message, part))
        fail_msg("'%s' was expected in: %s", part, status.message);
    status_clear(&status);
}

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    const float values[6] = {1, -2.5f, 1e-30f, INFINITY, 0, 7};
    const int64_t counter = 5004;
    const struct safetensor tensors[] = {
        {.name = "a.weight",
         .dtype = TENSOR_DTYPE_F32,
         .rank = 2,
         .shape = {2, 3},
         .count = 6,
         .data = values},
        {.name = "a.count", .dtype = TENSOR_DTYPE_I64, .rank = 0, .count = 1, .data = &counter},
        {.name = "none",
         .dtype = TENSOR_DTYPE_F32,
         .rank = 1,
         .shape = {0},
         .count = 0,
         .data = values},
    };
    struct json *metadata = json_object_new();
    json_set_string(metadata, "format", "pt");
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    assert_ok(safetensors_write(tensors, 3, metadata, sink_buffer, &bytes));
    assert_int_equal(load_le64(bytes.data) % 8, 0);
    assert_ok(safetensors_parse(bytes.data, bytes.length, "f", &file));
    assert_int_equal(safetensors_count(file), 3);
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    assert_null(safetensors_metadata(file, "other"));
    const struct safetensor *weight = safetensors_find(file, "a.weight");
    float read[6];
    int64_t read_counter;
    assert_int_equal(weight->rank, 2);
    assert_int_equal(weight->shape[1], 3);
    assert_ok(safetensor_read(weight, read));
    assert_memory_equal(read, values, sizeof values);
    assert_ok(safetensor_read_integer(safetensors_find(file, "a.count"), &read_counter));
    assert_int_equal(read_counter, counter);
    assert_fails(safetensor_read_integer(weight, &read_counter), STATUS_CORRUPT, "one I64");
    assert_null(safetensors_find(file, "a"));
}

static void test_other_dtypes_are_converted(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    file_make("{\"h\":{\"dtype\":\"F16\",\"shape\":[6],\"data_offsets\":[0,12]},"
              "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]},"
              "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[16,24]},"
              "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]}}",
              27, &bytes);
    uint8_t *data = bytes.data + bytes.length - 27;
    const uint16_t halves[8] = {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7c00, 0x7bff, 0x3f80, 0xc049};
    for (int i = 0; i < 8; i++)
        store_le16(data + 2 * i, halves[i]);
    store_le64(data + 16, 0x3fd5555555555555);
    assert_ok(safetensors_parse(bytes.data, bytes.length, "f", &file));
    float values[6];
    assert_ok(safetensor_read(safetensors_find(file, "h"), values));
    const float expected[6] = {1, -2, 0x1p-24f, -1023 * 0x1p-24f, INFINITY, 65504};
    assert_memory_equal(values, expected, sizeof expected);
    assert_ok(safetensor_read(safetensors_find(file, "b"), values));
    assert_true(values[0] == 1 && values[1] == -3.140625f);
    assert_ok(safetensor_read(safetensors_find(file, "d"), values));
    assert_true(values[0] == (float)(1 / 3.));
    assert_fails(safetensor_read(safetensors_find(file, "u"), values), STATUS_UNSUPPORTED, "'u'");
}

static void test_false_descriptions_are_refused(void **state)
{
    (void)state;
    expect_bad("", 0, "f");
    expect_bad("[]", 4, "bytes of data");
    expect_bad("{\"a\":1}", 0, "dtype");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape");
    expect_bad("{\"a\":{\"dtype\":\"Q7\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "Q7");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "-1");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "'a'");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "hold");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "'a'");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
               "4 bytes long");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5,
               "5 bytes of data");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5, "begins at");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
               "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
               6, "begins at");
    expect_bad(
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
        "2^64");
    expect_bad("{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}",
               0, "hold");
    expect_bad("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
               4, "9 dimensions");
}

static void test_a_pytorch_file_gets_the_line_that_converts_it(void **state)
{
    (void)state;
    struct safetensors *file = NULL;
    assert_fails(safetensors_parse("PK\3\4rest", 8, "w.pth", &file), STATUS_UNSUPPORTED,
                 "save_file");
    assert_fails(safetensors_parse("\x80\2}q", 4, "w.pth", &file), STATUS_UNSUPPORTED, "'w.pth'");
    assert_fails(safetensors_parse("abc", 3, "w", &file), STATUS_CORRUPT, "3 bytes");
    assert_fails(safetensors_parse("\x80\xff\xff\xff\xff\xff\xff\xff\1", 9, "w", &file),
                 STATUS_CORRUPT, "header of");
}

/* Every truncation fails; every changed byte either fails or leaves a file that can be read whole.
 */
static void test_mutations_are_harmless(void **state)
{
    (void)state;
    const float values[4] = {1, 2, 3, 4};
    const struct safetensor tensors[] = {
        {.name = "x",
         .dtype = TENSOR_DTYPE_F32,
         .rank = 1,
         .shape = {3},
         .count = 3,
         .data = values},
        {.name = "y",
         .dtype = TENSOR_DTYPE_F32,
         .rank = 2,
         .shape = {1, 4},
         .count = 4,
         .data = values},
    };
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(safetensors_write(tensors, 2, NULL, sink_buffer, &bytes));
    for (size_t length = 0; length < bytes.length; length++) {
        struct safetensors *file = NULL;
        CLEANUP(memory_free)
        uint8_t *copy = NULL; /* so that a sanitizer sees each read past the end */
        assert_ok(memory_alloc(length, 1, &copy));
        memcpy(copy, bytes.data, length);
        struct status status = safetensors_parse(copy, length, "f", &file);
        assert_int_equal(status.code, STATUS_CORRUPT);
        status_clear(&status);
    }
    struct random_stream stream = random_stream_make(1, RANDOM_TEST, 0, 0);
    for (int i = 0; i < 20000; i++) {
        CLEANUP(safetensors_close) struct safetensors *file = NULL;
        size_t at = random_below(&stream, bytes.length);
        uint8_t old = bytes.data[at];
        bytes.data[at] = (uint8_t)random_u32(&stream);
        struct status status = safetensors_parse(bytes.data, bytes.length, "f", &file);
        for (size_t j = 0; status.code == STATUS_DONE && j < safetensors_count(file); j++) {
            float read[16];
            assert_true(safetensors_at(file, j)->count <= 16);
            status_ignore(safetensor_read(safetensors_at(file, j), read));
        }
        status_ignore(status);
        bytes.data[at] = old;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_other_dtypes_are_converted),
        cmocka_unit_test(test_false_descriptions_are_refused),
        cmocka_unit_test(test_a_pytorch_file_gets_the_line_that_converts_it),
        cmocka_unit_test(test_mutations_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
