#include "train/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/memory.h"

/* What the format's own readers accept. */
static const uint64_t header_ceiling_bytes = 100000000;
static const size_t tensors_ceiling = 65536;

struct entry {
    struct safetensor tensor;
    uint64_t begin, end; /* in the data */
};

struct safetensors {
    const char *name; /* borrowed, for messages while parsing */
    struct file_map map;
    const uint8_t *bytes;
    uint64_t size_bytes;
    const uint8_t *data;
    uint64_t data_bytes;
    struct json *header; /* owns the names */
    struct entry *entries;
    size_t count;
};

struct dtype_row {
    const char *name;
    enum tensor_dtype dtype;
    unsigned bits;
};

static const struct dtype_row dtypes[] = {
    {"F64", TENSOR_DTYPE_F64, 64},   {"F32", TENSOR_DTYPE_F32, 32},
    {"F16", TENSOR_DTYPE_F16, 16},   {"BF16", TENSOR_DTYPE_BF16, 16},
    {"I64", TENSOR_DTYPE_I64, 64},   {"BOOL", TENSOR_DTYPE_OTHER, 8},
    {"U8", TENSOR_DTYPE_OTHER, 8},   {"I8", TENSOR_DTYPE_OTHER, 8},
    {"I16", TENSOR_DTYPE_OTHER, 16}, {"U16", TENSOR_DTYPE_OTHER, 16},
    {"I32", TENSOR_DTYPE_OTHER, 32}, {"U32", TENSOR_DTYPE_OTHER, 32},
    {"U64", TENSOR_DTYPE_OTHER, 64}, {"F8_E4M3", TENSOR_DTYPE_OTHER, 8},
    {"C64", TENSOR_DTYPE_OTHER, 64}, {"F8_E5M2", TENSOR_DTYPE_OTHER, 8},
};

static const struct dtype_row *dtype_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

static const struct dtype_row *dtype_row_of(enum tensor_dtype dtype)
{
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return &dtypes[i];
    return NULL;
}

/* A number of the header that may not be negative. */
static struct status element_read(const struct json *array, size_t i, uint64_t *ret_value)
{
    int64_t value;
    TRY(json_as_integer(json_at(array, i), &value));
    if (value < 0)
        FAIL(STATUS_CORRUPT, "%" PRId64 " where a size was expected", value);
    *ret_value = (uint64_t)value;
    return OK;
}

static struct status shape_read(const struct json *description, struct safetensor *tensor)
{
    const struct json *shape = json_get(description, "shape");
    if (!shape)
        FAIL(STATUS_CORRUPT, "no shape");
    if (json_length(shape) > SAFETENSORS_MAX_RANK)
        FAIL(STATUS_CORRUPT, "%zu dimensions, at most %d were expected", json_length(shape),
             SAFETENSORS_MAX_RANK);
    tensor->rank = (unsigned)json_length(shape);
    tensor->count = 1;
    for (unsigned i = 0; i < tensor->rank; i++) {
        TRY(element_read(shape, i, &tensor->shape[i]));
        if (!size_multiply(tensor->count, tensor->shape[i], &tensor->count))
            FAIL(STATUS_CORRUPT, "a shape beyond 2^64 elements");
    }
    return OK;
}

static struct status entry_read(const struct safetensors *file, const struct json *description,
                                struct entry *entry)
{
    const char *dtype_name;
    TRY(json_get_string(description, "dtype", &dtype_name));
    const struct dtype_row *dtype = dtype_find(dtype_name);
    if (!dtype)
        FAIL(STATUS_UNSUPPORTED, "unknown dtype '%s'", dtype_name);
    entry->tensor.dtype = dtype->dtype;
    TRY(shape_read(description, &entry->tensor));
    const struct json *offsets = json_get(description, "data_offsets");
    if (!offsets || json_length(offsets) != 2)
        FAIL(STATUS_CORRUPT, "no pair of data_offsets");
    TRY(element_read(offsets, 0, &entry->begin));
    TRY(element_read(offsets, 1, &entry->end));
    if (entry->begin > entry->end || entry->end > file->data_bytes)
        FAIL(STATUS_CORRUPT,
             "bytes %" PRIu64 " to %" PRIu64 " of data that is %" PRIu64 " bytes long",
             entry->begin, entry->end, file->data_bytes);
    uint64_t size_bytes;
    if (!size_multiply(entry->tensor.count, dtype->bits / 8, &size_bytes) ||
        size_bytes != entry->end - entry->begin)
        FAIL(STATUS_CORRUPT, "%" PRIu64 " bytes do not hold %" PRIu64 " values of %s",
             entry->end - entry->begin, entry->tensor.count, dtype->name);
    entry->tensor.data = file->data + entry->begin;
    return OK;
}

static int entry_compare(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

/* The tensors fill the data from its first byte to its last, without gaps or overlaps. */
static struct status coverage_check(const struct safetensors *file)
{
    uint64_t expected = 0;
    for (size_t i = 0; i < file->count; i++) {
        const struct entry *entry = &file->entries[i];
        if (entry->begin != expected)
            FAIL(STATUS_CORRUPT,
                 "'%s': tensor '%s' begins at byte %" PRIu64 " of the data, %" PRIu64
                 " was expected",
                 file->name, entry->tensor.name, entry->begin, expected);
        expected = entry->end;
    }
    if (expected != file->data_bytes)
        FAIL(STATUS_CORRUPT, "'%s': %" PRIu64 " bytes of data, its tensors have %" PRIu64,
             file->name, file->data_bytes, expected);
    return OK;
}

static struct status entries_read(struct safetensors *file)
{
    size_t members = json_length(file->header);
    if (members > tensors_ceiling)
        FAIL(STATUS_CORRUPT, "'%s': %zu tensors, at most %zu were expected", file->name, members,
             tensors_ceiling);
    TRY(memory_alloc(members, sizeof *file->entries, &file->entries));
    for (size_t i = 0; i < members; i++) {
        const char *name = json_key_at(file->header, i);
        if (strcmp(name, "__metadata__") == 0)
            continue;
        struct entry *entry = &file->entries[file->count++];
        entry->tensor.name = name;
        TRY(status_context(entry_read(file, json_get(file->header, name), entry),
                           "'%s': tensor '%s'", file->name, name));
    }
    qsort(file->entries, file->count, sizeof *file->entries, entry_compare);
    return coverage_check(file);
}

/* PyTorch's own files: a zip archive, or a bare pickle of protocol 2 and up. */
static bool is_pickle(const uint8_t *bytes, uint64_t size_bytes)
{
    return size_bytes >= 4 && (memcmp(bytes, "PK\3\4", 4) == 0 ||
                               (bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5));
}

static struct status content_read(struct safetensors *file)
{
    if (is_pickle(file->bytes, file->size_bytes))
        FAIL(STATUS_UNSUPPORTED,
             "'%s' is a PyTorch file, expected safetensors; convert it with: python3 -c \"import "
             "sys, torch; from safetensors.torch import save_file; w = torch.load(sys.argv[1], "
             "'cpu'); w = w.get('state_dict', w); save_file({k: v.contiguous() for k, v in "
             "w.items()}, sys.argv[2])\" '%s' weights.safetensors",
             file->name, file->name);
    if (file->size_bytes < 8)
        FAIL(STATUS_CORRUPT, "'%s': %" PRIu64 " bytes are no safetensors file", file->name,
             file->size_bytes);
    uint64_t header_bytes = load_le64(file->bytes);
    if (header_bytes > header_ceiling_bytes || header_bytes > file->size_bytes - 8)
        FAIL(STATUS_CORRUPT,
             "'%s': a header of %" PRIu64 " bytes in a file of %" PRIu64
             ": not a safetensors file, or cut short",
             file->name, header_bytes, file->size_bytes);
    file->data = file->bytes + 8 + header_bytes;
    file->data_bytes = file->size_bytes - 8 - header_bytes;
    TRY(json_parse(file->bytes + 8, header_bytes, file->name, &file->header));
    return entries_read(file);
}

struct status safetensors_parse(const void *bytes, size_t length, const char *name,
                                struct safetensors **ret_file)
{
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    TRY(memory_alloc(1, sizeof *file, &file));
    file->name = name;
    file->bytes = bytes;
    file->size_bytes = length;
    TRY(content_read(file));
    *ret_file = MOVE(file);
    return OK;
}

struct status safetensors_open(const char *path, struct safetensors **ret_file)
{
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    TRY(memory_alloc(1, sizeof *file, &file));
    TRY(file_map_open(path, &file->map));
    file->name = path;
    file->bytes = file->map.data;
    file->size_bytes = file->map.size_bytes;
    TRY(content_read(file));
    *ret_file = MOVE(file);
    return OK;
}

void safetensors_close(struct safetensors *file)
{
    if (!file)
        return;
    json_free(file->header);
    memory_free(file->entries);
    file_map_done(&file->map);
    memory_free(file);
}

size_t safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const struct safetensor *safetensors_at(const struct safetensors *file, size_t i)
{
    return &file->entries[i].tensor;
}

const struct safetensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].tensor.name, name) == 0)
            return &file->entries[i].tensor;
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    const struct json *metadata = json_get(file->header, "__metadata__");
    const struct json *value = metadata ? json_get(metadata, key) : NULL;
    const char *text = NULL;
    if (value)
        status_ignore(json_as_string(value, &text));
    return text;
}

uint32_t safetensors_crc(const struct safetensors *file)
{
    return crc32c_update(0, file->bytes, file->size_bytes);
}

uint32_t safetensors_data_crc(const struct safetensors *file)
{
    return crc32c_update(0, file->data, file->data_bytes);
}

uint64_t safetensors_size_bytes(const struct safetensors *file)
{
    return file->size_bytes;
}

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double double_from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE binary16; every value has an exact float. */
static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31)
        return float_from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0)
        return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

static float value_at(const struct safetensor *tensor, uint64_t i)
{
    const uint8_t *data = tensor->data;
    switch (tensor->dtype) {
    case TENSOR_DTYPE_F64:
        return (float)double_from_bits(load_le64(data + 8 * i));
    case TENSOR_DTYPE_F32:
        return float_from_bits(load_le32(data + 4 * i));
    case TENSOR_DTYPE_F16:
        return half_to_float(load_le16(data + 2 * i));
    case TENSOR_DTYPE_BF16:
        return float_from_bits((uint32_t)load_le16(data + 2 * i) << 16);
    default:
        return (float)(int64_t)load_le64(data + 8 * i);
    }
}

struct status safetensor_read(const struct safetensor *tensor, float *ret_values)
{
    if (tensor->dtype == TENSOR_DTYPE_OTHER)
        FAIL(STATUS_UNSUPPORTED, "tensor '%s' is none of F32, F16, BF16, F64, I64", tensor->name);
    for (uint64_t i = 0; i < tensor->count; i++)
        ret_values[i] = value_at(tensor, i);
    return OK;
}

struct status safetensor_read_integer(const struct safetensor *tensor, int64_t *ret_value)
{
    if (tensor->dtype != TENSOR_DTYPE_I64 || tensor->count != 1)
        FAIL(STATUS_CORRUPT, "tensor '%s' was expected to be one I64", tensor->name);
    *ret_value = (int64_t)load_le64(tensor->data);
    return OK;
}

struct status shape_append(struct buffer *text, const uint64_t *shape, unsigned rank)
{
    TRY(buffer_append_text(text, "("));
    for (unsigned i = 0; i < rank; i++)
        TRY(buffer_append_text(text, "%s%" PRIu64, i ? ", " : "", shape[i]));
    return buffer_append_text(text, ")");
}

static struct json *description_make(const struct safetensor *tensor, const char *dtype_name,
                                     uint64_t begin, uint64_t end)
{
    struct json *description = json_object_new(), *shape = json_array_new();
    struct json *offsets = json_array_new();
    for (unsigned i = 0; i < tensor->rank; i++)
        json_append_integer(shape, (int64_t)tensor->shape[i]);
    json_append_integer(offsets, (int64_t)begin);
    json_append_integer(offsets, (int64_t)end);
    json_set_string(description, "dtype", dtype_name);
    json_set(description, "shape", shape);
    json_set(description, "data_offsets", offsets);
    return description;
}

struct status safetensors_write(const struct safetensor *tensors, size_t count,
                                struct json *metadata, safetensors_sink *sink, void *context)
{
    CLEANUP(json_free) struct json *header = json_object_new();
    CLEANUP(buffer_done) struct buffer text = {0};
    if (metadata)
        json_set(header, "__metadata__", metadata);
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = end;
        const struct dtype_row *dtype = dtype_row_of(tensors[i].dtype);
        end += tensors[i].count * (dtype->bits / 8);
        json_set(header, tensors[i].name, description_make(&tensors[i], dtype->name, begin, end));
    }
    TRY(buffer_append_le64(&text, 0));
    TRY(json_write(header, false, &text));
    while (text.length % 8)
        TRY(buffer_append_u8(&text, ' '));
    store_le64(text.data, text.length - 8);
    TRY(sink(text.data, text.length, context));
    for (size_t i = 0; i < count; i++)
        TRY(sink(tensors[i].data, tensors[i].count * (dtype_row_of(tensors[i].dtype)->bits / 8),
                 context));
    return OK;
}
