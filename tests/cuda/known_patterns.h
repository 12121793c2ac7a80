#ifndef HEADRACE_TESTS_CUDA_KNOWN_PATTERNS_H
#define HEADRACE_TESTS_CUDA_KNOWN_PATTERNS_H

/* What the tests of patterns know of each. */

#include <stdbool.h>

#include "train/cuda/patterns.h"
#include "train/network.h"

/* The node of a network that it belongs to; NODE_BN for all that keep their input's shape. */
static inline enum node_kind pattern_node(enum pattern pattern)
{
    switch (pattern) {
    case PATTERN_MAX_POOL:
    case PATTERN_MAX_POOL_INDEX:
    case PATTERN_MAX_POOL_BACKWARD:
        return NODE_MAX_POOL;
    case PATTERN_AVG_POOL:
    case PATTERN_AVG_POOL_BACKWARD:
        return NODE_GLOBAL_AVG_POOL;
    case PATTERN_FC:
    case PATTERN_FC_DGRAD:
    case PATTERN_FC_WGRAD:
        return NODE_FC;
    case PATTERN_CONV:
    case PATTERN_CONV_DGRAD:
    case PATTERN_CONV_DGRAD_ADD:
    case PATTERN_CONV_WGRAD:
    case PATTERN_CONV_STATS:
    case PATTERN_SBR_CONV_STATS:
    case PATTERN_DGRAD_DRELU_DBN:
    case PATTERN_SBR_WGRAD:
    case PATTERN_CONV_BIAS:
    case PATTERN_CONV_BIAS_RELU:
    case PATTERN_CONV_BIAS_ADD_RELU:
        return NODE_CONV;
    default:
        return NODE_BN;
    }
}

/* Whether cuDNN 9.19 has no plan for it: some are for half precision only, or only for where TF32
 * is allowed. */
static inline bool pattern_is_missing(enum pattern pattern, enum train_dtype dtype)
{
    switch (pattern) {
    case PATTERN_DGRAD_DRELU_DBN:
    case PATTERN_SBR_WGRAD:
        return dtype != DTYPE_FP16;
    case PATTERN_CONV_STATS:
    case PATTERN_SBR_CONV_STATS:
        return dtype == DTYPE_F32;
    default:
        return false;
    }
}

#endif
