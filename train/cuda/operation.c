#include "train/cuda/operation.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

enum { ALIGNMENT_BYTES = 16 };

/* --- Tensors ---------------------------------------------------------------------------------- */

enum tensor_shape { SHAPE_X = 0, SHAPE_Y, SHAPE_W, SHAPE_X_CHANNELS, SHAPE_Y_CHANNELS };
enum element_type { TYPE_IO = 0, TYPE_EQ, TYPE_F32, TYPE_BOOLEAN, TYPE_INT8 };

static const struct {
    uint8_t shape, type;
} tensor_forms[TENSOR_COUNT] = {
    [TENSOR_X] = {SHAPE_X, TYPE_IO},
    [TENSOR_Y] = {SHAPE_Y, TYPE_IO},
    [TENSOR_Z] = {SHAPE_Y, TYPE_IO},
    [TENSOR_DX] = {SHAPE_X, TYPE_IO},
    [TENSOR_DY] = {SHAPE_Y, TYPE_IO},
    [TENSOR_DZ] = {SHAPE_X, TYPE_IO},
    [TENSOR_W] = {SHAPE_W, TYPE_IO},
    [TENSOR_DW] = {SHAPE_W, TYPE_F32},
    [TENSOR_W_BIAS] = {SHAPE_Y_CHANNELS, TYPE_F32},
    [TENSOR_MASK] = {SHAPE_Y, TYPE_BOOLEAN},
    [TENSOR_INDEX] = {SHAPE_Y, TYPE_INT8},
    [TENSOR_SCALE] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_BIAS] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_MEAN] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_INVSTD] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_RUNNING_MEAN] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_RUNNING_VAR] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_NEXT_RUNNING_MEAN] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_NEXT_RUNNING_VAR] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_DSCALE] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_DBIAS] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_EQ_SCALE] = {SHAPE_X_CHANNELS, TYPE_EQ},
    [TENSOR_EQ_BIAS] = {SHAPE_X_CHANNELS, TYPE_EQ},
    [TENSOR_Z_SCALE] = {SHAPE_X_CHANNELS, TYPE_EQ},
    [TENSOR_Z_BIAS] = {SHAPE_X_CHANNELS, TYPE_EQ},
    [TENSOR_EQ_DY] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_EQ_X] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_EQ_DBIAS] = {SHAPE_X_CHANNELS, TYPE_F32},
    [TENSOR_SUM] = {SHAPE_Y_CHANNELS, TYPE_F32},
    [TENSOR_SQUARE_SUM] = {SHAPE_Y_CHANNELS, TYPE_F32},
};

/* A graph while it is built. */
struct builder {
    struct operation_graph *graph;
    const struct layer *layer;
    cudnnBackendDescriptor_t tensors[OPERAND_COUNT];
    int64_t dims[OPERAND_COUNT][4];
};

static void tensor_dims(const struct layer *layer, enum tensor_shape shape, int64_t *ret_dims)
{
    const int64_t *whole = shape == SHAPE_W                                ? layer->w
                           : shape == SHAPE_Y || shape == SHAPE_Y_CHANNELS ? layer->y
                                                                           : layer->x;
    bool by_channel = shape == SHAPE_X_CHANNELS || shape == SHAPE_Y_CHANNELS;
    for (unsigned i = 0; i < 4; i++)
        ret_dims[i] = by_channel && i != 1 ? 1 : whole[i];
}

static cudnnDataType_t tensor_type(const struct layer *layer, unsigned tensor)
{
    static const cudnnDataType_t types[] = {[TYPE_F32] = CUDNN_DATA_FLOAT,
                                            [TYPE_BOOLEAN] = CUDNN_DATA_BOOLEAN,
                                            [TYPE_INT8] = CUDNN_DATA_INT8};
    if (tensor == TENSOR_Y && layer->f32_output)
        return CUDNN_DATA_FLOAT;
    if (tensor == TENSOR_DW && layer->io_gradient)
        return layer->type;
    uint8_t type = tensor_forms[tensor].type;
    if (type == TYPE_EQ) /* cuDNN takes half for half, else f32 */
        return layer->type == CUDNN_DATA_HALF ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    return type == TYPE_IO ? layer->type : types[type];
}

/* At most: booleans may be packed, but a byte for each is always enough. */
static uint64_t type_bytes(cudnnDataType_t type)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        return 4;
    case CUDNN_DATA_INT64:
        return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

/* Where a tensor stands. */
enum residence { IN_MEMORY = 0, INSIDE, BY_VALUE };

/* Makes the descriptor of an operand whose dims are known. */
static struct status tensor_describe(struct builder *builder, unsigned operand,
                                     cudnnDataType_t type, enum residence residence)
{
    const int64_t *d = builder->dims[operand];
    const int64_t strides[4] = {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]};
    int64_t alignment = residence == BY_VALUE ? (int64_t)type_bytes(type) : ALIGNMENT_BYTES;
    bool yes = true;
    cudnnBackendDescriptor_t tensor;
    TRY(descriptor_list_add(&builder->graph->descriptors, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
                            &tensor));
    TRY(descriptor_set_type(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, type));
    TRY(descriptor_set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d));
    TRY(descriptor_set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides));
    TRY(descriptor_set_int(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, operand_id(operand)));
    TRY(descriptor_set_int(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment));
    if (residence == INSIDE)
        TRY(descriptor_set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes));
    if (residence == BY_VALUE)
        TRY(descriptor_set(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes));
    TRY(descriptor_finish(tensor));
    builder->tensors[operand] = tensor;
    return OK;
}

static struct status tensor_open(struct builder *builder, unsigned operand,
                                 const struct graph_node *node)
{
    const struct layer *layer = builder->layer;
    int64_t *dims = builder->dims[operand];
    if (operand < TENSOR_COUNT) {
        tensor_dims(layer, tensor_forms[operand].shape, dims);
        cudnnDataType_t type = tensor_type(layer, operand);
        uint64_t bytes = type_bytes(type);
        for (unsigned i = 0; i < 4; i++)
            if (!size_multiply(bytes, (uint64_t)dims[i], &bytes))
                FAIL(STATUS_UNSUPPORTED, "the tensor %s is too large", plan_tensor_names[operand]);
        struct plan_layout *layout = &builder->graph->layouts[operand];
        *layout = (struct plan_layout){.type = type, .bytes = bytes};
        memcpy(layout->dims, dims, sizeof layout->dims);
        return tensor_describe(builder, operand, type, IN_MEMORY);
    }
    if (operand >= OPERAND_EPSILON) {
        for (unsigned i = 0; i < 4; i++)
            dims[i] = 1;
        builder->graph->scalars |= UINT64_C(1) << (operand - TENSOR_COUNT);
        bool integer = operand == OPERAND_ELEMENTS;
        return tensor_describe(builder, operand, integer ? CUDNN_DATA_INT64 : CUDNN_DATA_FLOAT,
                               BY_VALUE);
    }
    /* Inside: the output of this node. */
    const int64_t *shape = node->operation == OPERATION_CONV    ? layer->y
                           : node->operation == OPERATION_DGRAD ? layer->x
                           : node->operation == OPERATION_WGRAD ? layer->w
                                                                : builder->dims[node->operands[0]];
    memmove(dims, shape, sizeof builder->dims[operand]);
    return tensor_describe(builder, operand, operand == OPERAND_IO ? layer->type : CUDNN_DATA_FLOAT,
                           INSIDE);
}

/* --- Operations ------------------------------------------------------------------------------- */

enum family { FAMILY_CONV = 0, FAMILY_POINTWISE, FAMILY_POOL, FAMILY_NORM, FAMILY_STATISTICS };

#define ATTR(name) CUDNN_ATTR_OPERATION_##name

static const struct operation_form {
    enum family family;
    cudnnBackendDescriptorType_t type;
    int detail;       /* mode of a pointwise operation or pooling, phase of a normalisation */
    uint32_t outputs; /* bit i: operand i is written */
    int operands[NODE_OPERANDS]; /* cudnnBackendAttributeName_t; ends in 0 */
} operation_forms[OPERATION_COUNT] = {
    [OPERATION_CONV] = {FAMILY_CONV,
                        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                        0,
                        1 << 2,
                        {ATTR(CONVOLUTION_FORWARD_X), ATTR(CONVOLUTION_FORWARD_W),
                         ATTR(CONVOLUTION_FORWARD_Y)}},
    [OPERATION_DGRAD] = {FAMILY_CONV,
                         CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                         0,
                         1 << 0,
                         {ATTR(CONVOLUTION_BWD_DATA_DX), ATTR(CONVOLUTION_BWD_DATA_W),
                          ATTR(CONVOLUTION_BWD_DATA_DY)}},
    [OPERATION_WGRAD] = {FAMILY_CONV,
                         CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                         0,
                         1 << 1,
                         {ATTR(CONVOLUTION_BWD_FILTER_X), ATTR(CONVOLUTION_BWD_FILTER_DW),
                          ATTR(CONVOLUTION_BWD_FILTER_DY)}},
#define POINTWISE FAMILY_POINTWISE, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
    [OPERATION_ADD] = {POINTWISE,
                       CUDNN_POINTWISE_ADD,
                       1 << 2,
                       {ATTR(POINTWISE_XDESC), ATTR(POINTWISE_BDESC), ATTR(POINTWISE_YDESC)}},
    [OPERATION_SUBTRACT] = {POINTWISE,
                            CUDNN_POINTWISE_SUB,
                            1 << 2,
                            {ATTR(POINTWISE_XDESC), ATTR(POINTWISE_BDESC), ATTR(POINTWISE_YDESC)}},
    [OPERATION_MULTIPLY] = {POINTWISE,
                            CUDNN_POINTWISE_MUL,
                            1 << 2,
                            {ATTR(POINTWISE_XDESC), ATTR(POINTWISE_BDESC), ATTR(POINTWISE_YDESC)}},
    [OPERATION_GREATER] = {POINTWISE,
                           CUDNN_POINTWISE_CMP_GT,
                           1 << 2,
                           {ATTR(POINTWISE_XDESC), ATTR(POINTWISE_BDESC), ATTR(POINTWISE_YDESC)}},
    [OPERATION_RELU] = {POINTWISE,
                        CUDNN_POINTWISE_RELU_FWD,
                        1 << 1,
                        {ATTR(POINTWISE_XDESC), ATTR(POINTWISE_YDESC)}},
    [OPERATION_COPY] = {POINTWISE,
                        CUDNN_POINTWISE_IDENTITY,
                        1 << 1,
                        {ATTR(POINTWISE_XDESC), ATTR(POINTWISE_YDESC)}},
    [OPERATION_RELU_BACKWARD] = {POINTWISE,
                                 CUDNN_POINTWISE_RELU_BWD,
                                 1 << 2,
                                 {ATTR(POINTWISE_DYDESC), ATTR(POINTWISE_XDESC),
                                  ATTR(POINTWISE_DXDESC)}},
#undef POINTWISE
    [OPERATION_STATISTICS] = {FAMILY_STATISTICS,
                              CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
                              ATTR(GENSTATS_MATH_PREC),
                              1 << 1 | 1 << 2,
                              {ATTR(GENSTATS_XDESC), ATTR(GENSTATS_SUMDESC),
                               ATTR(GENSTATS_SQSUMDESC)}},
    [OPERATION_BN_TRAIN] =
        {FAMILY_NORM,
         CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
         CUDNN_NORM_FWD_TRAINING,
         1 << 1 | 1 << 2 | 1 << 3 | 1 << 10 | 1 << 11,
         {ATTR(NORM_FWD_XDESC), ATTR(NORM_FWD_YDESC), ATTR(NORM_FWD_MEAN_DESC),
          ATTR(NORM_FWD_INV_VARIANCE_DESC), ATTR(NORM_FWD_SCALE_DESC), ATTR(NORM_FWD_BIAS_DESC),
          ATTR(NORM_FWD_EPSILON_DESC), ATTR(NORM_FWD_EXP_AVG_FACTOR_DESC),
          ATTR(NORM_FWD_INPUT_RUNNING_MEAN_DESC), ATTR(NORM_FWD_INPUT_RUNNING_VAR_DESC),
          ATTR(NORM_FWD_OUTPUT_RUNNING_MEAN_DESC), ATTR(NORM_FWD_OUTPUT_RUNNING_VAR_DESC)}},
    [OPERATION_BN_APPLY] = {FAMILY_NORM,
                            CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
                            CUDNN_NORM_FWD_INFERENCE,
                            1 << 1,
                            {ATTR(NORM_FWD_XDESC), ATTR(NORM_FWD_YDESC), ATTR(NORM_FWD_MEAN_DESC),
                             ATTR(NORM_FWD_INV_VARIANCE_DESC), ATTR(NORM_FWD_SCALE_DESC),
                             ATTR(NORM_FWD_BIAS_DESC)}},
    [OPERATION_BN_BACKWARD] = {FAMILY_NORM,
                               CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
                               0,
                               1 << 2 | 1 << 6 | 1 << 7,
                               {ATTR(NORM_BWD_XDESC), ATTR(NORM_BWD_DYDESC), ATTR(NORM_BWD_DXDESC),
                                ATTR(NORM_BWD_MEAN_DESC), ATTR(NORM_BWD_INV_VARIANCE_DESC),
                                ATTR(NORM_BWD_SCALE_DESC), ATTR(NORM_BWD_DSCALE_DESC),
                                ATTR(NORM_BWD_DBIAS_DESC)}},
    [OPERATION_BN_FINALIZE] =
        {FAMILY_STATISTICS,
         CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
         ATTR(BN_FINALIZE_MATH_PREC),
         0x3f << 6,
         {ATTR(BN_FINALIZE_Y_SUM_DESC), ATTR(BN_FINALIZE_Y_SQ_SUM_DESC),
          ATTR(BN_FINALIZE_SCALE_DESC), ATTR(BN_FINALIZE_BIAS_DESC),
          ATTR(BN_FINALIZE_PREV_RUNNING_MEAN_DESC), ATTR(BN_FINALIZE_PREV_RUNNING_VAR_DESC),
          ATTR(BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC), ATTR(BN_FINALIZE_UPDATED_RUNNING_VAR_DESC),
          ATTR(BN_FINALIZE_SAVED_MEAN_DESC), ATTR(BN_FINALIZE_SAVED_INV_STD_DESC),
          ATTR(BN_FINALIZE_EQ_SCALE_DESC), ATTR(BN_FINALIZE_EQ_BIAS_DESC),
          ATTR(BN_FINALIZE_ACCUM_COUNT_DESC), ATTR(BN_FINALIZE_EPSILON_DESC),
          ATTR(BN_FINALIZE_EXP_AVERATE_FACTOR_DESC)}},
    [OPERATION_DBN_WEIGHTS] = {FAMILY_STATISTICS,
                               CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
                               ATTR(BN_BWD_WEIGHTS_MATH_PREC),
                               0x1f << 5,
                               {ATTR(BN_BWD_WEIGHTS_MEAN_DESC), ATTR(BN_BWD_WEIGHTS_INVSTD_DESC),
                                ATTR(BN_BWD_WEIGHTS_BN_SCALE_DESC), ATTR(BN_BWD_WEIGHTS_X_DESC),
                                ATTR(BN_BWD_WEIGHTS_DY_DESC), ATTR(BN_BWD_WEIGHTS_DBN_SCALE_DESC),
                                ATTR(BN_BWD_WEIGHTS_DBN_BIAS_DESC),
                                ATTR(BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC),
                                ATTR(BN_BWD_WEIGHTS_EQ_X_SCALE_DESC),
                                ATTR(BN_BWD_WEIGHTS_EQ_BIAS)}},
    [OPERATION_MAX_POOL] = {FAMILY_POOL,
                            CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
                            CUDNN_RESAMPLE_MAXPOOL,
                            1 << 1 | 1 << 2,
                            {ATTR(RESAMPLE_FWD_XDESC), ATTR(RESAMPLE_FWD_YDESC),
                             ATTR(RESAMPLE_FWD_IDXDESC)}},
    [OPERATION_MAX_POOL_BACKWARD] = {FAMILY_POOL,
                                     CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
                                     CUDNN_RESAMPLE_MAXPOOL,
                                     1 << 0,
                                     {ATTR(RESAMPLE_BWD_DXDESC), ATTR(RESAMPLE_BWD_DYDESC),
                                      ATTR(RESAMPLE_BWD_IDXDESC)}},
    [OPERATION_AVG_POOL] = {FAMILY_POOL,
                            CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
                            CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING,
                            1 << 1,
                            {ATTR(RESAMPLE_FWD_XDESC), ATTR(RESAMPLE_FWD_YDESC)}},
    [OPERATION_AVG_POOL_BACKWARD] = {FAMILY_POOL,
                                     CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
                                     CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING,
                                     1 << 0,
                                     {ATTR(RESAMPLE_BWD_DXDESC), ATTR(RESAMPLE_BWD_DYDESC)}},
};

#undef ATTR

static struct status conv_detail(struct builder *builder, enum operation operation,
                                 cudnnBackendDescriptor_t descriptor)
{
    static const struct {
        cudnnBackendAttributeName_t desc, alpha, beta;
    } names[] = {
        [OPERATION_CONV] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        [OPERATION_DGRAD] = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        [OPERATION_WGRAD] = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    const struct layer *layer = builder->layer;
    const int64_t dilations[2] = {1, 1};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t conv;
    TRY(descriptor_list_add(&builder->graph->descriptors, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                            &conv));
    TRY(descriptor_set_int(conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2));
    TRY(descriptor_set_type(conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT));
    TRY(descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
                       &mode));
    TRY(descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2,
                       layer->padding));
    TRY(descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2,
                       layer->padding));
    TRY(descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2,
                       layer->stride));
    TRY(descriptor_set(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations));
    TRY(descriptor_finish(conv));
    TRY(descriptor_set_link(descriptor, names[operation].desc, conv));
    TRY(descriptor_set_float(descriptor, names[operation].alpha, 1));
    return descriptor_set_float(descriptor, names[operation].beta, 0);
}

static struct status pointwise_detail(struct builder *builder, cudnnPointwiseMode_t mode,
                                      cudnnBackendDescriptor_t descriptor)
{
    cudnnBackendDescriptor_t pointwise;
    TRY(descriptor_list_add(&builder->graph->descriptors, CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
                            &pointwise));
    TRY(descriptor_set(pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    TRY(descriptor_set_type(pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT));
    TRY(descriptor_finish(pointwise));
    return descriptor_set_link(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
}

static struct status pool_detail(struct builder *builder, const struct operation_form *form,
                                 cudnnBackendDescriptor_t descriptor)
{
    const struct layer *layer = builder->layer;
    const cudnnResampleMode_t mode = (cudnnResampleMode_t)form->detail;
    const cudnnPaddingMode_t padding =
        mode == CUDNN_RESAMPLE_MAXPOOL ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    const bool forward = form->type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
    cudnnFraction_t window[2], stride[2], before[2];
    for (unsigned i = 0; i < 2; i++) {
        window[i] = (cudnnFraction_t){layer->window[i], 1};
        stride[i] = (cudnnFraction_t){layer->stride[i], 1};
        before[i] = (cudnnFraction_t){layer->padding[i], 1};
    }
    cudnnBackendDescriptor_t pool;
    TRY(descriptor_list_add(&builder->graph->descriptors, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR,
                            &pool));
    TRY(descriptor_set(pool, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode));
    TRY(descriptor_set_type(pool, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT));
    TRY(descriptor_set_int(pool, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 2));
    TRY(descriptor_set(pool, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1,
                       &padding));
    TRY(descriptor_set(pool, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_TYPE_FRACTION, 2, window));
    TRY(descriptor_set(pool, CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_TYPE_FRACTION, 2, stride));
    TRY(descriptor_set(pool, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_TYPE_FRACTION, 2, before));
    TRY(descriptor_set(pool, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_TYPE_FRACTION, 2, before));
    TRY(descriptor_finish(pool));
    return descriptor_set_link(descriptor,
                               forward ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC
                                       : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC,
                               pool);
}

static struct status norm_detail(const struct operation_form *form,
                                 cudnnBackendDescriptor_t descriptor)
{
    const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
    const cudnnBackendNormFwdPhase_t phase = (cudnnBackendNormFwdPhase_t)form->detail;
    if (form->type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
        return descriptor_set(descriptor, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE,
                              1, &mode);
    TRY(descriptor_set(descriptor, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1,
                       &mode));
    return descriptor_set(descriptor, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE,
                          CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
}

static struct status statistics_detail(const struct operation_form *form,
                                       cudnnBackendDescriptor_t descriptor)
{
    const cudnnGenStatsMode_t sums = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnBnFinalizeStatsMode_t training = CUDNN_BN_FINALIZE_STATISTICS_TRAINING;
    if (form->type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
        TRY(descriptor_set(descriptor, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE,
                           1, &sums));
    if (form->type == CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR)
        TRY(descriptor_set(descriptor, CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE,
                           CUDNN_TYPE_BN_FINALIZE_STATS_MODE, 1, &training));
    return descriptor_set_type(descriptor, (cudnnBackendAttributeName_t)form->detail,
                               CUDNN_DATA_FLOAT);
}

static struct status operation_detail(struct builder *builder, enum operation operation,
                                      cudnnBackendDescriptor_t descriptor)
{
    const struct operation_form *form = &operation_forms[operation];
    switch (form->family) {
    case FAMILY_CONV:
        return conv_detail(builder, operation, descriptor);
    case FAMILY_POINTWISE:
        return pointwise_detail(builder, (cudnnPointwiseMode_t)form->detail, descriptor);
    case FAMILY_POOL:
        return pool_detail(builder, form, descriptor);
    case FAMILY_NORM:
        return norm_detail(form, descriptor);
    case FAMILY_STATISTICS:
        return statistics_detail(form, descriptor);
    }
    return OK;
}

static struct status node_build(struct builder *builder, const struct graph_node *node,
                                cudnnBackendDescriptor_t *ret_operation)
{
    const struct operation_form *form = &operation_forms[node->operation];
    cudnnBackendDescriptor_t operation;
    TRY(descriptor_list_add(&builder->graph->descriptors, form->type, &operation));
    for (unsigned i = 0; i < NODE_OPERANDS && form->operands[i]; i++) {
        unsigned operand = node->operands[i];
        if (operand == OPERAND_NONE)
            continue;
        if (!builder->tensors[operand])
            TRY(tensor_open(builder, operand, node));
        if (operand < TENSOR_COUNT && form->outputs >> i & 1)
            builder->graph->layouts[operand].written = true;
        TRY(descriptor_set_link(operation, (cudnnBackendAttributeName_t)form->operands[i],
                                builder->tensors[operand]));
    }
    builder->graph->convolves |= form->family == FAMILY_CONV;
    TRY(operation_detail(builder, node->operation, operation));
    TRY(descriptor_finish(operation));
    *ret_operation = operation;
    return OK;
}

enum { GRAPH_NODES = 8 };

struct status operation_graph_build(struct operation_graph *graph, cudnnHandle_t handle,
                                    const struct layer *layer, const struct graph_node *nodes)
{
    struct builder builder = {.graph = graph, .layer = layer};
    cudnnBackendDescriptor_t operations[GRAPH_NODES];
    size_t count = 0;
    for (; nodes[count].operation != OPERATION_NONE; count++) {
        assert(count < GRAPH_NODES);
        TRY(node_build(&builder, &nodes[count], &operations[count]));
    }
    TRY(descriptor_list_add(&graph->descriptors, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                            &graph->graph));
    if (handle)
        TRY(descriptor_set(graph->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                           &handle));
    TRY(descriptor_set(graph->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       count, operations));
    return descriptor_finish(graph->graph);
}

void operation_graph_done(struct operation_graph *graph)
{
    descriptor_list_done(&graph->descriptors);
}
