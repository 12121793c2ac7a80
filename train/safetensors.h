#ifndef HEADRACE_TRAIN_SAFETENSORS_H
#define HEADRACE_TRAIN_SAFETENSORS_H

/* Safetensors files: 8 bytes with the header's length, a JSON header {"name": {"dtype", "shape",
 * "data_offsets"}, …, "__metadata__": {string: string}}, then the tensors' bytes, little-endian and
 * without gaps. Whatever the file says is checked before a byte of a tensor is looked at. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/status.h"

#define SAFETENSORS_MAX_RANK 8

enum tensor_dtype {
    TENSOR_DTYPE_OTHER = 0, /* described, but its values cannot be read */
    TENSOR_DTYPE_F64,
    TENSOR_DTYPE_F32,
    TENSOR_DTYPE_F16,
    TENSOR_DTYPE_BF16,
    TENSOR_DTYPE_I64,
};

struct safetensor {
    const char *name;
    enum tensor_dtype dtype;
    unsigned rank;
    uint64_t shape[SAFETENSORS_MAX_RANK];
    uint64_t count;   /* product of the shape; 1 for rank 0 */
    const void *data; /* borrowed, not aligned */
};

struct safetensors;

/* Maps the file at `path` and checks it whole. Fails with STATUS_CORRUPT, naming file and tensor.
 * A PyTorch file (.pth, .pt, .tar) fails with the line of Python that converts it. */
struct status safetensors_open(const char *path, struct safetensors **ret_file);
/* The same from memory, which is borrowed; `name` is for messages. */
struct status safetensors_parse(const void *bytes, size_t length, const char *name,
                                struct safetensors **ret_file);
void safetensors_close(struct safetensors *file);
CLEANUP_POINTER(safetensors_close, struct safetensors)

/* In the order of the data. */
size_t safetensors_count(const struct safetensors *file);
const struct safetensor *safetensors_at(const struct safetensors *file, size_t i);
/* The tensor of a name, or NULL. */
const struct safetensor *safetensors_find(const struct safetensors *file, const char *name);
/* A value of __metadata__, borrowed, or NULL. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);
/* CRC-32C of the whole file and of the tensors' bytes alone, and the file's size. */
uint32_t safetensors_crc(const struct safetensors *file);
uint32_t safetensors_data_crc(const struct safetensors *file);
uint64_t safetensors_size_bytes(const struct safetensors *file);

/* All values of a tensor as floats (count of them): exact for F32, F16 and BF16; F64 and I64 are
 * rounded. Fails with STATUS_UNSUPPORTED for other dtypes. */
struct status safetensor_read(const struct safetensor *tensor, float *ret_values);
/* The one value of an I64 tensor of one element; others fail with STATUS_CORRUPT. */
struct status safetensor_read_integer(const struct safetensor *tensor, int64_t *ret_value);

/* "(64, 3, 7, 7)", for messages. */
struct status shape_append(struct buffer *text, const uint64_t *shape, unsigned rank);

/* Where a file's bytes go; the sum of all lengths is the file's size. */
typedef struct status safetensors_sink(const void *bytes, size_t length, void *context);

/* Writes a file of tensors, in this order (F32 and I64 only; data in this machine's byte order,
 * which is little-endian). Takes ownership of `metadata`: NULL, or an object of strings. */
struct status safetensors_write(const struct safetensor *tensors, size_t count,
                                struct json *metadata, safetensors_sink *sink, void *context);

#endif
