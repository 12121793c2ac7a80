#include "tests/support/devkit.h"

#include <matio.h>
#include <string.h>

#include "tests/test.h"

static matvar_t *numbers_make(const double *values, size_t count, enum test_meta_form form)
{
    size_t dims[2] = {count ? 1 : 0, count};
    union {
        double f64[4];
        float f32[4];
        int16_t i16[4];
        uint16_t u16[4];
        int32_t i32[4];
        uint32_t u32[4];
        int64_t i64[4];
        uint64_t u64[4];
        uint8_t u8[4];
    } data = {{0}};
    assert_true(count <= 4);
#define NUMBERS(field, class, type)                                                                \
    do {                                                                                           \
        for (size_t i = 0; i < count; i++)                                                         \
            data.field[i] = (__typeof__(data.field[0]))values[i];                                  \
        return Mat_VarCreate(NULL, class, type, 2, dims, &data, 0);                                \
    } while (0)
    switch (form) {
    case TEST_META_DOUBLE:
        NUMBERS(f64, MAT_C_DOUBLE, MAT_T_DOUBLE);
    case TEST_META_SINGLE:
        NUMBERS(f32, MAT_C_SINGLE, MAT_T_SINGLE);
    case TEST_META_INT16:
        NUMBERS(i16, MAT_C_INT16, MAT_T_INT16);
    case TEST_META_INT32:
        NUMBERS(i32, MAT_C_INT32, MAT_T_INT32);
    case TEST_META_UINT32:
        NUMBERS(u32, MAT_C_UINT32, MAT_T_UINT32);
    case TEST_META_INT64:
        NUMBERS(i64, MAT_C_INT64, MAT_T_INT64);
    case TEST_META_UINT64:
        NUMBERS(u64, MAT_C_UINT64, MAT_T_UINT64);
    default:
        if (form != TEST_META_UINT16 && count && values[0] < 256 && values[0] >= 0)
            NUMBERS(u8, MAT_C_UINT8, MAT_T_UINT8);
        NUMBERS(u16, MAT_C_UINT16, MAT_T_UINT16);
    }
#undef NUMBERS
}

/* Numbers that are no small whole ones are doubles in any form. */
static matvar_t *number_make(double value, enum test_meta_form form)
{
    bool is_whole = value >= 0 && value < 65536 && value == (double)(uint16_t)value;
    return numbers_make(&value, 1, is_whole ? form : TEST_META_DOUBLE);
}

static matvar_t *text_make(const char *text, enum test_meta_form form)
{
    size_t dims[2] = {1, strlen(text)};
    uint16_t wide[64];
    if (form != TEST_META_WIDE_TEXT)
        return Mat_VarCreate(NULL, MAT_C_CHAR, MAT_T_UTF8, 2, dims, (void *)text, 0);
    assert_true(dims[1] <= ARRAY_LENGTH(wide));
    for (size_t i = 0; i < dims[1]; i++)
        wide[i] = (uint8_t)text[i];
    return Mat_VarCreate(NULL, MAT_C_CHAR, MAT_T_UINT16, 2, dims, wide, 0);
}

static matvar_t *field_make(const char *field, const struct test_synset *synset,
                            enum test_meta_form form)
{
    static const double children[] = {1, 2};
    if (strcmp(field, "ILSVRC2012_ID") == 0)
        return number_make(synset->id, form);
    if (strcmp(field, "WNID") == 0)
        return text_make(synset->wnid, form);
    if (strcmp(field, "words") == 0)
        return text_make(synset->words, form);
    if (strcmp(field, "num_children") == 0)
        return number_make(synset->child_count, form);
    if (strcmp(field, "num_train_images") == 0)
        return number_make(synset->train_images, form);
    if (strcmp(field, "gloss") == 0)
        return text_make("", form);
    if (strcmp(field, "children") == 0)
        return numbers_make(children, synset->child_count > 0 ? 2 : 0, form);
    return number_make(7, form);
}

void test_meta_write(const char *path, const struct test_synset *synsets, size_t count,
                     enum test_meta_form form, const char *skip_field)
{
    static const char *const all[] = {"ILSVRC2012_ID",  "WNID",
                                      "words",          "num_children",
                                      "gloss",          "children",
                                      "wordnet_height", "num_train_images"};
    const char *fields[ARRAY_LENGTH(all)];
    unsigned field_count = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        bool is_extra = i >= 4 && i < 7;
        if ((!is_extra || form == TEST_META_ALL_FIELDS) &&
            (!skip_field || strcmp(skip_field, all[i]) != 0))
            fields[field_count++] = all[i];
    }
    bool is_row = form == TEST_META_ROW;
    size_t dims[2] = {is_row ? 1 : count, is_row ? count : 1};
    mat_t *mat = Mat_CreateVer(path, NULL, form == TEST_META_HDF5 ? MAT_FT_MAT73 : MAT_FT_MAT5);
    assert_non_null(mat);
    matvar_t *table = Mat_VarCreateStruct("synsets", 2, dims, fields, field_count);
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < field_count; k++)
            Mat_VarSetStructFieldByName(table, fields[k], i,
                                        field_make(fields[k], &synsets[i], form));
    assert_int_equal(Mat_VarWrite(mat, table,
                                  form == TEST_META_UNCOMPRESSED ? MAT_COMPRESSION_NONE
                                                                 : MAT_COMPRESSION_ZLIB),
                     0);
    Mat_VarFree(table);
    Mat_Close(mat);
}

void test_meta_write_other(const char *path, const char *name, enum test_meta_kind kind,
                           size_t rows, size_t columns)
{
    static const double zeros[16];
    static const char *const fields[] = {"WNID"};
    size_t dims[2] = {rows, columns};
    assert_true(rows * columns <= ARRAY_LENGTH(zeros));
    mat_t *mat =
        path_exists(path) ? Mat_Open(path, MAT_ACC_RDWR) : Mat_CreateVer(path, NULL, MAT_FT_MAT5);
    assert_non_null(mat);
    matvar_t *cells[16];
    for (size_t i = 0; i < rows * columns && kind == TEST_META_CELLS; i++)
        cells[i] = text_make("", TEST_META_PLAIN);
    matvar_t *variable =
        kind == TEST_META_STRUCT  ? Mat_VarCreateStruct(name, 2, dims, (const char **)fields, 1)
        : kind == TEST_META_CELLS ? Mat_VarCreate(name, MAT_C_CELL, MAT_T_CELL, 2, dims, cells, 0)
        : kind == TEST_META_TEXT
            ? Mat_VarCreate(name, MAT_C_CHAR, MAT_T_UTF8, 2, dims, "                ", 0)
            : Mat_VarCreate(name, MAT_C_DOUBLE, MAT_T_DOUBLE, 2, dims, (void *)zeros, 0);
    assert_non_null(variable);
    assert_int_equal(Mat_VarWrite(mat, variable, MAT_COMPRESSION_ZLIB), 0);
    Mat_VarFree(variable);
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
