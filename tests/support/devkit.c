#include "tests/support/devkit.h"

#include <matio.h>
#include <string.h>

#include "tests/test.h"

static matvar_t *number_make(double value, enum test_meta_form form)
{
    size_t dims[2] = {1, 1};
    uint8_t byte = (uint8_t)value;
    uint16_t word = (uint16_t)value;
    if (form == TEST_META_DOUBLES)
        return Mat_VarCreate(NULL, MAT_C_DOUBLE, MAT_T_DOUBLE, 2, dims, &value, 0);
    if (value < 256)
        return Mat_VarCreate(NULL, MAT_C_UINT8, MAT_T_UINT8, 2, dims, &byte, 0);
    return Mat_VarCreate(NULL, MAT_C_UINT16, MAT_T_UINT16, 2, dims, &word, 0);
}

static matvar_t *text_make(const char *text)
{
    size_t dims[2] = {1, strlen(text)};
    return Mat_VarCreate(NULL, MAT_C_CHAR, MAT_T_UTF8, 2, dims, (void *)text, 0);
}

void test_meta_write(const char *path, const struct test_synset *synsets, size_t count,
                     enum test_meta_form form, const char *skip_field)
{
    static const char *const all[] = {"ILSVRC2012_ID", "WNID", "words", "num_children",
                                      "num_train_images"};
    const char *fields[5];
    unsigned field_count = 0;
    for (size_t i = 0; i < 5; i++)
        if (!skip_field || strcmp(skip_field, all[i]) != 0)
            fields[field_count++] = all[i];
    size_t dims[2] = {count, 1};
    if (form == TEST_META_ROW) {
        dims[0] = 1;
        dims[1] = count;
    }
    mat_t *mat = Mat_CreateVer(path, NULL, form == TEST_META_HDF5 ? MAT_FT_MAT73 : MAT_FT_MAT5);
    assert_non_null(mat);
    matvar_t *table = Mat_VarCreateStruct("synsets", 2, dims, fields, field_count);
    for (size_t i = 0; i < count; i++) {
        matvar_t *values[] = {number_make(synsets[i].id, form), text_make(synsets[i].wnid),
                              text_make(synsets[i].words),
                              number_make(synsets[i].child_count, form),
                              number_make(synsets[i].train_images, form)};
        for (size_t k = 0; k < 5; k++) {
            if (skip_field && strcmp(skip_field, all[k]) == 0)
                Mat_VarFree(values[k]);
            else
                Mat_VarSetStructFieldByName(table, all[k], i, values[k]);
        }
    }
    assert_int_equal(Mat_VarWrite(mat, table, MAT_COMPRESSION_ZLIB), 0);
    Mat_VarFree(table);
    Mat_Close(mat);
}

void test_devkit_write(const char *folder, const struct test_synset *synsets, size_t count,
                       const char *truth)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/ILSVRC2012_devkit_t12/data", folder);
    assert_ok(folder_create(path));
    snprintf(path, sizeof path, "%s/ILSVRC2012_devkit_t12/data/meta.mat", folder);
    test_meta_write(path, synsets, count, TEST_META_PLAIN, NULL);
    snprintf(path, sizeof path,
             "%s/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", folder);
    assert_ok(file_write_atomic(path, truth, strlen(truth)));
}

static double number_at(matvar_t *synsets, const char *field, size_t index)
{
    const matvar_t *value = Mat_VarGetStructFieldByName(synsets, field, index);
    assert_non_null(value);
    switch (value->class_type) {
    case MAT_C_UINT8:
        return *(const uint8_t *)value->data;
    case MAT_C_UINT16:
        return *(const uint16_t *)value->data;
    default:
        assert_int_equal(value->class_type, MAT_C_DOUBLE);
        return *(const double *)value->data;
    }
}

static void check_text(matvar_t *synsets, const char *field, size_t index, const char *expected)
{
    const matvar_t *value = Mat_VarGetStructFieldByName(synsets, field, index);
    assert_non_null(value);
    assert_int_equal(value->nbytes, strlen(expected));
    assert_memory_equal(value->data, expected, value->nbytes);
}

void test_meta_compare(const char *path, const struct synset_list *list)
{
    mat_t *mat = Mat_Open(path, MAT_ACC_RDONLY);
    assert_non_null(mat);
    matvar_t *synsets = Mat_VarRead(mat, "synsets");
    assert_non_null(synsets);
    assert_int_equal(synsets->dims[0] * synsets->dims[1], list->count);
    for (size_t i = 0; i < list->count; i++) {
        const struct synset *synset = &list->items[i];
        assert_true(number_at(synsets, "ILSVRC2012_ID", i) == synset->id);
        assert_true(number_at(synsets, "num_children", i) == synset->child_count);
        assert_true(number_at(synsets, "num_train_images", i) == synset->train_images);
        check_text(synsets, "WNID", i, synset->wnid);
        check_text(synsets, "words", i, synset->words);
    }
    Mat_VarFree(synsets);
    Mat_Close(mat);
}
