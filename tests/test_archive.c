#include "tests/test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "prep/archive.h"
#include "tests/support/shell.h"
#include "tests/support/tar.h"

static const char *write_file(const char *name, const struct buffer *bytes)
{
    const char *path = test_path(name);
    assert_ok(file_write_atomic(path, bytes->data, bytes->length));
    return path;
}

/* Reads all members by their data and, where they have one, by their range; both must agree. Names
 * are joined in `names`. */
static struct status read_all(const char *path, struct buffer *names, uint64_t *ret_bytes,
                              unsigned *ret_warnings)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    struct archive_member member;
    bool found;
    *ret_bytes = 0;
    TRY(archive_file_open(path, &file));
    TRY(archive_reader_open(file, ARCHIVE_DATA, &reader));
    for (;;) {
        TRY(archive_reader_next(reader, &member, &found));
        *ret_warnings = archive_reader_warnings(reader);
        if (!found)
            return OK;
        TRY(buffer_append_text(names, "%s%s|", member.name, member.is_folder ? "/" : ""));
        uint64_t done = 0;
        for (size_t length = 1; length;) {
            const void *bytes;
            TRY(archive_reader_data(reader, &bytes, &length));
            for (size_t at = 0; member.is_range && at < length; at += 100) {
                uint8_t direct;
                TRY(file_read_at(file->fd, path, &direct, 1, member.offset + done + at));
                assert_int_equal(direct, ((const uint8_t *)bytes)[at]);
            }
            done += length;
        }
        assert_int_equal(done, member.size_bytes);
        *ret_bytes += done;
    }
}

static void assert_reads(const char *path, const char *names, uint64_t bytes)
{
    CLEANUP(buffer_done) struct buffer found = {0};
    uint64_t found_bytes;
    unsigned warnings;
    const char *text;
    assert_ok(read_all(path, &found, &found_bytes, &warnings));
    assert_ok(buffer_text(&found, &text));
    assert_string_equal(text, names);
    assert_int_equal(found_bytes, bytes);
    assert_int_equal(warnings, 0);
}

static void assert_read_fails(const char *path, const char *part)
{
    CLEANUP(buffer_done) struct buffer names = {0};
    uint64_t bytes;
    unsigned warnings;
    assert_fails(read_all(path, &names, &bytes, &warnings), STATUS_CORRUPT, part);
}

static void fill(uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
}

static void test_header_forms(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer tar = {0};
    static uint8_t bytes[700000];
    char long_name[200];
    fill(bytes, sizeof bytes);
    memset(long_name, 'n', 150);
    memcpy(long_name + 150, ".JPEG", 6);

    assert_ok(tar_add(&tar, "folder/", TAR_FOLDER, NULL, NULL, 0));
    assert_ok(tar_add_file(&tar, "./folder/a b.JPEG", bytes, 1));
    assert_ok(tar_add_file(&tar, "empty", bytes, 0));
    assert_ok(tar_add_gnu_file(&tar, long_name, bytes, 513));
    assert_ok(tar_add_pax_file(&tar, "f/\xe5\x9b\xbe", bytes, 512));
    assert_ok(tar_add_file(&tar, "raw-\xff\xfe", bytes, 5));
    assert_ok(tar_add_binary_size_file(&tar, "large", bytes, sizeof bytes));
    assert_ok(tar_end(&tar, 10240));
    CLEANUP(memory_free) char *names = NULL;
    assert_ok(string_format(&names,
                            "folder/|folder/a b.JPEG|empty|%s|f/\xe5\x9b\xbe|raw-\xff\xfe|large|",
                            long_name));
    assert_reads(write_file("forms.tar", &tar), names, 1 + 513 + 512 + 5 + sizeof bytes);
}

static void test_inner_archives(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer inner = {0}, outer = {0};
    uint8_t bytes[3000];
    fill(bytes, sizeof bytes);
    assert_ok(tar_add_file(&inner, "i1", bytes, sizeof bytes));
    assert_ok(tar_add_file(&inner, "i2", bytes + 9, 10));
    assert_ok(tar_end(&inner, 10240));
    assert_ok(tar_add_file(&outer, "first", bytes, 100));
    assert_ok(tar_add_file(&outer, "inner.tar", inner.data, inner.length));
    assert_ok(tar_add_file(&outer, "last", bytes, 100));
    assert_ok(tar_end(&outer, 512));

    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    struct archive_member member, inner_member;
    bool found;
    assert_ok(archive_file_open(write_file("outer.tar", &outer), &file));
    assert_ok(archive_reader_open(file, ARCHIVE_HEADERS, &reader));
    assert_ok(archive_reader_next(reader, &member, &found));
    assert_ok(archive_reader_next(reader, &member, &found));
    assert_true(found && member.is_range);

    CLEANUP(archive_reader_close) struct archive_reader *by_range = NULL, *by_stream = NULL;
    assert_ok(archive_reader_open_range(file, member.name, member.offset, member.size_bytes,
                                        ARCHIVE_HEADERS, &by_range));
    assert_ok(archive_reader_open_member(reader, &member, &by_stream));
    assert_ok(archive_reader_next(by_range, &inner_member, &found));
    assert_int_equal(inner_member.offset, member.offset + 512);
    assert_ok(archive_reader_next(by_range, &inner_member, &found));
    assert_string_equal(inner_member.name, "i2");
    assert_memory_equal(outer.data + inner_member.offset, bytes + 9, 10);
    assert_ok(archive_reader_next(by_range, &inner_member, &found));
    assert_false(found);

    const void *piece;
    size_t length;
    assert_ok(archive_reader_next(by_stream, &inner_member, &found));
    assert_ok(archive_reader_next(by_stream, &inner_member, &found));
    assert_false(inner_member.is_range);
    assert_ok(archive_reader_data(by_stream, &piece, &length));
    assert_int_equal(length, 10);
    assert_memory_equal(piece, bytes + 9, 10);
    assert_ok(archive_reader_next(by_stream, &inner_member, &found));
    assert_false(found);

    assert_ok(archive_reader_next(reader, &member, &found));
    assert_string_equal(member.name, "last");
}

static void test_cuts(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer tar = {0};
    uint8_t bytes[2000];
    fill(bytes, sizeof bytes);
    assert_ok(tar_add_file(&tar, "one", bytes, 2000)); /* 0, data 512 … 2512, padded to 2560 */
    assert_ok(tar_add_file(&tar, "two", bytes, 2000)); /* 2560, data 3072 … 5072, padded to 5120 */
    assert_ok(tar_end(&tar, 10240));

    struct buffer cut = tar;
    cut.length = 2560 + 100;
    assert_read_fails(write_file("cut.tar", &cut), "ends before it should");
    assert_read_fails(test_path("cut.tar"), "cut.tar: byte 2560 (after the header of one)");
    cut.length = 4000;
    assert_read_fails(
        write_file("cut.tar", &cut),
        "byte 3072 (after the header of two): it is cut short: this member ends at byte "
        "5072, the archive at byte 4000");
    cut.length = 600;
    assert_read_fails(write_file("cut.tar", &cut), "(after the header of one): it is cut short");

    /* At a member's border nothing is missing but the end mark. */
    CLEANUP(buffer_done) struct buffer names = {0};
    uint64_t size_bytes;
    unsigned warnings;
    cut.length = 5120;
    assert_ok(read_all(write_file("cut.tar", &cut), &names, &size_bytes, &warnings));
    assert_int_equal(size_bytes, 4000);
    assert_int_equal(warnings, 1);

    cut.length = 0;
    assert_read_fails(write_file("cut.tar", &cut), "is not a tar archive but empty");
}

static void test_damage(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer tar = {0};
    uint8_t bytes[2000];
    fill(bytes, sizeof bytes);
    assert_ok(tar_add_file(&tar, "one", bytes, 2000));
    assert_ok(tar_add_file(&tar, "two", bytes, 2000));
    assert_ok(tar_add_file(&tar, "three", bytes, 2000));
    assert_ok(tar_end(&tar, 10240));

    uint8_t saved[512];
    memcpy(saved, tar.data + 5120, 512);
    fill(tar.data + 5120, 512);
    assert_read_fails(write_file("noise.tar", &tar),
                      "byte 5120 (after the header of two): Damaged");
    memcpy(tar.data + 5120, saved, 512);
    tar.data[5120 + 150] ^= 1;
    assert_read_fails(write_file("checksum.tar", &tar),
                      "byte 5120 (after the header of two): Damaged");
    memset(tar.data + 5120, 0, 1024);
    assert_read_fails(write_file("hole.tar", &tar), "data follow the archive's end mark");
}

static void test_unsafe_members(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        char type;
        const char *target, *part;
    } cases[] = {
        {"../e", TAR_FILE, NULL, "member ../e is a name that leads out"},
        {"a/../../e", TAR_FILE, NULL, "leads out"},
        {"a/..", TAR_FOLDER, NULL, "leads out"},
        {"/abs", TAR_FILE, NULL, "leads out"},
        {".//abs/../..", TAR_FILE, NULL, "leads out"},
        {"d", TAR_LINK, "folder", "member d is a symbolic link"},
        {"h", TAR_HARD_LINK, "/etc/passwd", "member h is a hard link"},
        {"f", TAR_FIFO, NULL, "member f is a named pipe"},
        {"c", '3', NULL, "member c is a device"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(buffer_done) struct buffer tar = {0};
        assert_ok(tar_add_file(&tar, "good", "x", 1));
        assert_ok(tar_add(&tar, cases[i].name, cases[i].type, cases[i].target, NULL, 0));
        assert_ok(tar_end(&tar, 512));
        assert_read_fails(write_file("unsafe.tar", &tar), cases[i].part);
    }
    CLEANUP(buffer_done) struct buffer tar = {0};
    assert_ok(tar_add_file(&tar, "..a/b..", "x", 1));
    assert_ok(tar_end(&tar, 512));
    assert_reads(write_file("dots.tar", &tar), "..a/b..|", 1);
}

static void test_other_files(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *part;
    } cases[] = {
        {"<!DOCTYPE html><html>", 21, "an HTML page: log in"},
        {"\n  <HTML>", 9, "an HTML page"},
        {"PK\3\4......", 10, "a zip file"},
        {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file"},
        {"BZh9....", 8, "a bzip2 file"},
        {"hello\n", 6, "plain text"},
        {"hello\0", 6, "data of no known kind"},
        {"GIF89a..", 8, "a GIF image"},
        {"RIFF....WEBPVP8 ", 16, "a WebP image"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct buffer bytes = {.data = (uint8_t *)cases[i].bytes, .length = cases[i].length};
        assert_read_fails(write_file("other.tar", &bytes), cases[i].part);
    }
    struct buffer page = {.data = (uint8_t *)"<!DOCTYPE html>", .length = 15};
    assert_read_fails(write_file("ILSVRC2012_devkit_t12.tar.gz", &page),
                      "it has 15 bytes, the published ILSVRC2012_devkit_t12.tar.gz has 2568145");
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    assert_fails(archive_file_open(test_folder(), &file), STATUS_FAILED, "folder");
    assert_fails(archive_file_open(test_path("missing.tar"), &file), STATUS_NOT_FOUND,
                 "missing.tar");
}

/* A tar whose first bytes are another format's magic number is a tar all the same. */
static void test_disguise(void **state)
{
    (void)state;
    static const char *const names[] = {"\x1f\x8b\x08", "PK\3\4", "070701", "7z\xbc\xaf\x27\x1c"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        CLEANUP(buffer_done) struct buffer tar = {0};
        CLEANUP(memory_free) char *expected = NULL;
        assert_ok(tar_add_file(&tar, names[i], "abc", 3));
        assert_ok(tar_end(&tar, 512));
        assert_ok(string_format(&expected, "%s|", names[i]));
        assert_reads(write_file("disguise.tar", &tar), expected, 3);
    }
}

static void test_gzip_sparse_and_pipe(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer tar = {0};
    static uint8_t bytes[50000];
    fill(bytes, sizeof bytes);
    assert_ok(tar_add_file(&tar, "a", bytes, sizeof bytes));
    assert_ok(tar_end(&tar, 10240));
    const char *path = write_file("plain", &tar);
    char command[2048];

    snprintf(command, sizeof command, "gzip -kf %s", path);
    assert_int_equal(test_shell(command), 0);
    assert_reads(test_path("plain.gz"), "a|", sizeof bytes);
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    assert_ok(archive_file_open(test_path("plain.gz"), &file));
    assert_fails(archive_file_check_ranges(file), STATUS_UNSUPPORTED, "gunzip");

    snprintf(command, sizeof command,
             "cd %s && truncate -s 300000 holes && printf xyz | dd of=holes bs=1 seek=150000 "
             "conv=notrunc status=none && tar -S -c -f sparse.tar holes && "
             "tar -S --format=pax -c -f sparse_pax.tar holes",
             test_folder());
    assert_int_equal(test_shell(command), 0);
    assert_reads(test_path("sparse.tar"), "holes|", 300000);
    assert_reads(test_path("sparse_pax.tar"), "holes|", 300000);

    const char *fifo = test_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(command, sizeof command, "cat %s >%s &", path, fifo);
    assert_int_equal(test_shell(command), 0);
    assert_reads(fifo, "a|", sizeof bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_forms),   cmocka_unit_test(test_inner_archives),
        cmocka_unit_test(test_cuts),           cmocka_unit_test(test_damage),
        cmocka_unit_test(test_unsafe_members), cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_disguise),       cmocka_unit_test(test_gzip_sparse_and_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
