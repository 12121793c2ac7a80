#include "train/cuda/elements.cuh"

/* Batch normalisation with the running statistics, folded for evaluation. A row of blocks a fold.
 */

__device__ static inline float bn_scale(const float *values, const struct bn_fold &fold,
                                        uint32_t channel, float epsilon)
{
    return values[fold.gamma + channel] / sqrtf(values[fold.variance + channel] + epsilon);
}

__device__ static inline float bn_bias(const float *values, const struct bn_fold &fold,
                                       uint32_t channel, float scale)
{
    return values[fold.beta + channel] - values[fold.mean + channel] * scale;
}

template <class T>
__global__ static void fold_weights(const float *values, const struct bn_fold *folds, float epsilon,
                                    T *weights, float *biases)
{
    const struct bn_fold fold = folds[blockIdx.y];
    const uint64_t count = (uint64_t)fold.channels * fold.row;
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (uint64_t i = first; i < count; i += (uint64_t)gridDim.x * blockDim.x) {
        uint32_t channel = (uint32_t)(i / fold.row);
        float scale = bn_scale(values, fold, channel, epsilon);
        from_float(values[fold.weight + i] * scale, &weights[fold.weight + i]);
        if (i % fold.row == 0)
            biases[fold.beta + channel] = bn_bias(values, fold, channel, scale);
    }
}

cudaError_t kernel_fold(const float *values, const struct bn_fold *folds, uint32_t fold_count,
                        float epsilon, enum kernel_type type, void *weights, float *bias,
                        cudaStream_t stream)
{
    if (fold_count == 0)
        return cudaSuccess;
    return with_type(type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((fold_weights<T>), dim3(64, fold_count), BLOCK_THREADS, stream, values, folds,
                      epsilon, static_cast<T *>(weights), bias);
    });
}
