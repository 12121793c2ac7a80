#include "tests/test.h"

#include "base/bytes.h"
#include "base/digest.h"
#include "image/class_table.h"

static void sorts_by_key_whatever_the_order(void **state)
{
    (void)state;
    const struct class_entry entries[] = {{"n3", "crane", 7}, {"n1", "crane", 9}, {"n2", "", 0}};
    CLEANUP(class_table_free) struct class_table *table = NULL;
    assert_ok(class_table_make(entries, 3, &table));
    assert_int_equal(class_table_count(table), 3);
    assert_string_equal(class_table_at(table, 0)->wnid, "n1");
    assert_int_equal(class_table_at(table, 0)->train_images, 9);
    assert_string_equal(class_table_at(table, 2)->words, "crane");
    assert_int_equal(class_table_find(table, "n3"), 2);
    assert_int_equal(class_table_find(table, "n4"), -1);

    CLEANUP(class_table_free) struct class_table *copy = NULL;
    assert_ok(class_table_copy(table, &copy));
    assert_int_equal(class_table_hash(copy), class_table_hash(table));
    assert_string_equal(class_table_at(copy, 1)->wnid, "n2");
}

static void refuses_bad_keys(void **state)
{
    (void)state;
    struct class_table *table = NULL;
    const struct class_entry twice[] = {{"a", "", 0}, {"b", "", 0}, {"a", "", 0}};
    assert_fails(class_table_make(twice, 3, &table), STATUS_CORRUPT, "\"a\" occurs twice");
    const struct class_entry empty = {"", "", 0};
    assert_fails(class_table_make(&empty, 1, &table), STATUS_CORRUPT, "empty name");
    static const char *const bad[] = {".", "..", "a/b", "/"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        const struct class_entry entry = {bad[i], "", 0};
        assert_fails(class_table_make(&entry, 1, &table), STATUS_CORRUPT, "named \"");
    }
    assert_null(table);
}

static void hash_is_that_of_the_keys_alone(void **state)
{
    (void)state;
    const struct class_entry plain[] = {{"a", "", 0}, {"b", "", 0}};
    const struct class_entry wordy[] = {{"b", "bee", 3}, {"a", "ay", 4}};
    CLEANUP(class_table_free) struct class_table *p = NULL;
    CLEANUP(class_table_free) struct class_table *w = NULL;
    assert_ok(class_table_make(plain, 2, &p));
    assert_ok(class_table_make(wordy, 2, &w));
    uint8_t digest[SHA256_BYTES];
    digest_sha256_bytes("a\nb\n", 4, digest);
    assert_int_equal(class_table_hash(p), load_le64(digest));
    assert_int_equal(class_table_hash(w), load_le64(digest));
}

static void imagenet_is_built_in(void **state)
{
    (void)state;
    const struct class_table *table = class_table_ilsvrc2012();
    assert_int_equal(class_table_count(table), ILSVRC2012_CLASSES);
    assert_string_equal(class_table_at(table, 0)->wnid, "n01440764");
    assert_string_equal(class_table_at(table, 0)->words, "tench, Tinca tinca");
    assert_string_equal(class_table_at(table, 999)->wnid, "n15075141");
    assert_int_equal(class_table_find(table, "n01751748"), 65);
    uint64_t images = 0;
    for (size_t i = 0; i < ILSVRC2012_CLASSES; i++) {
        uint32_t count = class_table_at(table, i)->train_images;
        assert_in_range(count, 732, 1300);
        images += count;
    }
    assert_int_equal(images, ILSVRC2012_TRAIN_IMAGES);

    /* The stored hash and order are those of a table made from the same entries. */
    CLEANUP(class_table_free) struct class_table *copy = NULL;
    assert_ok(class_table_copy(table, &copy));
    assert_int_equal(class_table_hash(copy), class_table_hash(table));
    assert_string_equal(class_table_at(copy, 517)->wnid, class_table_at(table, 517)->wnid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_by_key_whatever_the_order),
        cmocka_unit_test(refuses_bad_keys),
        cmocka_unit_test(hash_is_that_of_the_keys_alone),
        cmocka_unit_test(imagenet_is_built_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
