/* Decoding against Pillow (tests/oracle/pillow_golden.py); regions against the whole image; bad
 * files. */

#include "tests/test.h"

#include <sys/resource.h>
#include <zlib.h>

#include "base/random.h"
#include "image/crop.h"
#include "image/decode.h"
#include "image/resample.h"
#include "tests/support/golden.h"
#include "tests/support/jpeg_make.h"
#include "tests/support/real_images.h"

static const struct jpeg_kind kinds[] = {
    {.name = "4:4:4", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}},
    {.name = "4:2:0", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}},
    {.name = "4:2:2", .components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}},
    {.name = "4:4:0", .components = 3, .factors = {{1, 2}, {1, 1}, {1, 1}}},
    {.name = "4:1:1", .components = 3, .factors = {{4, 1}, {1, 1}, {1, 1}}},
    {.name = "4:1:0", .components = 3, .factors = {{4, 2}, {1, 1}, {1, 1}}},
    {.name = "1 x 4", .components = 3, .factors = {{1, 4}, {1, 1}, {1, 1}}},
    {.name = "mixed", .components = 3, .factors = {{2, 2}, {2, 1}, {1, 2}}},
    {.name = "luma smaller", .components = 3, .factors = {{1, 1}, {2, 2}, {2, 2}}},
    {.name = "3 x 1", .components = 3, .factors = {{3, 1}, {1, 1}, {1, 1}}},
    {.name = "gray", .components = 1, .factors = {{1, 1}}},
    {.name = "gray 2 x 2", .components = 1, .factors = {{2, 2}}},
    {.name = "RGB", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}, .keep_rgb = true},
    {.name = "CMYK",
     .components = 4,
     .factors = {{1, 1}, {1, 1}, {1, 1}, {1, 1}},
     .keep_rgb = true},
    {.name = "YCCK", .components = 4, .factors = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}},
    {.name = "YCCK 4:2:0", .components = 4, .factors = {{2, 2}, {1, 1}, {1, 1}, {2, 2}}},
    {.name = "restarts", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}, .restart_blocks = 3},
    {.name = "progressive",
     .components = 3,
     .factors = {{1, 1}, {1, 1}, {1, 1}},
     .progressive = true},
    {.name = "progressive 4:2:0",
     .components = 3,
     .factors = {{2, 2}, {1, 1}, {1, 1}},
     .progressive = true},
    {.name = "progressive gray", .components = 1, .factors = {{1, 1}}, .progressive = true},
    {.name = "arithmetic",
     .components = 3,
     .factors = {{2, 2}, {1, 1}, {1, 1}},
     .arithmetic = true},
    {.name = "scans", .components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}, .separate_scans = true},
};

/* One decoder serves all tests, as one serves all images of a thread. */
static struct decoder *decoder;

static int open_decoder(void **state)
{
    (void)state;
    assert_ok(decoder_open(&decoder));
    return 0;
}

static int close_decoder(void **state)
{
    (void)state;
    decoder_close(decoder);
    return 0;
}

static void read_golden(const char *name, struct buffer *bytes)
{
    CLEANUP(memory_free) char *path = NULL;
    assert_ok(path_join("tests/golden/images", name, &path));
    assert_ok(file_read_all(path, (size_t)1 << 20, bytes));
}

static void decodes_as_pillow(void **state)
{
    (void)state;
    CLEANUP(golden_done) struct golden golden = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture picture = {0};
    assert_ok(golden_open("pillow_decode.txt", &golden));
    while (golden_line(&golden)) {
        const char *name = golden_word(&golden);
        uint32_t width = (uint32_t)golden_number(&golden);
        uint32_t height = (uint32_t)golden_number(&golden);
        read_golden(name, &bytes);
        struct image_info info;
        unsigned warnings;
        assert_ok(image_probe(bytes.data, bytes.length, &info));
        assert_int_equal(info.width, width);
        assert_int_equal(info.height, height);
        assert_int_equal(info.kind, strstr(name, "png") ? IMAGE_PNG : IMAGE_JPEG);
        assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &picture, &warnings));
        assert_int_equal(picture.width, width);
        assert_int_equal(picture.height, height);
        if (picture_crc(&picture) != golden_hex(&golden))
            fail_msg("%s: other pixels than Pillow's", name);
        assert_int_equal(warnings, strstr(name, "stray") ? 1 : 0);
        assert_false(golden.failed);
    }
}

/* However the same coefficients are coded, the pixels are the same. */
static void coding_does_not_change_pixels(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture picture = {0};
    for (int sampling = 1; sampling <= 2; sampling++) {
        uint32_t first = 0;
        for (int coding = 0; coding < 5; coding++) {
            const struct jpeg_kind kind = {.components = 3,
                                           .factors = {{sampling, sampling}, {1, 1}, {1, 1}},
                                           .progressive = coding == 1 || coding == 2,
                                           .arithmetic = coding == 2 || coding == 3,
                                           .separate_scans = coding == 3,
                                           .restart_blocks = coding == 4 ? 2 : 0};
            assert_ok(jpeg_make(&kind, 5, 83, 61, &bytes));
            assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &picture, NULL));
            uint32_t crc = picture_crc(&picture);
            assert_true(coding == 0 || crc == first);
            first = crc;
        }
    }
}

static struct rectangle random_region(struct random_stream *stream, uint32_t width, uint32_t height)
{
    struct rectangle region;
    region.x = (uint32_t)random_below(stream, width);
    region.y = (uint32_t)random_below(stream, height);
    region.width = 1 + (uint32_t)random_below(stream, width - region.x);
    region.height = 1 + (uint32_t)random_below(stream, height - region.y);
    return region;
}

/* The region's pixels, and all others that the picture holds, are the whole image's. */
static bool is_part_of(const struct picture *part, const struct rectangle *region,
                       const struct picture *whole)
{
    uint32_t right = part->origin_x + part->width, bottom = part->origin_y + part->height;
    if (part->origin_x > region->x || part->origin_y > region->y ||
        right < region->x + region->width || bottom < region->y + region->height ||
        right > whole->width || bottom > whole->height)
        return false;
    for (uint32_t y = 0; y < part->height; y++)
        if (memcmp(part->pixels + y * part->stride_bytes,
                   whole->pixels + (part->origin_y + y) * whole->stride_bytes +
                       3 * (size_t)part->origin_x,
                   3 * (size_t)part->width) != 0)
            return false;
    return true;
}

static void check_region(const struct buffer *bytes, const struct rectangle *region,
                         const struct picture *whole, const char *name)
{
    CLEANUP(picture_done) struct picture part = {0};
    assert_ok(decoder_decode(decoder, bytes->data, bytes->length, region, &part, NULL));
    if (!is_part_of(&part, region, whole))
        fail_msg("%s, %u x %u: the region %u x %u at (%u, %u) differs", name, whole->width,
                 whole->height, region->width, region->height, region->x, region->y);
}

static void regions_equal_the_whole(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1},   {1, 70},  {70, 1},   {2, 2},    {5, 9},  {17, 16},
                                        {33, 31}, {64, 64}, {97, 131}, {130, 95}, {200, 7}};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture whole = {0};
    for (uint64_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        for (uint64_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
            uint32_t width = sizes[i][0], height = sizes[i][1];
            assert_ok(jpeg_make(&kinds[k], i, width, height, &bytes));
            assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &whole, NULL));
            assert_int_equal(whole.width, width);
            assert_int_equal(whole.height, height);
            struct random_stream stream = random_stream_make(7, RANDOM_TEST, (uint32_t)k, i);
            for (int n = 0; n < 60; n++) {
                struct rectangle region = random_region(&stream, width, height);
                check_region(&bytes, &region, &whole, kinds[k].name);
            }
        }
    }
}

static void a_region_is_less_than_the_whole(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture part = {0};
    const struct rectangle region = {100, 90, 30, 20};
    for (int k = 0; k < 4; k++) {
        assert_ok(jpeg_make(&kinds[k], 1, 400, 300, &bytes));
        assert_ok(decoder_decode(decoder, bytes.data, bytes.length, &region, &part, NULL));
        assert_true(part.width <= 40);
        assert_int_equal(part.height, region.height);
        /* What lies below the region is not even looked at. */
        assert_ok(decoder_decode(decoder, bytes.data, bytes.length / 2, &region, &part, NULL));
    }
}

static void the_widest_image(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture whole = {0};
    static const struct rectangle regions[] = {{0, 0, 1, 1}, {65499, 0, 1, 1}, {31111, 0, 999, 1}};
    assert_ok(jpeg_make(&kinds[1], 1, 65500, 1, &bytes));
    assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &whole, NULL));
    for (size_t i = 0; i < ARRAY_LENGTH(regions); i++)
        check_region(&bytes, &regions[i], &whole, "65,500 x 1");
}

static void a_region_outside_fails(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture part = {0};
    static const struct rectangle regions[] = {
        {0, 0, 41, 1}, {40, 0, 1, 1}, {0, 0, 0, 1}, {1, 1, UINT32_MAX, 1}, {0, 30, 1, 1}};
    assert_ok(jpeg_make(&kinds[0], 1, 40, 30, &bytes));
    for (size_t i = 0; i < ARRAY_LENGTH(regions); i++)
        assert_fails(decoder_decode(decoder, bytes.data, bytes.length, &regions[i], &part, NULL),
                     STATUS_FAILED, "not within");
}

static void probe_tells_the_kind(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        struct image_info info;
        assert_ok(jpeg_make(&kinds[k], k, 31, 17, &bytes));
        assert_ok(image_probe(bytes.data, bytes.length, &info));
        assert_int_equal(info.kind, IMAGE_JPEG);
        assert_int_equal(info.width, 31);
        assert_int_equal(info.height, 17);
        assert_int_equal(info.components, kinds[k].components);
        assert_int_equal(info.progressive, kinds[k].progressive);
    }
}

/* --- Bad files -----------------------------------------------------------------------------------
 */

static void decode_fails(const void *bytes, size_t length, enum status_code code, const char *part)
{
    CLEANUP(picture_done) struct picture picture = {0};
    assert_fails(decoder_decode(decoder, bytes, length, NULL, &picture, NULL), code, part);
}

static void no_images_are_refused(void **state)
{
    (void)state;
    struct image_info info;
    decode_fails("", 0, STATUS_CORRUPT, "ends after 0 bytes");
    decode_fails("\xff\xd8", 2, STATUS_CORRUPT, "ends after 2 bytes");
    decode_fails("\xff\xd8\xff", 3, STATUS_CORRUPT, "libjpeg");
    decode_fails("GIF89a..", 8, STATUS_CORRUPT, "47 49 46 38");
    decode_fails("\x89PNG\r\n\x1a\n", 8, STATUS_CORRUPT, "libpng: premature end");
    assert_fails(image_probe("", 0, &info), STATUS_CORRUPT, "ends after 0 bytes");
    assert_fails(image_probe("\xff\xd8\xff\xd9", 4, &info), STATUS_CORRUPT, "no image");
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        assert_ok(jpeg_make(&kinds[k], k, 90, 70, &bytes));
        decode_fails(bytes.data, bytes.length * 6 / 10, STATUS_CORRUPT, "remature end");
        decode_fails(bytes.data, 100, STATUS_CORRUPT, "remature end");
        if (kinds[k].arithmetic)
            continue; /* its data may end early: zeros follow without limit */
        /* Cut and closed with an end marker: libjpeg only finds a data segment too short. */
        size_t cut = bytes.length / 2;
        memcpy(bytes.data + cut, "\xff\xd9", 2);
        decode_fails(bytes.data, cut + 2, STATUS_CORRUPT, "libjpeg");
    }
    read_golden("rgb.png", &bytes);
    decode_fails(bytes.data, bytes.length * 6 / 10, STATUS_CORRUPT, "libpng: premature end");
    bytes.data[bytes.length / 2] ^= 1;
    decode_fails(bytes.data, bytes.length, STATUS_CORRUPT, "libpng");
}

static size_t find_marker(const struct buffer *bytes, uint8_t marker)
{
    for (size_t i = 0; i + 1 < bytes->length; i++)
        if (bytes->data[i] == 0xff && bytes->data[i + 1] == marker)
            return i;
    fail_msg("no marker %02x", marker);
    return 0;
}

static void insert(struct buffer *bytes, size_t at, const void *added, size_t length)
{
    assert_ok(buffer_resize(bytes, bytes->length + length));
    memmove(bytes->data + at + length, bytes->data + at, bytes->length - length - at);
    memcpy(bytes->data + at, added, length);
}

static void what_libjpeg_cannot_is_said(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    struct image_info info;
    assert_ok(jpeg_make(&kinds[0], 1, 40, 30, &bytes));
    size_t frame = find_marker(&bytes, 0xc0);
    bytes.data[frame + 4] = 12; /* bits */
    assert_fails(image_probe(bytes.data, bytes.length, &info), STATUS_UNSUPPORTED, "precision 12");
    bytes.data[frame + 4] = 8;
    bytes.data[frame + 1] = 0xc3; /* lossless */
    assert_fails(image_probe(bytes.data, bytes.length, &info), STATUS_UNSUPPORTED, "SOF");
    bytes.data[frame + 1] = 0xc0;
    memset(bytes.data + frame + 5, 0xf0, 4); /* 61,680 x 61,680 */
    assert_ok(image_probe(bytes.data, bytes.length, &info));
    decode_fails(bytes.data, bytes.length, STATUS_UNSUPPORTED, "61680 x 61680");
    memset(bytes.data + frame + 5, 0, 4);
    decode_fails(bytes.data, bytes.length, STATUS_CORRUPT, "libjpeg");

    read_golden("rgb.png", &bytes);
    memcpy(bytes.data + 16, "\0\1\0\0\0\1\0\0\x08\x02\0\0\0\x31\xe6\xfd\x8b",
           17); /* 65,536 x 65,536 */
    decode_fails(bytes.data, bytes.length, STATUS_CORRUPT, "libpng");
}

/* Pillow refuses such a file too, though no pixel is missing. */
static void an_end_without_a_marker_is_refused(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    read_golden("444.jpg", &bytes);
    decode_fails(bytes.data, bytes.length - 1, STATUS_CORRUPT, "remature end");
    decode_fails(bytes.data, bytes.length - 2, STATUS_CORRUPT, "remature end");
    assert_false(jpeg_has_end(bytes.data, bytes.length - 1));
    assert_true(jpeg_has_end(bytes.data, bytes.length));
    assert_ok(buffer_resize(&bytes, bytes.length + JPEG_TAIL_BYTES - 2));
    assert_true(jpeg_has_end(bytes.data, bytes.length));
    assert_ok(buffer_resize(&bytes, bytes.length + 1));
    assert_false(jpeg_has_end(bytes.data, bytes.length));
    assert_false(jpeg_has_end("\xd9", 1));
    assert_false(jpeg_has_end("", 0));
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* What a header claims is not believed with memory. */
static void huge_claims_cost_nothing(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    long before = peak_kilobytes();
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        assert_ok(jpeg_make(&kinds[k], 1, 40, 30, &bytes));
        for (size_t i = 0; i + 9 < bytes.length; i++) {
            if (bytes.data[i] != 0xff || bytes.data[i + 1] < 0xc0 || bytes.data[i + 1] == 0xc4 ||
                bytes.data[i + 1] > 0xcf || bytes.data[i + 1] == 0xcc)
                continue;
            memcpy(bytes.data + i + 5, "\xff\xdc\xff\xdc", 4);
            break;
        }
        decode_fails(bytes.data, bytes.length, STATUS_UNSUPPORTED,
                     "65500 x 65500 pixels; at most 178956970 are decoded");
    }
    read_golden("rgb.png", &bytes);
    memcpy(bytes.data + 16, "\0\0\xff\xdc\0\0\xff\xdc", 8);
    uint32_t crc = (uint32_t)crc32(0, bytes.data + 12, 17);
    for (int i = 0; i < 4; i++)
        bytes.data[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    decode_fails(bytes.data, bytes.length, STATUS_UNSUPPORTED, "65500 x 65500 pixels; at most");
    assert_true(peak_kilobytes() - before < 32 << 10);
}

static void stray_bytes_are_counted(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture picture = {0};
    unsigned warnings;
    assert_ok(jpeg_make(&kinds[1], 1, 40, 30, &bytes));
    insert(&bytes, find_marker(&bytes, 0xdb), "ab", 2);
    insert(&bytes, find_marker(&bytes, 0xda), "c", 1);
    assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &picture, &warnings));
    assert_int_equal(warnings, 2);
    insert(&bytes, find_marker(&bytes, 0xd9), "\x12\x34", 2); /* after the data: never seen */
    assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &picture, &warnings));
    assert_int_equal(warnings, 2);
}

/* libjpeg's state remembers tables: an image must not be decoded with those of the one before. */
static void tables_are_each_images_own(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture picture = {0};
    assert_ok(jpeg_make(&kinds[0], 1, 40, 30, &bytes));
    assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &picture, NULL));
    size_t table = find_marker(&bytes, 0xdb);
    bytes.data[table + 1] = 0xfe; /* a comment */
    decode_fails(bytes.data, bytes.length, STATUS_CORRUPT, "Quantization table");
}

static void endless_scans_are_refused(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0}, scan = {0};
    const struct jpeg_kind gray = {.components = 1, .factors = {{1, 1}}, .progressive = true};
    assert_ok(jpeg_make(&gray, 1, 40, 30, &bytes));
    size_t start = find_marker(&bytes, 0xda), end = start + 2;
    while (bytes.data[end] != 0xff || bytes.data[end + 1] == 0)
        end++;
    assert_ok(buffer_append(&scan, bytes.data + start, end - start));
    for (int i = 0; i < 120; i++)
        insert(&bytes, end, scan.data, scan.length);
    decode_fails(bytes.data, bytes.length, STATUS_CORRUPT, "more than 100 scans");
}

/* --- Writing -------------------------------------------------------------------------------------
 */

static void pictures_come_back(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(picture_done) struct picture picture = {0}, back = {0};
    struct image_info info;
    for (uint64_t seed = 0; seed < 3; seed++) {
        assert_ok(picture_from_seed(seed, 45, 23, &picture));
        assert_ok(png_encode(&picture, &bytes));
        assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &back, NULL));
        assert_int_equal(picture_crc(&back), picture_crc(&picture));
    }
    read_golden("444.jpg", &bytes);
    assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &picture, NULL));
    for (int quality = 1; quality <= 100; quality += 33) {
        assert_ok(jpeg_encode(&picture, quality, &bytes));
        assert_ok(image_probe(bytes.data, bytes.length, &info));
        assert_int_equal(info.kind, IMAGE_JPEG);
        assert_int_equal(info.width, picture.width);
        assert_int_equal(bytes.data[find_marker(&bytes, 0xc0) + 11], quality < 90 ? 0x22 : 0x11);
        assert_ok(decoder_decode(decoder, bytes.data, bytes.length, NULL, &back, NULL));
        assert_int_equal(back.height, picture.height);
    }
    for (uint32_t y = 0; y < picture.height; y++)
        for (size_t x = 0; x < 3 * (size_t)picture.width; x++)
            assert_true(abs(back.pixels[y * back.stride_bytes + x] -
                            picture.pixels[y * picture.stride_bytes + x]) < 4);
}

/* --- Real images ---------------------------------------------------------------------------------
 */

static void check_real_image(const uint8_t *data, size_t length, uint64_t number)
{
    CLEANUP(picture_done) struct picture whole = {0};
    struct buffer bytes = {.data = (uint8_t *)data, .length = length}; /* borrowed */
    struct random_stream stream = random_stream_make(8, RANDOM_CROP, 0, number);
    assert_ok(decoder_decode(decoder, data, length, NULL, &whole, NULL));
    struct crop crop = crop_random(&crop_options_default, whole.width, whole.height, 224, &stream);
    struct rectangle region = resample_region(&crop);
    check_region(&bytes, &region, &whole, "real");
}

static void regions_of_real_images(void **state)
{
    (void)state;
    CLEANUP(real_images_done) struct real_images images = {0};
    const uint8_t *bytes;
    size_t length;
    assert_ok(real_images_open(test_data_path("ILSVRC2012_img_train.tar"), &images));
    while (real_images_next(&images, &bytes, &length))
        check_real_image(bytes, length, images.count - 1);
    assert_int_equal(images.count, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_as_pillow),
        cmocka_unit_test(coding_does_not_change_pixels),
        cmocka_unit_test(regions_equal_the_whole),
        cmocka_unit_test(a_region_is_less_than_the_whole),
        cmocka_unit_test(the_widest_image),
        cmocka_unit_test(a_region_outside_fails),
        cmocka_unit_test(probe_tells_the_kind),
        cmocka_unit_test(no_images_are_refused),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(what_libjpeg_cannot_is_said),
        cmocka_unit_test(an_end_without_a_marker_is_refused),
        cmocka_unit_test(huge_claims_cost_nothing),
        cmocka_unit_test(stray_bytes_are_counted),
        cmocka_unit_test(tables_are_each_images_own),
        cmocka_unit_test(endless_scans_are_refused),
        cmocka_unit_test(pictures_come_back),
        cmocka_unit_test(regions_of_real_images),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}
