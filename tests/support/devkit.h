#ifndef HEADRACE_TESTS_SUPPORT_DEVKIT_H
#define HEADRACE_TESTS_SUPPORT_DEVKIT_H

/* Writes meta.mat files by matio, in the published form and in others. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "prep/meta_mat.h"

struct test_synset {
    double id;
    const char *wnid;
    const char *words;
    double child_count;
    double train_images;
};

enum test_meta_form {
    TEST_META_PLAIN,   /* N×1, uint8 and uint16, as published */
    TEST_META_ROW,     /* 1×N */
    TEST_META_DOUBLES, /* numbers as doubles */
    TEST_META_HDF5,    /* MATLAB 7.3 */
};

/* Writes `synsets` to a file. `skip_field` (or NULL) is left out. */
void test_meta_write(const char *path, const struct test_synset *synsets, size_t count,
                     enum test_meta_form form, const char *skip_field);

/* Asserts that matio reads the same synsets from a file. */
void test_meta_compare(const char *path, const struct synset_list *list);

/* Makes FOLDER/ILSVRC2012_devkit_t12/data with a meta.mat of these synsets and a ground truth of
 * this text. */
void test_devkit_write(const char *folder, const struct test_synset *synsets, size_t count,
                       const char *truth);

#endif
