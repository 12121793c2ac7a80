/* Contact sheets: layout, captions, files. */

#include "tests/test.h"

#include "image/decode.h"
#include "image/sheet.h"
#include "tests/support/golden.h"

static const uint8_t *pixel(const struct picture *picture, uint32_t x, uint32_t y)
{
    return picture->pixels + y * picture->stride_bytes + 3 * (size_t)x;
}

static void one_colour(struct picture *picture, uint32_t width, uint32_t height, uint8_t value)
{
    assert_ok(picture_resize(picture, width, height));
    memset(picture->pixels, value, picture->stride_bytes * height);
}

static size_t count_dark(const struct picture *picture, uint32_t x0, uint32_t y0, uint32_t width,
                         uint32_t height)
{
    size_t dark = 0;
    for (uint32_t y = y0; y < y0 + height; y++)
        for (uint32_t x = x0; x < x0 + width; x++)
            dark += *pixel(picture, x, y) == 0;
    return dark;
}

static void cells_stand_in_a_grid(void **state)
{
    (void)state;
    CLEANUP(sheet_close) struct sheet *sheet = NULL;
    CLEANUP(picture_done) struct picture picture = {0}, out = {0};
    assert_ok(sheet_open(3, 40, &sheet));
    for (uint8_t i = 0; i < 5; i++) {
        one_colour(&picture, i == 4 ? 10 : 200, i == 4 ? 20 : 100, (uint8_t)(100 + i));
        assert_ok(sheet_add(sheet, &picture, i == 1 ? "a\nb" : ""));
    }
    assert_ok(sheet_draw(sheet, &out));
    assert_int_equal(out.width, 6 + 3 * 46);
    assert_int_equal(out.height, 6 + 2 * (46 + 2 * 10));
    /* A wide picture fills the cell's width, centred; above and below it the sheet is white. */
    assert_int_equal(*pixel(&out, 6, 26), 100);
    assert_int_equal(*pixel(&out, 6 + 39, 26), 100);
    assert_int_equal(*pixel(&out, 6 + 40, 26), 255);
    assert_int_equal(*pixel(&out, 6, 15), 255);
    assert_int_equal(*pixel(&out, 6 + 46, 26), 101);
    assert_int_equal(*pixel(&out, 6, 26 + 66), 103);
    /* A small picture keeps its size. */
    assert_int_equal(*pixel(&out, 6 + 46 + 15, 6 + 66 + 10), 104);
    assert_int_equal(*pixel(&out, 6 + 46 + 14, 6 + 66 + 10), 255);
    /* No sixth cell. */
    assert_int_equal(*pixel(&out, 6 + 92, 26 + 66), 255);
}

static void captions_are_cut(void **state)
{
    (void)state;
    CLEANUP(sheet_close) struct sheet *sheet = NULL;
    CLEANUP(picture_done) struct picture picture = {0}, out = {0};
    assert_ok(sheet_open(2, 29, &sheet)); /* five letters wide */
    one_colour(&picture, 29, 29, 200);
    assert_ok(sheet_add(sheet, &picture, "||||||||||||\n\x01\xc3\xa9\xe5\x9b\xbe\n|\n|"));
    assert_ok(sheet_draw(sheet, &out));
    assert_int_equal(out.width, 6 + 29 + 6);
    assert_int_equal(out.height, 6 + 29 + 6 + 3 * 10);
    /* Five bars of seven pixels; three question marks; one bar; the fourth line is left out. */
    assert_int_equal(count_dark(&out, 0, 35, out.width, 10), 5 * 7);
    assert_int_equal(count_dark(&out, 0, 45, out.width, 10) % 3, 0);
    assert_int_not_equal(count_dark(&out, 0, 45, out.width, 10), 0);
    assert_int_equal(count_dark(&out, 0, 55, out.width, 10), 7);
    assert_int_equal(count_dark(&out, 0, 65, out.width, out.height - 65), 0);
}

static void files_are_named_by_their_ending(void **state)
{
    (void)state;
    CLEANUP(sheet_close) struct sheet *sheet = NULL;
    CLEANUP(picture_done) struct picture picture = {0}, out = {0}, back = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(decoder_close) struct decoder *decoder = NULL;
    assert_ok(sheet_open(2, 64, &sheet));
    assert_ok(picture_from_seed(0, 90, 70, &picture));
    assert_ok(sheet_add(sheet, &picture, "noise"));

    const char *path = test_path("sheet.png");
    assert_ok(sheet_write(sheet, path));
    assert_ok(sheet_draw(sheet, &out));
    assert_ok(decoder_open(&decoder));
    assert_ok(file_read_all(path, (size_t)1 << 20, &bytes));
    assert_int_equal(image_kind_of(bytes.data, bytes.length), IMAGE_PNG);
    assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &back, NULL));
    assert_int_equal(picture_crc(&back), picture_crc(&out));

    path = test_path("sheet.JPG");
    assert_ok(sheet_write(sheet, path));
    assert_ok(file_read_all(path, (size_t)1 << 20, &bytes));
    assert_int_equal(image_kind_of(bytes.data, bytes.length), IMAGE_JPEG);

    assert_fails(sheet_write(sheet, test_path("sheet.gif")), STATUS_USAGE, ".png, .jpg or .jpeg");
    assert_fails(sheet_write(sheet, test_path("sheet")), STATUS_USAGE, ".png, .jpg or .jpeg");
}

static void impossible_sheets_are_refused(void **state)
{
    (void)state;
    CLEANUP(sheet_close) struct sheet *sheet = NULL;
    CLEANUP(picture_done) struct picture picture = {0}, out = {0};
    assert_fails(sheet_open(0, 10, &sheet), STATUS_USAGE, "0 columns");
    assert_ok(sheet_open(1, 40000, &sheet));
    assert_fails(sheet_draw(sheet, &out), STATUS_NOT_FOUND, "no images");
    one_colour(&picture, 3, 3, 1);
    assert_ok(sheet_add(sheet, &picture, ""));
    assert_ok(sheet_add(sheet, &picture, ""));
    assert_fails(sheet_draw(sheet, &out), STATUS_USAGE, "65500 a side");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_stand_in_a_grid),
        cmocka_unit_test(captions_are_cut),
        cmocka_unit_test(files_are_named_by_their_ending),
        cmocka_unit_test(impossible_sheets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
