#ifndef HEADRACE_TRAIN_CUDA_PATTERNS_H
#define HEADRACE_TRAIN_CUDA_PATTERNS_H

/* The operation graphs that a residual network is made of: what each reads and what it writes, of
 * the tensors of enum plan_tensor. Nothing that is written may overlap what is read, but for the
 * running statistics. */

#include "train/cuda/graph.h"

enum pattern {
    /* The unfused set. */
    PATTERN_CONV = 0,             /* x, w -> y */
    PATTERN_CONV_DGRAD,           /* dy, w -> dx */
    PATTERN_CONV_DGRAD_ADD,       /* dy, w, dz -> dx: and dz, from a second path to x, is added */
    PATTERN_CONV_WGRAD,           /* x, dy -> dw */
    PATTERN_BN,                   /* x, scale, bias, running_mean, running_var
                                   *   -> y, mean, invstd, next_running_mean, next_running_var */
    PATTERN_BN_RELU,              /* the same */
    PATTERN_BN_ADD_RELU,          /* and z -> and mask: relu(BN(x) + z) */
    PATTERN_BN_BACKWARD,          /* dy, x, scale, mean, invstd -> dx, dscale, dbias */
    PATTERN_BN_RELU_BACKWARD,     /* and bias: dy counts where BN(x) > 0 */
    PATTERN_BN_ADD_RELU_BACKWARD, /* and mask -> and dz: dy, where the mask is 1 */
    PATTERN_RELU_BACKWARD,        /* dy, y -> dx: dy where y > 0 */
    PATTERN_SCALE_BIAS_RELU,      /* x, eq_scale, eq_bias -> y */
    PATTERN_SCALE_BIAS_ADD_RELU,  /* and z: relu(x · eq_scale + eq_bias + z) */
    PATTERN_SCALE_BIAS_DUAL_ADD_RELU, /* and z_scale, z_bias: … + z · z_scale + z_bias */
    PATTERN_MAX_POOL,                 /* x -> y */
    PATTERN_MAX_POOL_INDEX,           /* x -> y, index */
    PATTERN_MAX_POOL_BACKWARD,        /* dy, index -> dx */
    PATTERN_AVG_POOL,                 /* x -> y, over height and width */
    PATTERN_AVG_POOL_BACKWARD,        /* dy -> dx */
    PATTERN_FC,                       /* x, w, w_bias -> y (f32) */
    PATTERN_FC_DGRAD,                 /* dy, w -> dx */
    PATTERN_FC_WGRAD,                 /* x, dy -> dw */

    /* Fused, for training. */
    PATTERN_CONV_STATS,      /* x, w -> y, sum, square_sum */
    PATTERN_SBR_CONV_STATS,  /* x, eq_scale, eq_bias, w -> y, sum, square_sum: convolves
                              * relu(x · eq_scale + eq_bias) */
    PATTERN_BN_FINALIZE,     /* sum, square_sum, scale, bias, running_mean, running_var -> mean,
                              * invstd, next_running_mean, next_running_var, eq_scale, eq_bias */
    PATTERN_DGRAD_DRELU_DBN, /* dy, w, x, scale, bias, mean, invstd -> dx, dscale, dbias, eq_dy,
                              * eq_x, eq_dbias: dx is the gradient at BN(x), taken where it is
                              * positive; x comes before BN and relu, which come before the
                              * convolution */
    PATTERN_DBN_APPLY,       /* dy, x, eq_dy, eq_x, eq_dbias -> dx: on from the gradient at BN(x) */
    PATTERN_SBR_WGRAD,       /* x, eq_scale, eq_bias, dy -> dw (io) */

    /* Fused, for evaluation with BN folded into the weights. */
    PATTERN_CONV_BIAS,          /* x, w, w_bias -> y */
    PATTERN_CONV_BIAS_RELU,     /* the same */
    PATTERN_CONV_BIAS_ADD_RELU, /* and z */
    PATTERN_COUNT,
};
extern const char *const pattern_names[]; /* by value: "conv", "bn_add_relu"; ends in NULL */

/* The layer. Convolutions: x (batch, height, width, in), y (batch, …, out), height and width as
 * kernel, stride and padding make them. Max pooling: the same without `out`. FC: (batch, in) ->
 * (batch, out). All others: batch, height, width, in. What a pattern does not use is ignored. */
struct pattern_shape {
    int64_t batch, height, width, in;
    int64_t out, kernel, stride, padding;
    /* BN_FINALIZE: elements by channel that were summed up; 0: batch · height · width. */
    int64_t statistics_count;
};

/* Makes a plan, or takes it from the planner's cache. Fails with STATUS_UNSUPPORTED where cuDNN has
 * none for this device, type and shape within the workspace limit. */
struct status cudnn_plan_open(struct planner *planner, enum pattern pattern,
                              const struct pattern_shape *shape, struct cudnn_plan **ret_plan);

#endif
