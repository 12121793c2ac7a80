#include "tests/test.h"

#include <sys/wait.h>

#include "base/disk.h"
#include "prep/organize.h"
#include "tests/support/devkit.h"
#include "tests/support/imagenet.h"

static const struct test_synset synsets[] = {
    {1, "n03000000", "c", 0, 3},
    {2, "n01000000", "a", 0, 1},
    {3, "n02000000", "b", 0, 2},
};

static struct organize_plan plan;
static size_t placed;

static struct status organize(const char *val_dir, bool link)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    test_devkit_write(test_path("kit"), synsets, 3, "1\n2\n3\n1\n2\n");
    organize_plan_done(&plan);
    TRY(devkit_open(test_path("kit"), &devkit));
    TRY(organize_plan_make(val_dir, devkit, &plan));
    return organize_apply(&plan, link, &placed);
}

/* Images 1, 2, 4, 5: number 3 is missing. */
static void make_flat(void)
{
    static const int numbers[] = {1, 2, 4, 5};
    assert_ok(folder_remove(test_path("val")));
    assert_ok(folder_create(test_path("val")));
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        char name[64], bytes[80];
        snprintf(name, sizeof name, "val/ILSVRC2012_val_%08d.JPEG", numbers[i]);
        snprintf(bytes, sizeof bytes, "\xff\xd8\xff%s\xff\xd9", name + 4);
        assert_ok(file_write_atomic(test_path(name), bytes, strlen(bytes)));
    }
}

static void check_sorted(void)
{
    test_check_image(test_path("val/n03000000/ILSVRC2012_val_00000001.JPEG"));
    test_check_image(test_path("val/n01000000/ILSVRC2012_val_00000002.JPEG"));
    test_check_image(test_path("val/n03000000/ILSVRC2012_val_00000004.JPEG"));
    test_check_image(test_path("val/n01000000/ILSVRC2012_val_00000005.JPEG"));
    assert_false(path_exists(test_path("val/n02000000")));
}

static void test_moves(void **state)
{
    (void)state;
    make_flat();
    assert_ok(organize(test_path("val"), false));
    assert_int_equal(plan.count, 4);
    assert_int_equal(plan.missing, 1);
    assert_int_equal(plan.first_missing, 3);
    check_sorted();
    assert_false(path_exists(test_path("val/ILSVRC2012_val_00000001.JPEG")));
    assert_ok(organize(test_path("val"), false));
    assert_int_equal(plan.count, 0);
    check_sorted();
}

static void test_links(void **state)
{
    (void)state;
    make_flat();
    for (int run = 0; run < 2; run++) {
        assert_ok(organize(test_path("val"), true));
        assert_int_equal(placed, run == 0 ? 4 : 0);
        check_sorted();
        assert_true(path_exists(test_path("val/ILSVRC2012_val_00000001.JPEG")));
    }
    assert_ok(organize(test_path("val"), false));
    check_sorted();
    assert_false(path_exists(test_path("val/ILSVRC2012_val_00000001.JPEG")));
}

/* Hugging Face's names say the classes; nothing else is guessed. */
static void test_names_with_classes(void **state)
{
    (void)state;
    CLEANUP(devkit_free) struct devkit *built_in = NULL;
    assert_ok(devkit_open_built_in(&built_in));
    assert_ok(folder_create(test_path("hf")));
    assert_ok(file_write_atomic(test_path("hf/ILSVRC2012_val_00000293_n01440764.JPEG"), "x", 1));
    assert_ok(file_write_atomic(test_path("hf/n01443537_9_n01443537.JPEG"), "x", 1));
    organize_plan_done(&plan);
    assert_ok(organize_plan_make(test_path("hf"), built_in, &plan));
    assert_ok(organize_apply(&plan, false, &placed));
    assert_int_equal(plan.missing, 0);
    assert_true(path_exists(test_path("hf/n01440764/ILSVRC2012_val_00000293_n01440764.JPEG")));
    assert_true(path_exists(test_path("hf/n01443537/n01443537_9_n01443537.JPEG")));
    organize_plan_done(&plan);
    assert_ok(file_write_atomic(test_path("hf/ILSVRC2012_val_00000294.JPEG"), "x", 1));
    assert_fails(organize_plan_make(test_path("hf"), built_in, &plan), STATUS_NOT_FOUND,
                 "does not tell the image's class");
    assert_ok(file_remove(test_path("hf/ILSVRC2012_val_00000294.JPEG")));
    assert_ok(file_write_atomic(test_path("hf/ILSVRC2012_val_00000294_n00000001.JPEG"), "x", 1));
    assert_fails(organize_plan_make(test_path("hf"), built_in, &plan), STATUS_NOT_FOUND,
                 "does not tell the image's class");
}

static struct status rename_folders(enum folder_numbers numbers)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    test_devkit_write(test_path("kit"), synsets, 3, "1\n");
    organize_plan_done(&plan);
    TRY(devkit_open(test_path("kit"), &devkit));
    TRY(organize_plan_folders(test_path("numbered"), devkit, numbers, &plan));
    return organize_apply_folders(&plan);
}

/* The same number is another class as a label than as an ID. */
static void test_numbered_folders(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("numbered/1")));
    assert_ok(folder_create(test_path("numbered/other")));
    assert_ok(rename_folders(FOLDER_NUMBERS_LABELS));
    assert_true(path_exists(test_path("numbered/n02000000")));
    assert_ok(rename_folders(FOLDER_NUMBERS_LABELS));
    assert_int_equal(plan.count, 0);
    assert_ok(folder_create(test_path("numbered/1")));
    assert_fails(rename_folders(FOLDER_NUMBERS_LABELS), STATUS_FAILED, "but that exists");
    assert_ok(rename_folders(FOLDER_NUMBERS_IDS));
    assert_true(path_exists(test_path("numbered/n03000000")));

    assert_ok(folder_create(test_path("numbered/0")));
    assert_fails(rename_folders(FOLDER_NUMBERS_IDS), STATUS_CORRUPT,
                 "numbered/0: there is no class with the ILSVRC2012_ID 0");
    assert_ok(folder_create(test_path("numbered/00")));
    assert_fails(rename_folders(FOLDER_NUMBERS_LABELS), STATUS_CORRUPT,
                 "the folders 0 and 00 have the same number");
    assert_ok(folder_remove(test_path("numbered/00")));
    assert_ok(folder_create(test_path("numbered/3")));
    assert_fails(rename_folders(FOLDER_NUMBERS_LABELS), STATUS_CORRUPT,
                 "no class with the label 3");
    assert_true(path_exists(test_path("numbered/0")));
    assert_true(path_exists(test_path("numbered/other")));
}

static void test_refusals(void **state)
{
    (void)state;
    make_flat();
    assert_ok(file_write_atomic(test_path("val/ILSVRC2012_val_00000006.JPEG"), "x", 1));
    assert_fails(organize(test_path("val"), false), STATUS_CORRUPT,
                 "ILSVRC2012_val_00000006.JPEG has a number beyond the ground truth");
    assert_true(path_exists(test_path("val/ILSVRC2012_val_00000001.JPEG")));

    make_flat();
    assert_ok(file_write_atomic(test_path("val/n01440764_1.JPEG"), "x", 1));
    assert_fails(organize(test_path("val"), false), STATUS_CORRUPT, "not named like a validation");

    make_flat();
    assert_ok(folder_create(test_path("val/n03000000")));
    assert_ok(file_write_atomic(test_path("val/n03000000/ILSVRC2012_val_00000001.JPEG"), "x", 1));
    assert_fails(organize(test_path("val"), false), STATUS_FAILED, "but that exists");

    assert_ok(folder_create(test_path("empty")));
    assert_fails(organize(test_path("empty"), false), STATUS_NOT_FOUND, "has no images");
    assert_fails(organize(test_path("missing"), false), STATUS_NOT_FOUND, "missing");
    assert_ok(folder_create(test_path("numbers/1")));
    assert_ok(folder_create(test_path("numbers/10")));
    assert_fails(organize(test_path("numbers"), false), STATUS_CORRUPT,
                 "numeric folders (10, …), expected WNIDs");
}

static void test_kill(void **state)
{
    (void)state;
    for (int k = 1; k <= 8; k++) {
        char fault[32];
        snprintf(fault, sizeof fault, "kill:%d", k);
        make_flat();
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            disk_set_fault(fault);
            status_ignore(organize(test_path("val"), false));
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_ok(organize(test_path("val"), false));
        check_sorted();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_names_with_classes),
        cmocka_unit_test(test_numbered_folders),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_kill),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    organize_plan_done(&plan);
    return failed;
}
