#ifndef HEADRACE_TESTS_SUPPORT_IMAGENET_H
#define HEADRACE_TESTS_SUPPORT_IMAGENET_H

/* Small archives in the form of the published ones. The bytes of an image are what a JPEG begins
 * with, its name, and what a JPEG ends with. */

#include <stddef.h>

#include "base/bytes.h"

/* Writes a buffer to a file and gives its path back. */
const char *test_write(const char *path, const struct buffer *bytes);

/* Appends CLASS.tar with the images CLASS_1.JPEG … CLASS_<count>.JPEG. */
void test_add_class(struct buffer *outer, const char *class_name, int count);
/* A training archive of `class_count` classes, the i-th with i + 1 images. */
const char *test_train_tar(const char *path, const char *const *classes, size_t class_count);
/* A flat archive of validation images with these numbers. */
const char *test_val_tar(const char *path, const int *numbers, size_t count);

/* Asserts that a file exists and has the bytes that an image of its name has here. */
void test_check_image(const char *path);

#endif
