#include "tests/test.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/progress.h"
#include "base/stage.h"
#include "base/stop.h"
#include "image/class_table.h"
#include "prep/extract_space.h"
#include "tests/support/devkit.h"
#include "tests/support/imagenet.h"
#include "tests/support/shell.h"
#include "tests/support/tar.h"

static const char *const classes[] = {"n01000000", "n02000000", "n03000000", "n04000000",
                                      "n05000000"};
#define CLASS_COUNT ARRAY_LENGTH(classes)
#define IMAGE_COUNT 15

static const struct test_synset synsets[] = {
    {1, "n03000000", "c", 0, 3},
    {2, "n01000000", "a", 0, 1},
    {3, "n02000000", "b", 0, 2},
};

static struct extract_result result;

static struct status extract_with(const char *archive, const char *dest, const char *devkit_path)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    if (devkit_path)
        TRY(devkit_open(devkit_path, &devkit));
    extract_result_done(&result);
    return extract(
        &(struct extract_options){.archive = archive, .dest = dest, .devkit = devkit, .threads = 2},
        &result);
}

/* Extracts and removes the archive. */
static struct status extract_and_remove(const char *archive, const char *dest, const char *devkit,
                                        bool is_subset)
{
    CLEANUP(devkit_free) struct devkit *opened = NULL;
    if (devkit)
        TRY(devkit_open(devkit, &opened));
    TRY(extract_with(archive, dest, devkit));
    return extract_delete_source(&(struct extract_options){.archive = archive,
                                                           .dest = dest,
                                                           .devkit = opened,
                                                           .threads = 2,
                                                           .is_subset = is_subset},
                                 &result);
}

/* All classes are there with their images, and nothing else. */
static void check_train(const char *dest)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(dest, &list));
    assert_int_equal(list.count, CLASS_COUNT);
    for (size_t i = 0; i < CLASS_COUNT; i++) {
        CLEANUP(folder_list_done) struct folder_list images = {0};
        CLEANUP(memory_free) char *folder = NULL;
        assert_ok(path_join(dest, classes[i], &folder));
        assert_ok(folder_list_read(folder, &images));
        assert_int_equal(images.count, i + 1);
        for (size_t k = 0; k < images.count; k++) {
            CLEANUP(memory_free) char *path = NULL;
            assert_ok(path_join(folder, images.entries[k].name, &path));
            test_check_image(path);
        }
    }
}

static void test_train(void **state)
{
    (void)state;
    const char *archive = test_train_tar(test_path("train.tar"), classes, CLASS_COUNT);
    const char *dest = test_path("a b/\xe5\x9b\xbe/train");
    assert_ok(extract_with(archive, dest, NULL));
    check_train(dest);
    assert_int_equal(result.images, IMAGE_COUNT);
    assert_int_equal(result.classes, CLASS_COUNT);
    assert_int_equal(result.kept, 0);

    assert_ok(extract_with(archive, dest, NULL));
    check_train(dest);
    assert_int_equal(result.kept, IMAGE_COUNT);
}

static void test_train_compressed(void **state)
{
    (void)state;
    char command[1024];
    snprintf(command, sizeof command, "gzip -kf %s",
             test_train_tar(test_path("train.tar"), classes, CLASS_COUNT));
    assert_int_equal(test_shell(command), 0);
    assert_ok(extract_with(test_path("train.tar.gz"), test_path("gz"), NULL));
    check_train(test_path("gz"));
}

/* One full, one half, one cut image, one missing class, a leftover and a file of somebody else. */
static void test_resume(void **state)
{
    (void)state;
    const char *archive = test_train_tar(test_path("train.tar"), classes, CLASS_COUNT);
    const char *dest = test_path("resume");
    assert_ok(extract_with(archive, dest, NULL));
    assert_ok(folder_remove(test_path("resume/n02000000")));
    assert_ok(file_remove(test_path("resume/n03000000/n03000000_2.JPEG")));
    assert_ok(file_write_atomic(test_path("resume/n04000000/n04000000_1.JPEG"), "x", 1));
    assert_ok(folder_create(test_path("resume/.n05000000.partial")));
    assert_ok(file_write_atomic(test_path("resume/.n05000000.partial/junk"), "x", 1));
    assert_ok(file_write_atomic(test_path("resume/n05000000/mine.txt"), "x", 1));

    assert_ok(extract_with(archive, dest, NULL));
    assert_int_equal(result.kept, IMAGE_COUNT - 4);
    assert_int_equal(result.extra, 1);
    assert_true(path_exists(test_path("resume/n05000000/mine.txt")));
    assert_ok(file_remove(test_path("resume/n05000000/mine.txt")));
    check_train(dest);
}

static void test_broken_class(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer outer = {0};
    test_add_class(&outer, "n01000000", 3);
    size_t second = outer.length + 512; /* where its inner archive starts */
    test_add_class(&outer, "n02000000", 3);
    memset(outer.data + second + 1024, 0x5a, 512); /* the header of its second image */
    assert_ok(tar_end(&outer, 512));
    const char *archive = test_write(test_path("broken.tar"), &outer);
    assert_fails(extract_with(archive, test_path("broken"), NULL), STATUS_CORRUPT,
                 "broken.tar: inner archive n02000000.tar, byte 1024 (after the header of "
                 "n02000000_1.JPEG): Damaged");
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(test_path("broken"), &list));
    assert_int_equal(list.count, 1);
    assert_true(path_exists(test_path("broken/n01000000/n01000000_3.JPEG")));

    outer.length = second + 700;
    assert_fails(extract_with(test_write(test_path("cut.tar"), &outer), test_path("cut"), NULL),
                 STATUS_CORRUPT,
                 "(after the header of n02000000.tar): it is cut short: this member ends at byte");
}

/* The third header of a class is noise: its images that were read are no class. */
static void test_third_header(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer outer = {0};
    size_t first = outer.length + 512;
    test_add_class(&outer, "n01000000", 5);
    memset(outer.data + first + 2048, 0x5a, 512);
    assert_ok(tar_end(&outer, 512));
    const char *archive = test_write(test_path("third.tar"), &outer);
    assert_fails(extract_with(archive, test_path("third"), NULL), STATUS_CORRUPT,
                 "third.tar: inner archive n01000000.tar, byte 2048 (after the header of "
                 "n01000000_2.JPEG): Damaged");
    assert_fails(extract_with(archive, test_path("third"), NULL), STATUS_CORRUPT,
                 "compare size and MD5 with the publisher's");
    assert_false(path_exists(test_path("third")));
}

/* No member of an inner archive, whatever it is, makes anything appear elsewhere. */
static void test_unsafe_members(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        char type;
        const char *target, *part;
    } cases[] = {
        {"../e.JPEG", TAR_FILE, NULL, "member ../e.JPEG is a name that leads out"},
        {"/abs.JPEG", TAR_FILE, NULL, "member /abs.JPEG is a name that leads out"},
        {"d", TAR_LINK, "..", "member d is a symbolic link"},
        {"n01000000_9.JPEG", TAR_LINK, "../../secret", "n01000000_9.JPEG is a symbolic link"},
        {"n01000000_9.JPEG", TAR_HARD_LINK, "../secret", "n01000000_9.JPEG is a hard link"},
        {"n01000000_9.JPEG", TAR_FIFO, NULL, "n01000000_9.JPEG is a named pipe"},
        {"n01000000_9.JPEG", '3', NULL, "n01000000_9.JPEG is a device"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_done) struct buffer inner = {0}, outer = {0};
        CLEANUP(folder_list_done) struct folder_list list = {0};
        assert_ok(tar_add_file(&inner, "n01000000_1.JPEG", "x", 1));
        assert_ok(tar_add(&inner, cases[i].name, cases[i].type, cases[i].target, NULL, 0));
        assert_ok(tar_add_file(&inner, "d/f.JPEG", "x", 1));
        assert_ok(tar_end(&inner, 512));
        assert_ok(tar_add_file(&outer, "n01000000.tar", inner.data, inner.length));
        assert_ok(tar_end(&outer, 512));
        assert_ok(folder_remove(test_path("jail")));
        assert_ok(folder_create(test_path("jail")));
        assert_fails(extract_with(test_write(test_path("jail.tar"), &outer), test_path("jail/dest"),
                                  NULL),
                     STATUS_CORRUPT, cases[i].part);
        assert_ok(folder_list_read(test_path("jail"), &list));
        assert_int_equal(list.count, 0);
    }
}

/* An archive of another year has 5,620 classes. */
static void test_many_classes(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer outer = {0}, inner = {0};
    char name[32];
    for (int i = 0; i < 5620; i++) {
        inner.length = 0;
        snprintf(name, sizeof name, "n%08d_1.JPEG", 1000000 + i);
        assert_ok(tar_add_file(&inner, name, "x", 1));
        assert_ok(tar_end(&inner, 512));
        snprintf(name, sizeof name, "n%08d.tar", 1000000 + i);
        assert_ok(tar_add_file(&outer, name, inner.data, inner.length));
    }
    assert_ok(tar_end(&outer, 512));
    const char *archive = test_write(test_path("many.tar"), &outer);
    test_devkit_write(test_path("kit"), synsets, 3, "1\n");
    assert_fails(extract_with(archive, test_path("many"), test_path("kit")), STATUS_CORRUPT,
                 "5619 classes that the devkit's 3 do not have (n01000001, n01000002, ");
    assert_fails(extract_with(archive, test_path("many"), test_path("kit")), STATUS_CORRUPT,
                 "lacks 2 (n02000000, n03000000)");
    assert_ok(extract_with(archive, test_path("many"), NULL));
    assert_int_equal(result.classes, 5620);
}

/* Classes that are there are whole. */
static void check_whole_classes(const char *dest)
{
    for (size_t i = 0; i < CLASS_COUNT; i++) {
        CLEANUP(folder_list_done) struct folder_list list = {0};
        const char *folder = test_join(dest, classes[i]);
        if (!path_exists(folder))
            continue;
        assert_ok(folder_list_read(folder, &list));
        assert_int_equal(list.count, i + 1);
    }
}

/* An archive that ends anywhere else than it should either fails or is warned of, and then its
 * counts show what is missing; no part of a class is taken for the class. */
static void test_every_cut(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer whole = {0};
    const char *dest = test_path("cuts"), *cut_path = test_path("cuts.tar");
    test_train_tar(test_path("whole.tar"), classes, 3);
    assert_ok(file_read_all(test_path("whole.tar"), 1 << 20, &whole));
    int failed = 0, warned = 0;
    for (size_t length = 0; length <= whole.length; length += 256) {
        assert_ok(folder_remove(dest));
        assert_ok(file_write_plain(cut_path, whole.data, length));
        struct status status = extract_with(cut_path, dest, NULL);
        check_whole_classes(dest);
        if (status.code == STATUS_DONE && result.warnings == 0)
            assert_int_equal(result.images, 6);
        failed += status.code != STATUS_DONE;
        warned += status.code == STATUS_DONE && result.warnings;
        status_clear(&status);
    }
    assert_true(failed > 80);
    assert_int_equal(warned, 3); /* behind the second and third class, and after half an end mark */
}

static void test_every_cut_compressed(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer whole = {0};
    const char *dest = test_path("gz-cuts"), *cut_path = test_path("cuts.tar.gz");
    char command[1024];
    snprintf(command, sizeof command, "gzip -kf %s",
             test_train_tar(test_path("whole.tar"), classes, 3));
    assert_int_equal(test_shell(command), 0);
    assert_ok(file_read_all(test_path("whole.tar.gz"), 1 << 20, &whole));
    for (size_t length = 0; length < whole.length; length += 7) {
        assert_ok(folder_remove(dest));
        assert_ok(file_write_plain(cut_path, whole.data, length));
        struct status status = extract_with(cut_path, dest, NULL);
        check_whole_classes(dest);
        if (status.code == STATUS_DONE && result.warnings == 0)
            assert_int_equal(result.images, 6);
        status_clear(&status);
    }
}

static void test_bad_archives(void **state)
{
    (void)state;
    CLEANUP(buffer_done)
    struct buffer unsafe = {0}, inner = {0}, twice = {0}, images = {0}, none = {0};
    assert_ok(tar_add_file(&inner, "../../escaped.JPEG", "x", 1));
    assert_ok(tar_end(&inner, 512));
    assert_ok(tar_add_file(&unsafe, "n01000000.tar", inner.data, inner.length));
    assert_ok(tar_end(&unsafe, 512));
    assert_fails(extract_with(test_write(test_path("unsafe.tar"), &unsafe),
                              test_path("unsafe/dest"), NULL),
                 STATUS_CORRUPT, "leads out");
    assert_false(path_exists(test_path("escaped.JPEG")));

    test_add_class(&twice, "n01000000", 1);
    test_add_class(&twice, "n01000000", 2);
    assert_ok(tar_end(&twice, 512));
    assert_fails(extract_with(test_write(test_path("twice.tar"), &twice), test_path("twice"), NULL),
                 STATUS_CORRUPT, "\"n01000000\" occurs twice");

    /* Two parents make no two classes of one. */
    CLEANUP(buffer_done) struct buffer parents = {0};
    inner.length = 0;
    assert_ok(tar_add_file(&inner, "n01000000_1.JPEG", "x", 1));
    assert_ok(tar_end(&inner, 512));
    assert_ok(tar_add_file(&parents, "a/n01000000.tar", inner.data, inner.length));
    assert_ok(tar_add_file(&parents, "b/n01000000.tar", inner.data, inner.length));
    assert_ok(tar_end(&parents, 512));
    assert_fails(extract_with(test_write(test_path("parents.tar"), &parents), test_path("parents"),
                              NULL),
                 STATUS_CORRUPT, "\"n01000000\" occurs twice");

    inner.length = 0;
    assert_ok(tar_add_file(&inner, "n01000000_1.JPEG", "x", 1));
    assert_ok(tar_add_file(&inner, "n01000000_1.JPEG", "y", 1));
    assert_ok(tar_end(&inner, 512));
    assert_ok(tar_add_file(&images, "n01000000.tar", inner.data, inner.length));
    assert_ok(tar_end(&images, 512));
    assert_fails(extract_with(test_write(test_path("images.tar"), &images), test_path("images"),
                              NULL),
                 STATUS_CORRUPT, "n01000000_1.JPEG twice");
    assert_false(path_exists(test_path("images/n01000000")));
    /* Neither where the first of the two is there from an earlier run. */
    assert_ok(folder_create(test_path("images/n01000000")));
    assert_ok(file_write_plain(test_path("images/n01000000/n01000000_1.JPEG"), "x", 1));
    assert_fails(extract_with(test_path("images.tar"), test_path("images"), NULL), STATUS_CORRUPT,
                 "n01000000_1.JPEG twice");

    test_add_class(&none, "n01000000", 0);
    assert_ok(tar_end(&none, 512));
    assert_fails(extract_with(test_write(test_path("none.tar"), &none), test_path("none"), NULL),
                 STATUS_NOT_FOUND, "holds no images");
}

static void test_val(void **state)
{
    (void)state;
    static const int numbers[] = {6, 1, 2, 4};
    const char *archive = test_val_tar(test_path("val.tar"), numbers, 4);
    test_devkit_write(test_path("kit"), synsets, 3, "1\n2\n3\n1\n2\n3\n");
    const char *kit = test_path("kit");
    assert_ok(extract_with(archive, test_path("val"), kit));
    assert_int_equal(result.classes, 3);
    assert_int_equal(result.missing, 2);
    assert_int_equal(result.first_missing, 3);
    test_check_image(test_path("val/n03000000/ILSVRC2012_val_00000001.JPEG"));
    test_check_image(test_path("val/n01000000/ILSVRC2012_val_00000002.JPEG"));
    test_check_image(test_path("val/n03000000/ILSVRC2012_val_00000004.JPEG"));
    test_check_image(test_path("val/n02000000/ILSVRC2012_val_00000006.JPEG"));
    assert_ok(extract_with(archive, test_path("val"), kit));
    assert_int_equal(result.kept, 4);
    assert_fails(extract_with(archive, test_path("val"), NULL), STATUS_FAILED,
                 "has class folders already (n01000000, …)");

    assert_ok(extract_with(archive, test_path("flat"), NULL));
    assert_true(result.is_flat);
    test_check_image(test_path("flat/ILSVRC2012_val_00000006.JPEG"));
    assert_ok(file_remove(test_path("flat/ILSVRC2012_val_00000006.JPEG")));
    assert_ok(extract_with(archive, test_path("flat"), NULL));
    assert_int_equal(result.kept, 3);
    test_check_image(test_path("flat/ILSVRC2012_val_00000006.JPEG"));
    assert_fails(extract_with(archive, test_path("flat"), kit), STATUS_FAILED, "headrace organize");

    static const int beyond[] = {1, 7};
    archive = test_val_tar(test_path("beyond.tar"), beyond, 2);
    assert_fails(extract_with(archive, test_path("beyond"), kit), STATUS_CORRUPT,
                 "ILSVRC2012_val_00000007.JPEG has a number beyond the ground truth");
}

/* An archive goes only after its counts are as published and each byte was compared. */
static void test_delete_source(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, 3, 4, 5, 6};
    static const char *const table[] = {"n01000000", "n02000000", "n03000000"};
    test_devkit_write(test_path("kit"), synsets, 3, "1\n2\n3\n1\n2\n3\n");
    const char *kit = test_path("kit"), *dest = test_path("deleting");
    const char *archive = test_train_tar(test_path("train.tar"), table, 3);
    assert_fails(extract_and_remove(archive, dest, NULL, false), STATUS_FAILED,
                 "is kept: it has 3 classes, published are 1000; if that is as it should be, say");
    assert_true(path_exists(archive));
    assert_ok(extract_with(archive, dest, kit));
    assert_ok(file_write_atomic(test_path("deleting/n03000000/n03000000_2.JPEG"),
                                "the same number bytes", 21));
    assert_fails(extract_and_remove(archive, dest, kit, false), STATUS_CORRUPT,
                 "n03000000_2.JPEG' has other bytes than the archive");
    assert_true(path_exists(archive));
    assert_ok(file_remove(test_path("deleting/n03000000/n03000000_2.JPEG")));
    assert_int_equal(symlink(archive, test_path("link.tar")), 0);
    assert_fails(extract_and_remove(test_path("link.tar"), dest, kit, false), STATUS_USAGE,
                 "is a link and not the archive itself");
    assert_ok(extract_and_remove(archive, dest, kit, false));
    assert_false(path_exists(archive));
    test_check_image(test_path("deleting/n03000000/n03000000_2.JPEG"));

    archive = test_val_tar(test_path("val.tar"), numbers, 5);
    assert_fails(extract_and_remove(archive, test_path("deleting-val"), kit, false), STATUS_FAILED,
                 "it has 5 images, published are 6");
    assert_ok(extract_and_remove(archive, test_path("deleting-val"), kit, true));
    assert_false(path_exists(archive));
    archive = test_val_tar(test_path("val.tar"), numbers, 6);
    assert_ok(extract_and_remove(archive, test_path("deleting-val"), kit, false));
    assert_false(path_exists(archive));
}

/* Of two classes one is cut off, at the border of a member: whole as far as can be told, but for
 * the missing end. */
static void test_delete_source_cut(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer outer = {0};
    test_add_class(&outer, "n01000000", 1);
    test_add_class(&outer, "n02000000", 2);
    const char *archive = test_write(test_path("cut.tar"), &outer);
    assert_fails(extract_and_remove(archive, test_path("cut-off"), NULL, true), STATUS_FAILED,
                 "may be incomplete");
    outer.length -= 12000;
    archive = test_write(test_path("cut.tar"), &outer);
    assert_fails(extract_and_remove(archive, test_path("cut-off"), NULL, true), STATUS_CORRUPT,
                 "cut short");
    assert_true(path_exists(archive));
}

static void test_other_classes(void **state)
{
    (void)state;
    const char *archive = test_train_tar(test_path("train.tar"), classes, CLASS_COUNT);
    test_devkit_write(test_path("kit"), synsets, 3, "1\n");
    assert_fails(extract_with(archive, test_path("other"), test_path("kit")), STATUS_CORRUPT,
                 "2 classes that the devkit's 3 do not have (n04000000, n05000000) and lacks 0");
    archive = test_train_tar(test_path("two.tar"), classes, 2);
    assert_ok(extract_with(archive, test_path("two"), test_path("kit")));
    assert_int_equal(result.other_counts, 0);
    archive = test_train_tar(test_path("one.tar"), classes + 1, 1);
    assert_ok(extract_with(archive, test_path("one"), test_path("kit")));
    assert_string_equal(result.other_count_example, "n02000000 has 1, published are 2");
}

static void test_wrong_archives(void **state)
{
    (void)state;
    assert_ok(file_write_atomic(test_path("page.tar"), "<!DOCTYPE html>", 15));
    assert_fails(extract_with(test_path("page.tar"), test_path("x"), NULL), STATUS_CORRUPT,
                 "an HTML page");
    CLEANUP(buffer_done) struct buffer folders = {0}, kit = {0};
    assert_ok(tar_add_file(&folders, "cat/1.jpg", "x", 1));
    assert_ok(tar_end(&folders, 512));
    assert_fails(extract_with(test_write(test_path("folders.tar"), &folders), test_path("x"), NULL),
                 STATUS_USAGE, "tar -xf");
    assert_ok(tar_add_file(&kit, "k/data/meta.mat", "x", 1));
    assert_ok(tar_end(&kit, 512));
    assert_fails(extract_with(test_write(test_path("kit.tar"), &kit), test_path("x"), NULL),
                 STATUS_USAGE, "--devkit");
}

static void test_lock(void **state)
{
    (void)state;
    CLEANUP(stage_close) struct stage *stage = NULL;
    const char *archive = test_train_tar(test_path("train.tar"), classes, CLASS_COUNT);
    assert_ok(stage_open(test_path("locked"), &stage));
    assert_fails(extract_with(archive, test_path("locked"), NULL), STATUS_FAILED,
                 "another headrace is writing");
}

/* Asked to stop, a run says so and leaves nothing that the next one would trip over. */
static void test_stop(void **state)
{
    (void)state;
    const char *archive = test_train_tar(test_path("train.tar"), classes, CLASS_COUNT);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stop_install();
        raise(SIGINT);
        struct status status = extract_with(archive, test_path("stop"), NULL);
        _exit(status_exit_code(status.code));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 75);
    assert_false(path_exists(test_path("stop")));
    assert_ok(extract_with(archive, test_path("stop"), NULL));
    check_train(test_path("stop"));
}

static void test_space_check(void **state)
{
    (void)state;
    CLEANUP(stage_close) struct stage *stage = NULL;
    assert_ok(stage_open(test_path("space"), &stage));
    struct stage_need need = {0};
    stage_need_add(&need, stage, 1);
    uint64_t block_bytes = need.bytes;
    stage_need_add(&need, stage, block_bytes);
    stage_need_add(&need, stage, block_bytes + 1);
    stage_need_add(&need, stage, 0);
    assert_int_equal(need.bytes, 4 * block_bytes);
    assert_int_equal(need.files, 4);
    assert_true(stage_has_room(stage, &need));
    assert_ok(stage_check_space(stage, &need));
    need.bytes = (uint64_t)1 << 60;
    assert_false(stage_has_room(stage, &need));
    assert_fails(stage_check_space(stage, &need), STATUS_NO_SPACE, "needs 1.2 EB");
}

/* Blocks, files and folders, from the headers alone. */
static void test_count(void **state)
{
    (void)state;
    static const int numbers[] = {6, 1, 2, 4};
    CLEANUP(stage_close) struct stage *stage = NULL;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    struct stage_need one = {0}, need = {0};
    struct extract_options options = {.threads = 2};
    assert_ok(stage_open(test_path("counted"), &stage));
    stage_need_add(&one, stage, 1);

    options.archive = test_train_tar(test_path("train.tar"), classes, CLASS_COUNT);
    assert_ok(extract_count(&options, stage, &need));
    assert_int_equal(need.files, IMAGE_COUNT + CLASS_COUNT);
    assert_int_equal(need.bytes, need.files * one.bytes);

    options.archive = test_val_tar(test_path("val.tar"), numbers, ARRAY_LENGTH(numbers));
    assert_ok(extract_count(&options, stage, &need));
    assert_int_equal(need.files, IMAGE_COUNT + CLASS_COUNT + 4);
    test_devkit_write(test_path("kit"), synsets, 3, "1\n2\n3\n1\n2\n3\n");
    assert_ok(devkit_open(test_path("kit"), &devkit));
    options.devkit = devkit;
    need = (struct stage_need){0};
    assert_ok(extract_count(&options, stage, &need));
    assert_int_equal(need.files, 4 + 3);
    assert_int_equal(need.bytes, need.files * one.bytes);
}

static void test_real_archives(void **state)
{
    (void)state;
    const char *devkit_file = test_data_path("ILSVRC2012_devkit_t12.tar.gz");
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    assert_ok(extract_with(test_data_path("ILSVRC2012_img_train.tar"), test_path("real/train"),
                           devkit_file));
    assert_int_equal(result.images, 1000);
    assert_int_equal(result.classes, 1000);
    assert_int_equal(result.other_counts, 1000);
    assert_ok(
        extract_with(test_data_path("ILSVRC2012_img_val.tar"), test_path("real/val"), devkit_file));
    assert_int_equal(result.images, 1300);

    assert_ok(devkit_open(devkit_file, &devkit));
    uint64_t images = 0;
    for (size_t label = 0; label < 1000; label++) {
        CLEANUP(folder_list_done) struct folder_list list = {0};
        CLEANUP(memory_free) char *folder = NULL;
        assert_ok(path_join(test_path("real/val"),
                            class_table_at(devkit_classes(devkit), label)->wnid, &folder));
        if (!path_exists(folder))
            continue;
        assert_ok(folder_list_read(folder, &list));
        images += list.count;
        for (size_t i = 0; i < list.count; i++) {
            long number = strtol(list.entries[i].name + strlen("ILSVRC2012_val_"), NULL, 10);
            assert_int_equal(devkit_val_label(devkit, (size_t)number), label);
        }
    }
    assert_int_equal(images, 1300);
}

int main(void)
{
    progress_set_quiet(1);
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train),
        cmocka_unit_test(test_train_compressed),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_broken_class),
        cmocka_unit_test(test_third_header),
        cmocka_unit_test(test_unsafe_members),
        cmocka_unit_test(test_many_classes),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_every_cut_compressed),
        cmocka_unit_test(test_bad_archives),
        cmocka_unit_test(test_val),
        cmocka_unit_test(test_delete_source),
        cmocka_unit_test(test_delete_source_cut),
        cmocka_unit_test(test_other_classes),
        cmocka_unit_test(test_wrong_archives),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_space_check),
        cmocka_unit_test(test_count),

        cmocka_unit_test(test_real_archives),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    extract_result_done(&result);
    return failed;
}
