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
    TEST_META_PLAIN, /* N×1, uint8 and uint16, compressed, as published */
    TEST_META_ROW,   /* 1×N */
    TEST_META_UNCOMPRESSED,
    TEST_META_ALL_FIELDS, /* with gloss, children (empty for leaves) and wordnet_height */
    TEST_META_WIDE_TEXT,  /* text as UTF-16, as MATLAB writes it */
    TEST_META_DOUBLE,     /* numbers of one type each */
    TEST_META_SINGLE,
    TEST_META_INT16,
    TEST_META_UINT16,
    TEST_META_INT32,
    TEST_META_UINT32,
    TEST_META_INT64,
    TEST_META_UINT64,
    TEST_META_GOOD_FORMS,                  /* those above */
    TEST_META_HDF5 = TEST_META_GOOD_FORMS, /* MATLAB 7.3 */
};

/* Writes `synsets` to a file. `skip_field` (or NULL) is left out. */
void test_meta_write(const char *path, const struct test_synset *synsets, size_t count,
                     enum test_meta_form form, const char *skip_field);

/* Writes a variable of another kind under a name: rows × columns, of zeros, spaces or empty cells.
 * Appends to a file that exists. */
enum test_meta_kind { TEST_META_NUMBERS, TEST_META_TEXT, TEST_META_CELLS, TEST_META_STRUCT };
void test_meta_write_other(const char *path, const char *name, enum test_meta_kind kind,
                           size_t rows, size_t columns);

/* Asserts that matio reads the same synsets from a file. */
void test_meta_compare(const char *path, const struct synset_list *list);

/* Makes FOLDER/ILSVRC2012_devkit_t12/data with a meta.mat of these synsets and a ground truth of
 * this text. */
void test_devkit_write(const char *folder, const struct test_synset *synsets, size_t count,
                       const char *truth);

#endif
