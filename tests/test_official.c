#include "tests/test.h"

#include "prep/official.h"

static void assert_described(const char *path, uint64_t size_bytes, const char *md5, bool is_wrong,
                             const char *part)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *shown;
    bool found_wrong;
    assert_ok(official_describe(path, size_bytes, md5, &text, &found_wrong));
    assert_ok(buffer_text(&text, &shown));
    assert_int_equal(found_wrong, is_wrong);
    if (!strstr(shown, part))
        fail_msg("expected \"%s\" in \"%s\"", part, shown);
}

/* A download is recognised by its MD5, whatever it is called; the right file is named. */
static void test_mix_ups(void **state)
{
    (void)state;
    static const char train[] = "1d675b47d978889d74fa0da5fadfb00e";
    static const char val[] = "29b22e2961454d5413ddabcf34fc5622";
    static const char dogs[] = "ccaf1013018ac1037801578038d370da";
    static const char other[] = "d41d8cd98f00b204e9800998ecf8427e";
    assert_described("x/ILSVRC2012_img_train.tar", 147897477120, train, false,
                     "the published ILSVRC2012_img_train.tar");
    assert_described("renamed.tar", 6744924160, val, false, "the published ILSVRC2012_img_val.tar");
    assert_described(
        "ILSVRC2012_img_train.tar", 6744924160, val, true,
        "this is ILSVRC2012_img_val.tar (validation images, 6.3 GiB), not what its name "
        "says; the published ILSVRC2012_img_train.tar has 1d675b47");
    const char *const names[] = {"ILSVRC2012_img_train.tar", "ILSVRC2012_img_train_t3.tar",
                                 "imagenet.tar"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        assert_described(
            names[i], 728000000, dogs, true,
            "this is ILSVRC2012_img_train_t3.tar (training images of the 120 dog "
            "breeds of task 3 only); all 1000 classes are in ILSVRC2012_img_train.tar");
    assert_described("ILSVRC2012_img_val.tar", 6744924160, other, true,
                     "the published ILSVRC2012_img_val.tar of the same size has 29b22e29");
    assert_described("ILSVRC2012_img_val.tar", 5, other, false,
                     "not the published file (MD5 29b22e2961454d5413ddabcf34fc5622), so only");
    assert_described("own.tar", 5, other, false, "not the published file, so only structure");
}

static void test_hints(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *shown;
    assert_ok(official_append_hint("own.tar", 5, &text));
    assert_ok(official_append_hint("ILSVRC2012_img_val.tar", 6744924160, &text));
    assert_int_equal(text.length, 0);
    assert_ok(official_append_hint("a/ILSVRC2012_img_val.tar", 5, &text));
    assert_ok(buffer_text(&text, &shown));
    assert_string_equal(shown, "; it has 5 bytes, the published ILSVRC2012_img_val.tar has "
                               "6744924160 and MD5 29b22e2961454d5413ddabcf34fc5622");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mix_ups),
        cmocka_unit_test(test_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
