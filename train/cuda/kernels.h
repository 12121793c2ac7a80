#ifndef HEADRACE_TRAIN_CUDA_KERNELS_H
#define HEADRACE_TRAIN_CUDA_KERNELS_H

/* Our own kernels: what cuDNN does not have. Each function puts work on `stream` and returns; none
 * allocates or waits, so all may be captured into a graph. They fail with what cudaGetLastError
 * says, or with cudaErrorInvalidValue for arguments that make no sense. All pointers are device
 * memory of the stream's device, 16-byte aligned where they point to tensors; structs given by
 * pointer without the word "device" are read during the call.
 *
 * Results are the same bits run after run: sums have a fixed order, and no float is added
 * atomically.
 *
 * The arena. Trained parameters stand in one f32 array a device and role (values, gradients,
 * momenta), at the same offsets in each; running statistics follow the trained ones (values only).
 * Each parameter is a *segment* that starts at a multiple of KERNEL_BLOCK elements, so a block of
 * KERNEL_BLOCK elements belongs to one segment; the gap to the next one stays zero. Convolution
 * weights are (K, R, S, C), the stem's C padded to 4. The copy in the type of the activations
 * ("IO") has the same element offsets. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kernel_type { KERNEL_F32 = 0, KERNEL_F16, KERNEL_BF16 };

enum {
    KERNEL_BLOCK = 1024,     /* elements */
    KERNEL_RING = 2048,      /* metrics kept */
    KERNEL_NO_SEGMENT = ~0u, /* no such segment */
};

/* --- Input
 * ---------------------------------------------------------------------------------------- */

/* What changes from step to step, in device memory because a captured graph's arguments do not. */
struct step_header {
    float divisor;      /* valid images of the global batch: the gradient is divided by it; 0: the
                           gradient is 0 */
    uint32_t completes; /* the last micro-batch of a step: the update writes into its metrics */
    float mixed_in;     /* the share of image i ^ 1 in image i, and in its target, where neither
                           label is −1; with a share above 0 the batch is even */
};

/* pixels u8 (batch, height, width, 3) -> images (batch, height, width, 4) of `type`: (pixel / 255 −
 * mean) / std, mixed as the header says, rounded once; the fourth channel is 0. Header and labels
 * (batch) are device memory. */
struct input_shape {
    uint32_t batch, height, width;
    float mean[3], std[3];
};
cudaError_t kernel_input(const struct input_shape *shape, const uint8_t *pixels,
                         const struct step_header *header, const int32_t *labels,
                         enum kernel_type type, void *images, cudaStream_t stream);

/* --- Loss
 * ----------------------------------------------------------------------------------------- */

/* One call's sums, as struct step_metrics has them. */
struct kernel_metrics {
    double loss_sum;
    uint32_t top1, top5, count;
    uint32_t completes, applied; /* flags */
    float learning_rate, loss_scale;
};
/* Call i writes entries[i % KERNEL_RING]; zeroed before the first one. Device. */
struct kernel_ring {
    uint64_t written;
    struct kernel_metrics entries[KERNEL_RING];
};

struct update_state;

/* Softmax cross-entropy with PyTorch's label smoothing, and the header's mixing of targets before
 * it, over logits (batch, columns), of which the first `classes` count. A label of −1 counts for
 * nothing. Ranks are by an image's own label. Of equal logits the lower class comes
 * first; nothing comes before a NaN, and a label whose logit is one is never right. */
struct loss_call {
    uint32_t batch, classes, columns;
    float smoothing;
    enum kernel_type logits_type, gradient_type;
    const void *logits;
    const int32_t *labels;            /* (batch) */
    const struct step_header *header; /* device */
    /* (batch, columns) or NULL: loss scale · (probability − target) / divisor; 0 for labels of −1
     * and beyond the classes */
    void *gradient;
    struct update_state *state; /* device; NULL: the loss scale is 1, and no update follows */
    struct kernel_ring *ring;   /* device */
    void *workspace;            /* kernel_loss_workspace_bytes(batch) */
};
size_t kernel_loss_workspace_bytes(uint32_t batch);
cudaError_t kernel_loss(const struct loss_call *loss, cudaStream_t stream);

/* --- Update
 * --------------------------------------------------------------------------------------- */

enum kernel_optimizer { KERNEL_SGD = 0, KERNEL_LARS };

/* SGD, PyTorch's: g += decay·w; v = momentum·v + g; w −= rate·(nesterov ? g + momentum·v : v).
 * LARS, MLPerf's form, with the rate inside of the momentum: t = trust·|w| / (|g| + decay·|w| +
 * epsilon) for the segments that adapt (1 for others, and where |w| or |g| is 0); v = momentum·v +
 * rate·t·(g + decay·w); w −= nesterov ? momentum·v + rate·t·(g + decay·w) : v. */
struct update_config {
    enum kernel_optimizer kind;
    float momentum, weight_decay;
    float trust, epsilon; /* LARS */
    bool nesterov;
    bool dynamic_scale; /* the loss scale doubles after `grown_after` clean steps and halves when a
                           step is skipped (PyTorch's GradScaler) */
    uint32_t grown_after;
};

struct arena_segment {
    uint32_t first_block, block_count;
    uint32_t decays; /* flag */
    uint32_t adapts; /* flag: LARS gives it a rate of its own */
};

/* Lives in device memory; the host writes it before training and reads it for checkpoints. */
struct update_state {
    uint64_t applied;  /* steps; rates[applied] comes next, the last one for ever */
    uint64_t skipped;  /* steps */
    uint32_t in_a_row; /* skipped ones since the last applied one */
    uint32_t
        bad_segment; /* the first with a gradient that is not finite, in the step last skipped */
    uint32_t found;  /* the same within an update; KERNEL_NO_SEGMENT between updates */
    uint32_t since_growth;
    float loss_scale;
    float learning_rate;         /* of the step to come: rates[applied] */
    struct kernel_metrics *last; /* of the micro-batch that completed; may be NULL */
};

/* The trained part of one store's arena on one device. */
struct update_arena {
    uint32_t block_count;
    uint32_t segment_count;
    float *values;
    const float *gradients; /* scaled by the loss scale */
    float *momenta;
    enum kernel_type io_type;
    void *io;                             /* the values' copy, or NULL */
    const uint32_t *block_segments;       /* device, (block_count): the segment of each block */
    const struct arena_segment *segments; /* device, (segment_count) */
    const float *rates;                   /* device, (rate_count): learning rate by applied step */
    uint64_t rate_count;
    struct update_state *state; /* device */
    void *workspace;            /* kernel_update_workspace_bytes */
};
size_t kernel_update_workspace_bytes(uint32_t block_count, uint32_t segment_count);

/* One step: looks for gradients that are not finite, which skip it (nothing but the state moves);
 * else unscales, moves w and v, writes the IO copy. Then the state moves on, and the outcome goes
 * into state->last. */
cudaError_t kernel_update(const struct update_config *config, const struct update_arena *arena,
                          cudaStream_t stream);

/* --- Batch normalisation for evaluation
 * ------------------------------------------------------------ */

/* A convolution and the BN behind it, as element offsets into the arena. */
struct bn_fold {
    uint64_t weight;                      /* (channels, row) */
    uint64_t gamma, beta, mean, variance; /* (channels) */
    uint32_t channels, row;               /* row = R·S·C */
};

/* For each fold: weights[weight + k·row + i] = values[…]·scale[k], of `type`, and bias[beta + k] =
 * β − mean·scale[k], f32, where scale = γ / sqrt(variance + epsilon). Elements outside of all folds
 * are left alone. `folds`: device. */
cudaError_t kernel_fold(const float *values, const struct bn_fold *folds, uint32_t fold_count,
                        float epsilon, enum kernel_type type, void *weights, float *bias,
                        cudaStream_t stream);

/* --- Batch normalisation over several devices
 * ------------------------------------------------------ */

/* A layer of training, y = [relu](BN(x) [+ z]), whose statistics are those of all devices. Each
 * step is a kernel call for the sums of this device, the sum of `sums` over all devices, and a call
 * that goes on from there. Tensors are (rows, channels) of `type`, with channels a multiple of 4;
 * what is by channel is f32. All pointers are device memory. */
struct bn_layer {
    uint32_t rows, channels; /* of this device */
    uint64_t all_rows;       /* of all */
    float epsilon, momentum;
    bool relu;
    enum kernel_type type;
    const void *x, *z; /* z: NULL where nothing is added */
    void *y;
    const float *gamma, *beta;
    float *running_mean, *running_var;
    float *mean, *invstd; /* of the batch */
    float *sums;          /* (2, channels) */
    void *workspace;      /* kernel_bn_workspace_bytes */
    /* The way back */
    const void *dy;
    void *dx, *dz; /* dz: NULL, or dy where the ReLU let it through */
    float *dgamma, *dbeta;
};
size_t kernel_bn_workspace_bytes(uint32_t rows, uint32_t channels);
/* x, running_mean -> sums: of x − running_mean, which all devices have in common, and its square.
 */
cudaError_t kernel_bn_sums(const struct bn_layer *layer, cudaStream_t stream);
/* And z, gamma, beta, running_var, the sums of all devices -> y, mean, invstd, running statistics.
 */
cudaError_t kernel_bn_normalise(const struct bn_layer *layer, cudaStream_t stream);
/* dy, x, y, mean, invstd -> sums: dbeta and dgamma of this device, which are written too. */
cudaError_t kernel_bn_backward_sums(const struct bn_layer *layer, cudaStream_t stream);
/* And gamma, the sums of all devices -> dx, dz. They may come from something else than
 * kernel_bn_backward_sums; y is read with a ReLU only. */
cudaError_t kernel_bn_propagate(const struct bn_layer *layer, cudaStream_t stream);

/* --- Blur
 * ----------------------------------------------------------------------------------------- */

/* y = each channel of x (batch, height, width, channels) with the filter (1 2 1)ᵀ(1 2 1)/16, zero
 * padding, + `add` of the same shape, which may be y, or NULL. Summed in f32, rounded once. The way
 * back is the same with the gradients. `channels` is a multiple of 4; x may not be y. */
struct blur_shape {
    uint32_t batch, height, width, channels;
};
cudaError_t kernel_blur(const struct blur_shape *shape, enum kernel_type type, const void *x,
                        const void *add, void *y, cudaStream_t stream);

/* --- Arrays
 * --------------------------------------------------------------------------------------- */

/* sum += fresh, f32 += `type`. */
cudaError_t kernel_add(float *sum, enum kernel_type type, const void *fresh, uint64_t count,
                       cudaStream_t stream);
/* Rounds to nearest even. The arrays may not overlap. */
cudaError_t kernel_cast(enum kernel_type to_type, void *to, enum kernel_type from_type,
                        const void *from, uint64_t count, cudaStream_t stream);
/* average = keep·average + take·values; with keep 0 it becomes the values. */
cudaError_t kernel_average(float *average, const float *values, float keep, float take,
                           uint64_t count, cudaStream_t stream);
cudaError_t kernel_scale(float *values, float factor, uint64_t count, cudaStream_t stream);
/* sums (columns), f32 = or += the sums over the rows of x (rows, columns). */
cudaError_t kernel_column_sums(enum kernel_type type, const void *x, uint32_t rows,
                               uint32_t columns, bool adds, float *sums, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
