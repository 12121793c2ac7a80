#include "train/cuda/elements.cuh"

/* Batch normalisation whose statistics are those of several devices: the sums of one device, and
 * what is made of the sums of all. cuDNN's own normalisations know one device only. */

/* A block takes 32 channels, four a thread, and every 32nd row of its part of the rows. */
enum { LANE_CHANNELS = 4, BLOCK_CHANNELS = 32, LANES = BLOCK_CHANNELS / LANE_CHANNELS };
enum { ROW_LANES = BLOCK_THREADS / LANES, ROWS_LEAST = 8 * ROW_LANES, BLOCKS_MOST = 2048 };

static unsigned parts_of(uint32_t rows, uint32_t channels)
{
    const unsigned groups = (channels + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS;
    const unsigned most = groups < BLOCKS_MOST ? BLOCKS_MOST / groups : 1;
    const unsigned parts = blocks_for(rows, ROWS_LEAST, most);
    return parts ? parts : 1;
}

size_t kernel_bn_workspace_bytes(uint32_t rows, uint32_t channels)
{
    return parts_of(rows, channels) * 2 * (size_t)channels * sizeof(double);
}

/* The two numbers of four elements that are summed. Forward: the distance from the running mean,
 * which all devices have in common and which keeps the sums small, and its square. */
template <class T>
__device__ static inline void forward_terms(const struct bn_layer &layer, uint64_t i, uint32_t c,
                                            float (*terms)[2])
{
    float x[4];
    load_four(static_cast<const T *>(layer.x), i, UINT64_MAX, x);
    for (int j = 0; j < 4; j++) {
        terms[j][0] = x[j] - layer.running_mean[c + j];
        terms[j][1] = terms[j][0] * terms[j][0];
    }
}

/* dy of four elements, where the ReLU let them through. */
template <class T>
__device__ static inline void load_dy(const struct bn_layer &layer, uint64_t i, float *dy)
{
    load_four(static_cast<const T *>(layer.dy), i, UINT64_MAX, dy);
    if (!layer.relu)
        return;
    float y[4];
    load_four(static_cast<const T *>(layer.y), i, UINT64_MAX, y);
    for (int j = 0; j < 4; j++)
        dy[j] = y[j] > 0 ? dy[j] : 0;
}

/* Backward: dy and dy·x̂. */
template <class T>
__device__ static inline void backward_terms(const struct bn_layer &layer, uint64_t i, uint32_t c,
                                             float (*terms)[2])
{
    float x[4], dy[4];
    load_four(static_cast<const T *>(layer.x), i, UINT64_MAX, x);
    load_dy<T>(layer, i, dy);
    for (int j = 0; j < 4; j++) {
        terms[j][0] = dy[j];
        terms[j][1] = dy[j] * ((x[j] - layer.mean[c + j]) * layer.invstd[c + j]);
    }
}

/* Sums of a part of the rows: partial[(part, which, channel)]. */
template <class T, bool BACKWARD>
__global__ static void bn_partials(struct bn_layer layer, double *partials)
{
    SHARED(double, of_lanes, ROW_LANES *BLOCK_CHANNELS * 2);
    const uint32_t lane = threadIdx.x % LANES, row_lane = threadIdx.x / LANES;
    const uint32_t c = blockIdx.x * BLOCK_CHANNELS + lane * LANE_CHANNELS;
    float sums[4][2] = {}, terms[4][2];
    for (uint32_t row = blockIdx.y * ROW_LANES + row_lane; c < layer.channels && row < layer.rows;
         row += gridDim.y * ROW_LANES) {
        const uint64_t i = (uint64_t)row * layer.channels + c;
        if (BACKWARD)
            backward_terms<T>(layer, i, c, terms);
        else
            forward_terms<T>(layer, i, c, terms);
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 2; k++)
                sums[j][k] += terms[j][k];
    }
    for (int j = 0; j < 4; j++)
        for (int k = 0; k < 2; k++)
            of_lanes[(row_lane * 2 + k) * BLOCK_CHANNELS + lane * LANE_CHANNELS + j] =
                (double)sums[j][k];
    __syncthreads();
    const uint32_t which = threadIdx.x / BLOCK_CHANNELS, at = threadIdx.x % BLOCK_CHANNELS;
    const uint32_t channel = blockIdx.x * BLOCK_CHANNELS + at;
    if (which >= 2 || channel >= layer.channels)
        return;
    double sum = 0;
    for (int i = 0; i < ROW_LANES; i++)
        sum += of_lanes[(i * 2 + which) * BLOCK_CHANNELS + at];
    partials[((uint64_t)blockIdx.y * 2 + which) * layer.channels + channel] = sum;
}

/* A thread a sum: of all parts, into layer.sums, and on the way back into the gradients. */
__global__ static void bn_totals(struct bn_layer layer, const double *partials, uint32_t parts,
                                 bool backward)
{
    const uint32_t i = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (i >= 2 * layer.channels)
        return;
    double sum = 0;
    for (uint32_t part = 0; part < parts; part++)
        sum += partials[(uint64_t)part * 2 * layer.channels + i];
    layer.sums[i] = (float)sum;
    if (backward)
        (i < layer.channels ? layer.dbeta : layer.dgamma - layer.channels)[i] = (float)sum;
}

template <bool BACKWARD>
static cudaError_t sums_launch(const struct bn_layer *layer, cudaStream_t stream)
{
    const unsigned groups = (layer->channels + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS;
    const unsigned parts = parts_of(layer->rows, layer->channels);
    double *partials = static_cast<double *>(layer->workspace);
    if (layer->channels == 0 || layer->channels % LANE_CHANNELS || layer->rows == 0)
        return cudaErrorInvalidValue;
    cudaError_t error = with_type(layer->type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((bn_partials<T, BACKWARD>), dim3(groups, parts), BLOCK_THREADS, stream,
                      *layer, partials);
    });
    if (error != cudaSuccess)
        return error;
    return LAUNCH(bn_totals, blocks_for(2 * layer->channels, BLOCK_THREADS, UINT32_MAX),
                  BLOCK_THREADS, stream, *layer, partials, parts, BACKWARD);
}

cudaError_t kernel_bn_sums(const struct bn_layer *layer, cudaStream_t stream)
{
    return sums_launch<false>(layer, stream);
}

cudaError_t kernel_bn_backward_sums(const struct bn_layer *layer, cudaStream_t stream)
{
    return sums_launch<true>(layer, stream);
}

/* A thread a channel. */
__global__ static void bn_statistics(struct bn_layer layer)
{
    const uint32_t c = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    if (c >= layer.channels)
        return;
    const double rows = (double)layer.all_rows, before = (double)layer.running_mean[c];
    const double offset = (double)layer.sums[c] / rows;
    const double variance =
        fmax((double)layer.sums[layer.channels + c] / rows - offset * offset, 0.0);
    const double momentum = (double)layer.momentum;
    layer.mean[c] = (float)(before + offset);
    layer.invstd[c] = (float)(1 / sqrt(variance + (double)layer.epsilon));
    layer.running_mean[c] = (float)(before + momentum * offset);
    layer.running_var[c] = (float)((1 - momentum) * (double)layer.running_var[c] +
                                   momentum * variance * rows / (rows - 1));
}

template <class T> __global__ static void bn_normalise(struct bn_layer layer)
{
    const uint64_t count = (uint64_t)layer.rows * layer.channels;
    const uint64_t stride = 4 * (uint64_t)gridDim.x * BLOCK_THREADS;
    for (uint64_t i = 4 * ((uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x); i < count;
         i += stride) {
        const uint32_t c = (uint32_t)(i % layer.channels);
        float x[4], z[4] = {0, 0, 0, 0}, y[4];
        load_four(static_cast<const T *>(layer.x), i, UINT64_MAX, x);
        if (layer.z)
            load_four(static_cast<const T *>(layer.z), i, UINT64_MAX, z);
        for (int j = 0; j < 4; j++) {
            y[j] = (x[j] - layer.mean[c + j]) * layer.invstd[c + j] * layer.gamma[c + j] +
                   layer.beta[c + j] + z[j];
            y[j] = layer.relu && y[j] < 0 ? 0 : y[j];
        }
        store_four(static_cast<T *>(layer.y), i, UINT64_MAX, y);
    }
}

template <class T> __global__ static void bn_propagate(struct bn_layer layer)
{
    const uint64_t count = (uint64_t)layer.rows * layer.channels;
    const uint64_t stride = 4 * (uint64_t)gridDim.x * BLOCK_THREADS;
    const float part = 1 / (float)layer.all_rows;
    for (uint64_t i = 4 * ((uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x); i < count;
         i += stride) {
        const uint32_t c = (uint32_t)(i % layer.channels);
        float x[4], dy[4], dx[4];
        load_four(static_cast<const T *>(layer.x), i, UINT64_MAX, x);
        load_dy<T>(layer, i, dy);
        for (int j = 0; j < 4; j++) {
            const float normal = (x[j] - layer.mean[c + j]) * layer.invstd[c + j];
            const float common =
                (layer.sums[c + j] + normal * layer.sums[layer.channels + c + j]) * part;
            dx[j] = layer.gamma[c + j] * layer.invstd[c + j] * (dy[j] - common);
        }
        store_four(static_cast<T *>(layer.dx), i, UINT64_MAX, dx);
        if (layer.dz)
            store_four(static_cast<T *>(layer.dz), i, UINT64_MAX, dy);
    }
}

static unsigned element_blocks(const struct bn_layer *layer)
{
    return blocks_for((uint64_t)layer->rows * layer->channels, 4 * BLOCK_THREADS, 1 << 16);
}

cudaError_t kernel_bn_normalise(const struct bn_layer *layer, cudaStream_t stream)
{
    cudaError_t error =
        LAUNCH(bn_statistics, blocks_for(layer->channels, BLOCK_THREADS, UINT32_MAX), BLOCK_THREADS,
               stream, *layer);
    if (error != cudaSuccess)
        return error;
    return with_type(layer->type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((bn_normalise<T>), element_blocks(layer), BLOCK_THREADS, stream, *layer);
    });
}

cudaError_t kernel_bn_propagate(const struct bn_layer *layer, cudaStream_t stream)
{
    return with_type(layer->type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((bn_propagate<T>), element_blocks(layer), BLOCK_THREADS, stream, *layer);
    });
}
