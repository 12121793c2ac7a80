#include "train/cuda/errors.h"

#include <string.h>

struct status cuda_failure(cudaError_t error, const char *call)
{
    const enum status_code code =
        error == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_FAILED;
    FAIL(code, "%.*s: %s (%s)", (int)strcspn(call, "("), call, cudaGetErrorString(error),
         cudaGetErrorName(error));
}
