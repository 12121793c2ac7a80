#include "tests/test.h"

static void blocks_are_zeroed_and_products_checked(void **state)
{
    (void)state;
    CLEANUP(memory_free) uint32_t *numbers = NULL;
    assert_ok(memory_alloc(1000, sizeof *numbers, &numbers));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], 0);

    CLEANUP(memory_free) char *none = NULL;
    assert_ok(memory_alloc(0, 1, &none));
    assert_non_null(none);

    void *huge = NULL;
    assert_fails(memory_alloc(SIZE_MAX / 2, 4, &huge), STATUS_NO_MEMORY, "cannot allocate");
    assert_fails(memory_resize(SIZE_MAX / 2, 4, &huge), STATUS_NO_MEMORY, "cannot allocate");
    assert_null(huge);
}

static void growing_keeps_what_is_there(void **state)
{
    (void)state;
    CLEANUP(memory_free) size_t *numbers = NULL;
    size_t capacity = 0, moves = 0;
    for (size_t i = 0; i < 10000; i++) {
        size_t before = capacity;
        assert_ok(memory_grow(i + 1, sizeof *numbers, &numbers, &capacity));
        moves += capacity != before;
        numbers[i] = i;
    }
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(numbers[i], i);
    assert_true(moves < 30); /* geometric */
}

static void tensors_are_aligned_and_zeroed(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 64, 4096, ((size_t)2 << 20) + 5};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        CLEANUP(memory_free) uint8_t *block = NULL;
        assert_ok(memory_alloc_tensor(sizes[i], &block));
        assert_int_equal((uintptr_t)block % (sizes[i] >= (size_t)2 << 20 ? (size_t)2 << 20 : 64),
                         0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(block[k], 0);
    }
    void *huge = NULL;
    assert_fails(memory_alloc_tensor(SIZE_MAX - 10, &huge), STATUS_NO_MEMORY, "cannot allocate");
}

static void arena_strings_stay_where_they_are(void **state)
{
    (void)state;
    CLEANUP(arena_done) struct arena arena = {0};
    static char long_text[200000];
    memset(long_text, 'x', sizeof long_text - 1);
    const char *first, *longest, *strings[5000];
    assert_ok(arena_copy(&arena, "first and more", 5, &first));
    assert_ok(arena_copy(&arena, long_text, sizeof long_text - 1, &longest));
    for (int i = 0; i < 5000; i++) {
        char text[32];
        int length = snprintf(text, sizeof text, "string number %d", i);
        assert_ok(arena_copy(&arena, text, (size_t)length, &strings[i]));
    }
    assert_string_equal(first, "first");
    assert_string_equal(longest, long_text);
    assert_string_equal(strings[0], "string number 0");
    assert_string_equal(strings[4999], "string number 4999");
}

static void sizes_are_multiplied_and_added_with_checks(void **state)
{
    (void)state;
    uint64_t result;
    assert_true(size_multiply(1u << 31, 1u << 31, &result));
    assert_int_equal(result, (uint64_t)1 << 62);
    assert_false(size_multiply((uint64_t)1 << 32, (uint64_t)1 << 32, &result));
    assert_true(size_add(UINT64_MAX - 1, 1, &result));
    assert_false(size_add(UINT64_MAX, 1, &result));
}

static void the_machine_tells_its_memory(void **state)
{
    (void)state;
    assert_in_range(memory_available_bytes(), 1, memory_installed_bytes());
}

static void strings_are_made_on_the_heap(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *copy = NULL;
    CLEANUP(memory_free) char *text = NULL;
    assert_ok(string_copy("abc", &copy));
    assert_ok(string_format(&text, "%s-%05d", copy, 42));
    assert_string_equal(text, "abc-00042");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_and_products_checked),
        cmocka_unit_test(growing_keeps_what_is_there),
        cmocka_unit_test(tensors_are_aligned_and_zeroed),
        cmocka_unit_test(arena_strings_stay_where_they_are),
        cmocka_unit_test(sizes_are_multiplied_and_added_with_checks),
        cmocka_unit_test(the_machine_tells_its_memory),
        cmocka_unit_test(strings_are_made_on_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
