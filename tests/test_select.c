#include "tests/test.h"

#include <inttypes.h>

#include "index/select.h"
#include "tests/support/index_set.h"

/* 120 records in classes n0000 … n0005, twenty of each: 0.JPEG … 119.JPEG. */
static struct source *make_source(void)
{
    return index_set_make(test_path("shard"), 120, 6);
}

static struct source *run(const struct source *source, const struct select_options *options,
                          struct source **rest)
{
    struct source *selected;
    assert_ok(select_run(source, options, &selected, rest));
    return selected;
}

static int64_t find(const struct source *source, const char *name)
{
    for (size_t i = 0; i < source->item_count; i++) {
        if (strcmp(source->items[i].name, name) == 0)
            return (int64_t)i;
    }
    return -1;
}

/* Every record of the whole is in exactly one of the parts, with its place unchanged. */
static void assert_partition(const struct source *whole, const struct source *a,
                             const struct source *b)
{
    assert_int_equal(a->item_count + b->item_count, whole->item_count);
    for (size_t i = 0; i < whole->item_count; i++) {
        int64_t in_a = find(a, whole->items[i].name), in_b = find(b, whole->items[i].name);
        assert_true((in_a < 0) != (in_b < 0));
        const struct source_item *item = in_a >= 0 ? &a->items[in_a] : &b->items[in_b];
        assert_int_equal(item->offset, whole->items[i].offset);
        assert_int_equal(item->crc32c, whole->items[i].crc32c);
    }
}

static void splits_by_share_and_seed(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    static const double shares[] = {0.01, 0.3, 0.5, 0.99};
    for (size_t i = 0; i < ARRAY_LENGTH(shares); i++) {
        const struct select_options options = {.split = shares[i], .seed = 4};
        CLEANUP(source_free) struct source *rest = NULL;
        CLEANUP(source_free) struct source *part = run(source, &options, &rest);
        assert_int_equal(part->item_count, (size_t)(120 * shares[i] + .5));
        assert_partition(source, part, rest);
        assert_int_equal(class_table_hash(part->classes), class_table_hash(source->classes));
        if (shares[i] == 0.3) {
            for (uint32_t label = 0; label < 6; label++) {
                size_t count = 0;
                for (size_t k = 0; k < part->item_count; k++)
                    count += part->items[k].label == label;
                assert_int_equal(count, 6);
            }
        }
    }
    const struct select_options options = {.split = .5, .seed = 4},
                                other = {.split = .5, .seed = 5};
    CLEANUP(source_free) struct source *a = run(source, &options, NULL);
    CLEANUP(source_free) struct source *b = run(source, &options, NULL);
    CLEANUP(source_free) struct source *c = run(source, &other, NULL);
    size_t same = 0;
    for (size_t i = 0; i < a->item_count; i++) {
        assert_string_equal(a->items[i].name, b->items[i].name);
        same += find(c, a->items[i].name) >= 0;
    }
    assert_in_range(same, 10, 50);
}

static void takes_every_nth_and_the_first_of_each_class(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    const struct select_options every = {.every = 7};
    CLEANUP(source_free) struct source *nth = run(source, &every, NULL);
    assert_int_equal(nth->item_count, 18);
    for (size_t i = 0; i < nth->item_count; i++)
        assert_string_equal(nth->items[i].name, source->items[7 * i].name);

    const struct select_options first = {.every = 2, .per_class = 3};
    CLEANUP(source_free) struct source *rest = NULL;
    CLEANUP(source_free) struct source *few = run(source, &first, &rest);
    assert_int_equal(few->item_count, 18);
    assert_string_equal(few->items[1].name, source->items[2].name);
    assert_string_equal(few->items[3].name, source->items[20].name);
    assert_partition(source, few, rest);
}

static void takes_classes(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    CLEANUP(text_list_done) struct text_list keys = {0};
    assert_ok(text_list_add(&keys, "n0004"));
    assert_ok(text_list_add(&keys, "n0001"));
    struct select_options options = {.classes = &keys, .classes_name = "keys"};
    CLEANUP(source_free) struct source *two = run(source, &options, NULL);
    assert_int_equal(two->item_count, 40);
    assert_int_equal(class_table_count(two->classes), 2);
    assert_string_equal(class_table_at(two->classes, 1)->wnid, "n0004");
    assert_string_equal(class_table_at(two->classes, 1)->words, "some, words");
    assert_int_equal(two->items[39].label, 1);

    options.keep_classes = true;
    CLEANUP(source_free) struct source *kept = run(source, &options, NULL);
    assert_int_equal(kept->item_count, 40);
    assert_int_equal(class_table_count(kept->classes), 6);
    assert_int_equal(kept->items[39].label, 4);

    struct source *none = NULL;
    assert_ok(text_list_add(&keys, "n9"));
    assert_fails(select_run(source, &options, &none, NULL), STATUS_NOT_FOUND, "no class 'n9'");
}

static void takes_names(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    CLEANUP(text_list_done) struct text_list names = {0};
    assert_ok(file_write_plain(test_path("names"), "77.JPEG\nn0000/3.JPEG\n77.JPEG\n", 29));
    assert_ok(text_list_read(test_path("names"), &names));
    const struct select_options options = {.names = &names, .names_name = "names"};
    CLEANUP(source_free) struct source *rest = NULL;
    CLEANUP(source_free) struct source *part = run(source, &options, &rest);
    assert_int_equal(part->item_count, 2);
    assert_string_equal(part->items[0].name, "3.JPEG");
    assert_partition(source, part, rest);

    CLEANUP(text_list_done) struct text_list wrong = {0};
    assert_ok(file_write_plain(test_path("names"), "77.JPEG\nn0001/3.JPEG\n", 21));
    assert_ok(text_list_read(test_path("names"), &wrong));
    const struct select_options bad = {.names = &wrong, .names_name = "names"};
    struct source *none = NULL;
    assert_fails(select_run(source, &bad, &none, NULL), STATUS_NOT_FOUND,
                 "'names' line 2: there is no record 'n0001/3.JPEG'");
}

static void an_empty_part_is_an_error(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    struct source *part = NULL, *rest = NULL;
    const struct select_options all = {.split = 1}, none = {.split = 1e-6};
    assert_fails(select_run(source, &all, &part, &rest), STATUS_NOT_FOUND, "what the selection");
    assert_fails(select_run(source, &none, &part, NULL), STATUS_NOT_FOUND, "the selection has no");
    assert_null(part);
}

static void merges_by_key(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    const struct select_options half = {.split = .5};
    struct source *parts[2];
    parts[0] = run(source, &half, &parts[1]);
    CLEANUP(source_free) struct source *whole = NULL;
    assert_ok(select_merge(parts, 2, &whole));
    assert_int_equal(whole->shard_count, 1);
    assert_int_equal(whole->item_count, 120);
    for (size_t i = 0; i < 120; i++) {
        assert_string_equal(whole->items[i].name, source->items[i].name);
        assert_int_equal(whole->items[i].label, source->items[i].label);
    }

    /* Other classes move the labels; the same records twice are refused. */
    CLEANUP(source_free) struct source *more = index_set_make(test_path("more"), 30, 3);
    static const struct class_entry entries[] = {{"m", "", 0}, {"n0002", "", 0}, {"z", "", 0}};
    class_table_free(more->classes);
    assert_ok(class_table_make(entries, 3, &more->classes));
    struct source *both[2] = {more, source}, *twice[2] = {source, source}, *none = NULL;
    CLEANUP(source_free) struct source *united = NULL;
    for (size_t i = 10; i < 20; i++) /* those would collide in n0002 */
        more->items[i].name = "x";
    more->item_count = 11;
    assert_ok(select_merge(both, 2, &united));
    assert_int_equal(class_table_count(united->classes), 8);
    assert_int_equal(united->shard_count, 2);
    assert_string_equal(class_table_at(united->classes, 3)->words, "some, words");
    assert_int_equal(united->items[find(united, "x")].label, 3);
    assert_fails(select_merge(twice, 2, &none), STATUS_CORRUPT, "two images named");
    source_free(parts[0]);
    source_free(parts[1]);
}

static void relabels(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = make_source();
    CLEANUP(text_list_done) struct text_list map = {0};
    assert_ok(text_list_add(&map, "n0000 pet a tame animal"));
    assert_ok(text_list_add(&map, "n0005\tpet"));
    assert_ok(text_list_add(&map, "n0002  a"));
    CLEANUP(source_free) struct source *pets = NULL;
    assert_ok(select_relabel(source, &map, "map", &pets));
    assert_int_equal(class_table_count(pets->classes), 5);
    int64_t pet = class_table_find(pets->classes, "pet");
    assert_string_equal(class_table_at(pets->classes, (size_t)pet)->words, "a tame animal");
    assert_int_equal(pets->items[find(pets, "3.JPEG")].label, pet);
    assert_int_equal(pets->items[find(pets, "119.JPEG")].label, pet);
    assert_int_equal(pets->items[find(pets, "41.JPEG")].label, 0);

    struct source *none = NULL;
    assert_ok(text_list_add(&map, "n7 x"));
    assert_fails(select_relabel(source, &map, "map", &none), STATUS_NOT_FOUND, "no class 'n7'");
    CLEANUP(text_list_done) struct text_list twice = {0};
    assert_ok(text_list_add(&twice, "n0001 x"));
    assert_ok(text_list_add(&twice, "n0001 x"));
    assert_ok(text_list_add(&twice, "n0001 y"));
    assert_fails(select_relabel(source, &twice, "map", &none), STATUS_CORRUPT,
                 "'n0001' was given the key 'x' before");
    CLEANUP(text_list_done) struct text_list alone = {0};
    assert_ok(text_list_add(&alone, "n0001"));
    assert_fails(select_relabel(source, &alone, "map", &none), STATUS_CORRUPT, "KEY NEWKEY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_by_share_and_seed),
        cmocka_unit_test(takes_every_nth_and_the_first_of_each_class),
        cmocka_unit_test(takes_classes),
        cmocka_unit_test(takes_names),
        cmocka_unit_test(an_empty_part_is_an_error),
        cmocka_unit_test(merges_by_key),
        cmocka_unit_test(relabels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
