#include "tests/test.h"

#include "base/digest.h"

static void published_values_come_out(void **state)
{
    (void)state;
    char hex[MD5_HEX_LENGTH + 1];
    digest_md5_bytes("", 0, hex);
    assert_string_equal(hex, "d41d8cd98f00b204e9800998ecf8427e");
    digest_md5_bytes("message digest", 14, hex); /* RFC 1321 */
    assert_string_equal(hex, "f96b697d7cb7938d525a2f31aaf161d0");

    static const uint8_t abc[SHA256_BYTES] = {/* FIPS 180-2, B.1 */
                                              0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                              0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                              0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                              0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    uint8_t digest[SHA256_BYTES];
    digest_sha256_bytes("abc", 3, digest);
    assert_memory_equal(digest, abc, sizeof abc);
}

struct calls {
    int count;
    uint64_t last_bytes;
};

static void note_call(uint64_t done_bytes, void *context)
{
    struct calls *calls = context;
    calls->count++;
    calls->last_bytes = done_bytes;
}

static void files_are_digested_with_progress(void **state)
{
    (void)state;
    CLEANUP(memory_free) uint8_t *bytes = NULL;
    const size_t length = 3000001;
    char expected[MD5_HEX_LENGTH + 1], found[MD5_HEX_LENGTH + 1];
    struct calls calls = {0};
    assert_ok(memory_alloc(length, 1, &bytes));
    assert_ok(file_write_plain(test_path("file"), bytes, length));
    digest_md5_bytes(bytes, length, expected);
    assert_ok(digest_md5_file(test_path("file"), note_call, &calls, found));
    assert_string_equal(found, expected);
    assert_true(calls.count > 1);
    assert_int_equal(calls.last_bytes, length);
    assert_ok(digest_md5_file(test_path("file"), NULL, NULL, found));
    assert_fails(digest_md5_file(test_path("none"), NULL, NULL, found), STATUS_NOT_FOUND, "none'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values_come_out),
        cmocka_unit_test(files_are_digested_with_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
