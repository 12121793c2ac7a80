#ifndef HEADRACE_TRAIN_CUDA_ELEMENTS_CUH
#define HEADRACE_TRAIN_CUDA_ELEMENTS_CUH

/* Elements of the three types, read and written as float; sums over a block. */

#include "train/cuda/kernels.h"
#include "train/cuda/launch.cuh"

enum { BLOCK_THREADS = 256, WARP_THREADS = 32 };
static_assert(KERNEL_BLOCK == 4 * BLOCK_THREADS, "a thread has four elements of an arena's block");

__device__ static inline float to_float(float x)
{
    return x;
}
__device__ static inline float to_float(__half x)
{
    return __half2float(x);
}
__device__ static inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

/* Rounds to nearest even. */
__device__ static inline void from_float(float x, float *to)
{
    *to = x;
}
__device__ static inline void from_float(float x, __half *to)
{
    *to = __float2half_rn(x);
}
__device__ static inline void from_float(float x, __nv_bfloat16 *to)
{
    *to = __float2bfloat16_rn(x);
}

/* Four elements that are read or written at once. */
template <class T> struct alignas(4 * sizeof(T)) four {
    T at[4];
};

/* The elements i … i+3, of which those from `count` on are 0. i is a multiple of 4. */
template <class T>
__device__ static inline void load_four(const T *x, uint64_t i, uint64_t count, float *ret)
{
    if (i + 4 <= count) {
        four<T> loaded = *reinterpret_cast<const four<T> *>(x + i);
        for (int j = 0; j < 4; j++)
            ret[j] = to_float(loaded.at[j]);
    } else {
        for (int j = 0; j < 4; j++)
            ret[j] = i + j < count ? to_float(x[i + j]) : 0;
    }
}

template <class T>
__device__ static inline void store_four(T *x, uint64_t i, uint64_t count, const float *values)
{
    if (i + 4 <= count) {
        four<T> stored;
        for (int j = 0; j < 4; j++)
            from_float(values[j], &stored.at[j]);
        *reinterpret_cast<four<T> *>(x + i) = stored;
    } else {
        for (int j = 0; i + j < count; j++)
            from_float(values[j], &x[i + j]);
    }
}

/* The sum of all threads' values, in every thread; the same order each time. For blocks of
 * BLOCK_THREADS threads. */
template <class T> __device__ static inline T block_sum(T value)
{
    SHARED(T, of_warps, BLOCK_THREADS / WARP_THREADS);
    for (unsigned distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    if (threadIdx.x % WARP_THREADS == 0)
        of_warps[threadIdx.x / WARP_THREADS] = value;
    __syncthreads();
    T sum = of_warps[0];
    for (int warp = 1; warp < BLOCK_THREADS / WARP_THREADS; warp++)
        sum += of_warps[warp];
    __syncthreads(); /* the next call may write */
    return sum;
}

__device__ static inline float block_max(float value)
{
    SHARED(float, of_warps, BLOCK_THREADS / WARP_THREADS);
    for (unsigned distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
    if (threadIdx.x % WARP_THREADS == 0)
        of_warps[threadIdx.x / WARP_THREADS] = value;
    __syncthreads();
    float largest = of_warps[0];
    for (int warp = 1; warp < BLOCK_THREADS / WARP_THREADS; warp++)
        largest = fmaxf(largest, of_warps[warp]);
    __syncthreads();
    return largest;
}

/* What image i of a batch is mixed with; i itself for an image that stays as it is. */
__device__ static inline uint32_t partner_of(const struct step_header *header,
                                             const int32_t *labels, uint32_t i)
{
    return header->mixed_in > 0 && labels[i] >= 0 && labels[i ^ 1] >= 0 ? i ^ 1 : i;
}

/* Blocks of `each` for `count`, at most `limit`: kernels stride over the rest. */
static inline unsigned blocks_for(uint64_t count, uint64_t each, uint64_t limit)
{
    uint64_t blocks = (count + each - 1) / each;
    return (unsigned)(blocks < limit ? blocks : limit);
}

/* visit(x) with an x of the C++ type. */
template <class Visitor> static inline cudaError_t with_type(enum kernel_type type, Visitor visit)
{
    switch (type) {
    case KERNEL_F32:
        return visit(float());
    case KERNEL_F16:
        return visit(__half());
    case KERNEL_BF16:
        return visit(__nv_bfloat16());
    default:
        return cudaErrorInvalidValue;
    }
}

#endif
