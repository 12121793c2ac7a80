#include "prep/meta_mat.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/deflate.h"
#include "prep/sniff.h"

#define HEADER_BYTES 128
#define VERSION_OFFSET 124
#define VERSION_5 0x0100
#define MAX_FIELDS 64

/* The real file inflates to about one megabyte. */
static const size_t max_inflated_bytes = 64 << 20;
static const size_t max_synsets = 1000000;

/* Types of data elements and classes of arrays, as the MAT-File Format document numbers them. */
enum mat_type {
    MI_INT8 = 1,
    MI_UINT8 = 2,
    MI_INT16 = 3,
    MI_UINT16 = 4,
    MI_INT32 = 5,
    MI_UINT32 = 6,
    MI_SINGLE = 7,
    MI_DOUBLE = 9,
    MI_INT64 = 12,
    MI_UINT64 = 13,
    MI_MATRIX = 14,
    MI_COMPRESSED = 15,
    MI_UTF8 = 16,
    MI_UTF16 = 17,
};
enum mat_class { MX_STRUCT = 2, MX_CHAR = 4, MX_DOUBLE = 6, MX_UINT64 = 15 };

struct element {
    uint32_t type;
    struct reader content;
};

/* An array: what precedes its content, and a cursor that stands on that. */
struct matrix {
    unsigned class;
    uint64_t rows, columns;
    struct reader name;
    struct reader content;
};

void synset_list_done(struct synset_list *list)
{
    memory_free(list->items);
    arena_done(&list->strings);
    *list = (struct synset_list){0};
}

/* --- Elements --- */

/* The next element; false if it does not lie within its surroundings. Four bytes or less stand in
 * the tag itself. */
static bool element_take(struct reader *reader, struct element *ret_element)
{
    uint32_t type = reader_le32(reader), length = type >> 16;
    bool is_small = length != 0;
    if (!is_small)
        length = reader_le32(reader);
    const uint8_t *content = reader_take(reader, is_small ? 4 : length);
    if (!content || (is_small && length > 4))
        return false;
    ret_element->type = is_small ? type & 0xffff : type;
    ret_element->content = reader_make(content, length);
    size_t padding = (8 - length % 8) % 8;
    if (!is_small && ret_element->type != MI_COMPRESSED && padding <= reader_left(reader))
        reader_take(reader, padding);
    return !reader->overrun;
}

static bool matrix_open(const struct element *element, struct matrix *ret_matrix)
{
    struct reader content = element->content;
    struct element flags, dimensions, name;
    if (element->type != MI_MATRIX)
        return false;
    if (content.length == 0) { /* an empty array may be written so */
        *ret_matrix = (struct matrix){.class = MX_DOUBLE, .content = content, .name = content};
        return true;
    }
    if (!element_take(&content, &flags) || !element_take(&content, &dimensions) ||
        !element_take(&content, &name))
        return false;
    if (flags.type != MI_UINT32 || flags.content.length != 8 || dimensions.type != MI_INT32 ||
        dimensions.content.length != 8 || name.type != MI_INT8)
        return false;
    *ret_matrix =
        (struct matrix){.class = flags.content.data[0], .name = name.content, .content = content};
    ret_matrix->rows = reader_le32(&dimensions.content);
    ret_matrix->columns = reader_le32(&dimensions.content);
    return ret_matrix->rows <= INT32_MAX && ret_matrix->columns <= INT32_MAX;
}

static struct status inflate_element(const struct reader *packed, const char *name,
                                     struct buffer *content)
{
    content->ceiling_bytes = max_inflated_bytes;
    content->length = 0;
    return status_context(inflate_zlib(packed->data, packed->length, content), "%s", name);
}

/* --- Fields --- */

enum { FIELD_ID, FIELD_WNID, FIELD_WORDS, FIELD_CHILDREN, FIELD_IMAGES, FIELD_COUNT };
static const char *const field_names[FIELD_COUNT] = {
    "ILSVRC2012_ID", "WNID", "words", "num_children", "num_train_images",
};

/* What a message about a field needs to say. */
struct field_place {
    const char *file;
    size_t index; /* of the synset, from 0 */
    int field;
};

static struct status field_fail(const struct field_place *place, const char *what)
{
    FAIL(STATUS_CORRUPT, "%s: field %s of synset %zu %s", place->file, field_names[place->field],
         place->index + 1, what);
}

/* The single number of an array; each type of array may store it in any type that holds it. */
static bool number_value(const struct matrix *matrix, double *ret_value)
{
    struct reader content = matrix->content;
    struct element data;
    if (matrix->class < MX_DOUBLE || matrix->class > MX_UINT64 || matrix->rows != 1 ||
        matrix->columns != 1 || !element_take(&content, &data))
        return false;
#define NUMBER_CASE(mat_type, c_type)                                                              \
    case mat_type: {                                                                               \
        c_type value;                                                                              \
        if (data.content.length != sizeof value)                                                   \
            return false;                                                                          \
        memcpy(&value, data.content.data, sizeof value);                                           \
        *ret_value = (double)value;                                                                \
        return true;                                                                               \
    }
    switch (data.type) {
        NUMBER_CASE(MI_INT8, int8_t)
        NUMBER_CASE(MI_UINT8, uint8_t)
        NUMBER_CASE(MI_INT16, int16_t)
        NUMBER_CASE(MI_UINT16, uint16_t)
        NUMBER_CASE(MI_INT32, int32_t)
        NUMBER_CASE(MI_UINT32, uint32_t)
        NUMBER_CASE(MI_SINGLE, float)
        NUMBER_CASE(MI_DOUBLE, double)
        NUMBER_CASE(MI_INT64, int64_t)
        NUMBER_CASE(MI_UINT64, uint64_t)
    default:
        return false;
    }
#undef NUMBER_CASE
}

static struct status read_number(const struct matrix *matrix, const struct field_place *place,
                                 uint32_t *ret_number)
{
    double value;
    if (!number_value(matrix, &value))
        return field_fail(place, "is not a number");
    if (!(value >= 0 && value <= INT32_MAX) || value != (double)(uint32_t)value)
        return field_fail(place, "is not a whole number");
    *ret_number = (uint32_t)value;
    return OK;
}

static struct status append_code_point(struct buffer *text, uint32_t code)
{
    if (code < 0x80)
        return buffer_append_u8(text, (uint8_t)code);
    if (code < 0x800)
        TRY(buffer_append_u8(text, (uint8_t)(0xc0 | code >> 6)));
    else {
        if (code < 0x10000)
            TRY(buffer_append_u8(text, (uint8_t)(0xe0 | code >> 12)));
        else {
            TRY(buffer_append_u8(text, (uint8_t)(0xf0 | code >> 18)));
            TRY(buffer_append_u8(text, (uint8_t)(0x80 | (code >> 12 & 0x3f))));
        }
        TRY(buffer_append_u8(text, (uint8_t)(0x80 | (code >> 6 & 0x3f))));
    }
    return buffer_append_u8(text, (uint8_t)(0x80 | (code & 0x3f)));
}

/* UTF-16 to UTF-8; lone surrogates become U+FFFD. */
static struct status append_utf16(struct buffer *text, struct reader units)
{
    while (reader_left(&units) >= 2) {
        uint32_t code = reader_le16(&units);
        bool is_high = code >= 0xd800 && code < 0xdc00;
        if (is_high && reader_left(&units) >= 2) {
            uint16_t low = load_le16(units.data + units.position);
            if (low >= 0xdc00 && low < 0xe000) {
                reader_le16(&units);
                TRY(append_code_point(text, 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00u)));
                continue;
            }
        }
        TRY(append_code_point(text, code >= 0xd800 && code < 0xe000 ? 0xfffd : code));
    }
    return OK;
}

static struct status read_text(const struct matrix *matrix, const struct field_place *place,
                               struct arena *strings, const char **ret_text)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    struct reader content = matrix->content;
    struct element data = {0};
    if (matrix->class != MX_CHAR)
        return field_fail(place, "is not text");
    bool is_empty = matrix->rows == 0 || matrix->columns == 0;
    if (!is_empty && !element_take(&content, &data))
        return field_fail(place, "is cut short");
    if (data.type == MI_UINT16 || data.type == MI_UTF16)
        TRY(append_utf16(&text, data.content));
    else if (data.type == MI_UINT8 || data.type == MI_INT8 || data.type == MI_UTF8)
        TRY(buffer_append(&text, data.content.data, data.content.length));
    else if (!is_empty)
        return field_fail(place, "is not text");
    if (text.length && memchr(text.data, '\0', text.length))
        return field_fail(place, "has a zero in its text");
    return arena_copy(strings, text.length ? (const char *)text.data : "", text.length, ret_text);
}

static struct status read_field(const struct matrix *matrix, const struct field_place *place,
                                struct arena *strings, struct synset *synset)
{
    switch (place->field) {
    case FIELD_ID:
        return read_number(matrix, place, &synset->id);
    case FIELD_WNID:
        return read_text(matrix, place, strings, &synset->wnid);
    case FIELD_WORDS:
        return read_text(matrix, place, strings, &synset->words);
    case FIELD_CHILDREN:
        return read_number(matrix, place, &synset->child_count);
    default:
        return read_number(matrix, place, &synset->train_images);
    }
}

/* --- The table --- */

/* The fields of a struct array, in its order: an index into field_names, or -1. */
struct field_table {
    int fields[MAX_FIELDS];
    size_t count;
};

static struct status read_field_table(struct reader *content, const char *name,
                                      struct field_table *ret_table)
{
    struct element width, names;
    unsigned found = 0;
    if (!element_take(content, &width) || !element_take(content, &names) ||
        width.content.length != 4 || names.type != MI_INT8)
        FAIL(STATUS_CORRUPT, "%s: the variable synsets has no readable list of fields", name);
    uint32_t width_bytes = reader_le32(&width.content);
    if (width_bytes < 1 || names.content.length % width_bytes ||
        names.content.length / width_bytes > MAX_FIELDS)
        FAIL(STATUS_CORRUPT, "%s: the variable synsets has no readable list of fields", name);
    ret_table->count = names.content.length / width_bytes;
    for (size_t i = 0; i < ret_table->count; i++) {
        const char *field = (const char *)reader_take(&names.content, width_bytes);
        ret_table->fields[i] = -1;
        for (int k = 0; k < FIELD_COUNT; k++)
            if (strlen(field_names[k]) < width_bytes &&
                strncmp(field, field_names[k], width_bytes) == 0 && !(found >> k & 1)) {
                ret_table->fields[i] = k;
                found |= 1u << k;
            }
    }
    for (int k = 0; k < FIELD_COUNT; k++)
        if (!(found >> k & 1))
            FAIL(STATUS_CORRUPT, "%s: the synsets have no field %s", name, field_names[k]);
    return OK;
}

static struct status read_synset(struct reader *content, const struct field_table *table,
                                 const char *name, size_t index, struct synset_list *list)
{
    for (size_t i = 0; i < table->count; i++) {
        struct element element;
        struct matrix matrix;
        if (!element_take(content, &element))
            FAIL(STATUS_CORRUPT, "%s is cut short in synset %zu", name, index + 1);
        if (table->fields[i] < 0)
            continue;
        struct field_place place = {name, index, table->fields[i]};
        if (!matrix_open(&element, &matrix))
            return field_fail(&place, "is damaged");
        TRY(read_field(&matrix, &place, &list->strings, &list->items[index]));
    }
    return OK;
}

static struct status read_synsets(const struct matrix *synsets, const char *name,
                                  struct synset_list *list)
{
    struct field_table table = {0};
    struct reader content = synsets->content;
    if (synsets->class != MX_STRUCT)
        FAIL(STATUS_CORRUPT, "%s: the variable synsets is not a struct array", name);
    if (synsets->rows != 1 && synsets->columns != 1)
        FAIL(STATUS_CORRUPT, "%s: the variable synsets is not a list (N×1)", name);
    uint64_t count = synsets->rows * synsets->columns;
    if (count == 0 || count > max_synsets)
        FAIL(STATUS_CORRUPT, "%s: the variable synsets has %" PRIu64 " entries", name, count);
    TRY(read_field_table(&content, name, &table));
    TRY(memory_alloc((size_t)count, sizeof *list->items, &list->items));
    list->count = (size_t)count;
    for (size_t i = 0; i < list->count; i++)
        TRY(read_synset(&content, &table, name, i, list));
    return OK;
}

static struct status check_header(const uint8_t *bytes, size_t length, const char *name)
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
    if (memcmp(bytes + VERSION_OFFSET + 2, "MI", 2) == 0)
        FAIL(STATUS_UNSUPPORTED,
             "%s is a big-endian MATLAB 5.0 file; the published one is little-endian: take it from "
             "ILSVRC2012_devkit_t12.tar.gz",
             name);
    unsigned version = load_le16(bytes + VERSION_OFFSET);
    if (memcmp(bytes + VERSION_OFFSET + 2, "IM", 2) != 0 || version != VERSION_5)
        FAIL(STATUS_UNSUPPORTED,
             "%s has MATLAB version %#x, expected %#x: take the published file from "
             "ILSVRC2012_devkit_t12.tar.gz",
             name, version, VERSION_5);
    return OK;
}

/* Reads the next variable of the file; `inflated` keeps its bytes if they were compressed. */
static struct status next_variable(struct reader *file, const char *name, struct buffer *inflated,
                                   struct matrix *ret_matrix)
{
    struct element element;
    size_t at = file->position;
    if (!element_take(file, &element))
        FAIL(STATUS_CORRUPT,
             "%s is cut short: its element at byte %zu does not end within its %zu bytes", name, at,
             file->length);
    if (element.type == MI_COMPRESSED) {
        TRY(inflate_element(&element.content, name, inflated));
        struct reader content = reader_make(inflated->data, inflated->length);
        if (!element_take(&content, &element))
            FAIL(STATUS_CORRUPT, "%s: the compressed element at byte %zu is damaged", name, at);
    }
    if (!matrix_open(&element, ret_matrix))
        FAIL(STATUS_CORRUPT, "%s: the variable at byte %zu is damaged", name, at);
    return OK;
}

static bool is_synsets(const struct matrix *matrix)
{
    static const char wanted[] = "synsets";
    return matrix->name.length == sizeof wanted - 1 &&
           memcmp(matrix->name.data, wanted, sizeof wanted - 1) == 0;
}

struct status meta_mat_parse(const void *bytes, size_t length, const char *name,
                             struct synset_list *ret_list)
{
    CLEANUP(synset_list_done) struct synset_list list = {0};
    CLEANUP(buffer_done) struct buffer inflated = {0};
    struct matrix matrix = {0};
    TRY(check_header(bytes, length, name));
    struct reader file = reader_make(bytes, length);
    reader_take(&file, HEADER_BYTES);
    do {
        if (reader_left(&file) == 0)
            FAIL(STATUS_CORRUPT, "%s has no variable named synsets", name);
        TRY(next_variable(&file, name, &inflated, &matrix));
    } while (!is_synsets(&matrix));
    TRY(read_synsets(&matrix, name, &list));
    *ret_list = list;
    list = (struct synset_list){0};
    return OK;
}
