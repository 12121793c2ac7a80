#include "train/cuda/elements.cuh"

/* The binomial blur. A thread has four channels of a pixel. */

template <class T>
__global__ static void blur_pixels(struct blur_shape shape, const T *x, const T *add, T *y)
{
    const uint64_t count = (uint64_t)shape.batch * shape.height * shape.width * shape.channels;
    const uint64_t stride = 4 * (uint64_t)gridDim.x * blockDim.x;
    const int64_t row_elements = (int64_t)shape.width * shape.channels;
    for (uint64_t i = 4 * ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x); i < count;
         i += stride) {
        const uint64_t pixel = i / shape.channels;
        const uint32_t column = (uint32_t)(pixel % shape.width);
        const uint32_t row = (uint32_t)(pixel / shape.width % shape.height);
        float sum[4] = {0, 0, 0, 0};
        for (int down = row > 0 ? -1 : 0; down <= (row + 1 < shape.height ? 1 : 0); down++)
            for (int right = column > 0 ? -1 : 0; right <= (column + 1 < shape.width ? 1 : 0);
                 right++) {
                const float tap = (down ? .25f : .5f) * (right ? .25f : .5f);
                float values[4];
                load_four(x, i + down * row_elements + right * (int64_t)shape.channels, count,
                          values);
                for (int j = 0; j < 4; j++)
                    sum[j] += tap * values[j];
            }
        float more[4] = {0, 0, 0, 0};
        if (add)
            load_four(add, i, count, more);
        for (int j = 0; j < 4; j++)
            sum[j] += more[j];
        store_four(y, i, count, sum);
    }
}

cudaError_t kernel_blur(const struct blur_shape *shape, enum kernel_type type, const void *x,
                        const void *add, void *y, cudaStream_t stream)
{
    const uint64_t count = (uint64_t)shape->batch * shape->height * shape->width * shape->channels;
    if (shape->channels % 4 != 0 || x == y)
        return cudaErrorInvalidValue;
    if (count == 0)
        return cudaSuccess;
    return with_type(type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((blur_pixels<T>), blocks_for(count, 4 * BLOCK_THREADS, 1 << 16),
                      BLOCK_THREADS, stream, *shape, static_cast<const T *>(x),
                      static_cast<const T *>(add), static_cast<T *>(y));
    });
}
