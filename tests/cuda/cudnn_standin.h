#ifndef HEADRACE_TESTS_CUDA_CUDNN_STANDIN_H
#define HEADRACE_TESTS_CUDA_CUDNN_STANDIN_H

/* cuDNN's backend interface on the CPU, for tests: the symbols of libcudnn that train/cuda/ uses.
 * Descriptors are stored and checked: names, types and counts of attributes, shapes, layouts, ids,
 * what operations may follow one another. A plan's execution is work on the stream of its handle
 * (cudart_standin.h) and interprets the operation graph with plain loops: tensors in memory are
 * rounded to their type, those inside of a graph stay in float.
 *
 * Stricter than cuDNN: any layout but (N, H, W, C) is refused; what a plan writes may not overlap
 * what it reads, running statistics apart; the workspace is filled with NaN in every execution.
 * Graphs for which cuDNN 9.19 was seen to have no engine have none here. */

#include <cudnn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on there is no engine for graphs with an operation of this type, so that a program has
 * to do without. CUDNN_BACKEND_TENSOR_DESCRIPTOR: all have one again. */
void cudnn_standin_refuse(cudnnBackendDescriptorType_t operation);

/* Descriptors and handles that exist. */
size_t cudnn_standin_leaks(void);

#ifdef __cplusplus
}
#endif

#endif
