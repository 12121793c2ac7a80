#include "train/cuda/elements.cuh"

/* Images: bytes to normalised numbers. */

enum { CHANNELS_IN = 3, CHANNELS_OUT = 4, LEVELS = 256 };

/* A thread takes a pixel at a time. All values that a channel can have are computed once a block,
 * as ToTensor and Normalize of torchvision do: divisions are rounded correctly, so the bits are
 * theirs. */
template <class T>
__global__ static void input_pixels(struct input_shape shape, const uint8_t *pixels,
                                    const struct step_header *header, const int32_t *labels,
                                    T *images)
{
    SHARED(float, table, CHANNELS_IN *LEVELS);
    for (unsigned i = threadIdx.x; i < CHANNELS_IN * LEVELS; i += blockDim.x) {
        unsigned channel = i / LEVELS, level = i % LEVELS;
        table[i] = ((float)level / 255.0f - shape.mean[channel]) / shape.std[channel];
    }
    __syncthreads();
    const uint64_t size = (uint64_t)shape.height * shape.width, count = shape.batch * size;
    const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        const uint32_t image = (uint32_t)(i / size), partner = partner_of(header, labels, image);
        const uint64_t other = partner * size + i % size;
        float values[CHANNELS_OUT];
        for (unsigned channel = 0; channel < CHANNELS_IN; channel++) {
            const float *normal = table + channel * LEVELS;
            values[channel] = normal[pixels[i * CHANNELS_IN + channel]];
            if (partner != image)
                values[channel] = (1 - header->mixed_in) * values[channel] +
                                  header->mixed_in * normal[pixels[other * CHANNELS_IN + channel]];
        }
        values[CHANNELS_IN] = 0;
        store_four(images, i * CHANNELS_OUT, count * CHANNELS_OUT, values);
    }
}

cudaError_t kernel_input(const struct input_shape *shape, const uint8_t *pixels,
                         const struct step_header *header, const int32_t *labels,
                         enum kernel_type type, void *images, cudaStream_t stream)
{
    uint64_t count = (uint64_t)shape->batch * shape->height * shape->width;
    if (count == 0)
        return cudaSuccess;
    unsigned blocks = blocks_for(count, BLOCK_THREADS, 2048);
    return with_type(type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((input_pixels<T>), blocks, BLOCK_THREADS, stream, *shape, pixels, header,
                      labels, static_cast<T *>(images));
    });
}
