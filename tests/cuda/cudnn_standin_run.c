#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudnn_standin_internal.h"

/* Plain loops over (N, H, W, C). Sums are made in double, values between operations are float. */

struct run {
    const struct program *program;
    void *const *pointers;
    float *values[PROGRAM_TENSORS];
};

/* --- Types ------------------------------------------------------------------------------------ */

static float bf16_read(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* To the nearest, ties to even. */
static uint16_t bf16_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float element_read(cudnnDataType_t type, const void *bytes, int64_t i)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        return ((const float *)bytes)[i];
    case CUDNN_DATA_HALF:
        return (float)((const _Float16 *)bytes)[i];
    case CUDNN_DATA_BFLOAT16:
        return bf16_read(((const uint16_t *)bytes)[i]);
    case CUDNN_DATA_INT8:
        return ((const int8_t *)bytes)[i];
    case CUDNN_DATA_BOOLEAN:
        return ((const uint8_t *)bytes)[i] != 0;
    default:
        return (float)((const int64_t *)bytes)[i];
    }
}

static void element_write(cudnnDataType_t type, void *bytes, int64_t i, float value)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
        ((float *)bytes)[i] = value;
        break;
    case CUDNN_DATA_HALF:
        ((_Float16 *)bytes)[i] = (_Float16)value;
        break;
    case CUDNN_DATA_BFLOAT16:
        ((uint16_t *)bytes)[i] = bf16_round(value);
        break;
    default:
        ((int8_t *)bytes)[i] = (int8_t)value;
    }
}

/* --- Tensors of one node ---------------------------------------------------------------------- */

static const struct tensor *slot_tensor(const struct run *run, const struct node *node, int slot)
{
    return &run->program->tensors[node->slots[slot]];
}

static float *slot_values(const struct run *run, const struct node *node, int slot)
{
    return run->values[node->slots[slot]];
}

/* A number given by value. */
static double slot_number(const struct run *run, const struct node *node, int slot)
{
    int t = node->slots[slot];
    return run->program->tensors[t].type == CUDNN_DATA_INT64 ? (double)*(int64_t *)run->pointers[t]
                                                             : *(float *)run->pointers[t];
}

/* --- Convolution ------------------------------------------------------------------------------ */

/* A pixel of the output and the tap of the window that reads a pixel of the input. */
typedef void tap_fn(void *context, int64_t out_pixel, int64_t in_pixel, int64_t tap);

/* Calls `visit` for all of them that lie within the input. */
static void taps_visit(const struct node *node, const struct tensor *x, const struct tensor *y,
                       int64_t rows, int64_t columns, tap_fn *visit, void *context)
{
    for (int64_t n = 0; n < y->dims[0]; n++)
        for (int64_t oh = 0; oh < y->dims[2]; oh++)
            for (int64_t ow = 0; ow < y->dims[3]; ow++)
                for (int64_t tap = 0; tap < rows * columns; tap++) {
                    int64_t h = oh * node->stride[0] - node->padding[0] + tap / columns;
                    int64_t w = ow * node->stride[1] - node->padding[1] + tap % columns;
                    if (h >= 0 && h < x->dims[2] && w >= 0 && w < x->dims[3])
                        visit(context, (n * y->dims[2] + oh) * y->dims[3] + ow,
                              (n * x->dims[2] + h) * x->dims[3] + w, tap);
                }
}

struct conv {
    const float *a, *b;
    double *sums; /* of what is written */
    int64_t in, out, taps;
};

static void conv_forward(void *context, int64_t out_pixel, int64_t in_pixel, int64_t tap)
{
    const struct conv *conv = context;
    const float *x = conv->a + in_pixel * conv->in;
    for (int64_t k = 0; k < conv->out; k++) {
        const float *w = conv->b + (k * conv->taps + tap) * conv->in;
        double sum = 0;
        for (int64_t c = 0; c < conv->in; c++)
            sum += (double)x[c] * w[c];
        conv->sums[out_pixel * conv->out + k] += sum;
    }
}

static void conv_data(void *context, int64_t out_pixel, int64_t in_pixel, int64_t tap)
{
    const struct conv *conv = context;
    double *dx = conv->sums + in_pixel * conv->in;
    for (int64_t k = 0; k < conv->out; k++) {
        const float *w = conv->a + (k * conv->taps + tap) * conv->in;
        double dy = conv->b[out_pixel * conv->out + k];
        for (int64_t c = 0; c < conv->in; c++)
            dx[c] += dy * w[c];
    }
}

static void conv_weights(void *context, int64_t out_pixel, int64_t in_pixel, int64_t tap)
{
    const struct conv *conv = context;
    const float *x = conv->a + in_pixel * conv->in;
    for (int64_t k = 0; k < conv->out; k++) {
        double *dw = conv->sums + (k * conv->taps + tap) * conv->in;
        double dy = conv->b[out_pixel * conv->out + k];
        for (int64_t c = 0; c < conv->in; c++)
            dw[c] += dy * x[c];
    }
}

static void run_conv(const struct run *run, const struct node *node)
{
    const bool forward = node->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool data = node->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    const int written = forward ? CONV_Y : data ? CONV_X : CONV_W;
    const struct tensor *w = slot_tensor(run, node, CONV_W);
    const int64_t count = tensor_elements(slot_tensor(run, node, written));
    struct conv conv = {.a = slot_values(run, node, data ? CONV_W : CONV_X),
                        .b = slot_values(run, node, forward ? CONV_W : CONV_Y),
                        .sums = calloc((size_t)count, sizeof(double)),
                        .in = w->dims[1],
                        .out = w->dims[0],
                        .taps = w->dims[2] * w->dims[3]};
    taps_visit(node, slot_tensor(run, node, CONV_X), slot_tensor(run, node, CONV_Y), w->dims[2],
               w->dims[3],
               forward ? conv_forward
               : data  ? conv_data
                       : conv_weights,
               &conv);
    for (int64_t i = 0; i < count; i++)
        slot_values(run, node, written)[i] = (float)conv.sums[i];
    free(conv.sums);
}

/* --- Pooling ---------------------------------------------------------------------------------- */

struct pool {
    const struct node *node;
    float *x, *y, *index;
    int64_t channels, taps;
    bool adds; /* an average, not a maximum */
};

static void pool_forward(void *context, int64_t out_pixel, int64_t in_pixel, int64_t tap)
{
    const struct pool *pool = context;
    for (int64_t c = 0; c < pool->channels; c++) {
        float x = pool->x[in_pixel * pool->channels + c];
        float *y = &pool->y[out_pixel * pool->channels + c];
        if (pool->adds) {
            *y += x / (float)pool->taps;
        } else if (isnan(x) || x > *y) {
            *y = x;
            if (pool->index)
                pool->index[out_pixel * pool->channels + c] = (float)tap;
        }
    }
}

static void pool_backward(void *context, int64_t out_pixel, int64_t in_pixel, int64_t tap)
{
    const struct pool *pool = context;
    for (int64_t c = 0; c < pool->channels; c++) {
        int64_t out = out_pixel * pool->channels + c;
        if (pool->adds)
            pool->x[in_pixel * pool->channels + c] += pool->y[out] / (float)pool->taps;
        else if (pool->index[out] == (float)tap)
            pool->x[in_pixel * pool->channels + c] += pool->y[out];
    }
}

static void run_pool(const struct run *run, const struct node *node)
{
    const bool forward = node->type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
    const struct tensor *x = slot_tensor(run, node, POOL_X), *y = slot_tensor(run, node, POOL_Y);
    struct pool pool = {.node = node,
                        .x = slot_values(run, node, POOL_X),
                        .y = slot_values(run, node, POOL_Y),
                        .index =
                            node->slots[POOL_INDEX] < 0 ? NULL : slot_values(run, node, POOL_INDEX),
                        .channels = x->dims[1],
                        .taps = node->window[0] * node->window[1],
                        .adds = node->mode != CUDNN_RESAMPLE_MAXPOOL};
    const int64_t count = tensor_elements(forward ? y : x);
    for (int64_t i = 0; i < count; i++)
        (forward ? pool.y : pool.x)[i] = forward && !pool.adds ? -INFINITY : 0;
    taps_visit(node, x, y, node->window[0], node->window[1], forward ? pool_forward : pool_backward,
               &pool);
}

/* --- By element ------------------------------------------------------------------------------- */

/* Offset of element i of a tensor of dims `of` in one that may be 1 along some of them. */
static int64_t broadcast(const struct tensor *tensor, const struct tensor *of, int64_t i)
{
    int64_t c = i % of->dims[1], w = i / of->dims[1] % of->dims[3];
    int64_t h = i / of->dims[1] / of->dims[3] % of->dims[2];
    int64_t n = i / of->dims[1] / of->dims[3] / of->dims[2];
    const int64_t *d = tensor->dims;
    int64_t at = d[0] > 1 ? n : 0;
    at = at * d[2] + (d[2] > 1 ? h : 0);
    at = at * d[3] + (d[3] > 1 ? w : 0);
    return at * d[1] + (d[1] > 1 ? c : 0);
}

static float pointwise(int mode, float a, float b)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return a + b;
    case CUDNN_POINTWISE_SUB:
        return a - b;
    case CUDNN_POINTWISE_MUL:
        return a * b;
    case CUDNN_POINTWISE_CMP_GT:
        return a > b;
    case CUDNN_POINTWISE_RELU_FWD:
        return a > 0 || isnan(a) ? a : 0;
    case CUDNN_POINTWISE_RELU_BWD: /* b is the gradient */
        return a > 0 ? b : 0;
    default:
        return a;
    }
}

static void run_pointwise(const struct run *run, const struct node *node)
{
    const bool backward = node->mode == CUDNN_POINTWISE_RELU_BWD;
    const int written = backward ? POINTWISE_DX : POINTWISE_Y;
    const int second = backward ? POINTWISE_DY : POINTWISE_B;
    const struct tensor *out = slot_tensor(run, node, written);
    const struct tensor *a = slot_tensor(run, node, POINTWISE_X);
    for (int64_t i = 0, count = tensor_elements(out); i < count; i++) {
        float x = slot_values(run, node, POINTWISE_X)[broadcast(a, out, i)], y = 0;
        if (node->slots[second] >= 0 && slot_tensor(run, node, second)->by_value)
            y = (float)slot_number(run, node, second);
        else if (node->slots[second] >= 0)
            y = slot_values(run, node, second)[broadcast(slot_tensor(run, node, second), out, i)];
        slot_values(run, node, written)[i] = pointwise(node->mode, x, y);
    }
}

/* --- Batch normalisation ---------------------------------------------------------------------- */

/* Σ a · b over all but the channels; b NULL: Σ a. */
static double channel_sum(const struct tensor *tensor, const float *a, const float *b, int64_t c)
{
    double sum = 0;
    for (int64_t i = c, count = tensor_elements(tensor); i < count; i += tensor->dims[1])
        sum += b ? (double)a[i] * b[i] : a[i];
    return sum;
}

static void run_statistics(const struct run *run, const struct node *node)
{
    const struct tensor *x = slot_tensor(run, node, STATS_X);
    const float *values = slot_values(run, node, STATS_X);
    for (int64_t c = 0; c < x->dims[1]; c++) {
        slot_values(run, node, STATS_SUM)[c] = (float)channel_sum(x, values, NULL, c);
        slot_values(run, node, STATS_SQUARES)[c] = (float)channel_sum(x, values, values, c);
    }
}

/* Moves a running mean and an (unbiased) running variance. */
static void run_moving(const struct run *run, const struct node *node, const int *slots, int64_t c,
                       double mean, double variance, double count, double factor)
{
    const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
    slot_values(run, node, slots[2])[c] =
        (float)((1 - factor) * slot_values(run, node, slots[0])[c] + factor * mean);
    slot_values(run, node, slots[3])[c] =
        (float)((1 - factor) * slot_values(run, node, slots[1])[c] + factor * unbiased);
}

static void run_norm(const struct run *run, const struct node *node)
{
    static const int moving[] = {NORM_RUNNING_MEAN, NORM_RUNNING_VAR, NORM_NEXT_MEAN,
                                 NORM_NEXT_VAR};
    const struct tensor *x = slot_tensor(run, node, NORM_X);
    const float *values = slot_values(run, node, NORM_X);
    const int64_t channels = x->dims[1], elements = tensor_elements(x);
    const double count = (double)(elements / channels);
    for (int64_t c = 0; c < channels; c++) {
        if (node->mode == CUDNN_NORM_FWD_TRAINING) {
            double mean = channel_sum(x, values, NULL, c) / count, variance = 0;
            for (int64_t i = c; i < elements; i += channels)
                variance += (values[i] - mean) * (values[i] - mean) / count;
            slot_values(run, node, NORM_MEAN)[c] = (float)mean;
            slot_values(run, node, NORM_INVSTD)[c] =
                (float)(1 / sqrt(variance + slot_number(run, node, NORM_EPSILON)));
            run_moving(run, node, moving, c, mean, variance, count,
                       slot_number(run, node, NORM_FACTOR));
        }
        float mean = slot_values(run, node, NORM_MEAN)[c];
        float invstd = slot_values(run, node, NORM_INVSTD)[c];
        float scale = slot_values(run, node, NORM_SCALE)[c];
        float bias = slot_values(run, node, NORM_BIAS)[c];
        for (int64_t i = c; i < elements; i += channels)
            slot_values(run, node, NORM_Y)[i] = (values[i] - mean) * invstd * scale + bias;
    }
}

/* What the gradient of a channel's normalisation is made of. */
struct norm_gradient {
    double dscale, dbias;     /* Σ dy·x̂, Σ dy */
    double of_dy, of_x, rest; /* dx = dy·of_dy + x·of_x + rest */
};

static struct norm_gradient norm_gradient(const struct tensor *tensor, const float *x,
                                          const float *dy, int64_t c, double mean, double invstd,
                                          double scale)
{
    const double count = (double)(tensor_elements(tensor) / tensor->dims[1]);
    struct norm_gradient g;
    g.dbias = channel_sum(tensor, dy, NULL, c);
    g.dscale = (channel_sum(tensor, dy, x, c) - mean * g.dbias) * invstd;
    /* dx = scale·invstd · (dy − dbias/count − x̂·dscale/count), x̂ = (x − mean)·invstd */
    g.of_dy = scale * invstd;
    g.of_x = -scale * invstd * invstd * g.dscale / count;
    g.rest = -scale * invstd * g.dbias / count - g.of_x * mean;
    return g;
}

static void run_norm_backward(const struct run *run, const struct node *node)
{
    const struct tensor *tensor = slot_tensor(run, node, NORM_BWD_X);
    const float *x = slot_values(run, node, NORM_BWD_X), *dy = slot_values(run, node, NORM_BWD_DY);
    for (int64_t c = 0; c < tensor->dims[1]; c++) {
        struct norm_gradient g =
            norm_gradient(tensor, x, dy, c, slot_values(run, node, NORM_BWD_MEAN)[c],
                          slot_values(run, node, NORM_BWD_INVSTD)[c],
                          slot_values(run, node, NORM_BWD_SCALE)[c]);
        slot_values(run, node, NORM_BWD_DSCALE)[c] = (float)g.dscale;
        slot_values(run, node, NORM_BWD_DBIAS)[c] = (float)g.dbias;
        for (int64_t i = c, count = tensor_elements(tensor); i < count; i += tensor->dims[1])
            slot_values(run, node, NORM_BWD_DX)[i] =
                (float)(dy[i] * g.of_dy + x[i] * g.of_x + g.rest);
    }
}

static void run_dbn_weights(const struct run *run, const struct node *node)
{
    const struct tensor *tensor = slot_tensor(run, node, DBN_X);
    const float *x = slot_values(run, node, DBN_X), *dy = slot_values(run, node, DBN_DY);
    for (int64_t c = 0; c < tensor->dims[1]; c++) {
        struct norm_gradient g =
            norm_gradient(tensor, x, dy, c, slot_values(run, node, DBN_MEAN)[c],
                          slot_values(run, node, DBN_INVSTD)[c],
                          slot_values(run, node, DBN_SCALE)[c]);
        slot_values(run, node, DBN_DSCALE)[c] = (float)g.dscale;
        slot_values(run, node, DBN_DBIAS)[c] = (float)g.dbias;
        slot_values(run, node, DBN_EQ_DY)[c] = (float)g.of_dy;
        slot_values(run, node, DBN_EQ_X)[c] = (float)g.of_x;
        slot_values(run, node, DBN_EQ_BIAS)[c] = (float)g.rest;
    }
}

static void run_finalize(const struct run *run, const struct node *node)
{
    static const int moving[] = {FINALIZE_RUNNING_MEAN, FINALIZE_RUNNING_VAR, FINALIZE_NEXT_MEAN,
                                 FINALIZE_NEXT_VAR};
    const double count = slot_number(run, node, FINALIZE_COUNT);
    for (int64_t c = 0; c < slot_tensor(run, node, FINALIZE_SUM)->dims[1]; c++) {
        double mean = slot_values(run, node, FINALIZE_SUM)[c] / count;
        double variance =
            fmax(slot_values(run, node, FINALIZE_SQUARES)[c] / count - mean * mean, 0);
        double invstd = 1 / sqrt(variance + slot_number(run, node, FINALIZE_EPSILON));
        double scale = slot_values(run, node, FINALIZE_SCALE)[c] * invstd;
        slot_values(run, node, FINALIZE_MEAN)[c] = (float)mean;
        slot_values(run, node, FINALIZE_INVSTD)[c] = (float)invstd;
        slot_values(run, node, FINALIZE_EQ_SCALE)[c] = (float)scale;
        slot_values(run, node, FINALIZE_EQ_BIAS)[c] =
            (float)(slot_values(run, node, FINALIZE_BIAS)[c] - mean * scale);
        run_moving(run, node, moving, c, mean, variance, count,
                   slot_number(run, node, FINALIZE_FACTOR));
    }
}

/* --- Programs --------------------------------------------------------------------------------- */

static void run_node(const struct run *run, const struct node *node)
{
    switch (node->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        run_pointwise(run, node);
        break;
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
        run_statistics(run, node);
        break;
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        run_norm(run, node);
        break;
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        run_norm_backward(run, node);
        break;
    case CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR:
        run_finalize(run, node);
        break;
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR:
        run_dbn_weights(run, node);
        break;
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
        run_pool(run, node);
        break;
    default:
        run_conv(run, node);
    }
}

void program_run(const struct program *program, void *const *pointers)
{
    struct run run = {.program = program, .pointers = pointers};
    for (int t = 0; t < program->tensor_count; t++) {
        const struct tensor *tensor = &program->tensors[t];
        if (tensor->by_value)
            continue;
        int64_t count = tensor_elements(tensor);
        run.values[t] = calloc((size_t)count, sizeof(float));
        for (int64_t i = 0; tensor->writer < 0 && i < count; i++)
            run.values[t][i] = element_read(tensor->type, pointers[t], i);
    }
    for (int n = 0; n < program->node_count; n++) {
        run_node(&run, &program->nodes[n]);
        for (int t = 0; t < program->tensor_count; t++) {
            const struct tensor *tensor = &program->tensors[t];
            if (tensor->writer != n || tensor->is_virtual)
                continue;
            /* What comes next in the graph reads it as it was stored. */
            for (int64_t i = 0, count = tensor_elements(tensor); i < count; i++) {
                element_write(tensor->type, pointers[t], i, run.values[t][i]);
                run.values[t][i] = element_read(tensor->type, pointers[t], i);
            }
        }
    }
    for (int t = 0; t < program->tensor_count; t++)
        free(run.values[t]);
}
