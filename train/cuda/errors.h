#ifndef HEADRACE_TRAIN_CUDA_ERRORS_H
#define HEADRACE_TRAIN_CUDA_ERRORS_H

/* From the runtime's errors to ours. */

#include <cuda_runtime_api.h>

#include "base/status.h"

/* "cudaMalloc: out of memory (cudaErrorMemoryAllocation)"; STATUS_NO_MEMORY for that one. `call` is
 * the expression that failed; `error` is not cudaSuccess. */
struct status cuda_failure(cudaError_t error, const char *call);

#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        cudaError_t try_cuda_ = (call);                                                            \
        if (try_cuda_ != cudaSuccess)                                                              \
            return cuda_failure(try_cuda_, #call);                                                 \
    } while (0)

#endif
