#include "tests/test.h"

#include <math.h>

#include "base/bytes.h"
#include "prep/devkit.h"
#include "prep/meta_mat.h"
#include "tests/support/devkit.h"
#include "tests/support/shell.h"

/* IDs in another order than WNIDs; two classes share their words. */
static const struct test_synset three[] = {
    {1, "n03000000", "crane", 0, 300},
    {2, "n01000000", "crane", 0, 100},
    {3, "n02000000", "tench, Tinca tinca", 0, 1300},
    {4, "n00000001", "entity", 2, 0},
};

static void make_folder(void)
{
    assert_ok(folder_remove(test_path("kit")));
    test_devkit_write(test_path("kit"), three, 4, "1\n2\n3\n3\n");
}

static void check_three(const char *path)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    assert_ok(devkit_open(path, &devkit));
    const struct class_table *classes = devkit_classes(devkit);
    assert_int_equal(class_table_count(classes), 3);
    assert_string_equal(class_table_at(classes, 0)->wnid, "n01000000");
    assert_string_equal(class_table_at(classes, 1)->words, "tench, Tinca tinca");
    assert_int_equal(class_table_at(classes, 1)->train_images, 1300);
    assert_int_equal(devkit_label_of_id(devkit, 1), 2);
    assert_int_equal(devkit_label_of_id(devkit, 2), 0);
    assert_int_equal(devkit_label_of_id(devkit, 0), -1);
    assert_int_equal(devkit_label_of_id(devkit, 4), -1);
    assert_int_equal(devkit_val_count(devkit), 4);
    assert_int_equal(devkit_val_count_of(devkit, 1), 2);
    uint32_t label;
    assert_ok(devkit_label_of_name(devkit, "ILSVRC2012_val_00000003.JPEG", &label));
    assert_int_equal(label, 1);
    assert_ok(devkit_label_of_name(devkit, "ILSVRC2012_val_00000001_n03000000.jpeg", &label));
    assert_int_equal(label, 2);
}

static void test_places(void **state)
{
    (void)state;
    make_folder();
    char command[2048];
    const char *kit = test_path("kit");
    check_three(kit);
    check_three(test_path("kit/ILSVRC2012_devkit_t12"));
    check_three(test_path("kit/ILSVRC2012_devkit_t12/data"));
    check_three(test_path("kit/ILSVRC2012_devkit_t12/data/meta.mat"));
    snprintf(command, sizeof command,
             "cd %s && mkdir -p down && tar cf kit.tar ILSVRC2012_devkit_t12 && "
             "tar czf down/ILSVRC2012_devkit_t12.tar.gz ILSVRC2012_devkit_t12 && "
             "cp down/ILSVRC2012_devkit_t12.tar.gz odd",
             kit);
    assert_int_equal(test_shell(command), 0);
    check_three(test_path("kit/kit.tar"));
    check_three(test_path("kit/odd"));
    check_three(test_path("kit/down"));
}

static void test_names(void **state)
{
    (void)state;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    uint32_t label;
    make_folder();
    assert_ok(devkit_open(test_path("kit"), &devkit));
    assert_fails(devkit_label_of_name(devkit, "ILSVRC2012_val_00000005.JPEG", &label),
                 STATUS_CORRUPT, "beyond the ground truth, which ends at 4");
    assert_fails(devkit_label_of_name(devkit, "ILSVRC2012_val_00000000.JPEG", &label),
                 STATUS_CORRUPT, "beyond the ground truth");
    assert_fails(devkit_label_of_name(devkit, "n03000000_1.JPEG", &label), STATUS_CORRUPT,
                 "not named like a validation image");
    assert_fails(devkit_label_of_name(devkit, "ILSVRC2012_val_00000001_n01000000.JPEG", &label),
                 STATUS_CORRUPT, "names class n01000000, the ground truth says n03000000");
    assert_fails(devkit_label_of_name(devkit, "ILSVRC2012_val_99999999999999999999.JPEG", &label),
                 STATUS_CORRUPT, "not named like a validation image");
}

static struct status open_with_truth(const char *truth, size_t *ret_count)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    const char *path =
        test_path("kit/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt");
    TRY(file_write_atomic(path, truth, strlen(truth)));
    TRY(devkit_open(test_path("kit"), &devkit));
    *ret_count = devkit_val_count(devkit);
    return OK;
}

static void test_ground_truth(void **state)
{
    (void)state;
    size_t count;
    make_folder();
    static const char *const good[] = {"1\n2\n",
                                       "1\r\n2\r\n",
                                       "\xef\xbb\xbf"
                                       "1\n2\n",
                                       "1\n2\n\n\n",
                                       "1\n2",
                                       "1\r\n2\r\n\r\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        assert_ok(open_with_truth(good[i], &count));
        assert_int_equal(count, 2);
    }
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"1\n12x\n",
         "ground_truth.txt, line 2: found \"12x\", expected an ILSVRC2012_ID from 1 to 3"},
        {"0\n", "line 1: found \"0\""},
        {"1\n2\n3\n4\n", "line 4: found \"4\""},
        {"1\n\n2\n", "line 2: found \"\""},
        {"1\n-1\n", "line 2: found \"-1\""},
        {"1 2 3\n", "line 1: found \"1 2 3\""},
        {"99999999999999999999\n", "line 1"},
        {"", "is empty"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_fails(open_with_truth(bad[i].text, &count), STATUS_CORRUPT, bad[i].part);
}

static struct status parse_file(const char *path)
{
    CLEANUP(synset_list_done) struct synset_list list = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    TRY(file_read_all(path, 1 << 20, &bytes));
    TRY(meta_mat_parse(bytes.data, bytes.length, "meta.mat", &list));
    assert_int_equal(list.count, 4);
    assert_int_equal(list.items[2].train_images, 1300);
    assert_string_equal(list.items[2].words, "tench, Tinca tinca");
    return OK;
}

static void test_meta_forms(void **state)
{
    (void)state;
    const char *path = test_path("meta.mat");
    for (enum test_meta_form form = TEST_META_PLAIN; form < TEST_META_GOOD_FORMS; form++) {
        test_meta_write(path, three, 4, form, NULL);
        assert_ok(parse_file(path));
    }
    test_meta_write(path, three, 4, TEST_META_HDF5, NULL);
    assert_fails(parse_file(path), STATUS_UNSUPPORTED, "MATLAB 7.3");
    static const char *const fields[] = {"ILSVRC2012_ID", "WNID", "words", "num_children",
                                         "num_train_images"};
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        test_meta_write(path, three, 4, TEST_META_PLAIN, fields[i]);
        assert_fails(parse_file(path), STATUS_CORRUPT, "the synsets have no field");
    }
}

static struct status parse_other(enum test_meta_kind kind, size_t rows, size_t columns)
{
    assert_ok(file_remove(test_path("other.mat")));
    test_meta_write_other(test_path("other.mat"), "synsets", kind, rows, columns);
    return parse_file(test_path("other.mat"));
}

/* synsets that are no table, and tables that are no list. */
static void test_meta_other_variables(void **state)
{
    (void)state;
    const char *path = test_path("other.mat");
    assert_fails(parse_other(TEST_META_NUMBERS, 3, 1), STATUS_CORRUPT, "is not a struct array");
    assert_fails(parse_other(TEST_META_TEXT, 1, 8), STATUS_CORRUPT, "is not a struct array");
    assert_fails(parse_other(TEST_META_CELLS, 3, 1), STATUS_CORRUPT, "is not a struct array");
    assert_fails(parse_other(TEST_META_STRUCT, 2, 2), STATUS_CORRUPT, "is not a list");
    assert_fails(parse_other(TEST_META_STRUCT, 0, 1), STATUS_CORRUPT, "has 0 entries");
    assert_fails(parse_other(TEST_META_STRUCT, 2, 1), STATUS_CORRUPT, "have no field ILSVRC");
    assert_ok(file_remove(path));
    test_meta_write_other(path, "classes", TEST_META_NUMBERS, 3, 1);
    assert_fails(parse_file(path), STATUS_CORRUPT, "has no variable named synsets");
    /* Others beside it do not matter. */
    test_meta_write(path, three, 4, TEST_META_PLAIN, NULL);
    test_meta_write_other(path, "classes", TEST_META_NUMBERS, 3, 1);
    assert_ok(parse_file(path));
}

/* Written on another kind of machine: all of its numbers are turned round. */
static void test_meta_big_endian(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(synset_list_done) struct synset_list list = {0};
    test_meta_write(test_path("meta.mat"), three, 4, TEST_META_UNCOMPRESSED, NULL);
    assert_ok(file_read_all(test_path("meta.mat"), 1 << 20, &bytes));
    memcpy(bytes.data + 124, "\1\0MI", 4);
    assert_fails(meta_mat_parse(bytes.data, bytes.length, "meta.mat", &list), STATUS_UNSUPPORTED,
                 "meta.mat is a big-endian MATLAB 5.0 file; the published one is little-endian");
    memcpy(bytes.data + 124, "\0\2IM", 4);
    assert_fails(meta_mat_parse(bytes.data, bytes.length, "meta.mat", &list), STATUS_UNSUPPORTED,
                 "version");
}

static void test_meta_damaged(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    test_meta_write(test_path("meta.mat"), three, 4, TEST_META_PLAIN, NULL);
    assert_ok(file_read_all(test_path("meta.mat"), 1 << 20, &bytes));
    for (size_t at = 136; at < bytes.length; at += 5) {
        CLEANUP(synset_list_done) struct synset_list list = {0};
        bytes.data[at] ^= 0x55;
        assert_fails(meta_mat_parse(bytes.data, bytes.length, "meta.mat", &list), STATUS_CORRUPT,
                     "meta.mat");
        bytes.data[at] ^= 0x55;
    }
}

static void test_meta_cut(void **state)
{
    (void)state;
    const char *path = test_path("meta.mat");
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(synset_list_done) struct synset_list list = {0};
    test_meta_write(path, three, 4, TEST_META_PLAIN, NULL);
    assert_ok(file_read_all(path, 1 << 20, &bytes));
    for (size_t length = 129; length < bytes.length; length += 7)
        assert_fails(meta_mat_parse(bytes.data, length, "meta.mat", &list), STATUS_CORRUPT,
                     "is cut short");
    assert_fails(meta_mat_parse(bytes.data, 100, "meta.mat", &list), STATUS_CORRUPT, "cut short");
    assert_fails(meta_mat_parse(bytes.data, 0, "meta.mat", &list), STATUS_CORRUPT, "empty");
    assert_fails(meta_mat_parse("<html>", 6, "meta.mat", &list), STATUS_CORRUPT, "MATLAB");
}

static struct status open_with_synsets(const struct test_synset *synsets, size_t count)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    assert_ok(folder_remove(test_path("kit")));
    test_devkit_write(test_path("kit"), synsets, count, "1\n");
    return devkit_open(test_path("kit"), &devkit);
}

static void test_bad_tables(void **state)
{
    (void)state;
    struct test_synset bad[4];
#define BROKEN(change, part)                                                                       \
    do {                                                                                           \
        memcpy(bad, three, sizeof bad);                                                            \
        change;                                                                                    \
        assert_fails(open_with_synsets(bad, 4), STATUS_CORRUPT, part);                             \
    } while (0)
    BROKEN(bad[1].id = 1, "ILSVRC2012_ID 1 occurs twice");
    BROKEN(bad[1].wnid = "n03000000", "\"n03000000\" occurs twice");
    BROKEN(bad[1].id = 7, "expected 2: the classes' IDs have to be");
    BROKEN(bad[0].id = 0, "expected 1");
    BROKEN(bad[1].wnid = "", "empty name");
    BROKEN(bad[1].wnid = "../x", "n");
    BROKEN(bad[1].child_count = 1, "expected 2");
    BROKEN(bad[1].id = 1.5, "field ILSVRC2012_ID of synset 2 is not a whole number");
    BROKEN(bad[1].id = -1, "field ILSVRC2012_ID of synset 2 is not a whole number");
    BROKEN(bad[1].train_images = NAN, "field num_train_images of synset 2 is not a whole number");
    BROKEN(bad[3].child_count = 1e300, "field num_children of synset 4 is not a whole number");
#undef BROKEN
    assert_fails(open_with_synsets(three + 3, 1), STATUS_CORRUPT, "has no classes");
}

/* One leaf less than published: a gap in the IDs, or a ground truth that goes beyond them. */
static void test_999_leaves(void **state)
{
    (void)state;
    static struct test_synset leaves[1000];
    static char names[1000][16];
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "n%08d", 7 * i);
        leaves[i] = (struct test_synset){i + 1, names[i], "leaf", 0, 1300};
    }
    assert_ok(folder_remove(test_path("kit")));
    test_devkit_write(test_path("kit"), leaves, 999, "1\n1000\n");
    assert_fails(devkit_open(test_path("kit"), &devkit), STATUS_CORRUPT,
                 "line 2: found \"1000\", expected an ILSVRC2012_ID from 1 to 999");
    test_devkit_write(test_path("kit"), leaves, 999, "1\n999\n");
    assert_ok(devkit_open(test_path("kit"), &devkit));
    assert_int_equal(class_table_count(devkit_classes(devkit)), 999);
    assert_false(devkit_is_published(devkit));
    devkit_free(devkit);
    devkit = NULL;
    memmove(&leaves[500], &leaves[501], 499 * sizeof leaves[0]);
    test_devkit_write(test_path("kit"), leaves, 999, "1\n");
    assert_fails(devkit_open(test_path("kit"), &devkit), STATUS_CORRUPT,
                 "has the ILSVRC2012_ID 502, expected 501");
}

/* Every synset of the published file, as matio reads it. */
static void test_against_matio(void **state)
{
    (void)state;
    CLEANUP(synset_list_done) struct synset_list list = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    char command[2048];
    snprintf(command, sizeof command, "tar -xzf %s -C %s --strip-components=2",
             test_data_path("ILSVRC2012_devkit_t12.tar.gz"), test_folder());
    assert_int_equal(test_shell(command), 0);
    assert_ok(file_read_all(test_path("meta.mat"), 1 << 20, &bytes));
    assert_ok(meta_mat_parse(bytes.data, bytes.length, "meta.mat", &list));
    assert_int_equal(list.count, 1860);
    test_meta_compare(test_path("meta.mat"), &list);
}

static void test_wrong_places(void **state)
{
    (void)state;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    assert_ok(folder_create(test_path("nothing")));
    assert_fails(devkit_open(test_path("nothing"), &devkit), STATUS_NOT_FOUND,
                 "is not a devkit: it has no meta.mat; expected ILSVRC2012_devkit_t12.tar.gz");
    assert_fails(devkit_open(test_path("missing"), &devkit), STATUS_NOT_FOUND, "missing");
    assert_ok(file_write_atomic(test_path("page"), "<html>", 6));
    assert_fails(devkit_open(test_path("page"), &devkit), STATUS_CORRUPT, "an HTML page");
}

static struct status open_kaggle(const char *solution, const char *mapping,
                                 struct devkit **ret_devkit)
{
    devkit_free(*ret_devkit);
    *ret_devkit = NULL;
    TRY(folder_create(test_path("kaggle")));
    TRY(file_write_atomic(test_path("kaggle/LOC_val_solution.csv"), solution, strlen(solution)));
    TRY(file_remove(test_path("kaggle/LOC_synset_mapping.txt")));
    if (mapping)
        TRY(file_write_atomic(test_path("kaggle/LOC_synset_mapping.txt"), mapping,
                              strlen(mapping)));
    return devkit_open(test_path("kaggle"), ret_devkit);
}

/* Kaggle's files in any order; Windows' line ends. */
static void test_kaggle(void **state)
{
    (void)state;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    static const char mapping[] = "n03000000 c, third\nn01000000 crane\nn02000000 crane\n";
    uint32_t label;
    assert_ok(open_kaggle("ImageId,PredictionString\r\n"
                          "ILSVRC2012_val_00000003,n03000000 85 1 499 272 \r\n"
                          "ILSVRC2012_val_00000001,n02000000 0 0 9 9 n02000000 1 1 2 2\r\n"
                          "ILSVRC2012_val_00000002,n01000000\r\n",
                          mapping, &devkit));
    assert_int_equal(devkit_val_count(devkit), 3);
    assert_int_equal(devkit_val_label(devkit, 1), 1);
    assert_int_equal(devkit_val_label(devkit, 3), 2);
    assert_int_equal(devkit_val_count_of(devkit, 0), 1);
    assert_string_equal(class_table_at(devkit_classes(devkit), 2)->words, "c, third");
    assert_ok(devkit_label_of_name(devkit, "ILSVRC2012_val_00000002.JPEG", &label));
    assert_int_equal(label, 0);
    assert_false(devkit_is_published(devkit));
    devkit_free(devkit);
    devkit = NULL;
    assert_ok(devkit_open(test_path("kaggle/LOC_val_solution.csv"), &devkit));
    assert_int_equal(devkit_val_count(devkit), 3);

    static const struct {
        const char *solution, *part;
    } bad[] = {
        {"ILSVRC2012_val_00000001,n09000000 1\n", "line 1: n09000000 is none of the 3 classes"},
        {"ImageId,PredictionString\nILSVRC2012_val_00000002,n01000000\n",
         "line 2: image ILSVRC2012_val_00000002, but the file lists only 1, so others are missing"},
        {"ILSVRC2012_val_00000001,n01000000\nILSVRC2012_val_00000001,n01000000\n",
         "line 2: image ILSVRC2012_val_00000001,n01000000 is listed twice"},
        {"ILSVRC2012_val_00000001 n01000000\n",
         "line 1: found \"ILSVRC2012_val_00000001 n01000000"},
        {"ILSVRC2012_val_00000000,n01000000\n", "line 1: found"},
        {"ImageId,PredictionString\n", "has no images"},
        {"", "has no images"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_fails(open_kaggle(bad[i].solution, mapping, &devkit), STATUS_CORRUPT, bad[i].part);
    static const char good[] = "ILSVRC2012_val_00000001,n01440764 1 2 3 4\n";
    assert_fails(open_kaggle(good, "n0144076 tench\n", &devkit), STATUS_CORRUPT,
                 "LOC_synset_mapping.txt, line 1: found \"n0144076 tench\"");
    assert_fails(open_kaggle(good, "n01440764 tench\nn01440764 tench\n", &devkit), STATUS_CORRUPT,
                 "occurs twice");
    assert_ok(open_kaggle(good, NULL, &devkit));
    assert_int_equal(class_table_count(devkit_classes(devkit)), 1000);
    assert_int_equal(devkit_val_label(devkit, 1), 0);
}

static void test_published_devkit(void **state)
{
    (void)state;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    assert_ok(devkit_open(test_data_path("ILSVRC2012_devkit_t12.tar.gz"), &devkit));
    const struct class_table *classes = devkit_classes(devkit);
    const struct class_table *built_in = class_table_ilsvrc2012();
    assert_int_equal(class_table_hash(classes), class_table_hash(built_in));
    uint64_t images = 0;
    for (size_t i = 0; i < ILSVRC2012_CLASSES; i++) {
        const struct class_entry *entry = class_table_at(classes, i);
        assert_string_equal(entry->words, class_table_at(built_in, i)->words);
        assert_int_equal(entry->train_images, class_table_at(built_in, i)->train_images);
        assert_int_equal(devkit_val_count_of(devkit, (uint32_t)i), ILSVRC2012_VAL_IMAGES_PER_CLASS);
        images += entry->train_images;
    }
    assert_int_equal(images, ILSVRC2012_TRAIN_IMAGES);
    assert_int_equal(devkit_val_count(devkit), ILSVRC2012_VAL_IMAGES);
    assert_true(devkit_is_published(devkit));
    static const uint32_t labels[] = {65, 970, 230, 809, 516};
    for (size_t i = 0; i < ARRAY_LENGTH(labels); i++)
        assert_int_equal(devkit_val_label(devkit, i + 1), labels[i]);
    assert_int_equal(devkit_val_label(devkit, 293), 0);
    assert_string_equal(class_table_at(classes, 0)->wnid, "n01440764");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kaggle),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_ground_truth),
        cmocka_unit_test(test_meta_forms),
        cmocka_unit_test(test_meta_cut),
        cmocka_unit_test(test_meta_other_variables),
        cmocka_unit_test(test_meta_big_endian),
        cmocka_unit_test(test_meta_damaged),
        cmocka_unit_test(test_999_leaves),
        cmocka_unit_test(test_bad_tables),
        cmocka_unit_test(test_against_matio),
        cmocka_unit_test(test_wrong_places),
        cmocka_unit_test(test_published_devkit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
