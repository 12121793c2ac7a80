#include "train/cuda/descriptor.h"

#include <string.h>

#include "base/memory.h"

/* cuDNN's messages have many lines, each "…; Reason: what"; the first reason is the deepest one. */
static void last_reason(char *ret_reason, size_t size)
{
    char message[4096] = "";
    cudnnGetLastErrorString(message, sizeof message);
    const char *marker = "Reason: ";
    const char *reason = strstr(message, marker);
    reason = reason ? reason + strlen(marker) : message;
    size_t length = strcspn(reason, "\n");
    if (length >= size)
        length = size - 1;
    memcpy(ret_reason, reason, length);
    ret_reason[length] = '\0';
}

struct status cudnn_failure(cudnnStatus_t status, const char *call)
{
    char reason[512];
    last_reason(reason, sizeof reason);
    int name_length = (int)strcspn(call, "(");
    bool unsupported = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
    FAIL(unsupported ? STATUS_UNSUPPORTED : STATUS_FAILED, "%.*s: %s%s%s", name_length, call,
         cudnnGetErrorString(status), reason[0] ? ": " : "", reason);
}

void descriptor_close(cudnnBackendDescriptor_t descriptor)
{
    if (descriptor)
        cudnnBackendDestroyDescriptor(descriptor);
}

struct status descriptor_open(cudnnBackendDescriptorType_t type,
                              cudnnBackendDescriptor_t *ret_descriptor)
{
    TRY_CUDNN(cudnnBackendCreateDescriptor(type, ret_descriptor));
    return OK;
}

struct status descriptor_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, size_t count, const void *values)
{
    cudnnStatus_t status = cudnnBackendSetAttribute(descriptor, name, type, (int64_t)count, values);
    if (status == CUDNN_STATUS_SUCCESS)
        return OK;
    return status_context(cudnn_failure(status, "cudnnBackendSetAttribute"), "attribute %d", name);
}

struct status descriptor_set_int(cudnnBackendDescriptor_t descriptor,
                                 cudnnBackendAttributeName_t name, int64_t value)
{
    return descriptor_set(descriptor, name, CUDNN_TYPE_INT64, 1, &value);
}

struct status descriptor_set_float(cudnnBackendDescriptor_t descriptor,
                                   cudnnBackendAttributeName_t name, float value)
{
    return descriptor_set(descriptor, name, CUDNN_TYPE_FLOAT, 1, &value);
}

struct status descriptor_set_type(cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendAttributeName_t name, cudnnDataType_t value)
{
    return descriptor_set(descriptor, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

struct status descriptor_set_link(cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    return descriptor_set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

struct status descriptor_finish(cudnnBackendDescriptor_t descriptor)
{
    TRY_CUDNN(cudnnBackendFinalize(descriptor));
    return OK;
}

struct status descriptor_get_int(cudnnBackendDescriptor_t descriptor,
                                 cudnnBackendAttributeName_t name, int64_t *ret_value)
{
    int64_t count;
    TRY_CUDNN(cudnnBackendGetAttribute(descriptor, name, CUDNN_TYPE_INT64, 1, &count, ret_value));
    return OK;
}

void descriptor_list_done(struct descriptor_list *list)
{
    while (list->count > 0) /* what was made last may refer to what was made first */
        descriptor_close(list->all[--list->count]);
    memory_free(list->all);
    *list = (struct descriptor_list){0};
}

struct status descriptor_list_add(struct descriptor_list *list, cudnnBackendDescriptorType_t type,
                                  cudnnBackendDescriptor_t *ret_descriptor)
{
    TRY(memory_grow(list->count + 1, sizeof *list->all, &list->all, &list->capacity));
    TRY(descriptor_open(type, &list->all[list->count]));
    *ret_descriptor = list->all[list->count++];
    return OK;
}
