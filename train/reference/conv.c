#include <string.h>

#include "base/memory.h"
#include "train/reference/ops.h"

struct conv_loop {
    const struct window_shape *shape;
    const real *x, *weight;
    real *y;
};

/* Input channels whose weight gradients one item of the loop makes: they stay in the first cache.
 */
#define CHANNEL_BLOCK 8

/* y += a·x: all three convolutions come down to this, along contiguous channels. */
static inline void row_add(size_t count, real a, const real *restrict x, real *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] += a * x[i];
}

/* Where tap `tap` of output position `at` reads along one axis; outside 0 … size−1 is padding. */
static inline int64_t tap_position(const struct window_shape *shape, uint32_t at, uint32_t tap)
{
    return (int64_t)at * shape->stride + tap - shape->padding;
}

/* The output columns first … end−1 whose tap `tap` lies inside the input's width. */
static void columns_inside(const struct window_shape *shape, uint32_t tap, uint32_t *ret_first,
                           uint32_t *ret_end)
{
    uint32_t first = 0, end = shape->out_width;
    while (first < end && tap_position(shape, first, tap) < 0)
        first++;
    while (end > first && tap_position(shape, end - 1, tap) >= shape->width)
        end--;
    *ret_first = first;
    *ret_end = end;
}

/* One row of the output. */
static struct status forward_row(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct conv_loop *loop = context;
    const struct window_shape *s = loop->shape;
    uint64_t image = item / s->out_height;
    uint32_t row = (uint32_t)(item % s->out_height);
    real *y = loop->y + item * s->out_width * s->out;
    memset(y, 0, sizeof *y * s->out_width * s->out);

    for (uint32_t i = 0; i < s->kernel; i++) {
        int64_t in_row = tap_position(s, row, i);
        if (in_row < 0 || in_row >= s->height)
            continue;
        const real *x = loop->x + (image * s->height + (uint64_t)in_row) * s->width * s->in;
        for (uint32_t j = 0; j < s->kernel; j++) {
            uint32_t first, end;
            columns_inside(s, j, &first, &end);
            for (size_t c = 0; c < s->in; c++) {
                const real *weight =
                    loop->weight + ((i * s->kernel + j) * (size_t)s->in + c) * s->out;
                for (uint32_t column = first; column < end; column++) {
                    size_t in_column = (size_t)tap_position(s, column, j);
                    row_add(s->out, x[in_column * s->in + c], weight, y + (size_t)column * s->out);
                }
            }
        }
    }
    return OK;
}

struct status reference_conv_forward(struct pool *pool, const struct window_shape *shape,
                                     const real *x, const real *weight, real *y)
{
    struct conv_loop loop = {shape, x, weight, y};
    return pool_run(pool, (uint64_t)shape->batch * shape->out_height, forward_row, &loop);
}

/* One row of the input's gradient. loop->x is dy, loop->weight (kernel, kernel, out, in), loop->y
 * is dx. */
static struct status backward_row(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct conv_loop *loop = context;
    const struct window_shape *s = loop->shape;
    uint64_t image = item / s->height;
    uint32_t in_row = (uint32_t)(item % s->height);
    real *dx = loop->y + item * s->width * s->in;

    for (uint32_t i = 0; i < s->kernel; i++) {
        int64_t offset = (int64_t)in_row + s->padding - i;
        if (offset < 0 || offset % s->stride || offset / s->stride >= s->out_height)
            continue;
        uint64_t row = image * s->out_height + (uint64_t)offset / s->stride;
        const real *dy = loop->x + row * s->out_width * s->out;
        for (uint32_t j = 0; j < s->kernel; j++) {
            uint32_t first, end;
            columns_inside(s, j, &first, &end);
            for (size_t c = 0; c < s->out; c++) {
                const real *weight =
                    loop->weight + ((i * s->kernel + j) * (size_t)s->out + c) * s->in;
                for (uint32_t column = first; column < end; column++) {
                    size_t in_column = (size_t)tap_position(s, column, j);
                    row_add(s->in, dy[(size_t)column * s->out + c], weight, dx + in_column * s->in);
                }
            }
        }
    }
    return OK;
}

struct status reference_conv_backward_data(struct pool *pool, const struct window_shape *shape,
                                           const real *dy, const real *weight, real *dx)
{
    size_t taps = (size_t)shape->kernel * shape->kernel;
    size_t in = shape->in, out = shape->out;
    CLEANUP(memory_free) real *transposed = NULL;
    TRY(memory_alloc(taps * in * out, sizeof *transposed, &transposed));
    for (size_t tap = 0; tap < taps; tap++)
        for (size_t i = 0; i < in; i++)
            for (size_t o = 0; o < out; o++)
                transposed[(tap * out + o) * in + i] = weight[(tap * in + i) * out + o];

    struct conv_loop loop = {shape, dy, transposed, dx};
    return pool_run(pool, (uint64_t)shape->batch * shape->height, backward_row, &loop);
}

static uint32_t channel_blocks(const struct window_shape *shape)
{
    return (shape->in + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK;
}

/* The weights' gradient for one tap and one block of input channels. loop->weight is dy, loop->y is
 * dweight. */
static struct status weight_block(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct conv_loop *loop = context;
    const struct window_shape *s = loop->shape;
    uint32_t tap = (uint32_t)(item / channel_blocks(s));
    size_t begin = item % channel_blocks(s) * CHANNEL_BLOCK;
    size_t end = begin + CHANNEL_BLOCK < s->in ? begin + CHANNEL_BLOCK : s->in;
    uint32_t first_column, end_column;
    columns_inside(s, tap % s->kernel, &first_column, &end_column);

    real *dweight = loop->y + (size_t)tap * s->in * s->out;
    memset(dweight + begin * s->out, 0, sizeof *dweight * (end - begin) * s->out);
    for (uint64_t row = 0; row < (uint64_t)s->batch * s->out_height; row++) {
        int64_t in_row = tap_position(s, (uint32_t)(row % s->out_height), tap / s->kernel);
        if (in_row < 0 || in_row >= s->height)
            continue;
        uint64_t x_row = row / s->out_height * s->height + (uint64_t)in_row;
        for (uint32_t column = first_column; column < end_column; column++) {
            size_t in_column = (size_t)tap_position(s, column, tap % s->kernel);
            const real *x = loop->x + (x_row * s->width + in_column) * s->in;
            const real *dy = loop->weight + (row * s->out_width + column) * s->out;
            for (size_t c = begin; c < end; c++)
                row_add(s->out, x[c], dy, dweight + c * s->out);
        }
    }
    return OK;
}

struct status reference_conv_backward_weight(struct pool *pool, const struct window_shape *shape,
                                             const real *x, const real *dy, real *dweight)
{
    struct conv_loop loop = {shape, x, dy, dweight};
    uint64_t taps = (uint64_t)shape->kernel * shape->kernel;
    return pool_run(pool, taps * channel_blocks(shape), weight_block, &loop);
}
