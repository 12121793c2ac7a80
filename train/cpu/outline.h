#ifndef HEADRACE_TRAIN_CPU_OUTLINE_H
#define HEADRACE_TRAIN_CPU_OUTLINE_H

/* A network as this backend computes it, recognised in the node list: a stem, residual blocks and a
 * head, made of convolutions that are each followed by a normalisation. */

#include "base/scope.h"
#include "train/cpu/cpu.h"

struct conv_bn {
    struct conv_shape shape;
    bool blurs;          /* its input is blurred first */
    size_t weight_param; /* the convolution's */
    size_t bn_param;     /* the first of the normalisation's */
};

/* relu(branch(x) + shortcut(x)): the branch is `length` convolutions from `first` on, all but the
 * last followed by ReLU; the shortcut is one convolution or nothing at all. */
struct block {
    size_t first, length;
    bool has_shortcut;
    size_t shortcut;
};

struct outline {
    struct conv_bn *convs; /* the first is the stem: convolution, normalisation, ReLU, max pool */
    size_t conv_count;
    struct block *blocks;
    size_t block_count;
    struct pool_shape pool;
    uint32_t batch, head_pixels, head_channels,
        classes;     /* average over head_pixels, then (head_channels -> classes) */
    size_t fc_param; /* weight; the bias follows it */
};

/* Fails with STATUS_UNSUPPORTED, naming the node, if the network has another form. */
struct status outline_open(const struct network *network, uint32_t batch, uint32_t height,
                           uint32_t width, struct outline **ret_outline);
void outline_close(struct outline *outline);
CLEANUP_POINTER(outline_close, struct outline)

/* Pixels in all outputs of a convolution. */
static inline size_t conv_rows(const struct conv_shape *shape)
{
    return (size_t)shape->batch * shape->out_height * shape->out_width;
}

/* Elements of a convolution's input and output. */
static inline size_t conv_input_count(const struct conv_shape *shape)
{
    return (size_t)shape->batch * shape->height * shape->width * shape->channels_in;
}
static inline size_t conv_output_count(const struct conv_shape *shape)
{
    return conv_rows(shape) * shape->channels_out;
}

#endif
