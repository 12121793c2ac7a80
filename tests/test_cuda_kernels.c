#include "tests/test.h"

#include "base/random.h"
#include "image/tensor.h"
#include "tests/cuda/gpu_memory.h"
#include "train/reference/ops.h"

/* The CUDA backend's own kernels against plain computations in double and the reference backend's
 * operations. Linked with the runtime's stand-in, or with CUDA to run on a GPU (make gpu-tests). */

static const enum kernel_type types[] = {KERNEL_F32, KERNEL_F16, KERNEL_BF16};
static const size_t counts[] = {0, 1, 3, 4, 5, 1023, 4097};
enum { COUNT_MAX = 4097 };

static struct random_stream stream_of(uint64_t seed)
{
    return random_stream_make(seed, RANDOM_TEST, 0, 0);
}

static float normal(struct random_stream *stream)
{
    return (float)random_normal(stream);
}

/* --- Input
 * ----------------------------------------------------------------------------------------- */

static const enum tensor_type tensor_types[] = {TENSOR_F32, TENSOR_F16, TENSOR_BF16};

enum { IMAGE_MAX = 64 * 64 * 3 };

static void image_write(const uint8_t *pixels, uint32_t height, uint32_t width,
                        enum tensor_type type, void *ret_image)
{
    struct tensor_format format = tensor_format_imagenet;
    const struct picture picture = {.width = width,
                                    .height = height,
                                    .stride_bytes = (size_t)width * 3,
                                    .pixels = (uint8_t *)pixels};
    format.type = type;
    tensor_write(&format, &picture, false, ret_image);
}

/* One image of the batch, from `out` (height, width, 4), against image/tensor.h: bit for bit, or
 * where it is mixed with `other` within its rounding. */
static void check_image(const uint8_t *pixels, const uint8_t *other, float mixed_in,
                        uint32_t height, uint32_t width, enum kernel_type type, const char *out)
{
    static float own[IMAGE_MAX], theirs[IMAGE_MAX];
    static char wanted[IMAGE_MAX * sizeof(float)];
    const size_t element = type_bytes(type);
    image_write(pixels, height, width, tensor_types[type], wanted);
    image_write(pixels, height, width, TENSOR_F32, own);
    image_write(other, height, width, TENSOR_F32, theirs);
    for (size_t i = 0; i < (size_t)width * height; i++) {
        const char *pixel = out + 4 * i * element;
        if (pixels == other)
            assert_memory_equal(pixel, wanted + 3 * i * element, 3 * element);
        for (size_t c = 0; c < 3; c++)
            assert_near(element_get(type, pixel, c),
                        (1 - (double)mixed_in) * (double)own[3 * i + c] +
                            (double)mixed_in * (double)theirs[3 * i + c],
                        type_rounding(type) * 1.01, 1e-6);
        assert_true(element_get(type, pixel, 3) == 0);
    }
}

/* Every fourth image has no label, so that its pair stays as it is. */
static void check_input(uint32_t batch, uint32_t height, uint32_t width, enum kernel_type type,
                        float mixed_in)
{
    struct random_stream random = stream_of(height);
    const struct step_header header = {.mixed_in = mixed_in};
    const size_t image = (size_t)height * width * 3;
    const size_t bytes = batch * image / 3 * 4 * type_bytes(type);
    uint8_t *pixels = test_malloc(batch * image + PICTURE_PADDING);
    char *out = test_malloc(bytes);
    int32_t labels[8];
    for (size_t i = 0; i < batch * image; i++)
        pixels[i] = (uint8_t)random_u32(&random);
    for (size_t i = 0; i < batch; i++)
        labels[i] = i % 4 == 3 ? -1 : 7;
    struct input_shape shape = {batch, height, width, {0}, {0}};
    memcpy(shape.mean, tensor_format_imagenet.mean, sizeof shape.mean);
    memcpy(shape.std, tensor_format_imagenet.std, sizeof shape.std);
    void *images = gpu_alloc(bytes);
    assert_cuda(kernel_input(&shape, gpu_copy(pixels, batch * image),
                             gpu_copy(&header, sizeof header),
                             gpu_copy(labels, batch * sizeof *labels), type, images, gpu_stream()));
    gpu_read(images, out, bytes);
    for (size_t i = 0; i < batch; i++) {
        const bool mixes = mixed_in > 0 && i % 4 < 2;
        check_image(pixels + i * image, pixels + (mixes ? i ^ 1 : i) * image, mixed_in, height,
                    width, type, out + i * bytes / batch);
    }
    test_free(pixels);
    test_free(out);
    gpu_free_all();
}

static void test_input(void **state)
{
    (void)state;
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++) {
        check_input(1, 1, 1, types[t], 0);
        check_input(3, 5, 7, types[t], 0);
        check_input(2, 33, 64, types[t], .5f);
        check_input(6, 5, 7, types[t], .3f);
    }
}

/* --- Loss
 * ------------------------------------------------------------------------------------------ */

struct loss_case {
    uint32_t batch, classes, columns;
    float smoothing;
    enum kernel_type logits_type, gradient_type;
    float scale, divisor;
    bool evaluation; /* no gradient, no state */
    float mixed_in;  /* with an even batch */
};

struct loss_data {
    float *logits, *gradient; /* gradient: the reference's, of the sum */
    int32_t *labels;
    struct loss_sums sums;
};

/* Logits that all types hold, with many ties; every seventh label is −1. */
static struct loss_data loss_data_make(const struct loss_case *it)
{
    struct random_stream random = stream_of(it->classes);
    const size_t count = (size_t)it->batch * it->classes;
    struct loss_data data = {
        .logits = test_malloc(count * sizeof(float) + 1),
        .gradient = test_malloc(count * sizeof(float) + 1),
        .labels = test_malloc(it->batch * sizeof(int32_t) + 1),
    };
    for (size_t i = 0; i < count; i++)
        data.logits[i] = (float)random_below(&random, 33) / 4 - 4;
    for (uint32_t i = 0; i < it->batch; i++)
        data.labels[i] = i % 7 == 3 ? -1 : (int32_t)random_below(&random, it->classes);
    reference_loss(it->batch, it->classes, data.logits, data.labels, it->smoothing, it->mixed_in, 1,
                   data.gradient, &data.sums);
    return data;
}

static void loss_data_free(struct loss_data *data)
{
    test_free(data->logits);
    test_free(data->gradient);
    test_free(data->labels);
}

/* (batch, classes) as (batch, columns) of a type; what is beyond the classes must not be seen. */
static void *columns_copy(const struct loss_case *it, const float *logits)
{
    void *padded = test_malloc((size_t)it->batch * it->columns * sizeof(float) + 1);
    for (size_t n = 0; n < it->batch; n++)
        for (size_t c = 0; c < it->columns; c++)
            element_put(it->logits_type, padded, n * it->columns + c,
                        c < it->classes ? logits[n * it->classes + c] : 1e4f);
    void *copy = gpu_copy(padded, (size_t)it->batch * it->columns * type_bytes(it->logits_type));
    test_free(padded);
    return copy;
}

static void check_gradient(const struct loss_case *it, const struct loss_data *data,
                           const void *device)
{
    const size_t bytes = (size_t)it->batch * it->columns * type_bytes(it->gradient_type);
    void *gradient = test_malloc(bytes + 1);
    const double weight = it->divisor > 0 ? it->scale / it->divisor : 0;
    gpu_read(device, gradient, bytes);
    for (size_t n = 0; n < it->batch; n++)
        for (size_t c = 0; c < it->columns; c++) {
            double wanted = c < it->classes ? data->gradient[n * it->classes + c] * weight : 0;
            double got = element_get(it->gradient_type, gradient, n * it->columns + c);
            assert_near(got, wanted, type_rounding(it->gradient_type) * 1.01, 2e-7 * weight);
        }
    test_free(gradient);
}

static void check_entry(const struct loss_case *it, const struct loss_sums *sums,
                        const struct kernel_metrics *entry)
{
    assert_near(entry->loss_sum, sums->loss, 1e-6, 1e-5);
    assert_int_equal(entry->top1, sums->top1);
    assert_int_equal(entry->top5, sums->top5);
    assert_int_equal(entry->count, sums->count);
    assert_int_equal(entry->completes, !it->evaluation);
    assert_int_equal(entry->applied, 0);
    assert_true(entry->loss_scale == (it->evaluation ? 1 : it->scale));
    assert_true(entry->learning_rate == (it->evaluation ? 0 : .25f));
}

/* Twice into one ring, whose counter is about to wrap. */
static void check_loss(const struct loss_case *it)
{
    static struct kernel_ring ring;
    struct loss_data data = loss_data_make(it);
    const struct step_header header = {it->divisor, 1, it->mixed_in};
    struct update_state state = {.loss_scale = it->scale,
                                 .learning_rate = .25f,
                                 .found = KERNEL_NO_SEGMENT};
    ring = (struct kernel_ring){.written = 3 * KERNEL_RING - 1};
    struct kernel_ring *device_ring = gpu_copy(&ring, sizeof ring);
    struct loss_call call = {
        .batch = it->batch,
        .classes = it->classes,
        .columns = it->columns,
        .smoothing = it->smoothing,
        .logits_type = it->logits_type,
        .gradient_type = it->gradient_type,
        .logits = columns_copy(it, data.logits),
        .labels = gpu_copy(data.labels, it->batch * sizeof(int32_t)),
        .header = gpu_copy(&header, sizeof header),
        .ring = device_ring,
        .workspace = gpu_alloc(kernel_loss_workspace_bytes(it->batch)),
    };
    if (!it->evaluation) {
        call.gradient = gpu_alloc((size_t)it->batch * it->columns * type_bytes(it->gradient_type));
        call.state = gpu_copy(&state, sizeof state);
    }
    assert_cuda(kernel_loss(&call, gpu_stream()));
    assert_cuda(kernel_loss(&call, gpu_stream()));
    gpu_read(device_ring, &ring, sizeof ring);
    assert_int_equal(ring.written, 3 * KERNEL_RING + 1);
    check_entry(it, &data.sums, &ring.entries[KERNEL_RING - 1]);
    assert_memory_equal(&ring.entries[0], &ring.entries[KERNEL_RING - 1], sizeof ring.entries[0]);
    if (!it->evaluation) {
        check_gradient(it, &data, call.gradient);
        gpu_read(call.state, &state, sizeof state);
        assert_ptr_equal(state.last, &device_ring->entries[0]);
    }
    loss_data_free(&data);
    gpu_free_all();
}

static void test_loss(void **state)
{
    (void)state;
    static const struct loss_case cases[] = {
        {1, 2, 8, 0, KERNEL_F32, KERNEL_F32, 1, 1, false, 0},
        {37, 10, 16, .1f, KERNEL_F32, KERNEL_F16, 128, 32, false, 0},
        {9, 1000, 1000, .1f, KERNEL_F32, KERNEL_F32, 1, 256, false, 0},
        {9, 1000, 1008, 0, KERNEL_F32, KERNEL_BF16, 65536, 9, false, 0},
        {5, 257, 264, .1f, KERNEL_F16, KERNEL_F16, 1, 5, false, 0},
        {5, 5, 5, 0, KERNEL_BF16, KERNEL_BF16, 1, 5, false, 0},
        {300, 3, 8, 0, KERNEL_F32, KERNEL_F32, 1, 0, false, 0},
        {11, 1000, 1000, 0, KERNEL_F32, KERNEL_F32, 1, 1, true, 0},
        {0, 10, 16, 0, KERNEL_F32, KERNEL_F32, 4, 1, false, 0},
        {38, 10, 16, .1f, KERNEL_F32, KERNEL_F16, 128, 32, false, .25f},
        {8, 1000, 1008, 0, KERNEL_F32, KERNEL_F32, 1, 8, false, .5f},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        check_loss(&cases[i]);
}

/* One row's loss and ranks. */
static struct kernel_metrics loss_of_row(const float *row, uint32_t classes, int32_t label,
                                         float smoothing)
{
    static struct kernel_ring ring;
    const struct step_header header = {.divisor = 1};
    ring = (struct kernel_ring){0};
    struct kernel_ring *device_ring = gpu_copy(&ring, sizeof ring);
    const struct loss_call call = {
        .batch = 1,
        .classes = classes,
        .columns = classes,
        .smoothing = smoothing,
        .logits = gpu_copy(row, classes * sizeof *row),
        .labels = gpu_copy(&label, sizeof label),
        .header = gpu_copy(&header, sizeof header),
        .ring = device_ring,
        .workspace = gpu_alloc(kernel_loss_workspace_bytes(1)),
    };
    assert_cuda(kernel_loss(&call, gpu_stream()));
    gpu_read(device_ring, &ring, sizeof ring);
    gpu_free_all();
    return ring.entries[0];
}

static void test_loss_beyond_numbers(void **state)
{
    (void)state;
    static const float rows[][6] = {
        {1, -INFINITY, 2, 0, 1, 1},  {1, INFINITY, 2, 0, 1, 1},
        {1, NAN, 2, 0, 1, 1},        {NAN, NAN, NAN, NAN, NAN, NAN},
        {3e37f, -3e37f, 0, 0, 0, 0}, {-INFINITY, -INFINITY, -INFINITY, 0, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        for (int32_t label = 0; label < 6; label++)
            for (int smooth = 0; smooth < 2; smooth++) {
                const float smoothing = smooth ? .1f : 0;
                struct loss_sums sums;
                reference_loss(1, 6, rows[i], &label, smoothing, 0, 1, NULL, &sums);
                struct kernel_metrics got = loss_of_row(rows[i], 6, label, smoothing);
                if (isfinite(sums.loss))
                    assert_near(got.loss_sum, sums.loss, 1e-6, 1e-6);
                else
                    assert_false(isfinite(got.loss_sum));
                assert_int_equal(isnan(got.loss_sum), isnan(sums.loss));
                assert_int_equal(got.top1, sums.top1);
                assert_int_equal(got.top5, sums.top5);
            }
}

/* --- Batch normalisation
 * --------------------------------------------------------------------------- */

enum { FOLD_ARENA = 4096 };
static const struct bn_fold folds[] = {
    {.weight = 0,
     .gamma = 600,
     .beta = 700,
     .mean = 800,
     .variance = 900,
     .channels = 37,
     .row = 9},
    {.weight = 1024,
     .gamma = 620 + 17,
     .beta = 740,
     .mean = 840,
     .variance = 940,
     .channels = 1,
     .row = 2050},
};

static void check_fold(const float *arena, enum kernel_type type, const void *weights,
                       const float *bias)
{
    for (size_t f = 0; f < ARRAY_LENGTH(folds); f++)
        for (size_t k = 0; k < folds[f].channels; k++) {
            double scale = arena[folds[f].gamma + k] / sqrt(arena[folds[f].variance + k] + 1e-5);
            assert_near(bias[folds[f].beta + k],
                        arena[folds[f].beta + k] - arena[folds[f].mean + k] * scale, 1e-6, 1e-6);
            for (size_t i = 0; i < folds[f].row; i++) {
                size_t at = folds[f].weight + k * folds[f].row + i;
                assert_near(element_get(type, weights, at), arena[at] * scale,
                            type_rounding(type) * 1.01 + 2e-7, 1e-7);
            }
        }
}

static void test_fold(void **state)
{
    (void)state;
    static float arena[FOLD_ARENA], weights[FOLD_ARENA], bias[FOLD_ARENA];
    struct random_stream random = stream_of(5);
    for (size_t i = 0; i < FOLD_ARENA; i++)
        arena[i] = normal(&random);
    for (size_t i = 900; i < 950; i++)
        arena[i] = fabsf(arena[i]);
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++) {
        const float *values = gpu_copy(arena, sizeof arena);
        const struct bn_fold *device_folds = gpu_copy(folds, sizeof folds);
        float *device_bias = gpu_copy(arena, sizeof arena);
        void *device_weights = gpu_alloc(FOLD_ARENA * type_bytes(types[t]));
        assert_cuda(kernel_fold(values, device_folds, ARRAY_LENGTH(folds), 1e-5f, types[t],
                                device_weights, device_bias, gpu_stream()));
        gpu_read(device_weights, weights, FOLD_ARENA * type_bytes(types[t]));
        gpu_read(device_bias, bias, sizeof bias);
        check_fold(arena, types[t], weights, bias);
        assert_true(bias[FOLD_ARENA - 1] == arena[FOLD_ARENA - 1]);
        gpu_free_all();
    }
}

/* A layer of two devices that have the same rows: what one of them computes is what one alone does,
 * when the sums are doubled in between. All arrays are by row or by channel, on the host. */
struct bn_bed {
    struct bn_layer layer;
    float x[COUNT_MAX], z[COUNT_MAX], dy[COUNT_MAX], y[COUNT_MAX];
    float gamma[64], beta[64], mean[64], variance[64];
};

static void bn_bed_make(struct bn_bed *bed, uint32_t rows, uint32_t channels, enum kernel_type type)
{
    struct random_stream random = stream_of(rows);
    float *const tensors[] = {bed->x, bed->z, bed->dy};
    const void *device[3];
    const size_t count = (size_t)rows * channels, bytes = count * type_bytes(type);
    static char typed[COUNT_MAX * sizeof(float)];
    for (size_t t = 0; t < ARRAY_LENGTH(tensors); t++) {
        for (size_t i = 0; i < count; i++) {
            tensors[t][i] = (float)rounded(type, normal(&random) + (t == 0 ? 3 : 0));
            element_put(type, typed, i, tensors[t][i]);
        }
        device[t] = gpu_copy(typed, bytes);
    }
    for (size_t c = 0; c < channels; c++) {
        bed->gamma[c] = 1 + normal(&random) / 4;
        bed->beta[c] = normal(&random) / 4;
        bed->mean[c] = 3 + normal(&random) / 4;
        bed->variance[c] = 1;
    }
    const size_t floats = channels * sizeof(float);
    bed->layer = (struct bn_layer){
        .rows = rows,
        .channels = channels,
        .all_rows = 2 * (uint64_t)rows,
        .epsilon = 1e-5f,
        .momentum = .1f,
        .relu = true,
        .type = type,
        .x = device[0],
        .z = device[1],
        .y = gpu_alloc(bytes),
        .gamma = gpu_copy(bed->gamma, floats),
        .beta = gpu_copy(bed->beta, floats),
        .running_mean = gpu_copy(bed->mean, floats),
        .running_var = gpu_copy(bed->variance, floats),
        .mean = gpu_alloc(floats),
        .invstd = gpu_alloc(floats),
        .sums = gpu_alloc(2 * floats),
        .workspace = gpu_alloc(kernel_bn_workspace_bytes(rows, channels)),
        .dy = device[2],
        .dx = gpu_alloc(bytes),
        .dz = gpu_alloc(bytes),
        .dgamma = gpu_alloc(floats),
        .dbeta = gpu_alloc(floats),
    };
}

static void bn_bed_run(const struct bn_layer *layer)
{
    assert_cuda(kernel_bn_sums(layer, gpu_stream()));
    assert_cuda(kernel_scale(layer->sums, 2, 2 * layer->channels, gpu_stream()));
    assert_cuda(kernel_bn_normalise(layer, gpu_stream()));
    assert_cuda(kernel_bn_backward_sums(layer, gpu_stream()));
    assert_cuda(kernel_scale(layer->sums, 2, 2 * layer->channels, gpu_stream()));
    assert_cuda(kernel_bn_propagate(layer, gpu_stream()));
}

/* One channel against the formulas in double. */
static void check_bn_channel(const struct bn_bed *bed, size_t c, const char *y, const char *dx,
                             const char *dz)
{
    const struct bn_layer *layer = &bed->layer;
    const double rows = layer->rows, rounding = 2 * type_rounding(layer->type);
    double mean = 0, variance = 0, sums[2] = {0}, wanted[2];
    float dgamma[64], dbeta[64], running[2][64];
    for (size_t i = c; i < layer->channels * (size_t)layer->rows; i += layer->channels)
        mean += bed->x[i] / rows;
    for (size_t i = c; i < layer->channels * (size_t)layer->rows; i += layer->channels)
        variance += (bed->x[i] - mean) * (bed->x[i] - mean) / rows;
    const double invstd = 1 / sqrt(variance + 1e-5);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = c; i < layer->channels * (size_t)layer->rows; i += layer->channels) {
            const double normal = (bed->x[i] - mean) * invstd, got = element_get(layer->type, y, i);
            const double g = got > 0 ? (double)bed->dy[i] : 0;
            if (pass == 0) {
                sums[0] += g;
                sums[1] += g * normal;
                continue;
            }
            wanted[0] = normal * (double)bed->gamma[c] + (double)bed->beta[c] + (double)bed->z[i];
            wanted[1] = (double)bed->gamma[c] * invstd * (g - (sums[0] + normal * sums[1]) / rows);
            assert_near(got, fmax(wanted[0], 0), rounding, 1e-5);
            assert_near(element_get(layer->type, dx, i), wanted[1], rounding, 1e-5);
            assert_true(element_get(layer->type, dz, i) == g);
        }
    gpu_read(layer->dgamma, dgamma, layer->channels * sizeof *dgamma);
    gpu_read(layer->dbeta, dbeta, layer->channels * sizeof *dbeta);
    gpu_read(layer->running_mean, running[0], layer->channels * sizeof **running);
    gpu_read(layer->running_var, running[1], layer->channels * sizeof **running);
    assert_near(dbeta[c], sums[0], 1e-5, 1e-5);
    assert_near(dgamma[c], sums[1], 1e-5, 1e-5);
    assert_near(running[0][c], .9 * (double)bed->mean[c] + .1 * mean, 1e-6, 0);
    assert_near(running[1][c], .9 + .1 * variance * 2 * rows / (2 * rows - 1), 1e-5, 0);
}

static void check_bn(uint32_t rows, uint32_t channels, enum kernel_type type)
{
    static struct bn_bed bed;
    static char y[COUNT_MAX * sizeof(float)], dx[sizeof y], dz[sizeof y];
    const size_t bytes = (size_t)rows * channels * type_bytes(type);
    bn_bed_make(&bed, rows, channels, type);
    bn_bed_run(&bed.layer);
    gpu_read(bed.layer.y, y, bytes);
    gpu_read(bed.layer.dx, dx, bytes);
    gpu_read(bed.layer.dz, dz, bytes);
    for (size_t c = 0; c < channels; c++)
        check_bn_channel(&bed, c, y, dx, dz);
    gpu_free_all();
}

static void test_bn(void **state)
{
    (void)state;
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++) {
        check_bn(9, 4, types[t]);
        check_bn(37, 36, types[t]);
        check_bn(1000, 4, types[t]);
        check_bn(64, 64, types[t]);
    }
    const struct bn_layer odd = {.rows = 2, .channels = 6};
    assert_cuda_fails(cudaErrorInvalidValue, kernel_bn_sums(&odd, gpu_stream()));
}

/* --- Arrays
 * ---------------------------------------------------------------------------------------- */

static float values[COUNT_MAX], more[COUNT_MAX], result[COUNT_MAX];

static void fill_randomly(uint64_t seed)
{
    struct random_stream random = stream_of(seed);
    for (size_t i = 0; i < COUNT_MAX; i++) {
        values[i] = normal(&random);
        more[i] = normal(&random);
    }
}

/* The first `count` of `more` in a type, on the device. */
static void *more_copy(enum kernel_type type, size_t count)
{
    static char typed[COUNT_MAX * sizeof(float)];
    for (size_t i = 0; i < count; i++)
        element_put(type, typed, i, more[i]);
    return gpu_copy(typed, count * type_bytes(type));
}

static void check_arrays(size_t count, enum kernel_type type)
{
    fill_randomly(count);
    float *sum = gpu_copy(values, sizeof values), *scaled = gpu_copy(values, sizeof values);
    assert_cuda(kernel_add(sum, type, more_copy(type, count), count, gpu_stream()));
    gpu_read(sum, result, sizeof result);
    for (size_t i = 0; i < COUNT_MAX; i++)
        assert_true(result[i] ==
                    (i < count ? values[i] + (float)rounded(type, more[i]) : values[i]));
    float *average = gpu_copy(values, sizeof values);
    for (int keeps = 0; keeps < 2; keeps++) {
        assert_cuda(kernel_average(average, keeps ? sum : gpu_copy(more, sizeof more),
                                   keeps ? .75f : 0, .25f, count, gpu_stream()));
        gpu_read(average, result, sizeof result);
        for (size_t i = 0; i < count; i++) {
            double fresh = (double)values[i] + (double)(float)rounded(type, more[i]);
            assert_near(result[i], keeps ? .75 * (double)more[i] + .25 * fresh : (double)more[i],
                        keeps ? 1e-6 : 0, keeps ? 1e-6 : 0);
        }
        assert_true(count == COUNT_MAX || result[count] == values[count]);
    }
    assert_cuda(kernel_scale(scaled, .3f, count, gpu_stream()));
    gpu_read(scaled, result, sizeof result);
    for (size_t i = 0; i < COUNT_MAX; i++)
        assert_true(result[i] == (i < count ? values[i] * .3f : values[i]));
    gpu_free_all();
}

static void test_arrays(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        for (size_t t = 0; t < ARRAY_LENGTH(types); t++)
            check_arrays(counts[i], types[t]);
}

/* Every value of 16 bits comes back from float, and floats are rounded as plain C rounds them. */
static void check_cast(enum kernel_type type)
{
    enum { ALL = 1 << 16 };
    static uint16_t halves[ALL], back[ALL];
    static float floats[ALL];
    struct random_stream random = stream_of(9);
    for (size_t i = 0; i < ALL; i++)
        halves[i] = (uint16_t)i;
    uint16_t *device_halves = gpu_copy(halves, sizeof halves);
    float *device_floats = gpu_alloc(sizeof floats);
    assert_cuda(kernel_cast(KERNEL_F32, device_floats, type, device_halves, ALL, gpu_stream()));
    gpu_read(device_floats, floats, sizeof floats);
    assert_cuda(kernel_cast(type, device_halves, KERNEL_F32, device_floats, ALL, gpu_stream()));
    gpu_read(device_halves, back, sizeof back);
    for (size_t i = 0; i < ALL; i++)
        assert_true(isnan(floats[i]) ||
                    (floats[i] == (float)element_get(type, halves, i) && back[i] == halves[i]));
    for (size_t i = 0; i < ALL; i++)
        floats[i] = ldexpf(normal(&random), (int)random_below(&random, 40) - 26);
    device_floats = gpu_copy(floats, sizeof floats);
    assert_cuda(kernel_cast(type, device_halves, KERNEL_F32, device_floats, ALL - 3, gpu_stream()));
    gpu_read(device_halves, back, sizeof back);
    for (size_t i = 0; i < ALL - 3; i++)
        assert_true(element_get(type, back, i) == rounded(type, floats[i]));
    gpu_free_all();
}

static void test_cast(void **state)
{
    (void)state;
    check_cast(KERNEL_F16);
    check_cast(KERNEL_BF16);
    assert_cuda_fails(cudaErrorInvalidValue,
                      kernel_cast((enum kernel_type)7, NULL, KERNEL_F32, NULL, 1, gpu_stream()));
}

static void check_columns(uint32_t rows, uint32_t columns, enum kernel_type type)
{
    const size_t count = (size_t)rows * columns;
    fill_randomly(count);
    void *x = more_copy(type, count);
    float *sums = gpu_copy(values, sizeof values);
    for (int adds = 0; adds < 2; adds++)
        assert_cuda(kernel_column_sums(type, x, rows, columns, adds, sums, gpu_stream()));
    gpu_read(sums, result, sizeof result);
    for (size_t c = 0; c < columns; c++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++)
            sum += rounded(type, more[r * columns + c]);
        assert_near(result[c], 2 * sum, 1e-5, 1e-5);
    }
    assert_true(result[columns] == values[columns]);
    gpu_free_all();
}

static void test_columns(void **state)
{
    (void)state;
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++) {
        check_columns(1, 1, types[t]);
        check_columns(37, 33, types[t]);
        check_columns(3, 1000, types[t]);
        check_columns(0, 5, types[t]);
    }
}

/* --- Blur
 * ------------------------------------------------------------------------------------------ */

static double blurred(const struct blur_shape *s, enum kernel_type type, size_t image, size_t row,
                      size_t column, size_t channel)
{
    static const double taps[3] = {.25, .5, .25};
    double sum = 0;
    for (size_t i = row > 0 ? 0 : 1; i < 3 && row + i < s->height + 1u; i++)
        for (size_t j = column > 0 ? 0 : 1; j < 3 && column + j < s->width + 1u; j++) {
            size_t pixel = (image * s->height + row + i - 1) * s->width + column + j - 1;
            sum += taps[i] * taps[j] * rounded(type, more[pixel * s->channels + channel]);
        }
    return sum;
}

/* Alone, then added to what is there. */
static void check_blur(const struct blur_shape *shape, enum kernel_type type)
{
    static char typed[COUNT_MAX * sizeof(float)];
    const size_t count = (size_t)shape->batch * shape->height * shape->width * shape->channels;
    assert_true(count <= COUNT_MAX);
    fill_randomly(count);
    void *x = more_copy(type, count), *y = gpu_alloc(count * type_bytes(type));
    for (int adds = 0; adds < 2; adds++) {
        assert_cuda(kernel_blur(shape, type, x, adds ? y : NULL, y, gpu_stream()));
        gpu_read(y, typed, count * type_bytes(type));
        for (size_t i = 0; i < count; i++) {
            size_t pixel = i / shape->channels, row = pixel / shape->width;
            double wanted = blurred(shape, type, row / shape->height, row % shape->height,
                                    pixel % shape->width, i % shape->channels);
            assert_near(element_get(type, typed, i), (1 + adds) * wanted, 3 * type_rounding(type),
                        1e-6);
        }
    }
    gpu_free_all();
}

static void test_blur(void **state)
{
    (void)state;
    static const struct blur_shape shapes[] = {
        {1, 1, 1, 4}, {2, 1, 5, 8}, {3, 7, 1, 4}, {2, 5, 6, 64}, {0, 5, 5, 4}};
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++)
        for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++)
            check_blur(&shapes[i], types[t]);
    const struct blur_shape odd = {1, 2, 2, 6};
    assert_cuda_fails(cudaErrorInvalidValue,
                      kernel_blur(&odd, KERNEL_F32, &odd, NULL, values, gpu_stream()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_loss_beyond_numbers),
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_bn),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_blur),
    };
    if (!gpu_is_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
