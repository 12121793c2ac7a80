#include "tests/test.h"

#include "prep/archive_listing.h"
#include "prep/image_name.h"

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum image_set set;
        uint64_t number;
        const char *wnid;
    } cases[] = {
        {"n01440764_10026.JPEG", IMAGE_SET_TRAIN, 10026, "n01440764"},
        {"n01440764_1.jpg", IMAGE_SET_TRAIN, 1, "n01440764"},
        {"n01440764_10026_n01440764.JPEG", IMAGE_SET_TRAIN, 10026, "n01440764"},
        {"n01440764_10026_n01440765.JPEG", IMAGE_SET_OTHER, 0, ""},
        {"n01440764_10026_n0144076.JPEG", IMAGE_SET_OTHER, 0, ""},
        {"ILSVRC2012_val_00000293.JPEG", IMAGE_SET_VAL, 293, ""},
        {"ILSVRC2012_val_00000293_n01440764.JPEG", IMAGE_SET_VAL, 293, "n01440764"},
        {"ILSVRC2012_test_00100000.JPEG", IMAGE_SET_TEST, 100000, ""},
        {"ILSVRC2012_val_00000293", IMAGE_SET_OTHER, 0, ""},
        {"ILSVRC2012_val_x.JPEG", IMAGE_SET_OTHER, 0, ""},
        {"ILSVRC2012_val_1234567890.JPEG", IMAGE_SET_OTHER, 0, ""},
        {"ILSVRC2012_val_00000293_n0144.JPEG", IMAGE_SET_OTHER, 0, ""},
        {"n0144076_1.JPEG", IMAGE_SET_OTHER, 0, ""},
        {"n01440764.tar", IMAGE_SET_OTHER, 0, ""},
        {"", IMAGE_SET_OTHER, 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct image_name name = image_name_parse(cases[i].name);
        assert_int_equal(name.set, cases[i].set);
        assert_int_equal(name.number, cases[i].number);
        assert_string_equal(name.wnid, cases[i].wnid);
    }
    assert_true(is_wnid("n01440764"));
    assert_false(is_wnid("n014407640"));
    assert_false(is_wnid("x01440764"));
}

static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum archive_layout layout;
    } cases[] = {
        {"n01440764.tar", LAYOUT_TRAIN},
        {"a/n01440764.TAR", LAYOUT_TRAIN},
        {"ILSVRC2012_val_00000001.JPEG", LAYOUT_VAL},
        {"val/ILSVRC2012_val_00000001.JPEG", LAYOUT_VAL},
        {"val/n01440764/ILSVRC2012_val_00000293.JPEG", LAYOUT_CLASS_FOLDERS},
        {"n01440764/ILSVRC2012_val_00000293.JPEG", LAYOUT_CLASS_FOLDERS},
        {"test/ILSVRC2012_test_00000001.JPEG", LAYOUT_TEST},
        {"cat/1.jpg", LAYOUT_CLASS_FOLDERS},
        {"1.jpg", LAYOUT_UNKNOWN},
        {"README", LAYOUT_UNKNOWN},
        {"ILSVRC2012_devkit_t12/data/meta.mat", LAYOUT_DEVKIT},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(archive_layout_of_member(cases[i].name), cases[i].layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
