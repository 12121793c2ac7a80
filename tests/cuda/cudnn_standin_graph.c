#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudnn_standin_internal.h"

/* --- Operations ------------------------------------------------------------------------------- */

#define IN(name)                                                                                   \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, false, false                                                  \
    }
#define OUT(name)                                                                                  \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, true, false                                                   \
    }
#define MAYBE_IN(name)                                                                             \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, false, true                                                   \
    }
#define MAYBE_OUT(name)                                                                            \
    {                                                                                              \
        CUDNN_ATTR_OPERATION_##name, true, true                                                    \
    }

static const struct operation_schema operation_schemas[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {IN(CONVOLUTION_FORWARD_X), IN(CONVOLUTION_FORWARD_W), OUT(CONVOLUTION_FORWARD_Y)}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {OUT(CONVOLUTION_BWD_DATA_DX), IN(CONVOLUTION_BWD_DATA_W), IN(CONVOLUTION_BWD_DATA_DY)}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {IN(CONVOLUTION_BWD_FILTER_X), OUT(CONVOLUTION_BWD_FILTER_DW), IN(CONVOLUTION_BWD_FILTER_DY)}},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     {MAYBE_IN(POINTWISE_XDESC), MAYBE_IN(POINTWISE_BDESC), MAYBE_OUT(POINTWISE_YDESC),
      MAYBE_OUT(POINTWISE_DXDESC), MAYBE_IN(POINTWISE_DYDESC)}},
    {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
     {IN(GENSTATS_XDESC), OUT(GENSTATS_SUMDESC), OUT(GENSTATS_SQSUMDESC)}},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
     {IN(NORM_FWD_XDESC), OUT(NORM_FWD_YDESC), MAYBE_OUT(NORM_FWD_MEAN_DESC),
      MAYBE_OUT(NORM_FWD_INV_VARIANCE_DESC), IN(NORM_FWD_SCALE_DESC), IN(NORM_FWD_BIAS_DESC),
      MAYBE_IN(NORM_FWD_EPSILON_DESC), MAYBE_IN(NORM_FWD_EXP_AVG_FACTOR_DESC),
      MAYBE_IN(NORM_FWD_INPUT_RUNNING_MEAN_DESC), MAYBE_IN(NORM_FWD_INPUT_RUNNING_VAR_DESC),
      MAYBE_OUT(NORM_FWD_OUTPUT_RUNNING_MEAN_DESC), MAYBE_OUT(NORM_FWD_OUTPUT_RUNNING_VAR_DESC)}},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
     {IN(NORM_BWD_XDESC), IN(NORM_BWD_MEAN_DESC), IN(NORM_BWD_INV_VARIANCE_DESC),
      IN(NORM_BWD_DYDESC), IN(NORM_BWD_SCALE_DESC), OUT(NORM_BWD_DSCALE_DESC),
      OUT(NORM_BWD_DBIAS_DESC), OUT(NORM_BWD_DXDESC)}},
    {CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
     {IN(BN_FINALIZE_Y_SUM_DESC), IN(BN_FINALIZE_Y_SQ_SUM_DESC), IN(BN_FINALIZE_SCALE_DESC),
      IN(BN_FINALIZE_BIAS_DESC), IN(BN_FINALIZE_PREV_RUNNING_MEAN_DESC),
      IN(BN_FINALIZE_PREV_RUNNING_VAR_DESC), OUT(BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC),
      OUT(BN_FINALIZE_UPDATED_RUNNING_VAR_DESC), OUT(BN_FINALIZE_SAVED_MEAN_DESC),
      OUT(BN_FINALIZE_SAVED_INV_STD_DESC), OUT(BN_FINALIZE_EQ_SCALE_DESC),
      OUT(BN_FINALIZE_EQ_BIAS_DESC), IN(BN_FINALIZE_ACCUM_COUNT_DESC), IN(BN_FINALIZE_EPSILON_DESC),
      IN(BN_FINALIZE_EXP_AVERATE_FACTOR_DESC)}},
    {CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
     {IN(BN_BWD_WEIGHTS_MEAN_DESC), IN(BN_BWD_WEIGHTS_INVSTD_DESC),
      IN(BN_BWD_WEIGHTS_BN_SCALE_DESC), IN(BN_BWD_WEIGHTS_X_DESC), IN(BN_BWD_WEIGHTS_DY_DESC),
      OUT(BN_BWD_WEIGHTS_DBN_SCALE_DESC), OUT(BN_BWD_WEIGHTS_DBN_BIAS_DESC),
      OUT(BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC), OUT(BN_BWD_WEIGHTS_EQ_X_SCALE_DESC),
      OUT(BN_BWD_WEIGHTS_EQ_BIAS)}},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
     {IN(RESAMPLE_FWD_XDESC), OUT(RESAMPLE_FWD_YDESC), MAYBE_OUT(RESAMPLE_FWD_IDXDESC)}},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
     {OUT(RESAMPLE_BWD_DXDESC), IN(RESAMPLE_BWD_DYDESC), MAYBE_IN(RESAMPLE_BWD_IDXDESC)}},
};
enum { OPERATION_SCHEMAS = sizeof operation_schemas / sizeof operation_schemas[0] };

#undef IN
#undef OUT
#undef MAYBE_IN
#undef MAYBE_OUT

const struct operation_schema *operation_schema(cudnnBackendDescriptorType_t type)
{
    for (int i = 0; i < OPERATION_SCHEMAS; i++)
        if (operation_schemas[i].type == type)
            return &operation_schemas[i];
    return NULL;
}

/* --- Tensors ---------------------------------------------------------------------------------- */

uint64_t type_bytes(cudnnDataType_t type)
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

int64_t tensor_elements(const struct tensor *tensor)
{
    return tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
}

static struct tensor tensor_read(const struct descriptor *descriptor)
{
    struct tensor tensor = {
        .id = attribute_int(descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID),
        .type = (cudnnDataType_t)attribute_enum(descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE),
        .is_virtual = attribute_find(descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL) != NULL,
        .by_value = attribute_find(descriptor, CUDNN_ATTR_TENSOR_IS_BY_VALUE) != NULL,
        .writer = -1,
    };
    memcpy(tensor.dims, attribute_find(descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS)->values,
           sizeof tensor.dims);
    return tensor;
}

static bool same_dims(const struct tensor *a, const struct tensor *b)
{
    return memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* (1, C, 1, 1), by channel of `of`. */
static bool by_channel(const struct tensor *tensor, const struct tensor *of)
{
    return tensor->dims[0] == 1 && tensor->dims[1] == of->dims[1] && tensor->dims[2] == 1 &&
           tensor->dims[3] == 1;
}

/* --- Checks of one operation ------------------------------------------------------------------ */

static cudnnStatus_t shapes_differ(const char *operation)
{
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "%s: the tensors' shapes do not fit",
                  operation);
}

static const struct descriptor *conv_geometry(const struct descriptor *operation)
{
    static const cudnnBackendAttributeName_t names[] = {
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    };
    const struct descriptor *geometry = NULL;
    for (int i = 0; i < 3 && !geometry; i++)
        geometry = attribute_link(operation, names[i]);
    return geometry;
}

static cudnnStatus_t conv_check(const struct descriptor *operation, const struct tensor *t)
{
    const struct descriptor *geometry = conv_geometry(operation);
    const int64_t *stride = attribute_find(geometry, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)->values;
    const int64_t *before = attribute_find(geometry, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)->values;
    const int64_t *after = attribute_find(geometry, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)->values;
    const struct tensor *x = &t[CONV_X], *w = &t[CONV_W], *y = &t[CONV_Y];
    if (x->dims[0] != y->dims[0] || x->dims[1] != w->dims[1] || y->dims[1] != w->dims[0])
        return shapes_differ("convolution");
    for (int i = 0; i < 2; i++) {
        int64_t room = x->dims[2 + i] + before[i] + after[i] - w->dims[2 + i];
        if (room < 0 || y->dims[2 + i] != room / stride[i] + 1)
            return shapes_differ("convolution");
    }
    if (attribute_enum(geometry, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
        attribute_enum(geometry, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a convolution that headrace has no use for");
    /* What is written may be wider than what is read. */
    const bool forward = operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool data =
        operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    const struct tensor *a = data ? w : x, *b = forward ? w : y;
    if (a->type != b->type)
        return refuse(CUDNN_STATUS_BAD_PARAM, "convolution: the inputs' types differ");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t pointwise_check(const struct descriptor *operation, const struct tensor *t,
                                     uint32_t given)
{
    const struct descriptor *details =
        attribute_link(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    int mode = attribute_enum(details, CUDNN_ATTR_POINTWISE_MODE);
    uint32_t needed;
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_CMP_GT:
        needed = 1 << POINTWISE_X | 1 << POINTWISE_B | 1 << POINTWISE_Y;
        break;
    case CUDNN_POINTWISE_RELU_FWD:
    case CUDNN_POINTWISE_IDENTITY:
        needed = 1 << POINTWISE_X | 1 << POINTWISE_Y;
        break;
    case CUDNN_POINTWISE_RELU_BWD:
        needed = 1 << POINTWISE_X | 1 << POINTWISE_DX | 1 << POINTWISE_DY;
        break;
    default:
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "pointwise mode %d", mode);
    }
    if (given != needed)
        return refuse(CUDNN_STATUS_BAD_PARAM, "pointwise mode %d has other tensors", mode);
    const struct tensor *out = &t[mode == CUDNN_POINTWISE_RELU_BWD ? POINTWISE_DX : POINTWISE_Y];
    for (int i = 0; i <= POINTWISE_DY; i++)
        for (int d = 0; given >> i & 1 && d < 4; d++)
            if (t[i].dims[d] != out->dims[d] &&
                (t[i].dims[d] != 1 || (i != POINTWISE_B && i != POINTWISE_X)))
                return shapes_differ("pointwise");
    return CUDNN_STATUS_SUCCESS;
}

/* All slots of `given` in `mask` are f32 (or, in `any_type`, of any type) vectors by channel of x.
 */
static cudnnStatus_t vectors_check(const char *operation, const struct tensor *t, uint32_t given,
                                   uint32_t mask, uint32_t any_type, const struct tensor *x)
{
    for (int i = 0; i < NODE_SLOTS; i++) {
        if (!(given & mask) || !((given & mask) >> i & 1))
            continue;
        if (!by_channel(&t[i], x))
            return shapes_differ(operation);
        if (t[i].type != CUDNN_DATA_FLOAT && !(any_type >> i & 1))
            return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a vector that is not f32", operation);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t norm_check(const struct descriptor *operation, const struct tensor *t,
                                uint32_t given)
{
    const uint32_t statistics = 1 << NORM_EPSILON | 1 << NORM_FACTOR | 1 << NORM_RUNNING_MEAN |
                                1 << NORM_RUNNING_VAR | 1 << NORM_NEXT_MEAN | 1 << NORM_NEXT_VAR;
    const uint32_t always = 1 << NORM_X | 1 << NORM_Y | 1 << NORM_MEAN | 1 << NORM_INVSTD |
                            1 << NORM_SCALE | 1 << NORM_BIAS;
    const bool training =
        attribute_enum(operation, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) == CUDNN_NORM_FWD_TRAINING;
    if (attribute_enum(operation, CUDNN_ATTR_OPERATION_NORM_FWD_MODE) != CUDNN_BATCH_NORM ||
        given != (training ? always | statistics : always))
        return refuse(CUDNN_STATUS_BAD_PARAM, "normalisation: other tensors are needed");
    if (!same_dims(&t[NORM_X], &t[NORM_Y]))
        return shapes_differ("normalisation");
    return vectors_check("normalisation", t, given,
                         ~(uint32_t)(1 << NORM_X | 1 << NORM_Y | 1 << NORM_EPSILON |
                                     1 << NORM_FACTOR),
                         0, &t[NORM_X]);
}

static cudnnStatus_t pool_check(const struct descriptor *operation, const struct tensor *t,
                                uint32_t given)
{
    const bool forward = operation->type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
    const struct descriptor *details =
        attribute_link(operation, forward ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC
                                          : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC);
    const cudnnFraction_t *window =
        attribute_find(details, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS)->values;
    const cudnnFraction_t *stride = attribute_find(details, CUDNN_ATTR_RESAMPLE_STRIDES)->values;
    const cudnnFraction_t *before =
        attribute_find(details, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS)->values;
    const cudnnFraction_t *after =
        attribute_find(details, CUDNN_ATTR_RESAMPLE_POST_PADDINGS)->values;
    const bool max = attribute_enum(details, CUDNN_ATTR_RESAMPLE_MODE) == CUDNN_RESAMPLE_MAXPOOL;
    const struct tensor *x = &t[POOL_X], *y = &t[POOL_Y];
    if (x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1])
        return shapes_differ("pooling");
    for (int i = 0; i < 2; i++) {
        int64_t room =
            x->dims[2 + i] + before[i].numerator + after[i].numerator - window[i].numerator;
        if (room < 0 || y->dims[2 + i] != room / stride[i].numerator + 1)
            return shapes_differ("pooling");
    }
    if (max && attribute_enum(details, CUDNN_ATTR_RESAMPLE_PADDING_MODE) != CUDNN_NEG_INF_PAD)
        return refuse(CUDNN_STATUS_BAD_PARAM, "the padding of a max pooling may win");
    if (given >> POOL_INDEX & 1 &&
        (t[POOL_INDEX].type != CUDNN_DATA_INT8 || !same_dims(&t[POOL_INDEX], y)))
        return shapes_differ("pooling");
    /* The real one crashes. */
    if (max && !forward && !(given >> POOL_INDEX & 1))
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "max pooling backward without an index");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t operation_check(const struct descriptor *operation)
{
    const struct operation_schema *schema = operation_schema(operation->type);
    struct tensor t[NODE_SLOTS] = {{0}};
    uint32_t given = 0;
    for (int i = 0; i < NODE_SLOTS && schema->slots[i].name; i++) {
        const struct descriptor *tensor = attribute_link(operation, schema->slots[i].name);
        if (!tensor && !schema->slots[i].is_optional)
            return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is missing", schema->slots[i].name);
        if (!tensor)
            continue;
        if (tensor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
            return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "attribute %d is no tensor",
                          schema->slots[i].name);
        t[i] = tensor_read(tensor);
        given |= UINT32_C(1) << i;
    }
    switch (operation->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise_check(operation, t, given);
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
        return vectors_check("statistics", t, given, 1 << STATS_SUM | 1 << STATS_SQUARES, 0,
                             &t[STATS_X]);
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        return norm_check(operation, t, given);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        if (!same_dims(&t[NORM_BWD_X], &t[NORM_BWD_DY]) ||
            !same_dims(&t[NORM_BWD_X], &t[NORM_BWD_DX]))
            return shapes_differ("normalisation backward");
        return vectors_check("normalisation backward", t, given,
                             ~(uint32_t)(1 << NORM_BWD_X | 1 << NORM_BWD_DY | 1 << NORM_BWD_DX), 0,
                             &t[NORM_BWD_X]);
    case CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR:
        return vectors_check("finalize", t, given,
                             ~(uint32_t)(1 << FINALIZE_COUNT | 1 << FINALIZE_EPSILON |
                                         1 << FINALIZE_FACTOR),
                             1 << FINALIZE_EQ_SCALE | 1 << FINALIZE_EQ_BIAS, &t[FINALIZE_SUM]);
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR:
        if (!same_dims(&t[DBN_X], &t[DBN_DY]))
            return shapes_differ("dBN weights");
        return vectors_check("dBN weights", t, given, ~(uint32_t)(1 << DBN_X | 1 << DBN_DY), 0,
                             &t[DBN_X]);
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
        return pool_check(operation, t, given);
    default:
        return conv_check(operation, t);
    }
}

/* --- Programs --------------------------------------------------------------------------------- */

struct program *program_hold(struct program *program)
{
    program->references++;
    return program;
}

void program_release(struct program *program)
{
    if (program && --program->references == 0)
        free(program);
}

/* Index of a tensor of a graph; -1: its id is that of another one, or there are too many. */
static int tensor_index(struct program *program, const struct tensor *tensor)
{
    for (int i = 0; i < program->tensor_count; i++) {
        const struct tensor *known = &program->tensors[i];
        if (known->id == tensor->id)
            return known->type == tensor->type && same_dims(known, tensor) &&
                           known->is_virtual == tensor->is_virtual &&
                           known->by_value == tensor->by_value
                       ? i
                       : -1;
    }
    if (program->tensor_count == PROGRAM_TENSORS)
        return -1;
    program->tensors[program->tensor_count] = *tensor;
    return program->tensor_count++;
}

/* Window, stride and mode of an operation, from the descriptor that it refers to. */
static void node_details(const struct descriptor *operation, struct node *node)
{
    const struct descriptor *details;
    switch (operation->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        details = attribute_link(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        node->mode = attribute_enum(details, CUDNN_ATTR_POINTWISE_MODE);
        return;
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        node->mode = attribute_enum(operation, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE);
        return;
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
        details = attribute_link(operation,
                                 operation->type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR
                                     ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC
                                     : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC);
        node->mode = attribute_enum(details, CUDNN_ATTR_RESAMPLE_MODE);
        for (int i = 0; i < 2; i++) {
            node->window[i] =
                ((const cudnnFraction_t *)attribute_find(details, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS)
                     ->values)[i]
                    .numerator;
            node->stride[i] =
                ((const cudnnFraction_t *)attribute_find(details, CUDNN_ATTR_RESAMPLE_STRIDES)
                     ->values)[i]
                    .numerator;
            node->padding[i] =
                ((const cudnnFraction_t *)attribute_find(details, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS)
                     ->values)[i]
                    .numerator;
        }
        return;
    default:
        details = conv_geometry(operation);
        if (!details)
            return;
        memcpy(node->stride, attribute_find(details, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)->values,
               sizeof node->stride);
        memcpy(node->padding, attribute_find(details, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)->values,
               sizeof node->padding);
    }
}

static cudnnStatus_t node_make(struct program *program, const struct descriptor *operation)
{
    const struct operation_schema *schema = operation_schema(operation->type);
    int index = program->node_count++;
    struct node *node = &program->nodes[index];
    if (!schema)
        return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a graph of what is no operation");
    node->type = operation->type;
    node_details(operation, node);
    for (int i = 0; i < NODE_SLOTS; i++) {
        const struct descriptor *descriptor =
            schema->slots[i].name ? attribute_link(operation, schema->slots[i].name) : NULL;
        node->slots[i] = -1;
        if (!descriptor)
            continue;
        struct tensor read = tensor_read(descriptor);
        int t = node->slots[i] = tensor_index(program, &read);
        if (t < 0)
            return refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                          "tensor %lld is described in two ways", (long long)read.id);
        struct tensor *tensor = &program->tensors[t];
        /* BN for inference reads what the attribute's name calls an output. */
        bool output = schema->slots[i].is_output &&
                      !(node->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR &&
                        node->mode == CUDNN_NORM_FWD_INFERENCE && i != NORM_Y);
        if (output && (tensor->writer >= 0 || tensor->read || tensor->by_value))
            return refuse(CUDNN_STATUS_BAD_PARAM, "tensor %lld is written too late or twice",
                          (long long)read.id);
        if (!output && tensor->is_virtual && tensor->writer < 0)
            return refuse(CUDNN_STATUS_BAD_PARAM, "virtual tensor %lld is read but not written",
                          (long long)read.id);
        if (output)
            tensor->writer = index;
        else
            tensor->read = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t program_fill(const struct descriptor *graph, struct program *program)
{
    const struct attribute *operations = attribute_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const struct attribute *handle = attribute_find(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
    if (handle)
        program->handle = *(cudnnHandle_t *)handle->values;
    for (int64_t i = 0; i < operations->count; i++) {
        cudnnStatus_t status =
            node_make(program, ((const struct descriptor *const *)operations->values)[i]);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    }
    for (int i = 0; i < program->tensor_count; i++)
        if (program->tensors[i].is_virtual && !program->tensors[i].read)
            return refuse(CUDNN_STATUS_BAD_PARAM, "virtual tensor %lld is never read",
                          (long long)program->tensors[i].id);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t program_make(const struct descriptor *graph, struct program **ret_program)
{
    struct program *program = calloc(1, sizeof *program);
    program->references = 1;
    cudnnStatus_t status = program_fill(graph, program);
    if (status == CUDNN_STATUS_SUCCESS)
        *ret_program = program;
    else
        program_release(program);
    return status;
}
