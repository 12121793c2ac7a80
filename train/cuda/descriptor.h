#ifndef HEADRACE_TRAIN_CUDA_DESCRIPTOR_H
#define HEADRACE_TRAIN_CUDA_DESCRIPTOR_H

/* Descriptors of cuDNN's backend interface: made, filled and finalised with errors that say what
 * cuDNN objected to. Private to the files around graph.h. */

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

/* Returns from the calling function when a call of cuDNN fails: STATUS_UNSUPPORTED where cuDNN does
 * not support it, else STATUS_FAILED. */
#define TRY_CUDNN(call)                                                                            \
    do {                                                                                           \
        cudnnStatus_t cudnn_status_ = (call);                                                      \
        if (cudnn_status_ != CUDNN_STATUS_SUCCESS)                                                 \
            return cudnn_failure(cudnn_status_, #call);                                            \
    } while (0)
/* "cudnnBackendFinalize: CUDNN_STATUS_…: cuDNN's last reason". */
struct status cudnn_failure(cudnnStatus_t status, const char *call);

void descriptor_close(cudnnBackendDescriptor_t descriptor);
CLEANUP_POINTER(descriptor_close, void)

struct status descriptor_open(cudnnBackendDescriptorType_t type,
                              cudnnBackendDescriptor_t *ret_descriptor);
struct status descriptor_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, size_t count, const void *values);
/* One value each. */
struct status descriptor_set_int(cudnnBackendDescriptor_t descriptor,
                                 cudnnBackendAttributeName_t name, int64_t value);
struct status descriptor_set_float(cudnnBackendDescriptor_t descriptor,
                                   cudnnBackendAttributeName_t name, float value);
struct status descriptor_set_type(cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendAttributeName_t name, cudnnDataType_t value);
struct status descriptor_set_link(cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
struct status descriptor_finish(cudnnBackendDescriptor_t descriptor);
struct status descriptor_get_int(cudnnBackendDescriptor_t descriptor,
                                 cudnnBackendAttributeName_t name, int64_t *ret_value);

/* Descriptors that live and die together. */
struct descriptor_list {
    cudnnBackendDescriptor_t *all;
    size_t count, capacity;
};
void descriptor_list_done(struct descriptor_list *list);
CLEANUP_VALUE(descriptor_list_done, struct descriptor_list)
/* Opens one that the list owns. */
struct status descriptor_list_add(struct descriptor_list *list, cudnnBackendDescriptorType_t type,
                                  cudnnBackendDescriptor_t *ret_descriptor);

#endif
