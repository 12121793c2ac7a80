#include "train/cuda/elements.cuh"

/* Plain arrays. Threads take four elements at a time. */

enum { BLOCKS_MAX = 1 << 16 };

__device__ static inline uint64_t first_place(void)
{
    return 4 * ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x);
}

__device__ static inline uint64_t place_stride(void)
{
    return 4 * (uint64_t)gridDim.x * blockDim.x;
}

static unsigned array_blocks(uint64_t count)
{
    return blocks_for(count, 4 * BLOCK_THREADS, BLOCKS_MAX);
}

template <class T> __global__ static void array_add(float *sum, const T *fresh, uint64_t count)
{
    for (uint64_t i = first_place(); i < count; i += place_stride()) {
        float values[4], more[4];
        load_four(sum, i, count, values);
        load_four(fresh, i, count, more);
        for (int j = 0; j < 4; j++)
            values[j] += more[j];
        store_four(sum, i, count, values);
    }
}

cudaError_t kernel_add(float *sum, enum kernel_type type, const void *fresh, uint64_t count,
                       cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    return with_type(type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((array_add<T>), array_blocks(count), BLOCK_THREADS, stream, sum,
                      static_cast<const T *>(fresh), count);
    });
}

template <class To, class From>
__global__ static void array_cast(To *to, const From *from, uint64_t count)
{
    for (uint64_t i = first_place(); i < count; i += place_stride()) {
        float values[4];
        load_four(from, i, count, values);
        store_four(to, i, count, values);
    }
}

cudaError_t kernel_cast(enum kernel_type to_type, void *to, enum kernel_type from_type,
                        const void *from, uint64_t count, cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    return with_type(to_type, [&](auto target) {
        typedef decltype(target) To;
        return with_type(from_type, [&](auto source) {
            typedef decltype(source) From;
            return LAUNCH((array_cast<To, From>), array_blocks(count), BLOCK_THREADS, stream,
                          static_cast<To *>(to), static_cast<const From *>(from), count);
        });
    });
}

__global__ static void array_average(float *average, const float *values, float keep, float take,
                                     uint64_t count)
{
    for (uint64_t i = first_place(); i < count; i += place_stride()) {
        float averages[4], fresh[4];
        load_four(average, i, count, averages);
        load_four(values, i, count, fresh);
        for (int j = 0; j < 4; j++)
            averages[j] = keep > 0 ? keep * averages[j] + take * fresh[j] : fresh[j];
        store_four(average, i, count, averages);
    }
}

cudaError_t kernel_average(float *average, const float *values, float keep, float take,
                           uint64_t count, cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    return LAUNCH(array_average, array_blocks(count), BLOCK_THREADS, stream, average, values, keep,
                  take, count);
}

__global__ static void array_scale(float *values, float factor, uint64_t count)
{
    for (uint64_t i = first_place(); i < count; i += place_stride()) {
        float scaled[4];
        load_four(values, i, count, scaled);
        for (int j = 0; j < 4; j++)
            scaled[j] *= factor;
        store_four(values, i, count, scaled);
    }
}

cudaError_t kernel_scale(float *values, float factor, uint64_t count, cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    return LAUNCH(array_scale, array_blocks(count), BLOCK_THREADS, stream, values, factor, count);
}

/* A block takes 32 columns; its 8 warps take every eighth row, and the first adds them up. */
enum { COLUMN_WARPS = BLOCK_THREADS / WARP_THREADS };

template <class T>
__global__ static void column_sums(const T *x, uint32_t rows, uint32_t columns, bool adds,
                                   float *sums)
{
    SHARED(float, of_warps, BLOCK_THREADS);
    const uint32_t column = blockIdx.x * WARP_THREADS + threadIdx.x;
    float sum = 0;
    for (uint32_t row = threadIdx.y; column < columns && row < rows; row += COLUMN_WARPS)
        sum += to_float(x[(uint64_t)row * columns + column]);
    of_warps[threadIdx.y * WARP_THREADS + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= columns)
        return;
    for (int warp = 1; warp < COLUMN_WARPS; warp++)
        sum += of_warps[warp * WARP_THREADS + threadIdx.x];
    sums[column] = adds ? sums[column] + sum : sum;
}

cudaError_t kernel_column_sums(enum kernel_type type, const void *x, uint32_t rows,
                               uint32_t columns, bool adds, float *sums, cudaStream_t stream)
{
    if (columns == 0)
        return cudaSuccess;
    return with_type(type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((column_sums<T>), blocks_for(columns, WARP_THREADS, UINT32_MAX),
                      dim3(WARP_THREADS, COLUMN_WARPS), stream, static_cast<const T *>(x), rows,
                      columns, adds, sums);
    });
}
