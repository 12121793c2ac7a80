#include "tests/support/imagenet.h"

#include "tests/support/tar.h"
#include "tests/test.h"

const char *test_write(const char *path, const struct buffer *bytes)
{
    assert_ok(file_write_atomic(path, bytes->data, bytes->length));
    return path;
}

static void add_image(struct buffer *tar, const char *name)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(buffer_append_text(&bytes, "\xff\xd8\xff%s\xff\xd9", name));
    assert_ok(tar_add_file(tar, name, bytes.data, bytes.length));
}

void test_add_class(struct buffer *outer, const char *class_name, int count)
{
    CLEANUP(buffer_done) struct buffer inner = {0};
    char name[64];
    for (int i = 1; i <= count; i++) {
        snprintf(name, sizeof name, "%s_%d.JPEG", class_name, i);
        add_image(&inner, name);
    }
    assert_ok(tar_end(&inner, 10240));
    snprintf(name, sizeof name, "%s.tar", class_name);
    assert_ok(tar_add_file(outer, name, inner.data, inner.length));
}

const char *test_train_tar(const char *path, const char *const *classes, size_t class_count)
{
    CLEANUP(buffer_done) struct buffer outer = {0};
    for (size_t i = 0; i < class_count; i++)
        test_add_class(&outer, classes[i], (int)i + 1);
    assert_ok(tar_end(&outer, 10240));
    return test_write(path, &outer);
}

const char *test_val_tar(const char *path, const int *numbers, size_t count)
{
    CLEANUP(buffer_done) struct buffer tar = {0};
    char image[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(image, sizeof image, "ILSVRC2012_val_%08d.JPEG", numbers[i]);
        add_image(&tar, image);
    }
    assert_ok(tar_end(&tar, 10240));
    return test_write(path, &tar);
}

void test_check_image(const char *path)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    const char *name = path_base(path);
    assert_ok(file_read_all(path, 1000, &bytes));
    assert_int_equal(bytes.length, strlen(name) + 5);
    assert_memory_equal(bytes.data + 3, name, strlen(name));
}
