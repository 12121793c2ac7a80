#include "train/cuda/patterns.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "train/cuda/operation.h"
#include "train/cuda/planner.h"

/* How an output's size and channels follow from a shape. */
enum geometry { GEOMETRY_CONV = 0, GEOMETRY_POOL, GEOMETRY_WHOLE_POOL, GEOMETRY_FC, GEOMETRY_SAME };

#define X TENSOR_X
#define Y TENSOR_Y
#define Z TENSOR_Z
#define DX TENSOR_DX
#define DY TENSOR_DY
#define DZ TENSOR_DZ
#define W TENSOR_W
#define DW TENSOR_DW
#define W_BIAS TENSOR_W_BIAS
#define MASK TENSOR_MASK
#define INDEX TENSOR_INDEX
#define SCALE TENSOR_SCALE
#define BIAS TENSOR_BIAS
#define MEAN TENSOR_MEAN
#define INVSTD TENSOR_INVSTD
#define RUNNING TENSOR_RUNNING_MEAN, TENSOR_RUNNING_VAR
#define NEXT_RUNNING TENSOR_NEXT_RUNNING_MEAN, TENSOR_NEXT_RUNNING_VAR
#define DSCALE TENSOR_DSCALE
#define DBIAS TENSOR_DBIAS
#define EQ_SCALE TENSOR_EQ_SCALE
#define EQ_BIAS TENSOR_EQ_BIAS
#define EQ_GRADIENT TENSOR_EQ_DY, TENSOR_EQ_X, TENSOR_EQ_DBIAS
#define SUMS TENSOR_SUM, TENSOR_SQUARE_SUM
#define A OPERAND_A
#define B OPERAND_B
#define C OPERAND_C
#define D OPERAND_D
#define IO OPERAND_IO

static const struct graph_node conv[] = {{OPERATION_CONV, {X, W, Y}}, {0}};
static const struct graph_node dgrad[] = {{OPERATION_DGRAD, {DX, W, DY}}, {0}};
static const struct graph_node dgrad_add[] = {
    {OPERATION_DGRAD, {A, W, DY}},
    {OPERATION_ADD, {A, DZ, DX}},
    {0},
};
static const struct graph_node wgrad_f32[] = {{OPERATION_WGRAD, {X, DW, DY}}, {0}};
/* cuDNN has no engine that writes f32 from half inputs by itself. */
static const struct graph_node wgrad[] = {
    {OPERATION_WGRAD, {X, A, DY}},
    {OPERATION_COPY, {A, DW}},
    {0},
};

#define BN_TRAIN_INTO(y)                                                                           \
    {                                                                                              \
        OPERATION_BN_TRAIN,                                                                        \
        {                                                                                          \
            X, y, MEAN, INVSTD, SCALE, BIAS, OPERAND_EPSILON, OPERAND_MOMENTUM, RUNNING,           \
                NEXT_RUNNING                                                                       \
        }                                                                                          \
    }
static const struct graph_node bn[] = {BN_TRAIN_INTO(Y), {0}};
static const struct graph_node bn_relu[] = {
    BN_TRAIN_INTO(A),
    {OPERATION_RELU, {A, Y}},
    {0},
};
/* The mask compares what the relu gave: cuDNN refuses the relu's input. */
static const struct graph_node bn_add_relu[] = {
    BN_TRAIN_INTO(A),
    {OPERATION_ADD, {A, Z, B}},
    {OPERATION_RELU, {B, Y}},
    {OPERATION_GREATER, {Y, OPERAND_ZERO, MASK}},
    {0},
};

#define BN_BACKWARD_FROM(dy)                                                                       \
    {                                                                                              \
        OPERATION_BN_BACKWARD,                                                                     \
        {                                                                                          \
            X, dy, DX, MEAN, INVSTD, SCALE, DSCALE, DBIAS                                          \
        }                                                                                          \
    }
static const struct graph_node bn_backward[] = {BN_BACKWARD_FROM(DY), {0}};
/* The relu's input is worked out anew; cuDNN takes it from this operation only. */
static const struct graph_node bn_relu_backward[] = {
    {OPERATION_BN_APPLY, {X, A, MEAN, INVSTD, SCALE, BIAS}},
    {OPERATION_RELU_BACKWARD, {DY, A, IO}},
    BN_BACKWARD_FROM(IO),
    {0},
};
static const struct graph_node bn_add_relu_backward[] = {
    {OPERATION_MULTIPLY, {DY, MASK, DZ}},
    BN_BACKWARD_FROM(DZ),
    {0},
};
static const struct graph_node relu_backward[] = {{OPERATION_RELU_BACKWARD, {DY, Y, DX}}, {0}};

static const struct graph_node scale_bias_relu[] = {
    {OPERATION_MULTIPLY, {X, EQ_SCALE, A}},
    {OPERATION_ADD, {A, EQ_BIAS, B}},
    {OPERATION_RELU, {B, Y}},
    {0},
};
static const struct graph_node scale_bias_add_relu[] = {
    {OPERATION_MULTIPLY, {X, EQ_SCALE, A}},
    {OPERATION_ADD, {A, EQ_BIAS, B}},
    {OPERATION_ADD, {B, Z, C}},
    {OPERATION_RELU, {C, Y}},
    {0},
};
static const struct graph_node scale_bias_dual_add_relu[] = {
    {OPERATION_MULTIPLY, {X, EQ_SCALE, A}},
    {OPERATION_ADD, {A, EQ_BIAS, B}},
    {OPERATION_MULTIPLY, {Z, TENSOR_Z_SCALE, C}},
    {OPERATION_ADD, {C, TENSOR_Z_BIAS, D}},
    {OPERATION_ADD, {B, D, OPERAND_E}},
    {OPERATION_RELU, {OPERAND_E, Y}},
    {0},
};

static const struct graph_node max_pool[] = {{OPERATION_MAX_POOL, {X, Y, OPERAND_NONE}}, {0}};
static const struct graph_node max_pool_index[] = {{OPERATION_MAX_POOL, {X, Y, INDEX}}, {0}};
static const struct graph_node max_pool_backward[] = {
    {OPERATION_MAX_POOL_BACKWARD, {DX, DY, INDEX}},
    {0},
};
static const struct graph_node avg_pool[] = {{OPERATION_AVG_POOL, {X, Y}}, {0}};
static const struct graph_node avg_pool_backward[] = {
    {OPERATION_AVG_POOL_BACKWARD, {DX, DY}},
    {0},
};

static const struct graph_node conv_stats[] = {
    {OPERATION_CONV, {X, W, Y}},
    {OPERATION_STATISTICS, {Y, SUMS}},
    {0},
};
static const struct graph_node sbr_conv_stats[] = {
    {OPERATION_MULTIPLY, {X, EQ_SCALE, A}},
    {OPERATION_ADD, {A, EQ_BIAS, B}},
    {OPERATION_RELU, {B, IO}},
    {OPERATION_CONV, {IO, W, Y}},
    {OPERATION_STATISTICS, {Y, SUMS}},
    {0},
};
static const struct graph_node bn_finalize[] = {
    {OPERATION_BN_FINALIZE,
     {SUMS, SCALE, BIAS, RUNNING, NEXT_RUNNING, MEAN, INVSTD, EQ_SCALE, EQ_BIAS, OPERAND_ELEMENTS,
      OPERAND_EPSILON, OPERAND_MOMENTUM}},
    {0},
};
static const struct graph_node dgrad_drelu_dbn[] = {
    {OPERATION_DGRAD, {A, W, DY}},
    {OPERATION_SUBTRACT, {X, MEAN, B}},
    {OPERATION_MULTIPLY, {B, INVSTD, C}},
    {OPERATION_MULTIPLY, {C, SCALE, D}},
    {OPERATION_ADD, {D, BIAS, OPERAND_E}},
    {OPERATION_RELU_BACKWARD, {A, OPERAND_E, DX}},
    {OPERATION_DBN_WEIGHTS, {MEAN, INVSTD, SCALE, X, DX, DSCALE, DBIAS, EQ_GRADIENT}},
    {0},
};
static const struct graph_node dbn_apply[] = {
    {OPERATION_MULTIPLY, {DY, TENSOR_EQ_DY, A}},
    {OPERATION_MULTIPLY, {X, TENSOR_EQ_X, B}},
    {OPERATION_ADD, {A, B, C}},
    {OPERATION_ADD, {C, TENSOR_EQ_DBIAS, DX}},
    {0},
};
static const struct graph_node sbr_wgrad[] = {
    {OPERATION_MULTIPLY, {X, EQ_SCALE, A}},
    {OPERATION_ADD, {A, EQ_BIAS, B}},
    {OPERATION_RELU, {B, IO}},
    {OPERATION_WGRAD, {IO, DW, DY}},
    {0},
};

static const struct graph_node conv_bias[] = {
    {OPERATION_CONV, {X, W, A}},
    {OPERATION_ADD, {A, W_BIAS, Y}},
    {0},
};
static const struct graph_node conv_bias_relu[] = {
    {OPERATION_CONV, {X, W, A}},
    {OPERATION_ADD, {A, W_BIAS, B}},
    {OPERATION_RELU, {B, Y}},
    {0},
};
static const struct graph_node conv_bias_add_relu[] = {
    {OPERATION_CONV, {X, W, A}},
    {OPERATION_ADD, {A, W_BIAS, B}},
    {OPERATION_ADD, {B, Z, C}},
    {OPERATION_RELU, {C, Y}},
    {0},
};

static const struct {
    const struct graph_node *nodes;
    const struct graph_node *f32_nodes; /* for activations in f32; NULL: the same */
    enum geometry geometry;
} patterns[PATTERN_COUNT] = {
    [PATTERN_CONV] = {conv, NULL, GEOMETRY_CONV},
    [PATTERN_CONV_DGRAD] = {dgrad, NULL, GEOMETRY_CONV},
    [PATTERN_CONV_DGRAD_ADD] = {dgrad_add, NULL, GEOMETRY_CONV},
    [PATTERN_CONV_WGRAD] = {wgrad, wgrad_f32, GEOMETRY_CONV},
    [PATTERN_BN] = {bn, NULL, GEOMETRY_SAME},
    [PATTERN_BN_RELU] = {bn_relu, NULL, GEOMETRY_SAME},
    [PATTERN_BN_ADD_RELU] = {bn_add_relu, NULL, GEOMETRY_SAME},
    [PATTERN_BN_BACKWARD] = {bn_backward, NULL, GEOMETRY_SAME},
    [PATTERN_BN_RELU_BACKWARD] = {bn_relu_backward, NULL, GEOMETRY_SAME},
    [PATTERN_BN_ADD_RELU_BACKWARD] = {bn_add_relu_backward, NULL, GEOMETRY_SAME},
    [PATTERN_RELU_BACKWARD] = {relu_backward, NULL, GEOMETRY_SAME},
    [PATTERN_SCALE_BIAS_RELU] = {scale_bias_relu, NULL, GEOMETRY_SAME},
    [PATTERN_SCALE_BIAS_ADD_RELU] = {scale_bias_add_relu, NULL, GEOMETRY_SAME},
    [PATTERN_SCALE_BIAS_DUAL_ADD_RELU] = {scale_bias_dual_add_relu, NULL, GEOMETRY_SAME},
    [PATTERN_MAX_POOL] = {max_pool, NULL, GEOMETRY_POOL},
    [PATTERN_MAX_POOL_INDEX] = {max_pool_index, NULL, GEOMETRY_POOL},
    [PATTERN_MAX_POOL_BACKWARD] = {max_pool_backward, NULL, GEOMETRY_POOL},
    [PATTERN_AVG_POOL] = {avg_pool, NULL, GEOMETRY_WHOLE_POOL},
    [PATTERN_AVG_POOL_BACKWARD] = {avg_pool_backward, NULL, GEOMETRY_WHOLE_POOL},
    [PATTERN_FC] = {conv_bias, NULL, GEOMETRY_FC},
    [PATTERN_FC_DGRAD] = {dgrad, NULL, GEOMETRY_FC},
    [PATTERN_FC_WGRAD] = {wgrad, wgrad_f32, GEOMETRY_FC},
    [PATTERN_CONV_STATS] = {conv_stats, NULL, GEOMETRY_CONV},
    [PATTERN_SBR_CONV_STATS] = {sbr_conv_stats, NULL, GEOMETRY_CONV},
    [PATTERN_BN_FINALIZE] = {bn_finalize, NULL, GEOMETRY_SAME},
    [PATTERN_DGRAD_DRELU_DBN] = {dgrad_drelu_dbn, NULL, GEOMETRY_CONV},
    [PATTERN_DBN_APPLY] = {dbn_apply, NULL, GEOMETRY_SAME},
    [PATTERN_SBR_WGRAD] = {sbr_wgrad, NULL, GEOMETRY_CONV},
    [PATTERN_CONV_BIAS] = {conv_bias, NULL, GEOMETRY_CONV},
    [PATTERN_CONV_BIAS_RELU] = {conv_bias_relu, NULL, GEOMETRY_CONV},
    [PATTERN_CONV_BIAS_ADD_RELU] = {conv_bias_add_relu, NULL, GEOMETRY_CONV},
};

const char *const pattern_names[] = {
    [PATTERN_CONV] = "conv",
    [PATTERN_CONV_DGRAD] = "conv_dgrad",
    [PATTERN_CONV_DGRAD_ADD] = "conv_dgrad_add",
    [PATTERN_CONV_WGRAD] = "conv_wgrad",
    [PATTERN_BN] = "bn",
    [PATTERN_BN_RELU] = "bn_relu",
    [PATTERN_BN_ADD_RELU] = "bn_add_relu",
    [PATTERN_BN_BACKWARD] = "bn_backward",
    [PATTERN_BN_RELU_BACKWARD] = "bn_relu_backward",
    [PATTERN_BN_ADD_RELU_BACKWARD] = "bn_add_relu_backward",
    [PATTERN_RELU_BACKWARD] = "relu_backward",
    [PATTERN_SCALE_BIAS_RELU] = "scale_bias_relu",
    [PATTERN_SCALE_BIAS_ADD_RELU] = "scale_bias_add_relu",
    [PATTERN_SCALE_BIAS_DUAL_ADD_RELU] = "scale_bias_dual_add_relu",
    [PATTERN_MAX_POOL] = "max_pool",
    [PATTERN_MAX_POOL_INDEX] = "max_pool_index",
    [PATTERN_MAX_POOL_BACKWARD] = "max_pool_backward",
    [PATTERN_AVG_POOL] = "avg_pool",
    [PATTERN_AVG_POOL_BACKWARD] = "avg_pool_backward",
    [PATTERN_FC] = "fc",
    [PATTERN_FC_DGRAD] = "fc_dgrad",
    [PATTERN_FC_WGRAD] = "fc_wgrad",
    [PATTERN_CONV_STATS] = "conv_stats",
    [PATTERN_SBR_CONV_STATS] = "sbr_conv_stats",
    [PATTERN_BN_FINALIZE] = "bn_finalize",
    [PATTERN_DGRAD_DRELU_DBN] = "dgrad_drelu_dbn",
    [PATTERN_DBN_APPLY] = "dbn_apply",
    [PATTERN_SBR_WGRAD] = "sbr_wgrad",
    [PATTERN_CONV_BIAS] = "conv_bias",
    [PATTERN_CONV_BIAS_RELU] = "conv_bias_relu",
    [PATTERN_CONV_BIAS_ADD_RELU] = "conv_bias_add_relu",
    [PATTERN_COUNT] = NULL,
};

/* The sizes that a graph is built with. */
static struct layer layer_of(enum pattern pattern, const struct pattern_shape *s,
                             cudnnDataType_t type)
{
    enum geometry geometry = patterns[pattern].geometry;
    struct layer layer = {.type = type,
                          .f32_output = pattern == PATTERN_FC,
                          .io_gradient = pattern == PATTERN_SBR_WGRAD};
    int64_t in_size[2] = {s->height, s->width}, out_size[2], window[2] = {1, 1};
    int64_t stride = 1, padding = 0;
    if (geometry == GEOMETRY_FC)
        in_size[0] = in_size[1] = 1;
    if (geometry == GEOMETRY_CONV || geometry == GEOMETRY_POOL) {
        window[0] = window[1] = s->kernel;
        stride = s->stride;
        padding = s->padding;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (geometry == GEOMETRY_WHOLE_POOL)
            window[i] = in_size[i];
        layer.window[i] = window[i];
        layer.stride[i] = stride;
        layer.padding[i] = padding;
        out_size[i] = (in_size[i] + 2 * padding - window[i]) / stride + 1;
    }
    int64_t out = geometry == GEOMETRY_CONV || geometry == GEOMETRY_FC ? s->out : s->in;
    const int64_t x[4] = {s->batch, s->in, in_size[0], in_size[1]};
    const int64_t y[4] = {s->batch, out, out_size[0], out_size[1]};
    const int64_t w[4] = {out, s->in, window[0], window[1]};
    for (unsigned i = 0; i < 4; i++) {
        layer.x[i] = x[i];
        layer.y[i] = y[i];
        layer.w[i] = w[i];
    }
    return layer;
}

/* "conv_wgrad n64 c64 h56 w56 k64 r3 s1 p1": what a pattern uses of its shape. */
static struct status shape_text(enum pattern pattern, const struct pattern_shape *s,
                                int64_t elements, struct buffer *text)
{
    enum geometry geometry = patterns[pattern].geometry;
    bool has_window = geometry == GEOMETRY_CONV || geometry == GEOMETRY_POOL;
    TRY(buffer_append_text(text, "%s n%" PRId64 " c%" PRId64, pattern_names[pattern], s->batch,
                           s->in));
    if (geometry != GEOMETRY_FC)
        TRY(buffer_append_text(text, " h%" PRId64 " w%" PRId64, s->height, s->width));
    if (geometry == GEOMETRY_CONV || geometry == GEOMETRY_FC)
        TRY(buffer_append_text(text, " k%" PRId64, s->out));
    if (has_window)
        TRY(buffer_append_text(text, " r%" PRId64 " s%" PRId64 " p%" PRId64, s->kernel, s->stride,
                               s->padding));
    if (pattern == PATTERN_BN_FINALIZE)
        TRY(buffer_append_text(text, " of %" PRId64, elements));
    return OK;
}

/* Tells of a size that may be why there is no plan: cuDNN 9 has no BN, and few of the other
 * engines, for tensors whose elements 31 bits do not count. */
static struct status size_context(struct status status, const struct layer *layer)
{
    const int64_t x = layer->x[0] * layer->x[1] * layer->x[2] * layer->x[3];
    const int64_t y = layer->y[0] * layer->y[1] * layer->y[2] * layer->y[3];
    const int64_t most = x > y ? x : y;
    if (status.code != STATUS_UNSUPPORTED || most <= INT32_MAX)
        return status;
    return status_context(status,
                          "a tensor of %" PRId64 " elements, of 2^31 or more, which most of "
                          "cuDNN's engines do not take",
                          most);
}

struct status cudnn_plan_open(struct planner *planner, enum pattern pattern,
                              const struct pattern_shape *shape, struct cudnn_plan **ret_plan)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    CLEANUP(operation_graph_done) struct operation_graph graph = {0};
    cudnnDataType_t type = planner_type(planner);
    struct layer layer = layer_of(pattern, shape, type);
    int64_t elements = shape->statistics_count > 0 ? shape->statistics_count
                                                   : shape->batch * shape->height * shape->width;
    const struct graph_node *nodes = type == CUDNN_DATA_FLOAT && patterns[pattern].f32_nodes
                                         ? patterns[pattern].f32_nodes
                                         : patterns[pattern].nodes;
    const char *text;
    TRY(shape_text(pattern, shape, elements, &buffer));
    TRY(buffer_text(&buffer, &text));
    struct status status = operation_graph_build(&graph, planner_handle(planner), &layer, nodes);
    if (status.code == STATUS_DONE)
        status = size_context(planner_make(planner, &graph, text, elements, ret_plan), &layer);
    return status_context(status, "cuDNN: %s", text);
}
