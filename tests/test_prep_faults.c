#include "tests/test.h"

#include "base/progress.h"
#include "prep/kaggle.h"
#include "prep/kaggle_zip.h"
#include "prep/organize.h"
#include "prep/prep.h"
#include "prep/repair.h"
#include "tests/support/devkit.h"
#include "tests/support/faults.h"
#include "tests/support/imagenet.h"
#include "tests/support/zip.h"

/* Each command that prepares images is killed, or its disk fails, all over its run; run again it
 * ends in the same files, and nothing under a final name was ever half-written. */

static const struct test_synset synsets[] = {
    {1, "n03000000", "c", 0, 3},
    {2, "n01000000", "a", 0, 1},
    {3, "n02000000", "b", 0, 2},
    {4, "n04000000", "d", 0, 4},
};
static const char *const classes[] = {"n01000000", "n02000000", "n03000000", "n04000000"};
static const int val_numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
/* IDs of the images above. */
static const char truth[] = "1\n2\n3\n1\n2\n4\n4\n3\n2\n1\n4\n1\n";
static const char *const val_classes[] = {"n03000000", "n01000000", "n02000000", "n03000000",
                                          "n01000000", "n04000000", "n04000000", "n02000000",
                                          "n01000000", "n03000000", "n04000000", "n03000000"};
#define VAL_COUNT ARRAY_LENGTH(val_numbers)

static struct devkit *devkit;

/* Every image below a folder is whole, and there are at least (or, if `is_all`, exactly) `count`.
 */
static void check_images(const char *folder, size_t count, bool is_all)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    size_t images = 0;
    if (!path_exists(folder))
        return;
    assert_ok(folder_list_read(folder, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(folder_list_done) struct folder_list files = {0};
        const char *class_path = test_join(folder, list.entries[i].name);
        if (list.entries[i].name[0] == '.') {
            assert_false(is_all);
            continue;
        }
        assert_ok(folder_list_read(class_path, &files));
        images += files.count;
        for (size_t k = 0; k < files.count; k++)
            test_check_image(test_join(class_path, files.entries[k].name));
    }
    if (is_all)
        assert_int_equal(images, count);
}

static void check_val_places(const char *folder)
{
    char name[64];
    for (size_t i = 0; i < VAL_COUNT; i++) {
        snprintf(name, sizeof name, "%s/ILSVRC2012_val_%08d.JPEG", val_classes[i], val_numbers[i]);
        assert_true(path_exists(test_join(folder, name)));
    }
}

/* --- prep --- */

static void prep_prepare(void)
{
    assert_ok(folder_remove(test_path("dest")));
}

static struct status prep_run(void)
{
    CLEANUP(prep_result_done) struct prep_result result = {0};
    return prep(&(struct prep_options){.src = test_path("src"),
                                       .dest = test_path("dest"),
                                       .threads = 2},
                &result);
}

static void prep_check(void)
{
    check_images(test_path("dest/train"), 10, true);
    check_images(test_path("dest/val"), VAL_COUNT, true);
    check_val_places(test_path("dest/val"));
}

/* --- prep of Kaggle's zip file, with the same images --- */

static void add_zip_image(struct zip_writer *zip, const char *folder, const char *name)
{
    char path[128], bytes[80];
    snprintf(path, sizeof path, KAGGLE_IMAGES "/%s/%s", folder, name);
    int length = snprintf(bytes, sizeof bytes, "\xff\xd8\xff%s\xff\xd9", name);
    assert_ok(zip_add(zip, path, ZIP_DEFLATED, 0, bytes, (size_t)length));
}

static void zip_write(void)
{
    CLEANUP(zip_writer_done) struct zip_writer zip = {0};
    CLEANUP(buffer_done) struct buffer mapping = {0}, solution = {0};
    char name[64], folder[32];
    for (size_t i = 0; i < ARRAY_LENGTH(classes); i++) {
        assert_ok(buffer_append_text(&mapping, "%s words\n", classes[i]));
        snprintf(folder, sizeof folder, "train/%s", classes[i]);
        for (size_t k = 1; k <= i + 1; k++) {
            snprintf(name, sizeof name, "%s_%zu.JPEG", classes[i], k);
            add_zip_image(&zip, folder, name);
        }
    }
    for (size_t i = 0; i < VAL_COUNT; i++) {
        snprintf(name, sizeof name, "ILSVRC2012_val_%08d.JPEG", val_numbers[i]);
        add_zip_image(&zip, "val", name);
        assert_ok(buffer_append_text(&solution, "ILSVRC2012_val_%08d,%s 1 2 3 4\n", val_numbers[i],
                                     val_classes[i]));
    }
    assert_ok(zip_add(&zip, KAGGLE_MAPPING, ZIP_STORED, 0, mapping.data, mapping.length));
    assert_ok(zip_add(&zip, KAGGLE_SOLUTION, ZIP_STORED, 0, solution.data, solution.length));
    assert_ok(zip_end(&zip, false, ""));
    assert_ok(file_write_plain(test_path("kaggle.zip"), zip.bytes.data, zip.bytes.length));
}

static struct status zip_run(void)
{
    CLEANUP(prep_result_done) struct prep_result result = {0};
    return prep(&(struct prep_options){.src = test_path("kaggle.zip"),
                                       .dest = test_path("dest"),
                                       .threads = 2},
                &result);
}

/* --- prep --delete-source --- */

static void delete_prepare(void)
{
    prep_prepare();
    test_train_tar(test_path("src/ILSVRC2012_img_train.tar"), classes, ARRAY_LENGTH(classes));
    test_val_tar(test_path("src/ILSVRC2012_img_val.tar"), val_numbers, VAL_COUNT);
}

static struct status delete_run(void)
{
    CLEANUP(prep_result_done) struct prep_result result = {0};
    const struct prep_options options = {.src = test_path("src"),
                                         .dest = test_path("dest"),
                                         .delete_source = true,
                                         .threads = 2};
    TRY(prep(&options, &result));
    assert_int_equal(verify_finding_count(result.report), 0);
    return prep_delete_sources(&options, &result);
}

static void delete_check(void)
{
    prep_check();
    assert_false(path_exists(test_path("src/ILSVRC2012_img_train.tar")));
    assert_false(path_exists(test_path("src/ILSVRC2012_img_val.tar")));
}

/* --- organize --- */

static void organize_prepare(void)
{
    char name[64], bytes[80];
    assert_ok(folder_remove(test_path("flat")));
    assert_ok(folder_create(test_path("flat")));
    for (size_t i = 0; i < VAL_COUNT; i++) {
        snprintf(name, sizeof name, "ILSVRC2012_val_%08d.JPEG", val_numbers[i]);
        snprintf(bytes, sizeof bytes, "\xff\xd8\xff%s\xff\xd9", name);
        assert_ok(file_write_plain(test_join(test_path("flat"), name), bytes, strlen(bytes)));
    }
}

static struct status organize_run(void)
{
    CLEANUP(organize_plan_done) struct organize_plan plan = {0};
    size_t placed;
    TRY(organize_plan_make(test_path("flat"), devkit, &plan));
    return organize_apply(&plan, false, &placed);
}

static void organize_check(void)
{
    check_images(test_path("flat"), VAL_COUNT, true);
    check_val_places(test_path("flat"));
}

/* --- verify --repair --- */

static void repair_prepare(void)
{
    prep_prepare();
    assert_ok(prep_run());
    assert_ok(folder_remove(test_path("dest/train/n04000000")));
    assert_ok(file_write_plain(test_path("dest/train/n02000000/n02000000_1.JPEG"), "x", 1));
    assert_ok(file_write_plain(test_path("dest/train/n03000000/n03000000_1.JPEG"), "", 0));
    assert_ok(file_remove(test_path("dest/train/n03000000/n03000000_2.JPEG")));
}

static struct status repair_run(void)
{
    CLEANUP(verify_report_free) struct verify_report *report = NULL;
    const struct verify_options options = {.path = test_path("dest"),
                                           .devkit = devkit,
                                           .threads = 2};
    struct repair_result result;
    TRY(verify(&options, &report));
    return repair(report, &options, test_path("src/ILSVRC2012_img_train.tar"), &result);
}

/* --- Faults --- */

static void unfinished_check(void)
{
    check_images(test_path("dest/train"), 0, false);
    check_images(test_path("dest/val"), 0, false);
}

static void test_prep(void **state)
{
    (void)state;
    faults_run(&(struct fault_scenario){prep_prepare, prep_run, unfinished_check, prep_check, 0});
}

static void test_prep_zip(void **state)
{
    (void)state;
    zip_write();
    faults_run(&(struct fault_scenario){prep_prepare, zip_run, unfinished_check, prep_check, 0});
}

static void test_delete_source(void **state)
{
    (void)state;
    faults_run(
        &(struct fault_scenario){delete_prepare, delete_run, unfinished_check, delete_check, 0});
    delete_prepare();
}

static void test_organize(void **state)
{
    (void)state;
    faults_run(&(struct fault_scenario){organize_prepare, organize_run, unfinished_check,
                                        organize_check, 0});
}

static void test_repair(void **state)
{
    (void)state;
    faults_run(&(struct fault_scenario){repair_prepare, repair_run, NULL, prep_check, 0});
}

int main(void)
{
    progress_set_quiet(1);
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prep),          cmocka_unit_test(test_prep_zip),
        cmocka_unit_test(test_delete_source), cmocka_unit_test(test_organize),
        cmocka_unit_test(test_repair),
    };
    test_devkit_write(test_path("src"), synsets, ARRAY_LENGTH(synsets), truth);
    delete_prepare();
    assert_ok(devkit_open(test_path("src"), &devkit));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    devkit_free(devkit);
    return failed;
}
