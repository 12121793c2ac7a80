#include "tests/test.h"

#include "base/bytes.h"
#include "base/progress.h"
#include "prep/verify.h"
#include "tests/support/devkit.h"
#include "tests/support/imagenet.h"
#include "tests/support/shell.h"
#include "tests/support/tar.h"

/* Label order a, b, c; the table expects one, two and three training images. */
static const struct test_synset synsets[] = {
    {1, "n03000000", "c", 0, 3},
    {2, "n01000000", "a", 0, 1},
    {3, "n02000000", "b", 0, 2},
};
static const char *const classes[] = {"n01000000", "n02000000", "n03000000"};

static struct devkit *devkit;
static struct verify_report *report;

static void write_text(const char *name, const char *text)
{
    CLEANUP(memory_free) char *folder = NULL;
    assert_ok(path_folder(test_path(name), &folder));
    assert_ok(folder_create(folder));
    assert_ok(file_write_atomic(test_path(name), text, strlen(text)));
}

static void write_image(const char *name)
{
    write_text(name, "\xff\xd8\xff an image as far as its first bytes go");
}

/* DIR/train as the table says. */
static void make_train(void)
{
    char name[64];
    assert_ok(folder_remove(test_path("train")));
    for (int i = 0; i < 3; i++)
        for (int k = 0; k <= i; k++) {
            snprintf(name, sizeof name, "train/%s/%s_%d.JPEG", classes[i], classes[i], k * 7);
            write_image(name);
        }
}

static struct status run(struct verify_options options)
{
    verify_report_free(report);
    report = NULL;
    options.threads = 2;
    return verify(&options, &report);
}

static void verify_train(bool is_subset)
{
    assert_ok(run((struct verify_options){.path = test_path("train"),
                                          .devkit = devkit,
                                          .is_subset = is_subset}));
    assert_int_equal(report->set_count, 1);
}

/* There are as many findings, and one of them is this. */
static void assert_found(size_t count, enum finding_kind kind, const char *path, const char *text)
{
    const struct verify_set *set = &report->sets[0];
    bool found = false;
    for (size_t i = 0; i < set->finding_count; i++)
        found =
            found || (set->findings[i].kind == kind && strcmp(set->findings[i].path, path) == 0 &&
                      strstr(set->findings[i].text, text));
    if (!found || set->finding_count != count) {
        CLEANUP(buffer_done) struct buffer shown = {0};
        const char *shown_text;
        assert_ok(verify_report_text(report, &shown));
        assert_ok(buffer_text(&shown, &shown_text));
        print_error("expected %zu findings, among them %s: %s\n%s", count, path, text, shown_text);
    }
    assert_true(found);
    assert_int_equal(set->finding_count, count);
}

static void test_good(void **state)
{
    (void)state;
    make_train();
    verify_train(false);
    assert_int_equal(verify_finding_count(report), 0);
    assert_int_equal(report->sets[0].classes, 3);
    assert_int_equal(report->sets[0].images, 6);
    assert_true(report->sets[0].is_as_published);
    assert_ok(verify_report_status(report));
}

static void test_counts(void **state)
{
    (void)state;
    make_train();
    assert_ok(file_remove(test_path("train/n03000000/n03000000_7.JPEG")));
    verify_train(false);
    assert_found(1, FOUND_COUNT, "n03000000", "has 2, published are 3");
    assert_fails(verify_report_status(report), STATUS_FOUND, "1 finding; if it is meant");
    verify_train(true);
    assert_int_equal(verify_finding_count(report), 0);

    make_train();
    write_image("train/n01000000/n01000000_8.JPEG");
    verify_train(true);
    assert_found(1, FOUND_COUNT, "n01000000", "has 2, published are 1");

    make_train();
    assert_ok(folder_remove(test_path("train/n01000000")));
    assert_ok(folder_create(test_path("train/n09000000")));
    verify_train(false);
    assert_found(2, FOUND_CLASS_MISSING, "n01000000", "a");
    assert_found(2, FOUND_CLASS_UNEXPECTED, "n09000000", "no such class");

    make_train();
    assert_ok(file_remove(test_path("train/n01000000/n01000000_0.JPEG")));
    verify_train(false);
    assert_found(1, FOUND_CLASS_EMPTY, "n01000000", "no images");
    verify_train(true);
    assert_int_equal(verify_finding_count(report), 0);
}

static void test_expected(void **state)
{
    (void)state;
    make_train();
    struct verify_options options = {.path = test_path("train"),
                                     .has_expected = true,
                                     .expected_classes = 3,
                                     .expected_images = 6};
    assert_ok(run(options));
    assert_int_equal(verify_finding_count(report), 0);
    options.expected_images = 7;
    assert_ok(run(options));
    assert_found(1, FOUND_COUNT, ".", "6 images, expected are 7");
    options.expected_classes = 2;
    assert_ok(run(options));
    assert_found(2, FOUND_COUNT, ".", "3 classes, expected are 2");
}

static void test_untidy_folders(void **state)
{
    (void)state;
    make_train();
    write_text("train/.ipynb_checkpoints/x.txt", "x");
    write_text("train/.DS_Store", "x");
    write_text("train/__MACOSX/x", "x");
    write_text("train/README.txt", "x");
    assert_ok(folder_create(test_path("train/lost+found")));
    verify_train(false);
    assert_int_equal(verify_finding_count(report), 0);
    assert_int_equal(report->sets[0].note_count, 1);
    assert_string_equal(report->sets[0].notes[0], "5 other files and hidden folders were ignored");

    write_image("train/loose.JPEG");
    write_text("train/n01000000/notes.txt", "x");
    write_text("train/.n02000000.partial/x", "x");
    write_text("train/n02000000/.DS_Store", "x");
    verify_train(false);
    assert_found(3, FOUND_STRAY, "loose.JPEG", "outside the class folders");
    assert_found(3, FOUND_STRAY, "n01000000/notes.txt", "not named like an image");
    assert_found(3, FOUND_UNFINISHED, ".n02000000.partial", "run it again");
}

static void test_misplaced(void **state)
{
    (void)state;
    make_train();
    assert_ok(file_rename(test_path("train/n03000000/n03000000_7.JPEG"),
                          test_path("train/n02000000/n03000000_7.JPEG")));
    verify_train(false);
    assert_found(3, FOUND_MISPLACED, "n02000000/n03000000_7.JPEG", "belongs to n03000000");
    make_train();
    write_image("train/n01000000/ILSVRC2012_val_00000001.JPEG");
    verify_train(true);
    assert_found(2, FOUND_MISPLACED, "n01000000/ILSVRC2012_val_00000001.JPEG", "another set");
}

static void test_bad_files(void **state)
{
    (void)state;
    make_train();
    write_text("train/n01000000/n01000000_0.JPEG", "");
    write_text("train/n02000000/n02000000_0.JPEG", "<html>not found</html>");
    write_text("train/n02000000/n02000000_7.JPEG", "\x89PNG\r\n\x1a\n");
    CLEANUP(buffer_done) struct buffer zeros = {0};
    assert_ok(buffer_resize(&zeros, 5000));
    test_write(test_path("train/n03000000/n03000000_0.JPEG"), &zeros);
    verify_train(false);
    assert_found(3, FOUND_EMPTY_FILE, "n01000000/n01000000_0.JPEG", "0 bytes");
    assert_found(3, FOUND_NOT_AN_IMAGE, "n02000000/n02000000_0.JPEG", "an HTML page");
    assert_found(3, FOUND_NOT_AN_IMAGE, "n03000000/n03000000_0.JPEG", "zeros only");
    assert_int_equal(report->sets[0].note_count, 1);
    assert_non_null(strstr(report->sets[0].notes[0], "1 PNG images have JPEG names"));
}

static void test_decode(void **state)
{
    (void)state;
    make_train();
    assert_ok(
        run((struct verify_options){.path = test_path("train"), .devkit = devkit, .decode = true}));
    assert_int_equal(report->sets[0].decoded, 6);
    assert_int_equal(report->sets[0].finding_count, 6);
    assert_int_equal(report->sets[0].findings[0].kind, FOUND_UNREADABLE);
}

static void test_val(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, 4, 5};
    const char *archive = test_val_tar(test_path("val.tar"), numbers, 4);
    assert_ok(run((struct verify_options){.path = archive, .devkit = devkit}));
    assert_found(1, FOUND_IMAGE_MISSING, "ILSVRC2012_val_00000003.JPEG", "not there");
    assert_ok(run((struct verify_options){.path = archive, .devkit = devkit, .is_subset = true}));
    assert_int_equal(verify_finding_count(report), 0);

    write_image("sorted/val/n03000000/ILSVRC2012_val_00000001.JPEG");
    write_image("sorted/val/n03000000/ILSVRC2012_val_00000002.JPEG"); /* belongs to n01000000 */
    write_image("sorted/val/n01000000/ILSVRC2012_val_00000002.JPEG");
    write_image("sorted/val/n02000000/ILSVRC2012_val_00000009.JPEG");
    assert_ok(run(
        (struct verify_options){.path = test_path("sorted"), .devkit = devkit, .is_subset = true}));
    assert_int_equal(report->sets[0].set, IMAGE_SET_VAL);
    assert_found(3, FOUND_MISPLACED, "n03000000/ILSVRC2012_val_00000002.JPEG",
                 "belongs to n01000000");
    assert_found(3, FOUND_IMAGE_TWICE, "ILSVRC2012_val_00000002.JPEG", "same number");
    assert_found(3, FOUND_MISPLACED, "n02000000/ILSVRC2012_val_00000009.JPEG", "beyond");
}

/* Without any table the training classes are what validation is compared with. */
static void test_two_sets(void **state)
{
    (void)state;
    write_image("both/train/cat/1.jpg");
    write_image("both/train/dog/1.jpg");
    write_image("both/val/cat/1.jpeg");
    assert_ok(folder_create(test_path("both/val/emu")));
    assert_ok(run((struct verify_options){.path = test_path("both")}));
    assert_int_equal(report->set_count, 2);
    assert_int_equal(report->sets[0].finding_count, 0);
    assert_int_equal(report->sets[1].finding_count, 2);
    assert_int_equal(report->sets[1].findings[0].kind, FOUND_CLASS_MISSING);
    assert_string_equal(report->sets[1].findings[0].path, "dog");
    assert_int_equal(report->sets[1].findings[1].kind, FOUND_CLASS_UNEXPECTED);
}

static void test_md5(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, 3, 4, 5};
    const char *archive = test_val_tar(test_path("ILSVRC2012_img_val.tar"), numbers, 5);
    assert_ok(run((struct verify_options){.path = archive, .devkit = devkit, .md5 = true}));
    assert_int_equal(verify_finding_count(report), 0);
    assert_non_null(
        strstr(report->sets[0].notes[0], "not the published file (MD5 29b22e2961454d54"));
    make_train();
    assert_fails(run((struct verify_options){.path = test_path("train"), .md5 = true}),
                 STATUS_USAGE, "is a folder");
}

static void test_wrong_paths(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("empty")));
    assert_fails(run((struct verify_options){.path = test_path("empty")}), STATUS_NOT_FOUND,
                 "no class folders and no images");
    assert_fails(run((struct verify_options){.path = test_path("missing")}), STATUS_NOT_FOUND,
                 "missing does not exist");
    write_image("flat/ILSVRC2012_val_00000001.JPEG");
    assert_fails(run((struct verify_options){.path = test_path("flat")}), STATUS_NOT_FOUND,
                 "headrace organize");
    write_text("page.tar", "<html>");
    assert_fails(run((struct verify_options){.path = test_path("page.tar")}), STATUS_CORRUPT,
                 "an HTML page");
}

static void test_text_and_json(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer text = {0};
    CLEANUP(json_free) struct json *json = NULL;
    const char *shown;
    int64_t number;
    make_train();
    for (int i = 100; i < 120; i++) {
        char name[64];
        snprintf(name, sizeof name, "train/n01000000/n02000000_%d.JPEG", i);
        write_image(name);
    }
    verify_train(false);
    assert_ok(verify_report_text(report, &text));
    assert_ok(buffer_text(&text, &shown));
    assert_non_null(strstr(shown, "26 training images in 3 classes"));
    assert_non_null(
        strstr(shown, "misplaced image (20):\n    n01000000/n02000000_100.JPEG: belongs "));
    assert_non_null(strstr(shown, "… and 15 more (--json lists all)"));
    json = verify_report_json(report);
    assert_ok(json_get_integer(json, "findings", &number));
    assert_int_equal(number, 21);
    const struct json *set = json_at(json_get(json, "sets"), 0);
    assert_int_equal(json_length(json_get(set, "findings")), 21);
    assert_ok(json_get_integer(set, "images", &number));
    assert_int_equal(number, 26);
}

static void test_real_data(void **state)
{
    (void)state;
    assert_ok(run((struct verify_options){.path = test_data_path("ILSVRC2012_img_train.tar")}));
    assert_int_equal(report->sets[0].images, 1000);
    assert_int_equal(report->sets[0].finding_count, 1000);
    assert_ok(run((struct verify_options){.path = test_data_path("ILSVRC2012_img_val.tar"),
                                          .is_subset = true,
                                          .decode = true}));
    assert_int_equal(report->sets[0].decoded, 1300);
    assert_int_equal(verify_finding_count(report), 0);
    assert_ok(run((struct verify_options){.path = test_data_path("ILSVRC2012_devkit_t12.tar.gz")}));
    assert_true(report->sets[0].is_as_published);
    assert_ok(run((struct verify_options){.path = test_data_path("cifar10.tar"), .prefix = "val"}));
    assert_int_equal(report->sets[0].images, 1500);
}

int main(void)
{
    progress_set_quiet(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_expected),    cmocka_unit_test(test_untidy_folders),
        cmocka_unit_test(test_misplaced),   cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_decode),      cmocka_unit_test(test_val),
        cmocka_unit_test(test_two_sets),    cmocka_unit_test(test_md5),
        cmocka_unit_test(test_wrong_paths), cmocka_unit_test(test_text_and_json),
        cmocka_unit_test(test_real_data),
    };
    test_devkit_write(test_path("kit"), synsets, 3, "1\n2\n3\n1\n2\n");
    assert_ok(devkit_open(test_path("kit"), &devkit));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    verify_report_free(report);
    devkit_free(devkit);
    return failed;
}
