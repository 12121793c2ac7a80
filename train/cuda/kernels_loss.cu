#include "train/cuda/elements.cuh"

/* Softmax cross-entropy: a block a row, then one block adds the rows up. */

enum { NO_RANK = 0x7fffffff };

/* What a row says; of a label of −1: loss 0 and NO_RANK. */
struct row_result {
    float loss;
    int32_t rank; /* classes that come before the label */
};

size_t kernel_loss_workspace_bytes(uint32_t batch)
{
    return batch * sizeof(struct row_result);
}

/* The device's part of struct loss_call. */
struct loss_rows {
    uint32_t classes, columns;
    float smoothing;
    const int32_t *labels;
    const struct step_header *header;
    const struct update_state *state;
    struct row_result *results;
};

/* What the gradient is multiplied with: loss scale / divisor. */
__device__ static inline float gradient_weight(const struct loss_rows &loss)
{
    float scale = loss.state ? loss.state->loss_scale : 1;
    return loss.header->divisor > 0 ? scale / loss.header->divisor : 0;
}

template <class L, class G>
__global__ static void loss_rows_kernel(struct loss_rows loss, const L *all_logits,
                                        G *all_gradients)
{
    const uint32_t row = blockIdx.x;
    const L *logits = all_logits + (uint64_t)row * loss.columns;
    G *gradient = all_gradients ? all_gradients + (uint64_t)row * loss.columns : nullptr;
    const int32_t label = loss.labels[row];
    if (label < 0) {
        for (uint32_t c = threadIdx.x; gradient && c < loss.columns; c += BLOCK_THREADS)
            from_float(0, &gradient[c]);
        if (threadIdx.x == 0)
            loss.results[row] = {0, NO_RANK};
        return;
    }
    float largest = -INFINITY;
    for (uint32_t c = threadIdx.x; c < loss.classes; c += BLOCK_THREADS)
        largest = fmaxf(largest, to_float(logits[c]));
    largest = block_max(largest);

    const float own = to_float(logits[label]);
    float exponentials = 0, distances = 0; /* from the largest, so that the sum is small */
    int32_t rank = 0;
    for (uint32_t c = threadIdx.x; c < loss.classes; c += BLOCK_THREADS) {
        float logit = to_float(logits[c]);
        exponentials += expf(logit - largest);
        distances += largest - logit;
        rank += !(logit < own || (logit == own && c >= (uint32_t)label));
    }
    exponentials = block_sum(exponentials);
    distances = block_sum(distances);
    rank = block_sum(rank);

    const float smoothing = loss.smoothing, classes = (float)loss.classes;
    if (threadIdx.x == 0) {
        /* −log p is log Σexp + distance; of an infinite distance no part may be taken 0 times. */
        float value = (1 - smoothing) * (logf(exponentials) + (largest - own));
        if (smoothing > 0)
            value += smoothing * (logf(exponentials) + distances / classes);
        loss.results[row] = {value, rank};
    }
    if (!gradient)
        return;
    const float weight = gradient_weight(loss);
    for (uint32_t c = threadIdx.x; c < loss.columns; c += BLOCK_THREADS) {
        float target = smoothing / classes + (c == (uint32_t)label ? 1 - smoothing : 0);
        float probability =
            c < loss.classes ? expf(to_float(logits[c]) - largest) / exponentials : target;
        from_float((probability - target) * weight, &gradient[c]);
    }
}

/* One block: the rows' sums into the ring. */
__global__ static void loss_metrics(const struct row_result *results, uint32_t batch,
                                    const struct step_header *header, struct update_state *state,
                                    struct kernel_ring *ring)
{
    double loss = 0;
    int top1 = 0, top5 = 0, count = 0;
    for (uint32_t row = threadIdx.x; row < batch; row += BLOCK_THREADS) {
        struct row_result result = results[row];
        loss += (double)result.loss;
        top1 += result.rank < 1;
        top5 += result.rank < 5;
        count += result.rank != NO_RANK;
    }
    loss = block_sum(loss);
    top1 = block_sum(top1);
    top5 = block_sum(top5);
    count = block_sum(count);
    if (threadIdx.x != 0)
        return;
    struct kernel_metrics *entry = &ring->entries[ring->written % KERNEL_RING];
    ring->written++;
    entry->loss_sum = loss;
    entry->top1 = (uint32_t)top1;
    entry->top5 = (uint32_t)top5;
    entry->count = (uint32_t)count;
    entry->completes = state ? header->completes : 0;
    entry->applied = 0;
    entry->learning_rate = state ? state->learning_rate : 0;
    entry->loss_scale = state ? state->loss_scale : 1;
    if (entry->completes)
        state->last = entry;
}

cudaError_t kernel_loss(const struct loss_call *loss, cudaStream_t stream)
{
    struct row_result *results = static_cast<struct row_result *>(loss->workspace);
    const struct loss_rows rows = {loss->classes, loss->columns, loss->smoothing, loss->labels,
                                   loss->header,  loss->state,   results};
    if (loss->classes == 0 || loss->classes > loss->columns || !loss->header)
        return cudaErrorInvalidValue;
    if (loss->batch > 0) {
        cudaError_t error = with_type(loss->logits_type, [&](auto logit) {
            typedef decltype(logit) L;
            return with_type(loss->gradient_type, [&](auto element) {
                typedef decltype(element) G;
                return LAUNCH((loss_rows_kernel<L, G>), loss->batch, BLOCK_THREADS, stream, rows,
                              static_cast<const L *>(loss->logits),
                              static_cast<G *>(loss->gradient));
            });
        });
        if (error != cudaSuccess)
            return error;
    }
    return LAUNCH(loss_metrics, 1, BLOCK_THREADS, stream, results, loss->batch, loss->header,
                  loss->state, loss->ring);
}
