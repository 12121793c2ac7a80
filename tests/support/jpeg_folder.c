#include "tests/support/jpeg_folder.h"

#include "base/random.h"
#include "image/decode.h"
#include "image/folder_source.h"
#include "tests/test.h"

void jpeg_folder_image(uint64_t number, struct buffer *bytes)
{
    struct random_stream random = random_stream_make(7, RANDOM_TEST, 0, number);
    CLEANUP(picture_done) struct picture picture = {0};
    assert_ok(picture_resize(&picture, 8 + (uint32_t)random_below(&random, 60),
                             8 + (uint32_t)random_below(&random, 60)));
    for (uint32_t y = 0; y < picture.height; y++)
        for (uint32_t x = 0; x < 3 * picture.width; x++)
            picture.pixels[y * picture.stride_bytes + x] = (uint8_t)random_u32(&random);
    assert_ok(jpeg_encode(&picture, 90, bytes));
}

void jpeg_folder_add(const char *folder, const char *class_name, const char *name,
                     const struct buffer *bytes)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, class_name);
    assert_ok(folder_create(path));
    snprintf(path, sizeof path, "%s/%s/%s", folder, class_name, name);
    assert_ok(file_write_plain(path, bytes->data, bytes->length));
}

void jpeg_folder_make(const char *folder)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    for (unsigned i = 0; i < 40; i++) {
        char file[32];
        snprintf(file, sizeof file, "x_%u.JPEG", i);
        jpeg_folder_image(i, &bytes);
        jpeg_folder_add(folder, i % 5 == 0 ? "a" : i % 3 == 0 ? "b" : "c", file, &bytes);
    }
}

struct source *jpeg_folder_open(const char *folder)
{
    struct source *source;
    assert_ok(folder_source_open(folder, NULL, 2, &source));
    return source;
}
