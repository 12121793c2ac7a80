#include <string.h>

#include "train/reference/ops.h"

struct blur_loop {
    const struct window_shape *shape; /* of the same height and width in and out */
    const real *x;
    real *y; /* added to */
};

/* Adds one row of the output. The filter is symmetric and keeps the size, so the way back is the
 * same. */
static struct status blur_row(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    static const real taps[3] = {1 / (real)4, 2 / (real)4, 1 / (real)4};
    const struct blur_loop *loop = context;
    const struct window_shape *s = loop->shape;
    uint64_t image = item / s->height;
    int64_t row = (int64_t)(item % s->height);
    real *y = loop->y + item * s->width * s->in;
    for (int64_t i = row > 0 ? -1 : 0; i <= 1 && row + i < s->height; i++) {
        const real *x = loop->x + (image * s->height + (uint64_t)(row + i)) * s->width * s->in;
        for (int64_t column = 0; column < s->width; column++)
            for (int64_t j = column > 0 ? -1 : 0; j <= 1 && column + j < s->width; j++)
                for (size_t c = 0; c < s->in; c++)
                    y[(size_t)column * s->in + c] +=
                        taps[1 + i] * taps[1 + j] * x[(size_t)(column + j) * s->in + c];
    }
    return OK;
}

struct status reference_blur_forward(struct pool *pool, const struct window_shape *shape,
                                     const real *x, real *y)
{
    size_t rows = (size_t)shape->batch * shape->height;
    memset(y, 0, sizeof *y * rows * shape->width * shape->in);
    return reference_blur_backward(pool, shape, x, y);
}

struct status reference_blur_backward(struct pool *pool, const struct window_shape *shape,
                                      const real *dy, real *dx)
{
    struct blur_loop loop = {shape, dy, dx};
    return pool_run(pool, (uint64_t)shape->batch * shape->height, blur_row, &loop);
}
