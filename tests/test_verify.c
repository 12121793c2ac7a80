#include "tests/test.h"

#include "base/bytes.h"
#include "base/progress.h"
#include "prep/repair.h"
#include "prep/verify.h"
#include "tests/support/devkit.h"
#include "tests/support/imagenet.h"
#include "tests/support/jpeg_folder.h"
#include "tests/support/jpeg_make.h"
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
    write_text(name, "\xff\xd8\xff an image as far as its ends go \xff\xd9");
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

static void assert_shown(const char *part)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *shown;
    assert_ok(verify_report_text(report, &text));
    assert_ok(buffer_text(&text, &shown));
    if (!strstr(shown, part))
        fail_msg("expected '%s' in:\n%s", part, shown);
}

static void test_good(void **state)
{
    (void)state;
    make_train();
    verify_train(false);
    assert_int_equal(verify_finding_count(report), 0);
    assert_int_equal(report->sets[0].classes, 3);
    assert_int_equal(report->sets[0].images, 6);
    assert_true(report->sets[0].is_as_devkit);
    assert_false(report->sets[0].is_as_published);
    assert_ok(verify_report_status(report));
    assert_shown("  as the devkit says\n");
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
    assert_shown("images that are odd: 1 PNG under a JPEG's name (n02000000/n02000000_7.JPEG);");
    assert_int_equal(report->sets[0].oddity_count, 1);
    assert_false(report->sets[0].oddities[0].is_known);
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

static void write_bytes(const char *name, const struct buffer *bytes)
{
    CLEANUP(memory_free) char *folder = NULL;
    assert_ok(path_folder(test_path(name), &folder));
    assert_ok(folder_create(folder));
    assert_ok(file_write_atomic(test_path(name), bytes->data, bytes->length));
}

/* What has no end mark is decoded even where only the ends are looked at; bytes behind the mark
 * are fine. */
static void test_truncated(void **state)
{
    (void)state;
    static const size_t cuts[] = {60, 99}; /* per cent */
    CLEANUP(buffer_done) struct buffer jpeg = {0};
    make_train();
    jpeg_folder_image(60, &jpeg);
    size_t whole = jpeg.length;
    for (size_t i = 0; i < ARRAY_LENGTH(cuts); i++) {
        jpeg.length = whole * cuts[i] / 100;
        write_bytes("train/n01000000/n01000000_0.JPEG", &jpeg);
        verify_train(false);
        assert_found(1, FOUND_TRUNCATED, "n01000000/n01000000_0.JPEG", "");
        assert_int_equal(report->sets[0].decoded, 0);
    }
    jpeg.length = whole;
    assert_ok(buffer_resize(&jpeg, whole + 3000));
    write_bytes("train/n01000000/n01000000_0.JPEG", &jpeg);
    write_text("train/n02000000/n02000000_0.JPEG", "\xff\xd8\xff");
    write_text("train/n03000000/n03000000_0.JPEG", "\xff\xd8");
    verify_train(false);
    assert_found(2, FOUND_TRUNCATED, "n02000000/n02000000_0.JPEG", "");
    assert_found(2, FOUND_TRUNCATED, "n03000000/n03000000_0.JPEG", "ends after 2 bytes");
}

/* The published oddities are known by name and content; the same content elsewhere is odd, and
 * other content under these names was converted by somebody. */
static void test_oddities(void **state)
{
    (void)state;
    static const struct jpeg_kind cmyk = {.name = "cmyk",
                                          .components = 4,
                                          .factors = {{1, 1}, {1, 1}, {1, 1}, {1, 1}},
                                          .keep_rgb = true};
    CLEANUP(buffer_done) struct buffer odd = {0}, plain = {0};
    struct verify_options options = {.path = test_path("odd"),
                                     .has_expected = true,
                                     .expected_classes = 4,
                                     .expected_images = 5};
    assert_ok(jpeg_make(&cmyk, 1, 16, 16, &odd));
    jpeg_folder_image(1, &plain);
    write_bytes("odd/n01739381/n01739381_1309.JPEG", &odd);
    write_bytes("odd/n13037406/n13037406_4650.JPEG", &odd);
    write_bytes("odd/n02077923/n02077923_14822.JPEG", &plain);
    write_bytes("odd/n02077923/n02077923_1.JPEG", &odd);
    write_text("odd/n02105855/n02105855_2933.JPEG", "\x89PNG\r\n\x1a\n");
    assert_ok(run(options));
    assert_int_equal(verify_finding_count(report), 0);
    assert_int_equal(report->sets[0].oddity_count, 4);
    assert_shown("known oddity of ILSVRC2012: 1 PNG under a JPEG's name "
                 "(n02105855/n02105855_2933.JPEG)\n");
    assert_shown("known oddity of ILSVRC2012: 2 CMYK or YCCK (n01739381/n01739381_1309.JPEG, …)\n");
    assert_shown("not as published: 1 converted (n02077923/n02077923_14822.JPEG)");
    CLEANUP(json_free) struct json *json = verify_report_json(report);
    const struct json *oddities = json_get(json_at(json_get(json, "sets"), 0), "oddities");
    bool is_known;
    assert_int_equal(json_length(oddities), 4);
    assert_ok(json_get_boolean(json_at(oddities, 0), "known", &is_known));
    assert_true(is_known);

    /* Only decoding shows the others. */
    options.decode = true;
    assert_ok(run(options));
    assert_found(1, FOUND_UNREADABLE, "n02105855/n02105855_2933.JPEG", "");
    assert_shown("images that are odd: 1 CMYK or YCCK (n02077923/n02077923_1.JPEG);");
}

static void test_duplicates(void **state)
{
    (void)state;
    struct verify_options options = {.path = test_path("train"),
                                     .devkit = devkit,
                                     .duplicates = true};
    make_train();
    write_text("train/n01000000/n01000000_0.JPEG", "\xff\xd8\xff one \xff\xd9");
    write_text("train/n02000000/n02000000_0.JPEG", "\xff\xd8\xff two \xff\xd9");
    write_text("train/n02000000/n02000000_7.JPEG", "\xff\xd8\xff one \xff\xd9");
    write_text("train/n03000000/n03000000_0.JPEG", "");
    write_text("train/n03000000/n03000000_7.JPEG", "");
    write_text("train/n03000000/n03000000_14.JPEG", "\xff\xd8\xff one \xff\xd9");
    assert_ok(run(options));
    assert_found(4, FOUND_DUPLICATE, "n02000000/n02000000_7.JPEG",
                 "the same bytes as n01000000/n01000000_0.JPEG");
    assert_found(4, FOUND_DUPLICATE, "n03000000/n03000000_14.JPEG",
                 "the same bytes as n01000000/n01000000_0.JPEG");
    options.duplicates = false;
    assert_ok(run(options));
    assert_found(2, FOUND_EMPTY_FILE, "n03000000/n03000000_0.JPEG", "");
}

/* A validation image that was trained on. */
static void test_duplicates_across(void **state)
{
    (void)state;
    write_text("leak/train/cat/1.jpg", "\xff\xd8\xff one \xff\xd9");
    write_text("leak/train/cat/2.jpg", "\xff\xd8\xff two \xff\xd9");
    write_text("leak/val/cat/1.jpg", "\xff\xd8\xff six \xff\xd9");
    write_text("leak/val/cat/2.jpg", "\xff\xd8\xff one \xff\xd9");
    write_text("leak/val/cat/3.jpg", "\xff\xd8\xff one more \xff\xd9");
    assert_ok(run((struct verify_options){.path = test_path("leak"), .duplicates = true}));
    assert_int_equal(verify_finding_count(report), 1);
    assert_int_equal(report->sets[1].finding_count, 1);
    assert_string_equal(report->sets[1].findings[0].path, "cat/2.jpg");
    assert_string_equal(report->sets[1].findings[0].text, "the same bytes as train/cat/1.jpg");
}

/* Only what is bad is written, and then nothing is. */
static void test_repair(void **state)
{
    (void)state;
    struct verify_options options = {.path = test_path("mend"), .devkit = devkit, .threads = 2};
    struct repair_result result;
    const char *archive = test_train_tar(test_path("train.tar"), classes, 3);
    static const int numbers[] = {1, 2, 3, 4, 5};
    const char *val_archive = test_val_tar(test_path("val.tar"), numbers, 5);
    assert_ok(folder_create(test_path("mend/train")));
    write_text("mend/val/n01000000/ILSVRC2012_val_00000002.JPEG", "");
    write_text("mend/train/n02000000/n02000000_1.JPEG", "\xff\xd8\xffn02000000_1.JPEG\xff\xd9");
    write_text("mend/train/n02000000/n02000000_2.JPEG", "x");
    write_text("mend/train/n03000000/n03000000_1.JPEG", "<html> of the same len");
    write_text("mend/train/n03000000/mine.txt", "x");
    assert_ok(run(options));
    assert_ok(repair(report, &options, archive, &result));
    assert_int_equal(result.images, 5);
    assert_int_equal(result.bytes, 5 * 21);
    assert_ok(repair(report, &options, val_archive, &result));
    assert_int_equal(result.images, 5);
    assert_ok(run(options));
    assert_int_equal(report->sets[1].finding_count, 0);
    assert_found(1, FOUND_STRAY, "n03000000/mine.txt", "not named like an image");
    test_check_image(test_path("mend/train/n03000000/n03000000_1.JPEG"));
    test_check_image(test_path("mend/train/n01000000/n01000000_1.JPEG"));
    test_check_image(test_path("mend/val/n02000000/ILSVRC2012_val_00000003.JPEG"));
    assert_ok(repair(report, &options, archive, &result));
    assert_int_equal(result.images, 0);

    options.path = test_path("mend/train");
    assert_ok(run(options));
    assert_fails(repair(report, &options, val_archive, &result), STATUS_USAGE,
                 "which cannot repair");
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
    assert_found(3, FOUND_IMAGE_TWICE, "n03000000/ILSVRC2012_val_00000002.JPEG", "same number");
    assert_found(3, FOUND_MISPLACED, "n02000000/ILSVRC2012_val_00000009.JPEG", "beyond");
}

/* A whole validation set in class folders, but for `swapped`, which lies with its neighbour. */
static const char *write_whole_val(const struct devkit *published, size_t swapped)
{
    CLEANUP(buffer_done) struct buffer tar = {0};
    char name[80];
    for (size_t number = 1; number <= devkit_val_count(published); number++) {
        uint32_t label = devkit_val_label(published, number);
        if (number == swapped || number == swapped + 1)
            label = devkit_val_label(published, 2 * swapped + 1 - number);
        snprintf(name, sizeof name, "%s/ILSVRC2012_val_%08zu.JPEG",
                 class_table_at(devkit_classes(published), label)->wnid, number);
        assert_ok(tar_add_file(&tar, name, "\xff\xd8\xff\xff\xd9", 5));
    }
    assert_ok(tar_end(&tar, 10240));
    return test_write(test_path("val_sorted.tar"), &tar);
}

/* "As published" takes the right labels too, with a devkit and without. */
static void test_val_labels(void **state)
{
    (void)state;
    CLEANUP(devkit_free) struct devkit *published = NULL;
    assert_ok(devkit_open(test_data_path("ILSVRC2012_devkit_t12.tar.gz"), &published));
    const char *archive = write_whole_val(published, 60000);
    assert_ok(run((struct verify_options){.path = archive}));
    assert_int_equal(verify_finding_count(report), 0);
    assert_true(report->sets[0].is_as_published);
    assert_shown("  as published\n");
    assert_ok(run((struct verify_options){.path = archive, .devkit = published}));
    assert_true(report->sets[0].is_as_published);
    archive = write_whole_val(published, 3);
    assert_ok(run((struct verify_options){.path = archive}));
    assert_found(1, FOUND_MISPLACED, ".", "--devkit ILSVRC2012_devkit_t12.tar.gz");
    assert_ok(run((struct verify_options){.path = archive, .devkit = published}));
    assert_found(2, FOUND_MISPLACED, "n02105855/ILSVRC2012_val_00000004.JPEG",
                 "belongs to n04263257");
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

/* Imagenette mixes training and validation images, in counts of its own. */
static void test_imagenette(void **state)
{
    (void)state;
    static const char *const wnids[] = {"n01440764", "n02102040", "n02979186", "n03000684",
                                        "n03028079", "n03394916", "n03417042", "n03425413",
                                        "n03445777", "n03888257"};
    char name[80];
    for (size_t i = 0; i < ARRAY_LENGTH(wnids); i++) {
        snprintf(name, sizeof name, "nette/train/%s/ILSVRC2012_val_%08zu.JPEG", wnids[i], i + 1);
        write_image(name);
        snprintf(name, sizeof name, "nette/val/%s/%s_9.JPEG", wnids[i], wnids[i]);
        write_image(name);
    }
    assert_ok(run((struct verify_options){.path = test_path("nette")}));
    assert_int_equal(verify_finding_count(report), 0);
    assert_shown("note: these are the ten classes of Imagenette");
    assert_shown("nothing is wrong");
    assert_ok(folder_remove(test_path("nette/val/n03888257")));
    assert_ok(run((struct verify_options){.path = test_path("nette/val")}));
    assert_true(verify_finding_count(report) > 0);
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
    assert_fails(run((struct verify_options){.path = test_path("flat")}), STATUS_USAGE,
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
    assert_non_null(strstr(shown, "… and 15 more (headrace verify --json lists all)"));
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
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_untidy_folders),
        cmocka_unit_test(test_misplaced),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_oddities),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_duplicates_across),
        cmocka_unit_test(test_repair),
        cmocka_unit_test(test_val),
        cmocka_unit_test(test_val_labels),
        cmocka_unit_test(test_two_sets),
        cmocka_unit_test(test_imagenette),
        cmocka_unit_test(test_md5),
        cmocka_unit_test(test_wrong_paths),
        cmocka_unit_test(test_text_and_json),
        cmocka_unit_test(test_real_data),
    };
    test_devkit_write(test_path("kit"), synsets, 3, "1\n2\n3\n1\n2\n");
    assert_ok(devkit_open(test_path("kit"), &devkit));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    verify_report_free(report);
    devkit_free(devkit);
    return failed;
}
