#include "demo/devkit.h"

#include <matio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/memory.h"
#include "demo/patterns.h"

static const char *const field_names[] = {
    "ILSVRC2012_ID", "WNID",     "words",          "gloss",
    "num_children",  "children", "wordnet_height", "num_train_images",
};

static void field_set_number(matvar_t *synsets, size_t row, const char *field, uint16_t value)
{
    size_t dimensions[2] = {1, 1};
    Mat_VarSetStructFieldByName(synsets, field, row,
                                Mat_VarCreate(NULL, MAT_C_UINT16, MAT_T_UINT16, 2, dimensions,
                                              &value, 0));
}

static void field_set_text(matvar_t *synsets, size_t row, const char *field, const char *text)
{
    size_t dimensions[2] = {1, strlen(text)};
    /* matio copies the text; its prototype only lacks the const. As MAT_T_UINT8 it would write
     * text that it cannot read again. */
    Mat_VarSetStructFieldByName(synsets, field, row,
                                Mat_VarCreate(NULL, MAT_C_CHAR, MAT_T_UTF8, 2, dimensions,
                                              (void *)text, 0));
}

static void row_set(matvar_t *synsets, size_t row, uint16_t id, const char *wnid, const char *words,
                    uint16_t children, uint16_t train_images)
{
    size_t dimensions[2] = {1, children};
    uint16_t child_ids[PATTERN_CLASSES];
    for (uint16_t i = 0; i < children; i++)
        child_ids[i] = (uint16_t)(i + 1);
    field_set_number(synsets, row, "ILSVRC2012_ID", id);
    field_set_text(synsets, row, "WNID", wnid);
    field_set_text(synsets, row, "words", words);
    field_set_text(synsets, row, "gloss", "a drawn pattern");
    field_set_number(synsets, row, "num_children", children);
    Mat_VarSetStructFieldByName(synsets, "children", row,
                                Mat_VarCreate(NULL, MAT_C_UINT16, MAT_T_UINT16, 2, dimensions,
                                              child_ids, 0));
    field_set_number(synsets, row, "wordnet_height", children > 0);
    field_set_number(synsets, row, "num_train_images", train_images);
}

/* The classes in the order of their IDs and, as in the published table, an inner node after them.
 */
static struct status meta_write(const char *path, const uint16_t *ids, uint16_t train_images)
{
    size_t dimensions[2] = {PATTERN_CLASSES + 1, 1};
    matvar_t *synsets = Mat_VarCreateStruct("synsets", 2, dimensions, (const char **)field_names,
                                            ARRAY_LENGTH(field_names));
    mat_t *file = Mat_CreateVer(path, "MATLAB 5.0 MAT-file", MAT_FT_MAT5);
    int failed = !synsets || !file;
    if (!failed) {
        for (unsigned label = 0; label < PATTERN_CLASSES; label++)
            row_set(synsets, ids[label] - 1u, ids[label], pattern_classes[label].wnid,
                    pattern_classes[label].words, 0, train_images);
        row_set(synsets, PATTERN_CLASSES, PATTERN_CLASSES + 1, "n00001740", "entity",
                PATTERN_CLASSES, 0);
        failed = Mat_VarWrite(file, synsets, MAT_COMPRESSION_ZLIB);
    }
    if (file)
        failed |= Mat_Close(file);
    Mat_VarFree(synsets);
    if (failed)
        FAIL(STATUS_IO, "%s: matio could not write the class table", path);
    return OK;
}

static struct status truth_write(const char *path, const uint16_t *truth, size_t count)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    for (size_t i = 0; i < count; i++)
        TRY(buffer_append_text(&text, "%u\n", truth[i]));
    return file_write_atomic(path, text.data, text.length);
}

struct status devkit_write(const char *folder, const uint16_t *ids, uint16_t train_images,
                           const uint16_t *truth, size_t truth_count)
{
    CLEANUP(memory_free) char *data = NULL;
    CLEANUP(memory_free) char *meta = NULL;
    CLEANUP(memory_free) char *ground_truth = NULL;
    TRY(path_join(folder, "data", &data));
    TRY(path_join(data, "meta.mat", &meta));
    TRY(path_join(data, "ILSVRC2012_validation_ground_truth.txt", &ground_truth));
    TRY(folder_create(data));
    TRY(meta_write(meta, ids, train_images));
    return truth_write(ground_truth, truth, truth_count);
}
