#ifndef HEADRACE_TRAIN_CUDA_PROGRAM_H
#define HEADRACE_TRAIN_CUDA_PROGRAM_H

/* A network as a list of operations in the order in which one stream runs them, for one batch
 * shape. It names tensors by number and knows no device: where they stand is decided later, the
 * same for every device. */

#include "train/cuda/layout.h"
#include "train/cuda/patterns.h"

/* What an operand's index counts. */
enum place {
    PLACE_NONE = 0,
    PLACE_TENSOR,        /* the program's own tensors */
    PLACE_VALUE,         /* a parameter, f32 */
    PLACE_WEIGHT,        /* a parameter in the type of activations */
    PLACE_GRADIENT,      /* of a parameter, f32 */
    PLACE_FOLDED_WEIGHT, /* a convolution's weight with its BN in it, in the type of activations */
    PLACE_FOLDED_BIAS,   /* of a BN's β: what folding leaves of it, f32 */
};

struct operand {
    enum place place;
    uint32_t index;
};

enum op_kind {
    OP_PATTERN = 0,
    OP_LOSS,        /* x: the logits -> dx, in training only */
    OP_COLUMN_SUMS, /* dy (batch, columns) -> dbias: over the batch */
    OP_CAST,        /* x, as activations are typed -> dw, f32 */
    OP_BLUR,        /* x [+ z] -> y, kernel_blur's */
    OP_SYNC_BN,     /* x, scale, bias, running_mean, running_var [, z] -> y, mean, invstd, sum, with
                     * the statistics of all devices */
    OP_SYNC_BN_BACKWARD, /* x, dy, y, scale, mean, invstd -> dx, dscale, dbias, sum [, dz] */
    OP_SYNC_SUMS,        /* sum, square_sum: become those of all devices, in one go with those of
                          * such an op right before or behind */
    OP_SYNC_DBN_APPLY, /* x, dy, scale, mean, invstd, dscale, dbias -> dx, sum: on from the gradient
                        * at BN(x), with this device's sums of it */
};

struct op {
    enum op_kind kind;
    size_t plan;                /* OP_PATTERN: into the program's plans */
    struct pattern_shape shape; /* OP_BLUR, OP_SYNC_…: batch, height, width, in */
    bool relu;                  /* OP_SYNC_BN and its way back: y is not negative */
    struct operand operands[TENSOR_COUNT];
};

/* What has to be planned: each pattern and shape once. */
struct planned {
    enum pattern pattern;
    struct pattern_shape shape;
};

/* A BN that evaluation folds into the convolution before it. */
struct fold {
    uint32_t conv_param, bn_param;
};

struct program_config {
    enum plan_mode mode;
    bool fused; /* training: BN and ReLU are parts of the convolutions around them where they can be
                 */
    uint32_t joined; /* training: devices that normalise by the statistics of all; 0: each by its
                      * own */
    uint32_t batch, height, width;
};

struct program {
    struct program_config config;
    uint32_t columns; /* of the logits: classes, padded (columns_padded) */
    struct op *ops;
    size_t op_count, op_capacity;
    size_t backward_begin; /* the first op after the loss */
    struct planned *plans;
    size_t plan_count, plan_capacity;
    struct fold *folds; /* evaluation only */
    size_t fold_count, fold_capacity;
    uint32_t tensor_count;
    uint32_t input;   /* the tensor of the images: (batch, height, width, INPUT_CHANNELS) */
    uint32_t logits;  /* f32 (batch, columns) */
    uint32_t dlogits; /* (batch, columns), training only */
};

/* Colours are padded to this many channels, and classes to a multiple of CLASS_UNIT: cuDNN has no
 * fast plans for others. The padding of weights, images and gradients is 0 and stays 0. */
enum { INPUT_CHANNELS = 4, CLASS_UNIT = 8 };

static inline uint32_t columns_padded(uint32_t classes)
{
    return (classes + CLASS_UNIT - 1) / CLASS_UNIT * CLASS_UNIT;
}

/* Fails with STATUS_UNSUPPORTED, naming the node, where the list has a form that no pattern
 * computes. `network` is borrowed for the call. */
struct status program_open(const struct network *network, const struct program_config *config,
                           struct program **ret_program);
void program_close(struct program *program);
CLEANUP_POINTER(program_close, struct program)

/* When each tensor is alive, in ops; `lives` has tensor_count entries, whose sizes are left alone.
 * The images are there before the first op, the logits after the last. */
void program_lives(const struct program *program, struct tensor_life *lives);

#endif
