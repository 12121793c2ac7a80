#include "train/reference/ops.h"

struct fc_loop {
    size_t batch, in, out;
    const real *x, *weight, *bias, *dy;
    real *y, *dx, *dweight, *dbias;
};

/* One output of all images. */
static struct status forward_output(uint64_t o, unsigned thread, void *context)
{
    (void)thread;
    const struct fc_loop *loop = context;
    const real *weight = loop->weight + o * loop->in;
    for (size_t n = 0; n < loop->batch; n++) {
        double sum = loop->bias[o];
        for (size_t i = 0; i < loop->in; i++)
            sum += (double)weight[i] * loop->x[n * loop->in + i];
        loop->y[n * loop->out + o] = (real)sum;
    }
    return OK;
}

struct status reference_fc_forward(struct pool *pool, size_t batch, size_t in, size_t out,
                                   const real *x, const real *weight, const real *bias, real *y)
{
    struct fc_loop loop = {
        .batch = batch,
        .in = in,
        .out = out,
        .x = x,
        .weight = weight,
        .bias = bias,
        .y = y,
    };
    return pool_run(pool, out, forward_output, &loop);
}

/* The gradients of one output's weights and bias. */
static struct status backward_output(uint64_t o, unsigned thread, void *context)
{
    (void)thread;
    const struct fc_loop *loop = context;
    double dbias = 0;
    for (size_t n = 0; n < loop->batch; n++)
        dbias += loop->dy[n * loop->out + o];
    loop->dbias[o] = (real)dbias;
    for (size_t i = 0; i < loop->in; i++) {
        double sum = 0;
        for (size_t n = 0; n < loop->batch; n++)
            sum += (double)loop->dy[n * loop->out + o] * loop->x[n * loop->in + i];
        loop->dweight[o * loop->in + i] = (real)sum;
    }
    return OK;
}

static struct status backward_image(uint64_t n, unsigned thread, void *context)
{
    (void)thread;
    const struct fc_loop *loop = context;
    for (size_t i = 0; i < loop->in; i++) {
        double sum = 0;
        for (size_t o = 0; o < loop->out; o++)
            sum += (double)loop->dy[n * loop->out + o] * loop->weight[o * loop->in + i];
        loop->dx[n * loop->in + i] += (real)sum;
    }
    return OK;
}

struct status reference_fc_backward(struct pool *pool, size_t batch, size_t in, size_t out,
                                    const real *x, const real *weight, const real *dy, real *dx,
                                    real *dweight, real *dbias)
{
    struct fc_loop loop = {
        .batch = batch,
        .in = in,
        .out = out,
        .x = x,
        .weight = weight,
        .dy = dy,
        .dx = dx,
        .dweight = dweight,
        .dbias = dbias,
    };
    TRY(pool_run(pool, out, backward_output, &loop));
    return pool_run(pool, batch, backward_image, &loop);
}
