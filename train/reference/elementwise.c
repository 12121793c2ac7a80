#include <math.h>

#include "train/reference/ops.h"

#define CHUNK 16384

/* y[i] = fn(a[i], b[i]) in pieces of CHUNK. */
struct element_loop {
    size_t count;
    const real *a, *b;
    real *y;
};

struct piece {
    size_t begin, end;
};

static struct piece piece_of(size_t count, uint64_t item)
{
    size_t begin = item * CHUNK;
    return (struct piece){begin, count - begin < CHUNK ? count : begin + CHUNK};
}

static struct status pieces_run(struct pool *pool, size_t count, pool_fn *fn, void *loop)
{
    return pool_run(pool, (count + CHUNK - 1) / CHUNK, fn, loop);
}

static struct status relu_piece(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct element_loop *loop = context;
    struct piece piece = piece_of(loop->count, item);
    /* Not "x > 0": a NaN has to stay visible. */
    for (size_t i = piece.begin; i < piece.end; i++)
        loop->y[i] = loop->a[i] < 0 ? 0 : loop->a[i];
    return OK;
}

struct status reference_relu_forward(struct pool *pool, size_t count, const real *x, real *y)
{
    struct element_loop loop = {count, x, NULL, y};
    return pieces_run(pool, count, relu_piece, &loop);
}

static struct status relu_backward_piece(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct element_loop *loop = context;
    struct piece piece = piece_of(loop->count, item);
    for (size_t i = piece.begin; i < piece.end; i++)
        loop->y[i] += loop->a[i] <= 0 ? 0 : loop->b[i];
    return OK;
}

struct status reference_relu_backward(struct pool *pool, size_t count, const real *y,
                                      const real *dy, real *dx)
{
    struct element_loop loop = {count, y, dy, dx};
    return pieces_run(pool, count, relu_backward_piece, &loop);
}

static struct status add_piece(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct element_loop *loop = context;
    struct piece piece = piece_of(loop->count, item);
    for (size_t i = piece.begin; i < piece.end; i++)
        loop->y[i] = loop->a[i] + loop->b[i];
    return OK;
}

struct status reference_add_forward(struct pool *pool, size_t count, const real *a, const real *b,
                                    real *y)
{
    struct element_loop loop = {count, a, b, y};
    return pieces_run(pool, count, add_piece, &loop);
}

struct status reference_add_backward(struct pool *pool, size_t count, const real *dy, real *dx)
{
    struct element_loop loop = {count, dx, dy, dx};
    return pieces_run(pool, count, add_piece, &loop);
}

struct sgd_loop {
    size_t count;
    const struct tensor_step *step;
    const real *gradient;
    real *velocity, *value;
};

static struct status sgd_piece(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct sgd_loop *loop = context;
    struct piece piece = piece_of(loop->count, item);
    real rate = (real)loop->step->rate, momentum = (real)loop->step->momentum;
    real decay = (real)loop->step->decay, factor = (real)loop->step->gradient_factor;
    for (size_t i = piece.begin; i < piece.end; i++) {
        real gradient = factor * loop->gradient[i] + decay * loop->value[i];
        real velocity = momentum * loop->velocity[i] + gradient;
        loop->velocity[i] = velocity;
        loop->value[i] -= rate * (loop->step->nesterov ? gradient + momentum * velocity : velocity);
    }
    return OK;
}

struct status reference_sgd(struct pool *pool, size_t count, const struct tensor_step *step,
                            const real *gradient, real *velocity, real *value)
{
    struct sgd_loop loop = {count, step, gradient, velocity, value};
    return pieces_run(pool, count, sgd_piece, &loop);
}

double reference_norm(size_t count, const real *values)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}
