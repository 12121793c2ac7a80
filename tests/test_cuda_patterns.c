#include "tests/test.h"

#include <math.h>

#include <cuda_runtime_api.h>

#include "base/random.h"
#include "tests/cuda/cudart_standin.h"
#include "tests/cuda/cudnn_standin.h"
#include "tests/cuda/known_patterns.h"
#include "train/cuda/patterns.h"
#include "train/network.h"

/* Each pattern of operations, built by the backend's own code and executed by the stand-in for
 * cuDNN, against plain loops in double. */

/* --- Plain loops; activations are (N, H, W, C), weights (K, R, S, C)
 * -------------------------------- */

struct sizes {
    int64_t n, h, w, c, k, r, stride, padding, oh, ow;
};

static struct sizes sizes_of(const struct pattern_shape *s)
{
    return (struct sizes){.n = s->batch,
                          .h = s->height,
                          .w = s->width,
                          .c = s->in,
                          .k = s->out,
                          .r = s->kernel,
                          .stride = s->stride,
                          .padding = s->padding,
                          .oh = (s->height + 2 * s->padding - s->kernel) / s->stride + 1,
                          .ow = (s->width + 2 * s->padding - s->kernel) / s->stride + 1};
}

/* Where output pixel (oh, ow) and tap (r, s) read the input; -1: outside of it. */
static int64_t input_pixel(const struct sizes *z, int64_t n, int64_t oh, int64_t ow, int64_t r,
                           int64_t s)
{
    int64_t h = oh * z->stride - z->padding + r, w = ow * z->stride - z->padding + s;
    return h < 0 || h >= z->h || w < 0 || w >= z->w ? -1 : (n * z->h + h) * z->w + w;
}

enum pass { FORWARD, DATA, WEIGHTS };

/* y = x * w, or dx or dw from dy in y's place; what is written starts as zeros. */
static void plain_conv(const struct sizes *z, enum pass pass, double *x, double *w, double *y)
{
    for (int64_t n = 0; n < z->n; n++)
        for (int64_t oh = 0; oh < z->oh; oh++)
            for (int64_t ow = 0; ow < z->ow; ow++)
                for (int64_t r = 0; r < z->r; r++)
                    for (int64_t s = 0; s < z->r; s++) {
                        int64_t pixel = input_pixel(z, n, oh, ow, r, s);
                        for (int64_t k = 0; pixel >= 0 && k < z->k; k++)
                            for (int64_t c = 0; c < z->c; c++) {
                                double *px = &x[pixel * z->c + c];
                                double *pw = &w[((k * z->r + r) * z->r + s) * z->c + c];
                                double *py = &y[((n * z->oh + oh) * z->ow + ow) * z->k + k];
                                if (pass == FORWARD)
                                    *py += *px * *pw;
                                else if (pass == DATA)
                                    *px += *py * *pw;
                                else
                                    *pw += *py * *px;
                            }
                    }
}

static void plain_max_pool(const struct sizes *z, const double *x, double *y, double *index)
{
    for (int64_t i = 0; i < z->n * z->oh * z->ow * z->c; i++) {
        int64_t c = i % z->c, ow = i / z->c % z->ow, oh = i / z->c / z->ow % z->oh;
        double best = -INFINITY;
        for (int64_t tap = 0; tap < z->r * z->r; tap++) {
            int64_t pixel =
                input_pixel(z, i / z->c / z->ow / z->oh, oh, ow, tap / z->r, tap % z->r);
            if (pixel >= 0 && x[pixel * z->c + c] > best) {
                best = x[pixel * z->c + c];
                index[i] = (double)tap;
            }
        }
        y[i] = best;
    }
}

static void plain_max_pool_backward(const struct sizes *z, const double *dy, const double *index,
                                    double *dx)
{
    for (int64_t i = 0; i < z->n * z->oh * z->ow * z->c; i++) {
        int64_t c = i % z->c, ow = i / z->c % z->ow, oh = i / z->c / z->ow % z->oh;
        int64_t tap = (int64_t)index[i];
        dx[input_pixel(z, i / z->c / z->ow / z->oh, oh, ow, tap / z->r, tap % z->r) * z->c + c] +=
            dy[i];
    }
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

/* --- A pattern's tensors ---------------------------------------------------------------------- */

/* Values on the host, as doubles that the tensor's type holds exactly. */
struct values {
    double *at[TENSOR_COUNT];
    int64_t count[TENSOR_COUNT];
};

static void values_done(struct values *values)
{
    for (unsigned i = 0; i < TENSOR_COUNT; i++)
        memory_free(values->at[i]);
}
CLEANUP_VALUE(values_done, struct values)

/* Sums over all elements of a channel. */
static double over_channel(const double *a, const double *b, int64_t count, int64_t channels,
                           int64_t c)
{
    double sum = 0;
    for (int64_t i = c; i < count; i += channels)
        sum += b ? a[i] * b[i] : a[i];
    return sum;
}

static void plain_running(double *const *t, int64_t c, double mean, double variance, double count)
{
    t[TENSOR_NEXT_RUNNING_MEAN][c] =
        (1 - BN_MOMENTUM) * t[TENSOR_RUNNING_MEAN][c] + BN_MOMENTUM * mean;
    t[TENSOR_NEXT_RUNNING_VAR][c] =
        (1 - BN_MOMENTUM) * t[TENSOR_RUNNING_VAR][c] + BN_MOMENTUM * variance * count / (count - 1);
}

/* BN(x) into y, statistics of the batch into mean, invstd and the running ones. */
static void plain_bn(double *const *t, int64_t count, int64_t channels)
{
    for (int64_t c = 0; c < channels; c++) {
        double elements = (double)(count / channels);
        double mean = over_channel(t[TENSOR_X], NULL, count, channels, c) / elements;
        double variance =
            over_channel(t[TENSOR_X], t[TENSOR_X], count, channels, c) / elements - mean * mean;
        double invstd = 1 / sqrt(variance + BN_EPSILON);
        for (int64_t i = c; i < count; i += channels)
            t[TENSOR_Y][i] =
                (t[TENSOR_X][i] - mean) * invstd * t[TENSOR_SCALE][c] + t[TENSOR_BIAS][c];
        t[TENSOR_MEAN][c] = mean;
        t[TENSOR_INVSTD][c] = invstd;
        plain_running(t, c, mean, variance, elements);
    }
}

static double normalised(double *const *t, int64_t i, int64_t c)
{
    return (t[TENSOR_X][i] - t[TENSOR_MEAN][c]) * t[TENSOR_INVSTD][c];
}

/* dscale and dbias of the gradient dy at BN's output, and dx = dy·eq_dy + x·eq_x + eq_dbias. */
static void plain_bn_weights(double *const *t, const double *dy, int64_t count, int64_t channels,
                             int64_t c, double *ret_terms)
{
    double elements = (double)(count / channels);
    double scale = t[TENSOR_SCALE][c] * t[TENSOR_INVSTD][c], dscale = 0;
    for (int64_t i = c; i < count; i += channels)
        dscale += dy[i] * normalised(t, i, c);
    t[TENSOR_DSCALE][c] = dscale;
    t[TENSOR_DBIAS][c] = over_channel(dy, NULL, count, channels, c);
    ret_terms[0] = scale;
    ret_terms[1] = -scale * t[TENSOR_INVSTD][c] * dscale / elements;
    ret_terms[2] = -scale * t[TENSOR_DBIAS][c] / elements - ret_terms[1] * t[TENSOR_MEAN][c];
}

static void plain_bn_backward(double *const *t, const double *dy, int64_t count, int64_t channels)
{
    for (int64_t c = 0; c < channels; c++) {
        double terms[3];
        plain_bn_weights(t, dy, count, channels, c, terms);
        for (int64_t i = c; i < count; i += channels)
            t[TENSOR_DX][i] = dy[i] * terms[0] + t[TENSOR_X][i] * terms[1] + terms[2];
    }
}

/* --- What each pattern should give ------------------------------------------------------------ */

/* relu(x · eq_scale + eq_bias) on the heap. */
static double *plain_scaled(const struct values *v, const struct sizes *z)
{
    double *scaled;
    assert_ok(memory_alloc((size_t)v->count[TENSOR_X], sizeof *scaled, &scaled));
    for (int64_t i = 0; i < v->count[TENSOR_X]; i++)
        scaled[i] = relu(v->at[TENSOR_X][i] * v->at[TENSOR_EQ_SCALE][i % z->c] +
                         v->at[TENSOR_EQ_BIAS][i % z->c]);
    return scaled;
}

static void expect_conv(enum pattern pattern, const struct sizes *z, const struct values *v)
{
    double *const *t = v->at;
    CLEANUP(memory_free) double *scaled = NULL;
    switch (pattern) {
    case PATTERN_CONV_DGRAD:
    case PATTERN_CONV_DGRAD_ADD:
    case PATTERN_FC_DGRAD:
    case PATTERN_DGRAD_DRELU_DBN:
        plain_conv(z, DATA, t[TENSOR_DX], t[TENSOR_W], t[TENSOR_DY]);
        break;
    case PATTERN_CONV_WGRAD:
    case PATTERN_FC_WGRAD:
        plain_conv(z, WEIGHTS, t[TENSOR_X], t[TENSOR_DW], t[TENSOR_DY]);
        break;
    case PATTERN_SBR_WGRAD:
        scaled = plain_scaled(v, z);
        plain_conv(z, WEIGHTS, scaled, t[TENSOR_DW], t[TENSOR_DY]);
        break;
    case PATTERN_SBR_CONV_STATS:
        scaled = plain_scaled(v, z);
        plain_conv(z, FORWARD, scaled, t[TENSOR_W], t[TENSOR_Y]);
        break;
    default:
        plain_conv(z, FORWARD, t[TENSOR_X], t[TENSOR_W], t[TENSOR_Y]);
    }
    for (int64_t i = 0; pattern == PATTERN_CONV_DGRAD_ADD && i < v->count[TENSOR_DX]; i++)
        t[TENSOR_DX][i] += t[TENSOR_DZ][i];
    for (int64_t i = 0; t[TENSOR_W_BIAS] && i < v->count[TENSOR_Y]; i++) {
        t[TENSOR_Y][i] += t[TENSOR_W_BIAS][i % z->k] + (t[TENSOR_Z] ? t[TENSOR_Z][i] : 0);
        if (pattern == PATTERN_CONV_BIAS_RELU || pattern == PATTERN_CONV_BIAS_ADD_RELU)
            t[TENSOR_Y][i] = relu(t[TENSOR_Y][i]);
    }
    for (int64_t k = 0; t[TENSOR_SUM] && k < z->k; k++) {
        t[TENSOR_SUM][k] = over_channel(t[TENSOR_Y], NULL, v->count[TENSOR_Y], z->k, k);
        t[TENSOR_SQUARE_SUM][k] =
            over_channel(t[TENSOR_Y], t[TENSOR_Y], v->count[TENSOR_Y], z->k, k);
    }
    for (int64_t c = 0; pattern == PATTERN_DGRAD_DRELU_DBN && c < z->c; c++) {
        double terms[3];
        for (int64_t i = c; i < v->count[TENSOR_DX]; i += z->c)
            if (normalised(t, i, c) * t[TENSOR_SCALE][c] + t[TENSOR_BIAS][c] <= 0)
                t[TENSOR_DX][i] = 0;
        plain_bn_weights(t, t[TENSOR_DX], v->count[TENSOR_DX], z->c, c, terms);
        t[TENSOR_EQ_DY][c] = terms[0];
        t[TENSOR_EQ_X][c] = terms[1];
        t[TENSOR_EQ_DBIAS][c] = terms[2];
    }
}

static void expect_bn_backward(enum pattern pattern, const struct sizes *z, const struct values *v)
{
    double *const *t = v->at;
    CLEANUP(memory_free) double *dy = NULL;
    int64_t count = v->count[TENSOR_X];
    assert_ok(memory_alloc((size_t)count, sizeof *dy, &dy));
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i % z->c;
        bool passes = true;
        if (pattern == PATTERN_BN_RELU_BACKWARD)
            passes = normalised(t, i, c) * t[TENSOR_SCALE][c] + t[TENSOR_BIAS][c] > 0;
        if (pattern == PATTERN_BN_ADD_RELU_BACKWARD)
            passes = t[TENSOR_MASK][i] > 0;
        dy[i] = passes ? t[TENSOR_DY][i] : 0;
        if (t[TENSOR_DZ])
            t[TENSOR_DZ][i] = dy[i];
    }
    plain_bn_backward(t, dy, count, z->c);
}

static void expect_finalize(const struct sizes *z, const struct values *v)
{
    double *const *t = v->at;
    for (int64_t c = 0; c < z->c; c++) {
        double count = (double)(z->n * z->h * z->w);
        double mean = t[TENSOR_SUM][c] / count;
        double variance = t[TENSOR_SQUARE_SUM][c] / count - mean * mean;
        t[TENSOR_MEAN][c] = mean;
        t[TENSOR_INVSTD][c] = 1 / sqrt(variance + BN_EPSILON);
        t[TENSOR_EQ_SCALE][c] = t[TENSOR_SCALE][c] * t[TENSOR_INVSTD][c];
        t[TENSOR_EQ_BIAS][c] = t[TENSOR_BIAS][c] - mean * t[TENSOR_EQ_SCALE][c];
        plain_running(t, c, mean, variance, count);
    }
}

/* By element: y, or dx, of one element of channel c. */
static double expect_element(enum pattern pattern, double *const *t, int64_t i, int64_t c)
{
    switch (pattern) {
    case PATTERN_RELU_BACKWARD:
        return t[TENSOR_Y][i] > 0 ? t[TENSOR_DY][i] : 0;
    case PATTERN_DBN_APPLY:
        return t[TENSOR_DY][i] * t[TENSOR_EQ_DY][c] + t[TENSOR_X][i] * t[TENSOR_EQ_X][c] +
               t[TENSOR_EQ_DBIAS][c];
    default:
        break;
    }
    double y = t[TENSOR_X][i] * t[TENSOR_EQ_SCALE][c] + t[TENSOR_EQ_BIAS][c];
    if (pattern == PATTERN_SCALE_BIAS_ADD_RELU)
        y += t[TENSOR_Z][i];
    if (pattern == PATTERN_SCALE_BIAS_DUAL_ADD_RELU)
        y += t[TENSOR_Z][i] * t[TENSOR_Z_SCALE][c] + t[TENSOR_Z_BIAS][c];
    return relu(y);
}

static void expect_avg_pool(enum pattern pattern, const struct sizes *z, const struct values *v)
{
    double *const *t = v->at;
    const bool forward = pattern == PATTERN_AVG_POOL;
    for (int64_t i = 0; i < z->n * z->h * z->w * z->c; i++) {
        int64_t out = i / z->c / (z->h * z->w) * z->c + i % z->c;
        if (forward)
            t[TENSOR_Y][out] += t[TENSOR_X][i] / (double)(z->h * z->w);
        else
            t[TENSOR_DX][i] = t[TENSOR_DY][out] / (double)(z->h * z->w);
    }
}

/* Computes what is written from what is read. */
static void expect(enum pattern pattern, const struct pattern_shape *shape, struct values *v)
{
    const struct sizes z = sizes_of(shape);
    double *const *t = v->at;
    CLEANUP(memory_free) double *index = NULL;
    switch (pattern) {
    case PATTERN_BN:
    case PATTERN_BN_RELU:
    case PATTERN_BN_ADD_RELU:
        plain_bn(t, v->count[TENSOR_X], z.c);
        for (int64_t i = 0; pattern != PATTERN_BN && i < v->count[TENSOR_Y]; i++)
            t[TENSOR_Y][i] = relu(t[TENSOR_Y][i] + (t[TENSOR_Z] ? t[TENSOR_Z][i] : 0));
        for (int64_t i = 0; t[TENSOR_MASK] && i < v->count[TENSOR_Y]; i++)
            t[TENSOR_MASK][i] = t[TENSOR_Y][i] > 0;
        return;
    case PATTERN_BN_BACKWARD:
    case PATTERN_BN_RELU_BACKWARD:
    case PATTERN_BN_ADD_RELU_BACKWARD:
        expect_bn_backward(pattern, &z, v);
        return;
    case PATTERN_RELU_BACKWARD:
    case PATTERN_DBN_APPLY:
        for (int64_t i = 0; i < v->count[TENSOR_DX]; i++)
            t[TENSOR_DX][i] = expect_element(pattern, t, i, i % z.c);
        return;
    case PATTERN_SCALE_BIAS_RELU:
    case PATTERN_SCALE_BIAS_ADD_RELU:
    case PATTERN_SCALE_BIAS_DUAL_ADD_RELU:
        for (int64_t i = 0; i < v->count[TENSOR_Y]; i++)
            t[TENSOR_Y][i] = expect_element(pattern, t, i, i % z.c);
        return;
    case PATTERN_MAX_POOL:
    case PATTERN_MAX_POOL_INDEX:
        assert_ok(memory_alloc((size_t)v->count[TENSOR_Y], sizeof *index, &index));
        plain_max_pool(&z, t[TENSOR_X], t[TENSOR_Y], t[TENSOR_INDEX] ? t[TENSOR_INDEX] : index);
        return;
    case PATTERN_MAX_POOL_BACKWARD:
        plain_max_pool_backward(&z, t[TENSOR_DY], t[TENSOR_INDEX], t[TENSOR_DX]);
        return;
    case PATTERN_AVG_POOL:
    case PATTERN_AVG_POOL_BACKWARD:
        expect_avg_pool(pattern, &z, v);
        return;
    case PATTERN_BN_FINALIZE:
        expect_finalize(&z, v);
        return;
    default:
        expect_conv(pattern, &z, v);
    }
}

/* --- Running a pattern ------------------------------------------------------------------------ */

static struct planner_config stand_in(cudnnHandle_t handle, enum train_dtype dtype)
{
    return (struct planner_config){.handle = handle,
                                   .device_name = "a stand-in",
                                   .dtype = dtype,
                                   .workspace_limit = 1 << 20};
}

static size_t type_size(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT                                 ? 4
           : type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2
                                                                    : 1;
}

static void element_store(cudnnDataType_t type, uint8_t *bytes, double value)
{
    float f = (float)value;
    _Float16 half = (_Float16)f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits >>= 16; /* towards zero: the value is rounded by this */
    if (type == CUDNN_DATA_FLOAT)
        memcpy(bytes, &f, sizeof f);
    else if (type == CUDNN_DATA_HALF)
        memcpy(bytes, &half, sizeof half);
    else if (type == CUDNN_DATA_BFLOAT16)
        memcpy(bytes, &bits, 2);
    else
        *(int8_t *)bytes = (int8_t)value;
}

static double element_load(cudnnDataType_t type, const uint8_t *bytes)
{
    float f;
    _Float16 half;
    uint32_t bits = 0;
    if (type == CUDNN_DATA_FLOAT) {
        memcpy(&f, bytes, sizeof f);
        return f;
    }
    if (type == CUDNN_DATA_HALF) {
        memcpy(&half, bytes, sizeof half);
        return (double)half;
    }
    if (type != CUDNN_DATA_BFLOAT16)
        return *(const int8_t *)bytes;
    memcpy((uint8_t *)&bits + 2, bytes, 2);
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* What a tensor may hold. */
static double draw(enum plan_tensor tensor, const struct pattern_shape *shape,
                   struct random_stream *random)
{
    double elements = (double)(shape->batch * shape->height * shape->width);
    switch (tensor) {
    case TENSOR_MASK:
        return (double)random_below(random, 2);
    case TENSOR_INDEX: /* the middle of a window always lies within the input */
        return (double)(shape->kernel * (shape->kernel / 2) + shape->kernel / 2);
    case TENSOR_INVSTD:
    case TENSOR_RUNNING_VAR:
        return .5 + random_double(random);
    case TENSOR_SUM:
        return elements * random_double(random);
    case TENSOR_SQUARE_SUM:
        return elements * (1.5 + random_double(random));
    default:
        return random_normal(random);
    }
}

/* A pattern's tensors on the device and, as far as they are read, on the host. */
struct trial {
    struct cudnn_plan *plan;
    struct values values;
    struct plan_pointers pointers;
    void *workspace;
};

static void trial_done(struct trial *trial)
{
    for (unsigned i = 0; i < TENSOR_COUNT; i++)
        cudaFree(trial->pointers.at[i]);
    cudaFree(trial->workspace);
    cudnn_plan_close(trial->plan);
    values_done(&trial->values);
}
CLEANUP_VALUE(trial_done, struct trial)

static void trial_open(struct planner *planner, enum pattern pattern,
                       const struct pattern_shape *shape, uint64_t seed, struct trial *trial)
{
    struct random_stream random = random_stream_make(seed, RANDOM_TEST, pattern, 0);
    assert_ok(cudnn_plan_open(planner, pattern, shape, &trial->plan));
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        const struct plan_layout *layout = cudnn_plan_layout(trial->plan, i);
        CLEANUP(memory_free) uint8_t *bytes = NULL;
        if (layout->bytes == 0)
            continue;
        size_t size = type_size(layout->type), count = (size_t)layout->bytes / size;
        trial->values.count[i] = (int64_t)count;
        assert_ok(memory_alloc(count, sizeof(double), &trial->values.at[i]));
        assert_ok(memory_alloc(count, size, &bytes));
        assert_int_equal(cudaMalloc(&trial->pointers.at[i], layout->bytes), cudaSuccess);
        if (layout->written)
            continue;
        for (size_t e = 0; e < count; e++) {
            element_store(layout->type, bytes + e * size, draw(i, shape, &random));
            trial->values.at[i][e] = element_load(layout->type, bytes + e * size);
        }
        assert_int_equal(cudaMemcpy(trial->pointers.at[i], bytes, layout->bytes,
                                    cudaMemcpyHostToDevice),
                         cudaSuccess);
    }
    assert_int_equal(cudaMalloc(&trial->workspace, cudnn_plan_workspace(trial->plan)), cudaSuccess);
}

/* Holds what was written against what is expected: to a rounding of the type, and of the sums
 * within where they are rounded. */
static void trial_compare(const struct trial *trial, double tolerance)
{
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        const struct plan_layout *layout = cudnn_plan_layout(trial->plan, i);
        const double *expected = trial->values.at[i];
        CLEANUP(memory_free) uint8_t *bytes = NULL;
        double square_sum = 0, size = 0;
        if (!layout->written)
            continue;
        assert_ok(memory_alloc((size_t)layout->bytes, 1, &bytes));
        assert_int_equal(cudaMemcpy(bytes, trial->pointers.at[i], layout->bytes,
                                    cudaMemcpyDeviceToHost),
                         cudaSuccess);
        for (int64_t e = 0; e < trial->values.count[i]; e++)
            square_sum += expected[e] * expected[e];
        size = sqrt(square_sum / (double)trial->values.count[i]);
        for (int64_t e = 0; e < trial->values.count[i]; e++) {
            double got = element_load(layout->type, bytes + (size_t)e * type_size(layout->type));
            if (!(fabs(got - expected[e]) <= tolerance * (fabs(expected[e]) + size)))
                fail_msg("%s: %s[%lld] is %g, expected %g", cudnn_plan_tag(trial->plan),
                         plan_tensor_names[i], (long long)e, got, expected[e]);
        }
    }
}

/* --- Every pattern, type and a few layers ----------------------------------------------------- */

enum { CONV_LAYERS = 4 };
static const struct pattern_shape conv_layers[CONV_LAYERS] = {
    {.batch = 2,
     .height = 6,
     .width = 5,
     .in = 4,
     .out = 6,
     .kernel = 3,
     .stride = 1,
     .padding = 1},
    {.batch = 3,
     .height = 7,
     .width = 8,
     .in = 2,
     .out = 4,
     .kernel = 3,
     .stride = 2,
     .padding = 1},
    {.batch = 2, .height = 5, .width = 4, .in = 6, .out = 2, .kernel = 1, .stride = 2},
    {.batch = 1,
     .height = 9,
     .width = 9,
     .in = 4,
     .out = 2,
     .kernel = 7,
     .stride = 2,
     .padding = 3},
};
static const struct pattern_shape pool_layer = {
    .batch = 2, .height = 8, .width = 6, .in = 3, .kernel = 3, .stride = 2, .padding = 1};
static const struct pattern_shape whole_layer = {
    .batch = 3, .height = 4, .width = 5, .in = 6, .kernel = 1, .stride = 1};
static const struct pattern_shape fc_layer = {
    .batch = 4, .height = 1, .width = 1, .in = 6, .out = 10, .kernel = 1, .stride = 1};

/* The i-th layer to try a pattern on; NULL: no more. */
static const struct pattern_shape *pattern_layer(enum pattern pattern, size_t i)
{
    switch (pattern_node(pattern)) {
    case NODE_CONV:
        return i < CONV_LAYERS ? &conv_layers[i] : NULL;
    case NODE_MAX_POOL:
        return i == 0 ? &pool_layer : NULL;
    case NODE_FC:
        return i == 0 ? &fc_layer : NULL;
    default:
        return i == 0 ? &whole_layer : NULL;
    }
}

static void check_type(enum train_dtype dtype, double tolerance)
{
    CLEANUP(planner_close) struct planner *planner = NULL;
    cudnnHandle_t handle;
    assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    struct planner_config config = stand_in(handle, dtype);
    assert_ok(planner_open(&config, &planner));
    for (unsigned p = 0; p < PATTERN_COUNT; p++)
        for (size_t i = 0; pattern_layer(p, i); i++) {
            CLEANUP(trial_done) struct trial trial = {0};
            struct cudnn_plan *none = NULL;
            const struct pattern_shape *shape = pattern_layer(p, i);
            if (pattern_is_missing(p, dtype)) {
                assert_fails(cudnn_plan_open(planner, p, shape, &none), STATUS_UNSUPPORTED,
                             pattern_names[p]);
                continue;
            }
            trial_open(planner, p, shape, i, &trial);
            assert_ok(cudnn_plan_execute(trial.plan, handle, &trial.pointers, trial.workspace));
            assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
            expect(p, shape, &trial.values);
            trial_compare(&trial, tolerance);
        }
    cudnnDestroy(handle);
}

static void test_patterns_f32(void **state)
{
    (void)state;
    check_type(DTYPE_F32, 2e-6);
    check_type(DTYPE_TF32, 2e-6);
}

static void test_patterns_fp16(void **state)
{
    (void)state;
    check_type(DTYPE_FP16, 0x1p-10);
}

static void test_patterns_bf16(void **state)
{
    (void)state;
    check_type(DTYPE_BF16, 0x1p-7);
}

/* --- Which engine is taken -------------------------------------------------------------------- */

static void assert_engine(const struct planner_config *config, const char *engine)
{
    CLEANUP(planner_close) struct planner *planner = NULL;
    CLEANUP(cudnn_plan_close) struct cudnn_plan *plan = NULL;
    assert_ok(planner_open(config, &planner));
    assert_ok(cudnn_plan_open(planner, PATTERN_CONV_WGRAD, &conv_layers[0], &plan));
    if (!strstr(cudnn_plan_tag(plan), engine))
        fail_msg("%s instead of %s", cudnn_plan_tag(plan), engine);
}

/* The stand-in's engine 0 is not deterministic, its engine 1 uses tensor cores, and each next one
 * needs less workspace: 4096, 2048, 512 bytes. */
static void test_engines(void **state)
{
    (void)state;
    cudnnHandle_t handle;
    assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    struct planner_config config = stand_in(handle, DTYPE_FP16);
    assert_engine(&config, "engine 0, workspace 4096");
    config.deterministic = true;
    assert_engine(&config, "engine 1");
    config.dtype = DTYPE_F32;
    config.deterministic = false;
    assert_engine(&config, "engine 2");
    config.dtype = DTYPE_FP16;
    config.workspace_limit = 2048;
    assert_engine(&config, "engine 1");
    config.workspace_limit = 1 << 20;
    config.tune = true;
    assert_engine(&config, ": engine "); /* any, but it was executed */
    /* A plan that was not timed does not serve where timed ones are asked for; a timed one always
     * does. */
    config.tune = false;
    config.cache_folder = test_path("plans");
    assert_engine(&config, ": engine 0");
    assert_engine(&config, "from the cache");
    config.tune = true;
    assert_engine(&config, ": engine ");
    assert_engine(&config, "from the cache");
    config.tune = false;
    assert_engine(&config, "from the cache");
    config.deterministic = true;
    assert_engine(&config, ": engine 1");
    cudnnDestroy(handle);
}

static void test_refused_operations(void **state)
{
    (void)state;
    CLEANUP(planner_close) struct planner *planner = NULL;
    CLEANUP(cudnn_plan_close) struct cudnn_plan *plan = NULL;
    cudnnHandle_t handle;
    assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    struct planner_config config = stand_in(handle, DTYPE_FP16);
    assert_ok(planner_open(&config, &planner));
    cudnn_standin_refuse(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    assert_fails(cudnn_plan_open(planner, PATTERN_CONV_STATS, &conv_layers[0], &plan),
                 STATUS_UNSUPPORTED, "no engine");
    cudnn_standin_refuse(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    assert_ok(cudnn_plan_open(planner, PATTERN_CONV_STATS, &conv_layers[0], &plan));
    cudnnDestroy(handle);
}

/* --- Executing -------------------------------------------------------------------------------- */

static void test_pointers(void **state)
{
    (void)state;
    CLEANUP(planner_close) struct planner *planner = NULL;
    CLEANUP(trial_done) struct trial trial = {0};
    cudnnHandle_t handle;
    assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    struct planner_config config = stand_in(handle, DTYPE_FP16);
    assert_ok(planner_open(&config, &planner));
    trial_open(planner, PATTERN_BN_RELU, &whole_layer, 0, &trial);
    struct plan_pointers pointers = trial.pointers;
    pointers.at[TENSOR_INVSTD] = NULL;
    assert_fails(cudnn_plan_execute(trial.plan, handle, &pointers, trial.workspace), STATUS_FAILED,
                 "no memory was given for invstd");
    pointers.at[TENSOR_INVSTD] = &pointers;
    assert_fails(cudnn_plan_execute(trial.plan, handle, &pointers, trial.workspace), STATUS_FAILED,
                 "cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM: tensor");
    pointers = trial.pointers;
    pointers.at[TENSOR_Y] = pointers.at[TENSOR_X];
    assert_fails(cudnn_plan_execute(trial.plan, handle, &pointers, trial.workspace), STATUS_FAILED,
                 "lies on");
    assert_fails(cudnn_plan_execute(trial.plan, handle, &trial.pointers, NULL), STATUS_FAILED,
                 "the workspace");
    cudnnDestroy(handle);
}

/* Captured, running statistics in place: they move once a launch, when it is launched. */
static void test_capture(void **state)
{
    (void)state;
    CLEANUP(planner_close) struct planner *planner = NULL;
    CLEANUP(trial_done) struct trial trial = {0};
    cudnnHandle_t handle;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    float before[8], after[8];
    assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    cudnnSetStream(handle, stream);
    struct planner_config config = stand_in(handle, DTYPE_FP16);
    assert_ok(planner_open(&config, &planner));
    trial_open(planner, PATTERN_BN, &whole_layer, 0, &trial);
    struct plan_pointers pointers = trial.pointers;
    pointers.at[TENSOR_NEXT_RUNNING_MEAN] = pointers.at[TENSOR_RUNNING_MEAN];
    pointers.at[TENSOR_NEXT_RUNNING_VAR] = pointers.at[TENSOR_RUNNING_VAR];
    const size_t bytes = (size_t)whole_layer.in * sizeof(float);
    cudaMemcpy(before, pointers.at[TENSOR_RUNNING_MEAN], bytes, cudaMemcpyDeviceToHost);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    assert_ok(cudnn_plan_execute(trial.plan, handle, &pointers, trial.workspace));
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(cudaGraphLaunch(executable, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    cudaMemcpy(after, pointers.at[TENSOR_RUNNING_MEAN], bytes, cudaMemcpyDeviceToHost);
    expect(PATTERN_BN, &whole_layer, &trial.values);
    for (int64_t c = 0; c < whole_layer.in; c++) {
        double expected = before[c];
        for (unsigned i = 0; i < 3; i++)
            expected += BN_MOMENTUM * (trial.values.at[TENSOR_MEAN][c] - expected);
        assert_float_equal(after[c], expected, 1e-5);
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudnnDestroy(handle);
}

static int start(void **state)
{
    (void)state;
    standin_reset(NULL);
    return 0;
}

static int assert_no_leaks(void **state)
{
    (void)state;
    assert_int_equal(cudnn_standin_leaks(), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_patterns_f32, start, assert_no_leaks),
        cmocka_unit_test_setup_teardown(test_patterns_fp16, start, assert_no_leaks),
        cmocka_unit_test_setup_teardown(test_patterns_bf16, start, assert_no_leaks),
        cmocka_unit_test_setup_teardown(test_engines, start, assert_no_leaks),
        cmocka_unit_test_setup_teardown(test_refused_operations, start, assert_no_leaks),
        cmocka_unit_test_setup_teardown(test_pointers, start, assert_no_leaks),
        cmocka_unit_test_setup_teardown(test_capture, start, assert_no_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
