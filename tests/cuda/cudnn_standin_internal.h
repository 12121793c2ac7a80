#ifndef HEADRACE_TESTS_CUDA_CUDNN_STANDIN_INTERNAL_H
#define HEADRACE_TESTS_CUDA_CUDNN_STANDIN_INTERNAL_H

/* What the files of the stand-in for cuDNN share. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/cuda/cudnn_standin.h"

/* --- Descriptors ------------------------------------------------------------------------------ */

struct attribute {
    cudnnBackendAttributeName_t name;
    int64_t count;
    void *values;
};

enum { DESCRIPTOR_ATTRIBUTES = 20 };
struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized;
    struct attribute attributes[DESCRIPTOR_ATTRIBUTES];
    unsigned count;
    struct program *program; /* graphs, heuristics, configs, engines, plans: what they are of */
    int engine;              /* configs, engines, plans */
};

/* The attribute, or NULL where it was not set. */
const struct attribute *attribute_find(const struct descriptor *descriptor,
                                       cudnnBackendAttributeName_t name);
/* Single values; the attribute was set. */
int64_t attribute_int(const struct descriptor *descriptor, cudnnBackendAttributeName_t name);
int attribute_enum(const struct descriptor *descriptor, cudnnBackendAttributeName_t name);
/* NULL where it was not set. */
const struct descriptor *attribute_link(const struct descriptor *descriptor,
                                        cudnnBackendAttributeName_t name);

/* Keeps a message for cudnnGetLastErrorString and hands `status` on. */
cudnnStatus_t refuse(cudnnStatus_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct cudnnContext {
    cudaStream_t stream;
};

/* --- Programs --------------------------------------------------------------------------------- */

struct tensor {
    int64_t id;
    cudnnDataType_t type;
    int64_t dims[4]; /* n, c, h, w */
    bool is_virtual, by_value;
    int writer; /* node; -1: none */
    bool read;
};

enum { NODE_SLOTS = 15, PROGRAM_TENSORS = 32, PROGRAM_NODES = 8 };

/* One operation. `slots` are indices of tensors, in the order of operation_schemas; -1: not given.
 */
struct node {
    cudnnBackendDescriptorType_t type;
    int mode; /* of a pointwise operation, pooling or normalisation */
    int slots[NODE_SLOTS];
    int64_t window[2], stride[2], padding[2];
};

/* An operation graph, worked out. Shared by the descriptors that refer to it. */
struct program {
    atomic_int references;
    struct tensor tensors[PROGRAM_TENSORS];
    int tensor_count;
    struct node nodes[PROGRAM_NODES];
    int node_count;
    cudnnHandle_t handle; /* NULL: made for a described device */
};
struct program *program_hold(struct program *program);
void program_release(struct program *program);

/* The slots of an operation. */
struct operation_schema {
    cudnnBackendDescriptorType_t type;
    struct {
        cudnnBackendAttributeName_t name; /* 0: no more */
        bool is_output, is_optional;
    } slots[NODE_SLOTS];
};
const struct operation_schema *operation_schema(cudnnBackendDescriptorType_t type);

/* Slots, for those who work with them. */
enum { CONV_X = 0, CONV_W, CONV_Y }; /* of all three passes, whichever is written */
enum { POINTWISE_X = 0, POINTWISE_B, POINTWISE_Y, POINTWISE_DX, POINTWISE_DY };
enum { STATS_X = 0, STATS_SUM, STATS_SQUARES };
enum {
    NORM_X = 0,
    NORM_Y,
    NORM_MEAN,
    NORM_INVSTD,
    NORM_SCALE,
    NORM_BIAS,
    NORM_EPSILON,
    NORM_FACTOR,
    NORM_RUNNING_MEAN,
    NORM_RUNNING_VAR,
    NORM_NEXT_MEAN,
    NORM_NEXT_VAR,
};
enum {
    NORM_BWD_X = 0,
    NORM_BWD_MEAN,
    NORM_BWD_INVSTD,
    NORM_BWD_DY,
    NORM_BWD_SCALE,
    NORM_BWD_DSCALE,
    NORM_BWD_DBIAS,
    NORM_BWD_DX,
};
enum {
    FINALIZE_SUM = 0,
    FINALIZE_SQUARES,
    FINALIZE_SCALE,
    FINALIZE_BIAS,
    FINALIZE_RUNNING_MEAN,
    FINALIZE_RUNNING_VAR,
    FINALIZE_NEXT_MEAN,
    FINALIZE_NEXT_VAR,
    FINALIZE_MEAN,
    FINALIZE_INVSTD,
    FINALIZE_EQ_SCALE,
    FINALIZE_EQ_BIAS,
    FINALIZE_COUNT,
    FINALIZE_EPSILON,
    FINALIZE_FACTOR,
};
enum {
    DBN_MEAN = 0,
    DBN_INVSTD,
    DBN_SCALE,
    DBN_X,
    DBN_DY,
    DBN_DSCALE,
    DBN_DBIAS,
    DBN_EQ_DY,
    DBN_EQ_X,
    DBN_EQ_BIAS,
};
enum { POOL_X = 0, POOL_Y, POOL_INDEX }; /* forward and backward: the larger one is X */

/* Checks an operation's tensors against each other, when it is finalised. */
cudnnStatus_t operation_check(const struct descriptor *operation);
/* Makes a program of an operation graph. */
cudnnStatus_t program_make(const struct descriptor *graph, struct program **ret_program);
/* A program as text and back, without its handle; NULL where there is none to read. */
void program_write(const struct program *program, FILE *file);
struct program *program_read(FILE *file);
/* Why there is no engine for it; NULL: there are some. */
const char *program_refusal(const struct program *program);

uint64_t type_bytes(cudnnDataType_t type);
int64_t tensor_elements(const struct tensor *tensor);

/* --- Running ---------------------------------------------------------------------------------- */

/* Interprets a program. `pointers` by tensor: device memory, or the bytes of a number. */
void program_run(const struct program *program, void *const *pointers);

#endif
