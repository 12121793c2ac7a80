#include "tests/test.h"

#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/progress.h"
#include "prep/archive_source.h"
#include "prep/extract.h"
#include "tests/support/imagenet.h"
#include "tests/support/shell.h"
#include "tests/support/tar.h"

/* Archives as programs write them, in every form that GNU tar has, and what only other programs
 * write: all give the same images. */

static struct extract_result result;

static struct status extract_with(const char *archive, const char *dest)
{
    extract_result_done(&result);
    return extract(&(struct extract_options){.archive = archive, .dest = dest, .threads = 2},
                   &result);
}

static void shell(const char *format, ...) PRINTF_LIKE(1, 2);
static void shell(const char *format, ...)
{
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (test_shell(command) != 0)
        fail_msg("failed: %s", command);
}

/* Two classes; names with a space, in UTF-8, in bytes that are no text, and longer than a header
 * holds; an image with holes, an empty one. */
static const char make_images[] =
    "cd %s && rm -rf n01440764 n01443537 && mkdir -p n01440764 n01443537 && cd n01440764 && "
    "echo one >n01440764_1.JPEG && echo two >'n01440764 2.JPEG' && echo three >图.jpg && "
    "echo four >\"$(printf 'raw\\377\\376.jpg')\" && : >empty.png && "
    "echo five >$(printf 'n%%0120d.JPEG' 7) && "
    "echo six >../n01443537/n01443537_1.JPEG && truncate -s 300000 ../n01443537/holes.jpg && "
    "printf xyz | dd of=../n01443537/holes.jpg bs=1 seek=150000 conv=notrunc status=none";

static void assert_all_extracted(const char *archive)
{
    const char *dest = test_path("dest");
    assert_ok(folder_remove(dest));
    assert_ok(extract_with(archive, dest));
    assert_int_equal(result.warnings, 0);
    shell("diff -r %s/n01440764 %s/n01440764 && diff -r %s/n01443537 %s/n01443537", test_folder(),
          dest, test_folder(), dest);
}

static void test_formats(void **state)
{
    (void)state;
    static const struct {
        const char *inner, *outer;
    } cases[] = {
        {"--format=gnu", "--format=gnu"},
        {"--format=oldgnu", "--format=v7"},
        {"--format=pax", "--format=ustar"},
        {"--format=posix --pax-option=delete=atime", "--format=pax"},
        {"--format=gnu -S", "--format=oldgnu"},
        {"--format=pax -S --sparse-version=0.0", "--format=gnu -b 1"},
        {"--format=pax -S --sparse-version=0.1", "--format=gnu"},
        {"--format=pax -S --sparse-version=1.0", "--format=gnu -S"},
        {"--format=gnu -z", "--format=gnu"},
        {"--format=pax -S -z", "--format=gnu"},
        {"--format=gnu", "--format=gnu -z"},
        {"--format=pax -z", "--format=pax -z"},
    };
    shell(make_images, test_folder());
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        shell("cd %s && for c in n01440764 n01443537; do (cd $c && tar %s -c -f ../$c.tar .) || "
              "exit 1; done && tar %s -c -f forms.tar n01440764.tar ./n01443537.tar",
              test_folder(), cases[i].inner, cases[i].outer);
        assert_all_extracted(test_path("forms.tar"));
    }
}

/* Forms that cannot hold long names or bytes that are no text; without them. */
static void test_old_formats(void **state)
{
    (void)state;
    shell(make_images, test_folder());
    shell("cd %s/n01440764 && rm n0*7.JPEG", test_folder());
    static const char *const formats[] = {"v7", "ustar"};
    for (size_t i = 0; i < ARRAY_LENGTH(formats); i++) {
        shell("cd %s && for c in n01440764 n01443537; do (cd $c && tar --format=%s -c -f "
              "../$c.tar .) || exit 1; done && tar --format=%s -c -f forms.tar n0*.tar",
              test_folder(), formats[i], formats[i]);
        assert_all_extracted(test_path("forms.tar"));
    }
}

/* Packing needs byte ranges, which holes and compression leave none of. */
static void test_no_ranges(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    shell(make_images, test_folder());
    shell(
        "cd %s && tar -S -c -f n01443537.tar -C n01443537 . && tar -cf sparse.tar n01443537.tar && "
        "tar -cz -f n01443537.tar -C n01443537 . && tar -cf gzip.tar n01443537.tar",
        test_folder());
    assert_fails(archive_source_open(test_path("sparse.tar"), NULL, NULL, 1, &source),
                 STATUS_UNSUPPORTED, "inner archive n01443537.tar, byte ");
    assert_fails(archive_source_open(test_path("sparse.tar"), NULL, NULL, 1, &source),
                 STATUS_UNSUPPORTED, "stored with holes (sparse)");
    assert_fails(archive_source_open(test_path("gzip.tar"), NULL, NULL, 1, &source),
                 STATUS_UNSUPPORTED, "it is compressed, so its members have no byte ranges");
}

/* What only says that it is an inner archive. */
static void test_inner_disguises(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *part;
    } cases[] = {
        {"<!DOCTYPE html>", 15, "is not a tar archive but an HTML page"},
        {"BZh91AY&SY", 10, "is not a tar archive but a bzip2 file"},
        {"\xfd"
         "7zXZ\0",
         6, "is not a tar archive but an xz file"},
        {"\x28\xb5\x2f\xfd....", 8, "is not a tar archive but a Zstandard file"},
        {"PK\3\4......", 10, "is not a tar archive but a zip file"},
        {"", 0, "is not a tar archive but empty"},
        {"\x1f\x8b\x08\0\0\0\0\0\0\3nonsense", 18, "inner archive n01440764.tar"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_done) struct buffer outer = {0};
        test_add_class(&outer, "n01443537", 1);
        uint64_t offset = outer.length + TAR_BLOCK;
        CLEANUP(memory_free) char *place = NULL;
        assert_ok(string_format(&place, "inner archive n01440764.tar at byte %d", (int)offset));
        assert_ok(tar_add_file(&outer, "n01440764.tar", cases[i].bytes, cases[i].length));
        assert_ok(tar_end(&outer, 512));
        const char *path = test_write(test_path("disguised.tar"), &outer);
        assert_ok(folder_remove(test_path("disguised")));
        assert_fails(extract_with(path, test_path("disguised")), STATUS_CORRUPT, cases[i].part);
        if (i + 1 < ARRAY_LENGTH(cases))
            assert_fails(extract_with(path, test_path("disguised")), STATUS_CORRUPT, place);
        assert_false(path_exists(test_path("disguised/n01440764")));
        assert_true(path_exists(test_path("disguised/n01443537")));
    }
}

/* Appends a header for a member whose data are a hole in the file, and leaves that hole. */
static void add_hole(int fd, const char *name, uint64_t size_bytes, bool is_pax)
{
    CLEANUP(buffer_done) struct buffer tar = {0};
    assert_ok(is_pax ? tar_add_pax_size(&tar, name, size_bytes)
                     : tar_add_binary_size(&tar, name, size_bytes));
    assert_int_equal(write(fd, tar.data, tar.length), tar.length);
    assert_true(lseek(fd, (off_t)size_bytes, SEEK_CUR) > 0);
}

static void add_bytes(int fd, const struct buffer *bytes)
{
    assert_int_equal(write(fd, bytes->data, bytes->length), bytes->length);
}

/* Members of 5 and 9 GiB, with their sizes in pax and in base-256 form; an inner archive behind
 * them is read at its offset. */
static void test_beyond_4_gib(void **state)
{
    (void)state;
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    CLEANUP(archive_listing_done) struct archive_listing listing = {0};
    CLEANUP(buffer_done) struct buffer inner = {0};
    const char *path = test_path("large.tar");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    add_hole(fd, "filler-5", (uint64_t)5 << 30, true);
    add_hole(fd, "filler-9", (uint64_t)9 << 30, false);
    test_add_class(&inner, "n01440764", 3);
    assert_ok(tar_end(&inner, 512));
    add_bytes(fd, &inner);
    close(fd);

    assert_ok(archive_file_open(path, &file));
    assert_ok(archive_list(file, &listing));
    assert_int_equal(listing.count, 3);
    assert_int_equal(listing.items[0].size_bytes, (uint64_t)5 << 30);
    assert_int_equal(listing.items[1].size_bytes, (uint64_t)9 << 30);
    assert_true(listing.items[2].offset > (uint64_t)14 << 30);
    assert_ok(extract_with(path, test_path("large")));
    assert_int_equal(result.images, 3);
    assert_int_equal(result.ignored, 2);
    test_check_image(test_path("large/n01440764/n01440764_3.JPEG"));
    assert_ok(file_remove(path));
}

int main(void)
{
    setlocale(LC_ALL, "C"); /* the worst case: names that it cannot show */
    progress_set_quiet(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),      cmocka_unit_test(test_old_formats),
        cmocka_unit_test(test_no_ranges),    cmocka_unit_test(test_inner_disguises),
        cmocka_unit_test(test_beyond_4_gib),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    extract_result_done(&result);
    return failed;
}
