#ifndef HEADRACE_TRAIN_CUDA_LAUNCH_CUH
#define HEADRACE_TRAIN_CUDA_LAUNCH_CUH

/* One source of kernels for nvcc and for a C++ compiler:
 *
 *     LAUNCH(kernel, grid, block, stream, arguments…)   gives a cudaError_t; in parentheses where
 *                                                       the kernel's name has a comma
 *     SHARED(type, name, count)                         shared memory, in a kernel's or a device
 *                                                       function's outermost block
 *
 * and of CUDA's functions those below. All 32 threads of a warp must take part in a shuffle. */

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

template <class T> struct launch_same {
    typedef T type;
};

#ifdef __CUDACC__

template <class... Parameters>
cudaError_t launch_on_gpu(dim3 grid, dim3 block, cudaStream_t stream, void (*kernel)(Parameters...),
                          typename launch_same<Parameters>::type... arguments)
{
    kernel<<<grid, block, 0, stream>>>(arguments...);
    return cudaGetLastError();
}

#define LAUNCH(kernel, grid, block, stream, ...)                                                   \
    launch_on_gpu((grid), (block), (stream), (kernel), __VA_ARGS__)
#define SHARED(type, name, count) __shared__ type name[count]

#else

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/cuda/launch_cpu.h"

template <class Body> struct launch_closure {
    struct kernel_call call;
    Body body;

    static void run(void *closure)
    {
        static_cast<launch_closure *>(closure)->body();
    }
};

/* The arguments are converted and copied now, as a launch on a GPU does. */
template <class... Parameters>
cudaError_t launch_on_cpu(const char *name, dim3 grid, dim3 block, cudaStream_t stream,
                          void (*kernel)(Parameters...),
                          typename launch_same<Parameters>::type... arguments)
{
    auto body = [=] { kernel(arguments...); };
    typedef launch_closure<decltype(body)> closure_type;
    void *memory = malloc(sizeof(closure_type));
    if (!memory)
        return cudaErrorMemoryAllocation;
    static_assert(__is_trivially_copyable(decltype(body)), "arguments are plain values");
    struct kernel_call call = {name, grid, block, closure_type::run, memory};
    closure_type *closure = static_cast<closure_type *>(memory);
    memcpy(static_cast<void *>(&closure->call), &call, sizeof call);
    memcpy(static_cast<void *>(&closure->body), &body, sizeof body);
    return kernel_launch(&closure->call, stream);
}

#define LAUNCH(kernel, grid, block, stream, ...)                                                   \
    launch_on_cpu(#kernel, (grid), (block), (stream), (kernel), __VA_ARGS__)
#define SHARED(type, name, count)                                                                  \
    static struct kernel_shared_slot name##_slot;                                                  \
    type *const name = static_cast<type *>(kernel_shared(&name##_slot, sizeof(type) * (count)))

static inline void __syncthreads(void)
{
    kernel_barrier(0);
}

static inline int __syncthreads_or(int predicate)
{
    return kernel_barrier(predicate);
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, unsigned distance)
{
    (void)mask;
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    word = kernel_exchange(word, kernel_lane() ^ distance);
    memcpy(&value, &word, sizeof value);
    return value;
}

static inline unsigned atomicMin(unsigned *address, unsigned value)
{
    unsigned before = *address;
    if (value < before)
        *address = value;
    return before;
}

#endif

#endif
