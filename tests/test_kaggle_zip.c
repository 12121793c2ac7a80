#include "tests/test.h"

#include "base/progress.h"
#include "prep/extract.h"
#include "prep/kaggle_zip.h"
#include "prep/prep.h"
#include "tests/support/imagenet.h"
#include "tests/support/zip.h"

#define IMAGES "ILSVRC/Data/CLS-LOC/"
static const char mapping[] = "n01440764 tench, Tinca tinca\nn01443537 goldfish\n";
static const char solution[] =
    "ImageId,PredictionString\nILSVRC2012_val_00000003,n01443537 1 2 3 4\n"
    "ILSVRC2012_val_00000001,n01440764 1 2 3 4 \n"
    "ILSVRC2012_val_00000002,n01443537 1 2 3 4\n";

static struct status add_image(struct zip_writer *zip, const char *folder, const char *name,
                               enum zip_form form)
{
    char path[256], bytes[256];
    snprintf(path, sizeof path, IMAGES "%s/%s", folder, name);
    /* As test_check_image expects it. */
    int length = snprintf(bytes, sizeof bytes, "\xff\xd8\xff%s\xff\xd9", name);
    return zip_add(zip, path, form, 0, bytes, (size_t)length);
}

/* Classes take turns, and the label files stand behind the images. */
static void add_all(struct zip_writer *zip, enum zip_form form)
{
    char name[64];
    assert_ok(zip_add(zip, "ILSVRC/", ZIP_STORED, 0, "", 0));
    assert_ok(zip_add(zip, "ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_1.xml", form, 0,
                      "<xml/>", 6));
    for (int i = 1; i <= 3; i++) {
        snprintf(name, sizeof name, "n01440764_%d.JPEG", i);
        assert_ok(add_image(zip, "train/n01440764", name, form));
        snprintf(name, sizeof name, "n01443537_%d.JPEG", i);
        assert_ok(add_image(zip, "train/n01443537", name, form));
        snprintf(name, sizeof name, "ILSVRC2012_val_%08d.JPEG", i);
        assert_ok(add_image(zip, "val", name, form));
        snprintf(name, sizeof name, "ILSVRC2012_test_%08d.JPEG", i);
        assert_ok(add_image(zip, "test", name, form));
    }
    assert_ok(zip_add(zip, IMAGES "train/notes.txt", form, 0, "x", 1));
    assert_ok(zip_add(zip, "LOC_synset_mapping.txt", form, 0, mapping, sizeof mapping - 1));
    assert_ok(zip_add(zip, "LOC_val_solution.csv", form, 0, solution, sizeof solution - 1));
}

static const char *write_zip(const char *name, const struct zip_writer *zip)
{
    return test_write(test_path(name), &zip->bytes);
}

static struct extract_result result;

static struct status extract_part(const char *path, const char *dest, enum image_set part)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    extract_result_done(&result);
    TRY(devkit_open(path, &devkit));
    return extract(&(struct extract_options){.archive = path,
                                             .dest = dest,
                                             .devkit = devkit,
                                             .threads = 2,
                                             .part = part},
                   &result);
}

static void check_images(const char *dest)
{
    static const char *const names[] = {"train/n01440764/n01440764_1.JPEG",
                                        "train/n01440764/n01440764_3.JPEG",
                                        "train/n01443537/n01443537_2.JPEG",
                                        "val/n01440764/ILSVRC2012_val_00000001.JPEG",
                                        "val/n01443537/ILSVRC2012_val_00000002.JPEG",
                                        "val/n01443537/ILSVRC2012_val_00000003.JPEG"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        test_check_image(test_join(dest, names[i]));
}

static void test_extract(void **state)
{
    (void)state;
    static const enum zip_form forms[] = {ZIP_STORED, ZIP_DEFLATED, ZIP_STORED_64};
    for (size_t i = 0; i < ARRAY_LENGTH(forms); i++) {
        CLEANUP(zip_writer_done) struct zip_writer zip = {0};
        add_all(&zip, forms[i]);
        assert_ok(zip_end(&zip, forms[i] == ZIP_STORED_64, i ? "a comment" : ""));
        const char *path = write_zip("all.zip", &zip);
        assert_ok(folder_remove(test_path("all")));
        assert_ok(extract_part(path, test_path("all/train"), IMAGE_SET_TRAIN));
        assert_int_equal(result.images, 6);
        assert_int_equal(result.classes, 2);
        assert_int_equal(result.ignored, 1);
        assert_int_equal(result.other_counts, 2);
        assert_ok(extract_part(path, test_path("all/val"), IMAGE_SET_VAL));
        assert_int_equal(result.images, 3);
        assert_int_equal(result.missing, 0);
        check_images(test_path("all"));

        /* Again: only what is missing. */
        assert_ok(file_remove(test_path("all/train/n01443537/n01443537_2.JPEG")));
        assert_ok(extract_part(path, test_path("all/train"), IMAGE_SET_TRAIN));
        assert_int_equal(result.kept, 5);
        check_images(test_path("all"));
    }
}

static void test_prep(void **state)
{
    (void)state;
    CLEANUP(zip_writer_done) struct zip_writer zip = {0};
    add_all(&zip, ZIP_DEFLATED);
    assert_ok(zip_end(&zip, false, ""));
    assert_ok(folder_create(test_path("src")));
    const char *path = write_zip("src/downloaded.zip", &zip);
    struct prep_options options = {.src = test_path("src"),
                                   .dest = test_path("prep"),
                                   .is_subset = true,
                                   .threads = 2};
    for (int i = 0; i < 2; i++) {
        CLEANUP(prep_result_done) struct prep_result prepared = {0};
        assert_ok(prep(&options, &prepared));
        assert_int_equal(prepared.train.images + prepared.val.images, 9);
        assert_int_equal(prepared.train.kept, i ? 6 : 0);
        assert_int_equal(verify_finding_count(prepared.report), 0);
        check_images(test_path("prep"));
        options.src = path; /* the file itself is as good */
    }
    CLEANUP(prep_result_done) struct prep_result prepared = {0};
    options.delete_source = true;
    assert_fails(prep(&options, &prepared), STATUS_USAGE, "holds more than is extracted from it");
}

/* Changes the byte at the first place of `find`, counted from there. */
static void flip(struct zip_writer *zip, const char *find, size_t offset)
{
    uint8_t *place = memmem(zip->bytes.data, zip->bytes.length, find, strlen(find));
    assert_non_null(place);
    place[offset] ^= 0x40;
}

static void test_damage(void **state)
{
    (void)state;
    static const struct {
        const char *find;
        size_t offset;
        const char *part;
    } cases[] = {
        {"\xff\xd8\xffn01440764_2", 5, "member n01440764_2.JPEG at byte "},
        {"train/n01440764/n01440764_2", 20, "has another name there than in the directory"},
        {"PK\1\2", 0, "damaged zip directory"},
        {"PK\1\2", 45, "damaged zip directory"},
        {"PK\5\6", 0, "a zip file whose end is missing"},
        {"PK\5\6", 12, "a zip file whose end is missing"},
        {"PK\5\6", 4, "one part of a zip file of several"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(zip_writer_done) struct zip_writer zip = {0};
        assert_ok(add_image(&zip, "train/n01440764", "n01440764_1.JPEG", ZIP_STORED));
        assert_ok(add_image(&zip, "train/n01440764", "n01440764_2.JPEG", ZIP_STORED));
        assert_ok(
            zip_add(&zip, "LOC_val_solution.csv", ZIP_STORED, 0, solution, sizeof solution - 1));
        assert_ok(zip_end(&zip, false, ""));
        flip(&zip, cases[i].find, cases[i].offset);
        assert_fails(extract_part(write_zip("bad.zip", &zip), test_path("bad"), IMAGE_SET_TRAIN),
                     cases[i].offset == 4 ? STATUS_UNSUPPORTED : STATUS_CORRUPT, cases[i].part);
        assert_false(path_exists(test_path("bad/n01440764")));
    }
}

static void test_every_cut(void **state)
{
    (void)state;
    CLEANUP(zip_writer_done) struct zip_writer zip = {0};
    add_all(&zip, ZIP_DEFLATED);
    assert_ok(zip_end(&zip, true, ""));
    for (size_t length = 4; length < zip.bytes.length; length += 13) {
        struct buffer cut = zip.bytes;
        cut.length = length;
        assert_fails(extract_part(test_write(test_path("cut.zip"), &cut), test_path("cut"),
                                  IMAGE_SET_TRAIN),
                     STATUS_CORRUPT, "cut short at its ");
    }
}

static void test_odd_members(void **state)
{
    (void)state;
    CLEANUP(zip_writer_done) struct zip_writer zip = {0}, twice = {0}, other = {0};
    assert_ok(zip_add(&zip, IMAGES "train/n01440764/n01440764_9.JPEG", ZIP_STORED, 0120777,
                      "/etc/passwd", 11));
    assert_ok(
        zip_add(&zip, IMAGES "train/n01440764/../../../n01440764_8.JPEG", ZIP_STORED, 0, "x", 1));
    assert_ok(zip_add(&zip, IMAGES "val/../../n01440764_8.JPEG", ZIP_STORED, 0, "x", 1));
    assert_ok(add_image(&zip, "train/n01440764", "n01440764_1.JPEG", ZIP_STORED));
    assert_ok(zip_add(&zip, "LOC_val_solution.csv", ZIP_STORED, 0, solution, sizeof solution - 1));
    assert_ok(zip_end(&zip, false, ""));
    assert_ok(extract_part(write_zip("odd.zip", &zip), test_path("odd"), IMAGE_SET_TRAIN));
    assert_int_equal(result.images, 1); /* no link, nothing outside */
    assert_int_equal(result.ignored, 2);
    assert_fails(extract_part(test_path("odd.zip"), test_path("odd-val"), IMAGE_SET_VAL),
                 STATUS_NOT_FOUND, "no images in ILSVRC/Data/CLS-LOC/val");

    assert_ok(add_image(&twice, "train/n01440764", "n01440764_1.JPEG", ZIP_STORED));
    assert_ok(add_image(&twice, "train/n01440764", "n01440764_1.JPEG", ZIP_STORED));
    assert_ok(
        zip_add(&twice, "LOC_val_solution.csv", ZIP_STORED, 0, solution, sizeof solution - 1));
    assert_ok(zip_end(&twice, false, ""));
    assert_fails(extract_part(write_zip("twice.zip", &twice), test_path("twice"), IMAGE_SET_TRAIN),
                 STATUS_CORRUPT, "n01440764_1.JPEG twice");

    assert_ok(zip_add(&other, "holiday/1.jpg", ZIP_STORED, 0, "x", 1));
    assert_ok(zip_end(&other, false, ""));
    assert_fails(extract_part(write_zip("other.zip", &other), test_path("other"), IMAGE_SET_TRAIN),
                 STATUS_CORRUPT, "not Kaggle's of ILSVRC2012");
}

int main(void)
{
    progress_set_quiet(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extract),     cmocka_unit_test(test_prep),
        cmocka_unit_test(test_damage),      cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_odd_members),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    extract_result_done(&result);
    return failed;
}
