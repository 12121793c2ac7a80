#include <math.h>
#include <string.h>

#include "train/network.h"
#include "train/reference/ops.h"

/* Channels that one item of a loop takes: a cache line's worth, so that rows are read whole. */
#define CHANNEL_BLOCK 16

struct bn_loop {
    size_t rows, channels;
    double all_rows; /* of all processes whose statistics are joined */
    const real *x, *dy, *weight;
    const struct bn_params *params;
    real *y, *dx, *dweight, *dbias;
    double *saved; /* mean, 1/σ, and two more numbers a channel, (channels) each */
};

/* The nth group of numbers of `saved`. */
static double *saved_of(const struct bn_loop *loop, unsigned n)
{
    return loop->saved + n * loop->channels;
}

static uint64_t block_count(size_t channels)
{
    return (channels + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK;
}

static size_t block_width(size_t channels, size_t begin)
{
    return channels - begin < CHANNEL_BLOCK ? channels - begin : CHANNEL_BLOCK;
}

/* Mean and biased variance of the channels begin … begin+width−1, in two passes. */
static void block_moments(const struct bn_loop *loop, size_t begin, size_t width, double *ret_mean,
                          double *ret_variance)
{
    double sum[CHANNEL_BLOCK] = {0}, squares[CHANNEL_BLOCK] = {0};
    for (size_t row = 0; row < loop->rows; row++)
        for (size_t c = 0; c < width; c++)
            sum[c] += loop->x[row * loop->channels + begin + c];
    for (size_t c = 0; c < width; c++)
        ret_mean[c] = sum[c] / (double)loop->rows;
    for (size_t row = 0; row < loop->rows; row++)
        for (size_t c = 0; c < width; c++) {
            double centred = loop->x[row * loop->channels + begin + c] - ret_mean[c];
            squares[c] += centred * centred;
        }
    for (size_t c = 0; c < width; c++)
        ret_variance[c] = squares[c] / (double)loop->rows;
}

/* y = (x − mean)·inverse·γ + β for a block. */
static void block_normalise(const struct bn_loop *loop, size_t begin, size_t width,
                            const double *mean, const double *inverse)
{
    double scale[CHANNEL_BLOCK], shift[CHANNEL_BLOCK];
    for (size_t c = 0; c < width; c++) {
        scale[c] = inverse[c] * loop->params->weight[begin + c];
        shift[c] = loop->params->bias[begin + c];
    }
    for (size_t row = 0; row < loop->rows; row++)
        for (size_t c = 0; c < width; c++) {
            size_t i = row * loop->channels + begin + c;
            loop->y[i] = (real)((loop->x[i] - mean[c]) * scale[c] + shift[c]);
        }
}

static void running_move(real *running, double batch)
{
    *running = (real)((1 - BN_MOMENTUM) * *running + BN_MOMENTUM * batch);
}

static struct status moments_block(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct bn_loop *loop = context;
    size_t begin = item * CHANNEL_BLOCK;
    block_moments(loop, begin, block_width(loop->channels, begin), saved_of(loop, 0) + begin,
                  saved_of(loop, 1) + begin);
    return OK;
}

/* From each process's mean and variance those of all rows. Sums are taken around the running mean,
 * which all processes have in common and which is close to each mean. */
static struct status moments_join(struct comm *comm, const struct bn_loop *loop)
{
    const double rows = (double)loop->rows;
    double *mean = saved_of(loop, 0), *variance = saved_of(loop, 1);
    for (size_t c = 0; c < loop->channels; c++) {
        double offset = mean[c] - loop->params->running_mean[c];
        mean[c] = rows * offset;
        variance[c] = rows * (variance[c] + offset * offset);
    }
    TRY(comm_sum_f64(comm, loop->saved, 2 * loop->channels));
    for (size_t c = 0; c < loop->channels; c++) {
        double offset = mean[c] / loop->all_rows;
        mean[c] = loop->params->running_mean[c] + offset;
        variance[c] = fmax(variance[c] / loop->all_rows - offset * offset, 0);
    }
    return OK;
}

static struct status normalise_block(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct bn_loop *loop = context;
    size_t begin = item * CHANNEL_BLOCK, width = block_width(loop->channels, begin);
    double *mean = saved_of(loop, 0) + begin, *inverse = saved_of(loop, 1) + begin;
    double unbiased = loop->all_rows / (loop->all_rows - 1);
    for (size_t c = 0; c < width; c++) {
        double variance = inverse[c];
        inverse[c] = 1 / sqrt(variance + BN_EPSILON);
        running_move(&loop->params->running_mean[begin + c], mean[c]);
        running_move(&loop->params->running_var[begin + c], variance * unbiased);
    }
    block_normalise(loop, begin, width, mean, inverse);
    return OK;
}

static double rows_of_all(struct comm *comm, size_t rows)
{
    return (double)rows * (comm ? comm_size(comm) : 1);
}

struct status reference_bn_forward(struct pool *pool, struct comm *comm, size_t rows,
                                   size_t channels, const real *x, const struct bn_params *params,
                                   real *y, double *ret_saved)
{
    struct bn_loop loop = {
        .rows = rows,
        .channels = channels,
        .all_rows = rows_of_all(comm, rows),
        .x = x,
        .params = params,
        .y = y,
        .saved = ret_saved,
    };
    TRY(pool_run(pool, block_count(channels), moments_block, &loop));
    if (comm)
        TRY(moments_join(comm, &loop));
    return pool_run(pool, block_count(channels), normalise_block, &loop);
}

static struct status infer_block(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct bn_loop *loop = context;
    size_t begin = item * CHANNEL_BLOCK, width = block_width(loop->channels, begin);
    double mean[CHANNEL_BLOCK], inverse[CHANNEL_BLOCK];
    for (size_t c = 0; c < width; c++) {
        mean[c] = loop->params->running_mean[begin + c];
        inverse[c] = 1 / sqrt(loop->params->running_var[begin + c] + BN_EPSILON);
    }
    block_normalise(loop, begin, width, mean, inverse);
    return OK;
}

struct status reference_bn_infer(struct pool *pool, size_t rows, size_t channels, const real *x,
                                 const struct bn_params *params, real *y)
{
    struct bn_loop loop = {
        .rows = rows,
        .channels = channels,
        .x = x,
        .params = params,
        .y = y,
    };
    return pool_run(pool, block_count(channels), infer_block, &loop);
}

/* With x̂ = (x − mean)/σ: dβ = Σ dy, dγ = Σ dy·x̂. */
static struct status sums_block(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct bn_loop *loop = context;
    size_t begin = item * CHANNEL_BLOCK, width = block_width(loop->channels, begin);
    const double *mean = saved_of(loop, 0) + begin, *inverse = saved_of(loop, 1) + begin;
    double *dbias = saved_of(loop, 2) + begin, *dweight = saved_of(loop, 3) + begin;
    memset(dbias, 0, sizeof *dbias * width);
    memset(dweight, 0, sizeof *dweight * width);
    for (size_t row = 0; row < loop->rows; row++)
        for (size_t c = 0; c < width; c++) {
            size_t i = row * loop->channels + begin + c;
            dbias[c] += loop->dy[i];
            dweight[c] += loop->dy[i] * ((loop->x[i] - mean[c]) * inverse[c]);
        }
    for (size_t c = 0; c < width; c++) {
        loop->dweight[begin + c] = (real)dweight[c];
        loop->dbias[begin + c] = (real)dbias[c];
    }
    return OK;
}

/* dx = γ/σ · (dy − dβ/rows − x̂·dγ/rows), with the sums and the rows of all processes. */
static struct status propagate_block(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct bn_loop *loop = context;
    size_t begin = item * CHANNEL_BLOCK, width = block_width(loop->channels, begin);
    const double *mean = saved_of(loop, 0) + begin, *inverse = saved_of(loop, 1) + begin;
    const double *dbias = saved_of(loop, 2) + begin, *dweight = saved_of(loop, 3) + begin;
    for (size_t row = 0; row < loop->rows; row++)
        for (size_t c = 0; c < width; c++) {
            size_t i = row * loop->channels + begin + c;
            double normalised = (loop->x[i] - mean[c]) * inverse[c];
            double centred = loop->dy[i] - (dbias[c] + normalised * dweight[c]) / loop->all_rows;
            loop->dx[i] += (real)(loop->weight[begin + c] * inverse[c] * centred);
        }
    return OK;
}

struct status reference_bn_backward(struct pool *pool, struct comm *comm, size_t rows,
                                    size_t channels, const real *x, const real *dy,
                                    const real *weight, double *saved, real *dx, real *dweight,
                                    real *dbias)
{
    struct bn_loop loop = {
        .rows = rows,
        .channels = channels,
        .all_rows = rows_of_all(comm, rows),
        .x = x,
        .dy = dy,
        .weight = weight,
        .saved = saved,
        .dx = dx,
        .dweight = dweight,
        .dbias = dbias,
    };
    TRY(pool_run(pool, block_count(channels), sums_block, &loop));
    if (comm)
        TRY(comm_sum_f64(comm, saved_of(&loop, 2), 2 * channels));
    return pool_run(pool, block_count(channels), propagate_block, &loop);
}
