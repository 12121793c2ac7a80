#ifndef HEADRACE_TESTS_CUDA_GPU_MEMORY_H
#define HEADRACE_TESTS_CUDA_GPU_MEMORY_H

/* For tests that run on a GPU or on the runtime's stand-in alike: memory of the device, elements of
 * the three types. Included once by a test program. */

#include "tests/test.h"

#include <math.h>
#include <stdbool.h>

#include "train/cpu/bf16.h"
#include "train/cuda/kernels.h"

#define assert_cuda(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")
#define assert_cuda_fails(error, call) assert_string_equal(cudaGetErrorName(call), #error)

enum { GPU_BLOCKS_MAX = 64 };
static void *gpu_blocks[GPU_BLOCKS_MAX];
static size_t gpu_block_count;
static cudaStream_t gpu_queue;

/* Says why when there is none. */
TEST_HELPER bool gpu_is_there(void)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        print_message("skipped: no CUDA device: %s\n", cudaGetErrorString(error));
    return error == cudaSuccess;
}

TEST_HELPER cudaStream_t gpu_stream(void)
{
    if (!gpu_queue)
        assert_cuda(cudaStreamCreateWithFlags(&gpu_queue, cudaStreamNonBlocking));
    return gpu_queue;
}

/* Undefined bytes, freed by gpu_free_all. A valid pointer for 0 bytes too. */
TEST_HELPER void *gpu_alloc(size_t bytes)
{
    assert_true(gpu_block_count < GPU_BLOCKS_MAX);
    void **block = &gpu_blocks[gpu_block_count];
    assert_cuda(cudaMalloc(block, bytes ? bytes : 1));
    gpu_block_count++;
    return *block;
}

TEST_HELPER void *gpu_copy(const void *host, size_t bytes)
{
    void *device = gpu_alloc(bytes);
    assert_cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    return device;
}

/* After the work of gpu_stream. */
TEST_HELPER void gpu_read(const void *device, void *host, size_t bytes)
{
    assert_cuda(cudaStreamSynchronize(gpu_stream()));
    assert_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

TEST_HELPER void gpu_free_all(void)
{
    assert_cuda(cudaStreamSynchronize(gpu_stream()));
    while (gpu_block_count > 0)
        assert_cuda(cudaFree(gpu_blocks[--gpu_block_count]));
}

/* --- Elements
 * -------------------------------------------------------------------------------------- */

/* Half a unit in the last place of 1, by type. */
TEST_HELPER double type_rounding(enum kernel_type type)
{
    return type == KERNEL_F32 ? 0x1p-24 : type == KERNEL_F16 ? 0x1p-11 : 0x1p-8;
}

TEST_HELPER size_t type_bytes(enum kernel_type type)
{
    return type == KERNEL_F32 ? sizeof(float) : sizeof(uint16_t);
}

TEST_HELPER double element_get(enum kernel_type type, const void *elements, size_t i)
{
    if (type == KERNEL_F32)
        return ((const float *)elements)[i];
    if (type == KERNEL_BF16)
        return bf16_to_f32(((const uint16_t *)elements)[i]);
    _Float16 half;
    memcpy(&half, (const uint16_t *)elements + i, sizeof half);
    return (double)half;
}

/* Rounds to nearest even. */
TEST_HELPER void element_put(enum kernel_type type, void *elements, size_t i, float value)
{
    _Float16 half = (_Float16)value;
    if (type == KERNEL_F32)
        ((float *)elements)[i] = value;
    else if (type == KERNEL_BF16)
        ((uint16_t *)elements)[i] = bf16_from_f32(value);
    else
        memcpy((uint16_t *)elements + i, &half, sizeof half);
}

TEST_HELPER double rounded(enum kernel_type type, float value)
{
    float element;
    element_put(type, &element, 0, value);
    return element_get(type, &element, 0);
}

/* `got` is within relative·|wanted| + absolute of `wanted`; NaN is near NaN. */
TEST_HELPER void assert_near(double got, double wanted, double relative, double absolute)
{
    bool equal = got == wanted; /* infinities */
    bool near = fabs(got - wanted) <= relative * fabs(wanted) + absolute;
    if (!equal && !near && !(isnan(got) && isnan(wanted)))
        fail_msg("%.9g instead of %.9g", got, wanted);
}

#endif
