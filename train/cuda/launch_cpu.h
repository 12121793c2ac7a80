#ifndef HEADRACE_TRAIN_CUDA_LAUNCH_CPU_H
#define HEADRACE_TRAIN_CUDA_LAUNCH_CPU_H

/* What launch.cuh stands on where kernels are compiled for the CPU: built-in variables, and what is
 * behind CUDA's functions. tests/cuda/cudart_standin_kernels.c defines all of it; the module for
 * GPUs has nothing of this. */

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the thread that runs. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* A launch; one block of malloc with its arguments, which the stand-in frees. */
struct kernel_call {
    const char *name;
    dim3 grid, block;
    void (*run)(void *arguments); /* one thread */
    void *arguments;
};
/* Fails as a launch does; owns `call` in any case. */
cudaError_t kernel_launch(struct kernel_call *call, cudaStream_t stream);

/* Waits for all threads of the block; whether any gave a true predicate. */
int kernel_barrier(int predicate);
/* Waits for all 32 threads of the warp; the value that the one in `lane` gave. */
uint64_t kernel_exchange(uint64_t value, unsigned lane);
/* The thread's place in its warp. */
unsigned kernel_lane(void);

/* Shared memory of one declaration; new and poisoned in each block. */
struct kernel_shared_slot {
    uint64_t block;
    size_t offset;
};
void *kernel_shared(struct kernel_shared_slot *slot, size_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif
