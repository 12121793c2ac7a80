#include "prep/meta_mat.h"

#include <errno.h>
#include <inttypes.h>
#include <matio.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "prep/sniff.h"

#define HEADER_BYTES 128
#define VERSION_OFFSET 124
#define VERSION_5 0x0100
#define TAG_BYTES 8
#define MI_COMPRESSED 15

static const size_t max_synsets = 1000000;

void synset_list_done(struct synset_list *list)
{
    memory_free(list->items);
    arena_done(&list->strings);
    *list = (struct synset_list){0};
}

static void close_mat(mat_t **mat)
{
    if (*mat)
        Mat_Close(*mat);
}

static void free_variable(matvar_t **variable)
{
    Mat_VarFree(*variable);
}

/* --- The file as a whole --- */

/* matio reads on where a cut file ends, so the elements are checked to lie in the file first. */
static struct status check_elements(const uint8_t *bytes, size_t length, const char *name)
{
    for (size_t at = HEADER_BYTES; at < length;) {
        uint32_t type = length - at < TAG_BYTES ? 0 : load_le32(bytes + at);
        uint64_t size_bytes = length - at < TAG_BYTES ? 0 : load_le32(bytes + at + 4);
        if (type != MI_COMPRESSED)
            size_bytes = (size_bytes + 7) & ~(uint64_t)7;
        if (length - at < TAG_BYTES || size_bytes > length - at - TAG_BYTES)
            FAIL(STATUS_CORRUPT,
                 "%s is cut short: its element at byte %zu does not end within its %zu bytes", name,
                 at, length);
        at += TAG_BYTES + (size_t)size_bytes;
    }
    return OK;
}

static struct status check_file(const uint8_t *bytes, size_t length, const char *name)
{
    const char *description;
    static const char matlab_73[] = "MATLAB 7.3";
    if (length >= sizeof matlab_73 && memcmp(bytes, matlab_73, sizeof matlab_73 - 1) == 0)
        FAIL(STATUS_UNSUPPORTED,
             "%s is a MATLAB 7.3 (HDF5) file; the published one is MATLAB 5.0: take it from "
             "ILSVRC2012_devkit_t12.tar.gz, or save it with -v7",
             name);
    if (length < HEADER_BYTES || memcmp(bytes, "MATLAB 5.0", 10) != 0) {
        sniff(bytes, length, &description);
        FAIL(STATUS_CORRUPT, "%s is not a MATLAB 5.0 file but %s", name,
             length && length < HEADER_BYTES ? "cut short" : description);
    }
    if (memcmp(bytes + VERSION_OFFSET + 2, "IM", 2) != 0 ||
        load_le16(bytes + VERSION_OFFSET) != VERSION_5)
        FAIL(STATUS_UNSUPPORTED, "%s is not a little-endian MATLAB 5.0 file", name);
    return check_elements(bytes, length, name);
}

/* --- Fields --- */

/* What a message about a field needs to say. */
struct field_place {
    const char *file;
    size_t index; /* of the synset, from 0 */
    const char *field;
};

static struct status field_fail(const struct field_place *place, const char *what)
{
    FAIL(STATUS_CORRUPT, "%s: field %s of synset %zu %s", place->file, place->field,
         place->index + 1, what);
}

static struct status field_find(matvar_t *synsets, const struct field_place *place,
                                matvar_t **ret_field)
{
    matvar_t *field = Mat_VarGetStructFieldByName(synsets, place->field, place->index);
    if (!field)
        return field_fail(place, "is missing");
    *ret_field = field;
    return OK;
}

/* The number of elements that are really there, of `element_bytes` each; 0 if anything does not
 * fit. */
static size_t element_count(const matvar_t *variable, size_t element_bytes)
{
    uint64_t count = 1;
    for (int i = 0; i < variable->rank; i++)
        if (!variable->dims || !size_multiply(count, variable->dims[i], &count))
            return 0;
    if (!variable->data || variable->data_size < 1 ||
        (size_t)variable->data_size != element_bytes || count > variable->nbytes / element_bytes)
        return 0;
    return (size_t)count;
}

static bool number_value(const matvar_t *variable, double *ret_value)
{
#define NUMBER_CASE(class_type, type)                                                              \
    case class_type: {                                                                             \
        type value;                                                                                \
        if (element_count(variable, sizeof value) != 1)                                            \
            return false;                                                                          \
        memcpy(&value, variable->data, sizeof value);                                              \
        *ret_value = (double)value;                                                                \
        return true;                                                                               \
    }
    switch (variable->class_type) {
        NUMBER_CASE(MAT_C_DOUBLE, double)
        NUMBER_CASE(MAT_C_SINGLE, float)
        NUMBER_CASE(MAT_C_INT8, int8_t)
        NUMBER_CASE(MAT_C_UINT8, uint8_t)
        NUMBER_CASE(MAT_C_INT16, int16_t)
        NUMBER_CASE(MAT_C_UINT16, uint16_t)
        NUMBER_CASE(MAT_C_INT32, int32_t)
        NUMBER_CASE(MAT_C_UINT32, uint32_t)
        NUMBER_CASE(MAT_C_INT64, int64_t)
        NUMBER_CASE(MAT_C_UINT64, uint64_t)
    default:
        return false;
    }
#undef NUMBER_CASE
}

static struct status field_number(matvar_t *synsets, struct field_place place, const char *name,
                                  uint32_t *ret_number)
{
    matvar_t *field = NULL;
    double value;
    place.field = name;
    TRY(field_find(synsets, &place, &field));
    if (!number_value(field, &value))
        return field_fail(&place, "is not a number");
    if (!(value >= 0 && value <= INT32_MAX) || value != (double)(uint32_t)value)
        return field_fail(&place, "is not a whole number");
    *ret_number = (uint32_t)value;
    return OK;
}

/* UTF-16 to UTF-8; lone surrogates become U+FFFD. */
static struct status append_utf16(struct buffer *text, const uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t unit, next = 0;
        memcpy(&unit, data + 2 * i, 2);
        if (i + 1 < count)
            memcpy(&next, data + 2 * i + 2, 2);
        uint32_t code = unit;
        if (unit >= 0xd800 && unit < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
            code = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (next - 0xdc00u);
            i++;
        } else if (unit >= 0xd800 && unit < 0xe000) {
            code = 0xfffd;
        }
        if (code >= 0x10000)
            TRY(buffer_append_u8(text, (uint8_t)(0xf0 | code >> 18)));
        if (code >= 0x800)
            TRY(buffer_append_u8(text, (uint8_t)(code >= 0x10000 ? 0x80 | (code >> 12 & 0x3f)
                                                                 : 0xe0 | code >> 12)));
        if (code >= 0x80)
            TRY(buffer_append_u8(text, (uint8_t)(code >= 0x800 ? 0x80 | (code >> 6 & 0x3f)
                                                               : 0xc0 | code >> 6)));
        TRY(buffer_append_u8(text, (uint8_t)(code >= 0x80 ? 0x80 | (code & 0x3f) : code)));
    }
    return OK;
}

static struct status field_text(matvar_t *synsets, struct field_place place, const char *name,
                                struct arena *strings, const char **ret_text)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    matvar_t *field = NULL;
    place.field = name;
    TRY(field_find(synsets, &place, &field));
    if (field->class_type != MAT_C_CHAR)
        return field_fail(&place, "is not text");
    size_t narrow = element_count(field, 1), wide = element_count(field, 2);
    if (narrow)
        TRY(buffer_append(&text, field->data, narrow));
    else
        TRY(append_utf16(&text, field->data, wide));
    if (memchr(text.data ? text.data : (uint8_t *)"", '\0', text.length))
        return field_fail(&place, "has a zero in its text");
    return arena_copy(strings, text.length ? (const char *)text.data : "", text.length, ret_text);
}

/* --- The table --- */

static struct status read_synset(matvar_t *synsets, const char *name, size_t index,
                                 struct synset_list *list)
{
    struct synset *synset = &list->items[index];
    struct field_place place = {name, index, NULL};
    TRY(field_number(synsets, place, "ILSVRC2012_ID", &synset->id));
    TRY(field_text(synsets, place, "WNID", &list->strings, &synset->wnid));
    TRY(field_text(synsets, place, "words", &list->strings, &synset->words));
    TRY(field_number(synsets, place, "num_children", &synset->child_count));
    return field_number(synsets, place, "num_train_images", &synset->train_images);
}

static struct status read_synsets(matvar_t *synsets, const char *name, struct synset_list *list)
{
    if (synsets->class_type != MAT_C_STRUCT)
        FAIL(STATUS_CORRUPT, "%s: the variable synsets is not a struct array", name);
    if (synsets->rank != 2 || !synsets->dims || (synsets->dims[0] != 1 && synsets->dims[1] != 1))
        FAIL(STATUS_CORRUPT, "%s: the variable synsets is not a list (N×1)", name);
    size_t count = synsets->dims[0] * synsets->dims[1];
    if (count == 0 || count > max_synsets || !synsets->data)
        FAIL(STATUS_CORRUPT, "%s: the variable synsets has %zu entries", name, count);
    TRY(memory_alloc(count, sizeof *list->items, &list->items));
    list->count = count;
    for (size_t i = 0; i < count; i++)
        TRY(read_synset(synsets, name, i, list));
    return OK;
}

/* matio opens files only by name, so the bytes get one without touching the disk. */
static struct status make_file(const void *bytes, size_t length, int *ret_fd, char **ret_path)
{
    CLEANUP(fd_close) int fd = memfd_create("meta.mat", MFD_CLOEXEC);
    if (fd < 0)
        return status_errno(errno, "cannot make a file in memory");
    for (size_t done = 0; done < length;) {
        ssize_t n = write(fd, (const char *)bytes + done, length - done);
        if (n < 0 && errno != EINTR)
            return status_errno(errno, "cannot write a file in memory");
        done += n > 0 ? (size_t)n : 0;
    }
    TRY(string_format(ret_path, "/proc/self/fd/%d", fd));
    *ret_fd = fd;
    fd = -1;
    return OK;
}

struct status meta_mat_parse(const void *bytes, size_t length, const char *name,
                             struct synset_list *ret_list)
{
    CLEANUP(synset_list_done) struct synset_list list = {0};
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(fd_close) int fd = -1;
    __attribute__((cleanup(close_mat))) mat_t *mat = NULL;
    __attribute__((cleanup(free_variable))) matvar_t *synsets = NULL;

    TRY(check_file(bytes, length, name));
    TRY(make_file(bytes, length, &fd, &path));
    mat = Mat_Open(path, MAT_ACC_RDONLY);
    if (!mat)
        FAIL(STATUS_CORRUPT, "%s cannot be opened as a MATLAB 5.0 file", name);
    synsets = Mat_VarRead(mat, "synsets");
    if (!synsets)
        FAIL(STATUS_CORRUPT, "%s has no readable variable named synsets", name);
    TRY(read_synsets(synsets, name, &list));
    *ret_list = list;
    list = (struct synset_list){0};
    return OK;
}
