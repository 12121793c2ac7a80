#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudnn_standin_internal.h"

static atomic_size_t live;
static _Thread_local char last_error[512];

cudnnStatus_t refuse(cudnnStatus_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    if (size > 0)
        snprintf(message, size, "%s", last_error);
    last_error[0] = '\0';
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status / 1000) {
    case 0:
        return "CUDNN_STATUS_SUCCESS";
    case 2:
        return "CUDNN_STATUS_BAD_PARAM";
    case 3:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
        return "CUDNN_STATUS_INTERNAL_ERROR";
    }
}

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

size_t cudnn_standin_leaks(void)
{
    return live;
}

/* --- Handles ---------------------------------------------------------------------------------- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *ret_handle)
{
    *ret_handle = calloc(1, sizeof **ret_handle);
    live++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    live--;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *ret_stream)
{
    *ret_stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

/* --- Which attributes there are --------------------------------------------------------------- */

struct attribute_schema {
    cudnnBackendDescriptorType_t owner;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t least, most; /* values; least 0: may be left out */
};

#define LINK CUDNN_TYPE_BACKEND_DESCRIPTOR
static const struct attribute_schema schemas[] = {
#define OWNER CUDNN_BACKEND_TENSOR_DESCRIPTOR
    {OWNER, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {OWNER, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4},
    {OWNER, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4},
    {OWNER, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1},
    {OWNER, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1},
    {OWNER, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 0, 1},
    {OWNER, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 0, 1},
#undef OWNER
#define OWNER CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
    {OWNER, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1},
    {OWNER, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {OWNER, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1},
    {OWNER, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, 2},
    {OWNER, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, 2},
    {OWNER, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, 2},
    {OWNER, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, 2},
#undef OWNER
#define CONV_PASS(owner, name)                                                                     \
    {owner, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_CONV_DESC, LINK, 1, 1},                      \
        {owner, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_ALPHA, CUDNN_TYPE_FLOAT, 1, 1},          \
    {                                                                                              \
        owner, CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_BETA, CUDNN_TYPE_FLOAT, 1, 1              \
    }
    CONV_PASS(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, FORWARD),
    CONV_PASS(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, BWD_DATA),
    CONV_PASS(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, BWD_FILTER),
#undef CONV_PASS
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
     1},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
     1},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     LINK, 1, 1},
    {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, CUDNN_ATTR_OPERATION_GENSTATS_MODE,
     CUDNN_TYPE_GENSTATS_MODE, 1, 1},
    {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC,
     CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_NORM_FWD_MODE,
     CUDNN_TYPE_NORM_MODE, 1, 1},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE,
     CUDNN_TYPE_NORM_FWD_PHASE, 1, 1},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_NORM_BWD_MODE,
     CUDNN_TYPE_NORM_MODE, 1, 1},
    {CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE, CUDNN_TYPE_BN_FINALIZE_STATS_MODE, 1, 1},
    {CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1},
#define OWNER CUDNN_BACKEND_RESAMPLE_DESCRIPTOR
    {OWNER, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, 1},
    {OWNER, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {OWNER, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1},
    {OWNER, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1, 1},
    {OWNER, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_FRACTION, 2, 2},
    {OWNER, CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_FRACTION, 2, 2},
    {OWNER, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_FRACTION, 2, 2},
    {OWNER, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_FRACTION, 2, 2},
#undef OWNER
    {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, LINK,
     1, 1},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, LINK,
     1, 1},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, LINK, 1,
     PROGRAM_NODES},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
     0, 1},
    {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
     CUDNN_TYPE_CHAR, 1, INT64_MAX},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, LINK, 1, 1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, LINK, 0, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
     0, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, LINK, 0, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, LINK, 0, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
     CUDNN_TYPE_CHAR, 0, INT64_MAX},
#define OWNER CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
    {OWNER, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, PROGRAM_TENSORS},
    {OWNER, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, PROGRAM_TENSORS},
    {OWNER, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1},
#undef OWNER
};
#undef LINK
enum { SCHEMAS = sizeof schemas / sizeof schemas[0] };

static size_t value_bytes(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
        return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return sizeof(void *);
    case CUDNN_TYPE_FRACTION:
        return sizeof(cudnnFraction_t);
    default:
        return 4; /* float, and enums */
    }
}

/* The schema of an attribute; `slot` holds it where it is a slot of an operation. */
static const struct attribute_schema *schema_find(cudnnBackendDescriptorType_t owner,
                                                  cudnnBackendAttributeName_t name,
                                                  struct attribute_schema *slot)
{
    for (int i = 0; i < SCHEMAS; i++)
        if (schemas[i].owner == owner && schemas[i].name == name)
            return &schemas[i];
    const struct operation_schema *operation = operation_schema(owner);
    for (int i = 0; operation && i < NODE_SLOTS && operation->slots[i].name; i++)
        if (operation->slots[i].name == name) {
            *slot = (struct attribute_schema){owner, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                              operation->slots[i].is_optional ? 0 : 1, 1};
            return slot;
        }
    return NULL;
}

/* --- Attributes ------------------------------------------------------------------------------- */

const struct attribute *attribute_find(const struct descriptor *descriptor,
                                       cudnnBackendAttributeName_t name)
{
    for (unsigned i = 0; i < descriptor->count; i++)
        if (descriptor->attributes[i].name == name)
            return &descriptor->attributes[i];
    return NULL;
}

int64_t attribute_int(const struct descriptor *descriptor, cudnnBackendAttributeName_t name)
{
    return *(const int64_t *)attribute_find(descriptor, name)->values;
}

int attribute_enum(const struct descriptor *descriptor, cudnnBackendAttributeName_t name)
{
    return *(const int *)attribute_find(descriptor, name)->values;
}

const struct descriptor *attribute_link(const struct descriptor *descriptor,
                                        cudnnBackendAttributeName_t name)
{
    const struct attribute *attribute = attribute_find(descriptor, name);
    return attribute ? *(const struct descriptor *const *)attribute->values : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *ret_descriptor)
{
    struct descriptor *descriptor = calloc(1, sizeof *descriptor);
    descriptor->type = type;
    *ret_descriptor = descriptor;
    live++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t pointer)
{
    struct descriptor *descriptor = pointer;
    for (unsigned i = 0; i < descriptor->count; i++)
        free(descriptor->attributes[i].values);
    program_release(descriptor->program);
    free(descriptor);
    live--;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t pointer,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    struct descriptor *descriptor = pointer;
    struct attribute_schema slot;
    const struct attribute_schema *schema = schema_find(descriptor->type, name, &slot);
    if (descriptor->finalized)
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d: the descriptor is finalized", name);
    if (!schema || schema->type != type)
        return refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                      "a descriptor of type %d has no attribute %d of type %d", descriptor->type,
                      name, type);
    if (count < 1 || count > schema->most || count < schema->least || !values)
        return refuse(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "attribute %d: %lld values", name,
                      (long long)count);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < count; i++)
            if (!((struct descriptor *const *)values)[i] ||
                !((struct descriptor *const *)values)[i]->finalized)
                return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d: value %lld",
                              name, (long long)i);
    if (attribute_find(descriptor, name) || descriptor->count == DESCRIPTOR_ATTRIBUTES)
        return refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "attribute %d is set", name);
    size_t bytes = (size_t)count * value_bytes(type);
    struct attribute *attribute = &descriptor->attributes[descriptor->count++];
    *attribute = (struct attribute){name, count, malloc(bytes)};
    memcpy(attribute->values, values, bytes);
    return CUDNN_STATUS_SUCCESS;
}

/* --- Finalising ------------------------------------------------------------------------------- */

static cudnnStatus_t tensor_check(const struct descriptor *tensor)
{
    const int64_t *dims = attribute_find(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS)->values;
    const int64_t *strides = attribute_find(tensor, CUDNN_ATTR_TENSOR_STRIDES)->values;
    const int64_t dense[4] = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
    int64_t alignment = attribute_int(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    for (int i = 0; i < 4; i++)
        if (dims[i] < 1)
            return refuse(CUDNN_STATUS_BAD_PARAM, "dimension %d of a tensor is %lld", i,
                          (long long)dims[i]);
    if (memcmp(strides, dense, sizeof dense) != 0)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "a tensor that is not dense NHWC");
    if (alignment < (int64_t)type_bytes(
                        (cudnnDataType_t)attribute_enum(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE)) ||
        (alignment & (alignment - 1)))
        return refuse(CUDNN_STATUS_BAD_PARAM, "alignment %lld", (long long)alignment);
    if (attribute_find(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
        attribute_find(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE))
        return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor by value cannot be virtual");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t heuristics_check(struct descriptor *heuristics)
{
    const struct descriptor *graph =
        attribute_link(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (graph->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "heuristics need a graph");
    if (!graph->program->handle && !attribute_link(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP))
        return refuse(CUDNN_STATUS_BAD_PARAM, "neither a handle nor a device was given");
    heuristics->program = program_hold(graph->program);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t plan_check(struct descriptor *plan);

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t pointer)
{
    struct descriptor *descriptor = pointer;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < SCHEMAS; i++)
        if (schemas[i].owner == descriptor->type && schemas[i].least > 0 &&
            !attribute_find(descriptor, schemas[i].name))
            return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is missing", schemas[i].name);
    switch (descriptor->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        status = tensor_check(descriptor);
        break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        status = program_make(descriptor, &descriptor->program);
        break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        status = heuristics_check(descriptor);
        break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        status = plan_check(descriptor);
        break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        if (attribute_find(descriptor, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count !=
            attribute_find(descriptor, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count)
            status = refuse(CUDNN_STATUS_BAD_PARAM, "there are more ids or more pointers");
        break;
    default:
        if (operation_schema(descriptor->type))
            status = operation_check(descriptor);
    }
    descriptor->finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}
