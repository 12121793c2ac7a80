#include "train/reference/ops.h"

struct window_loop {
    const struct window_shape *shape;
    const real *x;
    real *y;
    const uint32_t *winner;
    uint32_t *ret_winner;
};

/* The largest value of one channel in one window, and its place in the plane. `plane` is one
 * image's input. */
static real window_maximum(const struct window_shape *s, const real *plane, uint32_t row,
                           uint32_t column, uint32_t channel, uint32_t *ret_winner)
{
    real best = 0;
    bool found = false;
    for (uint32_t i = 0; i < s->kernel; i++) {
        int64_t y = (int64_t)row * s->stride + i - s->padding;
        for (uint32_t j = 0; j < s->kernel; j++) {
            int64_t x = (int64_t)column * s->stride + j - s->padding;
            if (y < 0 || y >= s->height || x < 0 || x >= s->width)
                continue;
            uint32_t place = (uint32_t)(y * s->width + x);
            real value = plane[(size_t)place * s->in + channel];
            if (!found || value > best || value != value) {
                best = value;
                *ret_winner = place;
                found = true;
            }
        }
    }
    return best;
}

static struct status max_row(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct window_loop *loop = context;
    const struct window_shape *s = loop->shape;
    uint64_t image = item / s->out_height;
    uint32_t row = (uint32_t)(item % s->out_height);
    const real *plane = loop->x + image * s->height * s->width * s->in;
    for (uint32_t column = 0; column < s->out_width; column++)
        for (uint32_t c = 0; c < s->out; c++) {
            size_t i = (item * s->out_width + column) * s->out + c;
            loop->y[i] = window_maximum(s, plane, row, column, c, &loop->ret_winner[i]);
        }
    return OK;
}

struct status reference_max_pool_forward(struct pool *pool, const struct window_shape *shape,
                                         const real *x, real *y, uint32_t *ret_winner)
{
    struct window_loop loop = {.shape = shape, .x = x, .y = y, .ret_winner = ret_winner};
    return pool_run(pool, (uint64_t)shape->batch * shape->out_height, max_row, &loop);
}

/* One image: windows overlap, so its sums belong to one thread. */
static struct status max_image_backward(uint64_t image, unsigned thread, void *context)
{
    (void)thread;
    const struct window_loop *loop = context;
    const struct window_shape *s = loop->shape;
    size_t places = (size_t)s->out_height * s->out_width;
    const real *dy = loop->x + image * places * s->out;
    const uint32_t *winner = loop->winner + image * places * s->out;
    real *dx = loop->y + image * s->height * s->width * s->in;
    for (size_t place = 0; place < places; place++)
        for (size_t c = 0; c < s->out; c++) {
            size_t i = place * s->out + c;
            dx[(size_t)winner[i] * s->in + c] += dy[i];
        }
    return OK;
}

struct status reference_max_pool_backward(struct pool *pool, const struct window_shape *shape,
                                          const real *dy, const uint32_t *winner, real *dx)
{
    struct window_loop loop = {.shape = shape, .x = dy, .y = dx, .winner = winner};
    return pool_run(pool, shape->batch, max_image_backward, &loop);
}

struct average_loop {
    size_t area, channels;
    const real *x;
    real *y;
};

static struct status average_image(uint64_t image, unsigned thread, void *context)
{
    (void)thread;
    const struct average_loop *loop = context;
    const real *x = loop->x + image * loop->area * loop->channels;
    for (size_t c = 0; c < loop->channels; c++) {
        double sum = 0;
        for (size_t place = 0; place < loop->area; place++)
            sum += x[place * loop->channels + c];
        loop->y[image * loop->channels + c] = (real)(sum / (double)loop->area);
    }
    return OK;
}

struct status reference_average_forward(struct pool *pool, size_t batch, size_t area,
                                        size_t channels, const real *x, real *y)
{
    struct average_loop loop = {area, channels, x, y};
    return pool_run(pool, batch, average_image, &loop);
}

/* loop->x is dy, loop->y is dx. */
static struct status average_image_backward(uint64_t image, unsigned thread, void *context)
{
    (void)thread;
    const struct average_loop *loop = context;
    const real *dy = loop->x + image * loop->channels;
    real *dx = loop->y + image * loop->area * loop->channels;
    for (size_t place = 0; place < loop->area; place++)
        for (size_t c = 0; c < loop->channels; c++)
            dx[place * loop->channels + c] += dy[c] / (real)loop->area;
    return OK;
}

struct status reference_average_backward(struct pool *pool, size_t batch, size_t area,
                                         size_t channels, const real *dy, real *dx)
{
    struct average_loop loop = {area, channels, dy, dx};
    return pool_run(pool, batch, average_image_backward, &loop);
}
