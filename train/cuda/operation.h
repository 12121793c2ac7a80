#ifndef HEADRACE_TRAIN_CUDA_OPERATION_H
#define HEADRACE_TRAIN_CUDA_OPERATION_H

/* Operation graphs for cuDNN, from lists of nodes. Private to the files around graph.h. */

#include "train/cuda/descriptor.h"
#include "train/cuda/graph.h"

/* What nodes read and write: the tensors of enum plan_tensor, tensors that live only inside of the
 * graph, and numbers. */
enum operand {
    OPERAND_A = TENSOR_COUNT, /* inside, f32 */
    OPERAND_B,
    OPERAND_C,
    OPERAND_D,
    OPERAND_E,
    OPERAND_IO,       /* inside, in the type of activations */
    OPERAND_EPSILON,  /* BN_EPSILON, f32 */
    OPERAND_MOMENTUM, /* BN_MOMENTUM, f32 */
    OPERAND_ZERO,     /* f32 */
    OPERAND_ELEMENTS, /* by channel, int64 */
    OPERAND_COUNT,
    OPERAND_NONE = OPERAND_COUNT,
};

/* Operands in the order of each node. */
enum operation {
    OPERATION_NONE = 0, /* ends a list */
    OPERATION_CONV,     /* x, w, y */
    OPERATION_DGRAD,    /* dx, w, dy */
    OPERATION_WGRAD,    /* x, dw, dy */
    OPERATION_ADD,      /* a, b, a + b; b may be by channel */
    OPERATION_SUBTRACT,
    OPERATION_MULTIPLY,
    OPERATION_RELU,          /* a, relu(a) */
    OPERATION_RELU_BACKWARD, /* dy, a, dy where a > 0 */
    OPERATION_COPY,          /* a, a in another type */
    OPERATION_GREATER,       /* a, b, a > b */
    OPERATION_STATISTICS,    /* y, sum, square_sum */
    OPERATION_BN_TRAIN,      /* x, y, mean, invstd, scale, bias, epsilon, momentum, running_mean,
                              * running_var, next_running_mean, next_running_var */
    OPERATION_BN_APPLY,      /* x, y, mean, invstd, scale, bias */
    OPERATION_BN_BACKWARD,   /* x, dy, dx, mean, invstd, scale, dscale, dbias */
    OPERATION_BN_FINALIZE,   /* sum, square_sum, scale, bias, running_mean, running_var,
                              * next_running_mean, next_running_var, mean, invstd, eq_scale, eq_bias,
                              * elements, epsilon, momentum */
    OPERATION_DBN_WEIGHTS,   /* mean, invstd, scale, x, dy, dscale, dbias, eq_dy, eq_x, eq_dbias */
    OPERATION_MAX_POOL,      /* x, y, index or none */
    OPERATION_MAX_POOL_BACKWARD, /* dx, dy, index */
    OPERATION_AVG_POOL,          /* x, y */
    OPERATION_AVG_POOL_BACKWARD, /* dx, dy */
    OPERATION_COUNT,
};

enum { NODE_OPERANDS = 15 };
struct graph_node {
    enum operation operation;
    uint8_t operands[NODE_OPERANDS]; /* enum operand */
};

/* The layer that a graph is for, worked out from a pattern's shape. */
struct layer {
    cudnnDataType_t type;     /* of activations */
    bool f32_output;          /* Y is f32 */
    bool io_gradient;         /* DW is in the type of activations */
    int64_t x[4], y[4], w[4]; /* n, c, h, w; out, in, r, s */
    int64_t window[2], stride[2], padding[2];
};

struct operation_graph {
    struct descriptor_list descriptors;
    cudnnBackendDescriptor_t graph;
    struct plan_layout layouts[TENSOR_COUNT];
    bool convolves;
    uint64_t scalars; /* bit OPERAND_x - TENSOR_COUNT: the number is read */
};
void operation_graph_done(struct operation_graph *graph);
CLEANUP_VALUE(operation_graph_done, struct operation_graph)

/* Zero the graph before. `nodes` end in OPERATION_NONE. `handle` may be NULL. */
struct status operation_graph_build(struct operation_graph *graph, cudnnHandle_t handle,
                                    const struct layer *layer, const struct graph_node *nodes);

/* The id by which an operand is known to cuDNN. */
static inline int64_t operand_id(unsigned operand)
{
    return operand + 1;
}

#endif
