#ifndef HEADRACE_IMAGE_RESAMPLE_AXIS_H
#define HEADRACE_IMAGE_RESAMPLE_AXIS_H

/* Private to image/: the weights of antialiased bilinear resizing in one dimension. */

#include <stdbool.h>

#include "base/status.h"
#include "image/picture.h"
#include "image/resample_kernels.h"

/* One dimension of a crop, without memory: `out_size` outputs from a box of inputs. */
struct span {
    double start;                 /* of the box, in inputs */
    uint32_t low, high;           /* inputs low … high − 1 belong to the box */
    double low_share, high_share; /* of the first and the last of these: what lies within the box */
    double scale;                 /* inputs per output */
    double support;               /* inputs on each side of an output's centre: at least 1 */
    double support_inverse;
    bool identity; /* outputs are inputs */
};

/* A box of whole inputs, from 0 on. */
struct span span_make(uint32_t in_size, uint32_t out_size);
/* A box that starts and ends anywhere. An input that it cuts counts by its share. */
struct span span_make_between(double start, double end, uint32_t out_size);
/* The inputs that outputs first … first + count − 1 read. */
void span_inputs(const struct span *span, uint32_t first, uint32_t count, uint32_t *ret_first,
                 uint32_t *ret_count);

/* Both dimensions, and their tables for the kernels. */
struct resample_axes {
    struct resample_axis across, down;
    uint8_t *across_table, *down_table;
    size_t across_capacity, down_capacity;
};
void resample_axes_done(struct resample_axes *axes);

/* Makes a window of the output, mirrored if `flip`, with weights of RESAMPLE_BITS, equal to
 * Pillow's, or of RESAMPLE_FAST_BITS. The latter are only right if axes of as many inputs as
 * weights come out: input_count >= 2 * pairs. */
struct status resample_axes_make(struct resample_axes *axes, const struct resample_kernels *kernels,
                                 const struct span *across, const struct span *down,
                                 const struct rectangle *window, bool flip, uint32_t bits);

#endif
