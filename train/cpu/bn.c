#include "train/cpu/bn.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Sums that a pass may need: Σ d, Σ d·(y − mean), and both for the shortcut. */
enum { BN_SUMS = 4 };

/* Parameters of a normalisation, from its first. */
enum { BN_GAMMA = 0, BN_BETA, BN_RUNNING_MEAN, BN_RUNNING_VAR };

struct status bn_sums_init(struct bn_sums *sums, const struct backend *backend,
                           uint32_t channels_max)
{
    *sums = (struct bn_sums){.backend = backend, .stride = channels_max};
    size_t count = (size_t)backend->threads * BN_SUMS * channels_max;
    TRY(memory_alloc_tensor(count * sizeof *sums->totals, &sums->totals));
    TRY(memory_alloc_tensor(count * sizeof *sums->partial, &sums->partial));
    return memory_alloc(2 * (size_t)channels_max, sizeof *sums->joined, &sums->joined);
}

void bn_sums_done(struct bn_sums *sums)
{
    memory_free(sums->totals);
    memory_free(sums->partial);
    memory_free(sums->joined);
}

static double *totals_of(const struct bn_sums *sums, unsigned part, unsigned kind)
{
    return sums->totals + ((size_t)part * BN_SUMS + kind) * sums->stride;
}

static float *partial_of(const struct bn_sums *sums, unsigned part, unsigned kind)
{
    return sums->partial + ((size_t)part * BN_SUMS + kind) * sums->stride;
}

static void part_clear(const struct bn_sums *sums, unsigned part)
{
    memset(totals_of(sums, part, 0), 0, BN_SUMS * sums->stride * sizeof(double));
    memset(partial_of(sums, part, 0), 0, BN_SUMS * sums->stride * sizeof(float));
}

/* Adds a thread's partial sums to its totals and clears them. */
static void part_collect(const struct bn_sums *sums, unsigned part, unsigned kinds,
                         uint32_t channels)
{
    for (unsigned kind = 0; kind < kinds; kind++) {
        double *totals = totals_of(sums, part, kind);
        float *partial = partial_of(sums, part, kind);
        for (uint32_t c = 0; c < channels; c++) {
            totals[c] += (double)partial[c];
            partial[c] = 0;
        }
    }
}

static double sum_over_parts(const struct bn_sums *sums, unsigned kind, uint32_t c)
{
    double sum = 0;
    for (unsigned part = 0; part < sums->backend->threads; part++)
        sum += totals_of(sums, part, kind)[c];
    return sum;
}

struct status bn_init(struct bn *bn, size_t param, uint32_t channels, size_t rows)
{
    *bn = (struct bn){.channels = channels, .rows = rows, .param = param};
    float **const vectors[] = {&bn->mean,          &bn->deviation_inverse, &bn->scale,   &bn->shift,
                               &bn->from_gradient, &bn->from_input,        &bn->constant};
    TRY(memory_alloc(ARRAY_LENGTH(vectors) * channels, sizeof *bn->vectors, &bn->vectors));
    for (size_t i = 0; i < ARRAY_LENGTH(vectors); i++)
        *vectors[i] = bn->vectors + i * channels;
    return OK;
}

void bn_done(struct bn *bn)
{
    memory_free(bn->vectors);
}

static struct bn_forward forward_of(const struct bn *bn)
{
    return (struct bn_forward){bn->scale, bn->shift};
}

static struct bn_backward backward_of(const struct bn *bn)
{
    return (struct bn_backward){bn->from_gradient, bn->from_input, bn->constant, bn->mean};
}

static const struct bn_forward no_relu;

/* Rows that are worked on at a time: few enough for the second look at them to find them in the L2
 * cache and for sums in f32, enough to make the collecting of sums cheap. */
static size_t block_rows(const struct bn *bn)
{
    const size_t block_elements = 128 << 10, rows_max = 512;
    size_t rows = block_elements / bn->channels;
    return rows > rows_max ? rows_max : rows < 1 ? 1 : rows;
}

/* Walks over the rows of a part in blocks. */
#define FOR_BLOCKS(block, bn, part, parts)                                                         \
    for (struct rows all_ = rows_of_part((bn), (part), (parts)), block = rows_first((bn), all_);   \
         block.begin < block.end; block = rows_next((bn), all_, block))

static struct rows rows_of_part(const struct bn *bn, unsigned part, unsigned parts)
{
    struct span span = span_part(bn->rows, 1, part, parts);
    return (struct rows){span.begin, span.end, bn->channels};
}

static struct rows rows_first(const struct bn *bn, struct rows all)
{
    size_t end = all.begin + block_rows(bn);
    return (struct rows){all.begin, end < all.end ? end : all.end, all.channels};
}

static struct rows rows_next(const struct bn *bn, struct rows all, struct rows block)
{
    return rows_first(bn, (struct rows){block.end, all.end, all.channels});
}

/* The rows that a normalisation's statistics are taken over. */
static double rows_of_all(const struct bn *bn, const struct backend *backend)
{
    return (double)bn->rows * (backend->sync_bn ? comm_size(backend->comm) : 1);
}

/* Mean and variance of this process's rows, from the sums over (y − pivot), whose pivot stands in
 * bn->mean. */
static void moments_collect(const struct bn *bn, const struct bn_sums *sums, double *ret_mean,
                            double *ret_variance)
{
    double n = (double)bn->rows;
    for (uint32_t c = 0; c < bn->channels; c++) {
        double offset = sum_over_parts(sums, 0, c) / n;
        double variance = sum_over_parts(sums, 1, c) / n - offset * offset;
        ret_mean[c] = offset + (double)bn->mean[c];
        ret_variance[c] = variance < 0 ? 0 : variance;
    }
}

/* From each process's moments those of all rows; `variance` follows `mean` in memory. Sums are
 * taken around the running mean, which all processes have in common and which is close to each
 * mean. */
static struct status moments_join(const struct bn *bn, const struct backend *backend,
                                  const float *running_mean, double *mean, double *variance)
{
    const double n = (double)bn->rows, all = rows_of_all(bn, backend);
    for (uint32_t c = 0; c < bn->channels; c++) {
        double offset = mean[c] - (double)running_mean[c];
        mean[c] = n * offset;
        variance[c] = n * (variance[c] + offset * offset);
    }
    TRY(comm_sum_f64(backend->comm, mean, 2 * (size_t)bn->channels));
    for (uint32_t c = 0; c < bn->channels; c++) {
        double offset = mean[c] / all;
        mean[c] = (double)running_mean[c] + offset;
        variance[c] = fmax(variance[c] / all - offset * offset, 0);
    }
    return OK;
}

static void moments_apply(struct bn *bn, struct store *store, double n, const double *mean,
                          const double *variance)
{
    const float *gamma = store_value(store, bn->param + BN_GAMMA);
    const float *beta = store_value(store, bn->param + BN_BETA);
    float *running_mean = store_value(store, bn->param + BN_RUNNING_MEAN);
    float *running_var = store_value(store, bn->param + BN_RUNNING_VAR);
    for (uint32_t c = 0; c < bn->channels; c++) {
        double scale = gamma[c] / sqrt(variance[c] + BN_EPSILON);
        bn->mean[c] = (float)mean[c];
        bn->deviation_inverse[c] = (float)(1 / sqrt(variance[c] + BN_EPSILON));
        bn->scale[c] = (float)scale;
        bn->shift[c] = (float)(beta[c] - mean[c] * scale);
        running_mean[c] = (float)((1 - BN_MOMENTUM) * running_mean[c] + BN_MOMENTUM * mean[c]);
        running_var[c] =
            (float)((1 - BN_MOMENTUM) * running_var[c] + BN_MOMENTUM * variance[c] * n / (n - 1));
    }
}

static struct status statistics_finish(struct bn *bn, struct bn_sums *sums, struct store *store)
{
    const struct backend *backend = sums->backend;
    double *mean = sums->joined, *variance = mean + bn->channels;
    moments_collect(bn, sums, mean, variance);
    if (backend->sync_bn)
        TRY(moments_join(bn, backend, store_value(store, bn->param + BN_RUNNING_MEAN), mean,
                         variance));
    moments_apply(bn, store, rows_of_all(bn, backend), mean, variance);
    return OK;
}

/* Sets the mean to that of the first rows: deviations from it are small where the values may not
 * be, so that nothing cancels in their squares. */
static void pivot_estimate(struct bn *bn, const struct bn_sums *sums, const void *y)
{
    const struct rows first = {0, bn->rows < 64 ? bn->rows : 64, bn->channels};
    part_clear(sums, 0);
    const float *zeros = partial_of(sums, 0, 2);
    float *total = partial_of(sums, 0, 0);
    sums->backend->kernels->bn_statistics(first, y, zeros, total, partial_of(sums, 0, 1));
    for (uint32_t c = 0; c < bn->channels; c++)
        bn->mean[c] = total[c] / (float)first.end;
}

struct status bn_measure(struct bn *bn, struct bn_sums *sums, struct store *store, const void *y)
{
    const struct backend *backend = sums->backend;
    const struct kernels *kernels = backend->kernels;
    pivot_estimate(bn, sums, y);
    FOR_PARTS(part, backend->threads)
    {
        part_clear(sums, part);
        FOR_BLOCKS(block, bn, part, backend->threads)
        {
            kernels->bn_statistics(block, y, bn->mean, partial_of(sums, part, 0),
                                   partial_of(sums, part, 1));
            part_collect(sums, part, 2, bn->channels);
        }
    }
    return statistics_finish(bn, sums, store);
}

void bn_apply_relu(const struct bn *bn, const struct backend *backend, const void *y, void *z)
{
    FOR_PARTS(part, backend->threads)
    {
        struct rows rows = rows_of_part(bn, part, backend->threads);
        backend->kernels->bn_relu(rows, y, forward_of(bn), z);
    }
}

void bn_apply_add_relu(const struct bn *bn, const struct backend *backend, const void *y,
                       const void *other, const struct bn_shortcut *shortcut, void *z,
                       uint8_t *mask)
{
    struct bn_forward other_bn = shortcut ? forward_of(shortcut->bn) : no_relu;
    const void *added = shortcut ? shortcut->y : other;
    FOR_PARTS(part, backend->threads)
    {
        struct rows rows = rows_of_part(bn, part, backend->threads);
        backend->kernels->bn_add_relu(rows, y, forward_of(bn), added, other_bn, z, mask);
    }
}

void bn_apply_relu_pool(const struct bn *bn, const struct backend *backend,
                        const struct pool_shape *pool, const void *y, void *z, uint8_t *index)
{
    size_t images = bn->rows / ((size_t)pool->height * pool->width);
    FOR_PARTS(part, backend->threads)
    {
        struct span span = span_part(images * pool->out_height, 1, part, backend->threads);
        for (size_t row = span.begin; row < span.end; row++)
            backend->kernels->pool_forward(pool, row, y, forward_of(bn), z, index);
    }
}

/* This process's gradients of γ and β, and the factors of the gradient at y, from the sums of kinds
 * first_kind and first_kind + 1. */
static struct status reduction_finish(struct bn *bn, struct bn_sums *sums, unsigned first_kind,
                                      struct store *store)
{
    const struct backend *backend = sums->backend;
    float *gamma_gradient = store_gradient(store, bn->param + BN_GAMMA);
    float *beta_gradient = store_gradient(store, bn->param + BN_BETA);
    double *sum = sums->joined, *normalised = sum + bn->channels;
    for (uint32_t c = 0; c < bn->channels; c++) {
        sum[c] = sum_over_parts(sums, first_kind, c);
        normalised[c] = sum_over_parts(sums, first_kind + 1, c) * (double)bn->deviation_inverse[c];
        gamma_gradient[c] = (float)normalised[c];
        beta_gradient[c] = (float)sum[c];
    }
    if (backend->sync_bn)
        TRY(comm_sum_f64(backend->comm, sum, 2 * (size_t)bn->channels));
    const double n = rows_of_all(bn, backend);
    for (uint32_t c = 0; c < bn->channels; c++) {
        double deviation_inverse = bn->deviation_inverse[c], scale = bn->scale[c];
        bn->from_gradient[c] = bn->scale[c];
        bn->from_input[c] = (float)(-scale * normalised[c] * deviation_inverse / n);
        bn->constant[c] = (float)(-scale * sum[c] / n);
    }
    return OK;
}

struct status bn_backward_relu(struct bn *bn, struct bn_sums *sums, struct store *store,
                               const void *y, void *d)
{
    const struct backend *backend = sums->backend;
    const struct kernels *kernels = backend->kernels;
    FOR_PARTS(part, backend->threads)
    {
        part_clear(sums, part);
        FOR_BLOCKS(block, bn, part, backend->threads)
        {
            kernels->bn_reduce(block, y, d, forward_of(bn), bn->mean, partial_of(sums, part, 0),
                               partial_of(sums, part, 1));
            part_collect(sums, part, 2, bn->channels);
        }
    }
    TRY(reduction_finish(bn, sums, 0, store));
    FOR_PARTS(part, backend->threads)
    {
        struct rows rows = rows_of_part(bn, part, backend->threads);
        kernels->bn_propagate(rows, y, d, forward_of(bn), backward_of(bn), d);
    }
    return OK;
}

struct status bn_backward_add_relu(struct bn *bn, struct bn_sums *sums, struct store *store,
                                   const void *y, const struct bn_shortcut *shortcut,
                                   const uint8_t *mask, void *p, const void *q, void *out)
{
    const struct backend *backend = sums->backend;
    const struct kernels *kernels = backend->kernels;
    FOR_PARTS(part, backend->threads)
    {
        part_clear(sums, part);
        FOR_BLOCKS(block, bn, part, backend->threads)
        {
            kernels->mask_gradient(block, p, q, mask);
            kernels->bn_reduce(block, y, p, no_relu, bn->mean, partial_of(sums, part, 0),
                               partial_of(sums, part, 1));
            if (shortcut)
                kernels->bn_reduce(block, shortcut->y, p, no_relu, shortcut->bn->mean,
                                   partial_of(sums, part, 2), partial_of(sums, part, 3));
            part_collect(sums, part, shortcut ? 4 : 2, bn->channels);
        }
    }
    TRY(reduction_finish(bn, sums, 0, store));
    if (shortcut)
        TRY(reduction_finish(shortcut->bn, sums, 2, store));
    FOR_PARTS(part, backend->threads)
    {
        FOR_BLOCKS(block, bn, part, backend->threads)
        {
            kernels->bn_propagate(block, y, p, no_relu, backward_of(bn), out);
            if (shortcut)
                kernels->bn_propagate(block, shortcut->y, p, no_relu, backward_of(shortcut->bn), p);
        }
    }
    return OK;
}

struct status bn_backward_relu_pool(struct bn *bn, struct bn_sums *sums, struct store *store,
                                    const struct pool_shape *pool, const void *y,
                                    const uint8_t *index, const void *p, const void *q, void *d)
{
    const struct backend *backend = sums->backend;
    const struct kernels *kernels = backend->kernels;
    size_t image_rows = bn->rows / pool->width; /* rows of pixels, in all images */
    FOR_PARTS(part, backend->threads)
    {
        part_clear(sums, part);
        struct span span = span_part(image_rows, 1, part, backend->threads);
        for (size_t row = span.begin; row < span.end; row++) {
            struct rows pixels = {row * pool->width, (row + 1) * pool->width, bn->channels};
            kernels->pool_backward(pool, row, p, q, index, d);
            kernels->bn_reduce(pixels, y, d, no_relu, bn->mean, partial_of(sums, part, 0),
                               partial_of(sums, part, 1));
            part_collect(sums, part, 2, bn->channels);
        }
    }
    TRY(reduction_finish(bn, sums, 0, store));
    FOR_PARTS(part, backend->threads)
    {
        struct rows rows = rows_of_part(bn, part, backend->threads);
        kernels->bn_propagate(rows, y, d, no_relu, backward_of(bn), d);
    }
    return OK;
}
