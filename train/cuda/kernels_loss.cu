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

/* What a row's probabilities should be. */
struct row_target {
    uint32_t label, other; /* the same where nothing is mixed */
    float mixed_in, smoothing, classes;
};

__device__ static inline struct row_target target_of(const struct loss_rows &loss, uint32_t row)
{
    const uint32_t partner = partner_of(loss.header, loss.labels, row);
    const float mixed_in = partner == row ? 0 : loss.header->mixed_in;
    return {(uint32_t)loss.labels[row], (uint32_t)loss.labels[partner], mixed_in, loss.smoothing,
            (float)loss.classes};
}

__device__ static inline float target_at(const struct row_target &target, uint32_t c)
{
    const float share =
        (c == target.label ? 1 - target.mixed_in : 0) + (c == target.other ? target.mixed_in : 0);
    return target.smoothing / target.classes + share * (1 - target.smoothing);
}

/* What is known of a row's logits; distances are from the largest, so that their sum is small. */
struct row_sums {
    float largest, exponentials, distances;
};

/* −log p is log Σexp + distance; of an infinite distance no part may be taken 0 times. */
template <class L>
__device__ static inline float row_loss(const struct row_target &target, const L *logits,
                                        const struct row_sums &sums)
{
    const float log_sum = logf(sums.exponentials), smoothing = target.smoothing;
    const float own = log_sum + (sums.largest - to_float(logits[target.label]));
    float value = (1 - smoothing) * (1 - target.mixed_in) * own;
    if (target.mixed_in > 0)
        value += (1 - smoothing) * target.mixed_in *
                 (log_sum + (sums.largest - to_float(logits[target.other])));
    if (smoothing > 0)
        value += smoothing * (log_sum + sums.distances / target.classes);
    return value;
}

/* A row without a label. */
template <class G>
__device__ static inline void row_skip(const struct loss_rows &loss, uint32_t row, G *gradient)
{
    for (uint32_t c = threadIdx.x; gradient && c < loss.columns; c += BLOCK_THREADS)
        from_float(0, &gradient[c]);
    if (threadIdx.x == 0)
        loss.results[row] = {0, NO_RANK};
}

template <class L, class G>
__global__ static void loss_rows_kernel(struct loss_rows loss, const L *all_logits,
                                        G *all_gradients)
{
    const uint32_t row = blockIdx.x;
    const L *logits = all_logits + (uint64_t)row * loss.columns;
    G *gradient = all_gradients ? all_gradients + (uint64_t)row * loss.columns : nullptr;
    if (loss.labels[row] < 0) {
        row_skip(loss, row, gradient);
        return;
    }
    const struct row_target target = target_of(loss, row);
    struct row_sums sums = {-INFINITY, 0, 0};
    for (uint32_t c = threadIdx.x; c < loss.classes; c += BLOCK_THREADS)
        sums.largest = fmaxf(sums.largest, to_float(logits[c]));
    sums.largest = block_max(sums.largest);

    const float own = to_float(logits[target.label]);
    int32_t rank = 0;
    for (uint32_t c = threadIdx.x; c < loss.classes; c += BLOCK_THREADS) {
        float logit = to_float(logits[c]);
        sums.exponentials += expf(logit - sums.largest);
        sums.distances += sums.largest - logit;
        rank += !(logit < own || (logit == own && c >= target.label));
    }
    sums.exponentials = block_sum(sums.exponentials);
    sums.distances = block_sum(sums.distances);
    rank = block_sum(rank);

    if (threadIdx.x == 0)
        loss.results[row] = {row_loss(target, logits, sums), rank};
    if (!gradient)
        return;
    const float weight = gradient_weight(loss);
    for (uint32_t c = threadIdx.x; c < loss.columns; c += BLOCK_THREADS) {
        float apart = 0;
        if (c < loss.classes)
            apart =
                expf(to_float(logits[c]) - sums.largest) / sums.exponentials - target_at(target, c);
        from_float(apart * weight, &gradient[c]);
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
