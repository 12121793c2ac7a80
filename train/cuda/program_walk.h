#ifndef HEADRACE_TRAIN_CUDA_PROGRAM_WALK_H
#define HEADRACE_TRAIN_CUDA_PROGRAM_WALK_H

/* How a program is built. Private to program.c (the walk over the nodes, the unfused forward pass,
 * evaluation), program_fused.c (the fused forward pass) and program_backward.c. */

#include "train/cuda/program.h"

/* A new tensor, an op, an op of a pattern, whose plan is added where it is new. */
struct operand program_tensor(struct program *program);
struct status program_push(struct program *program, const struct op *op);
struct status program_add(struct program *program, enum pattern pattern,
                          const struct pattern_shape *shape, const struct op *operands);
static inline struct operand param_at(enum place place, int param)
{
    return (struct operand){place, (uint32_t)param};
}

/* A BN whose statistics are known: y = x · scale + bias. */
struct affine {
    struct operand x, scale, bias;
};

/* Convolutions and normalisations are put off until it is known what follows them: a BN to its ReLU
 * or its addition, and in evaluation the convolution to its BN. */
struct walk {
    const struct network *network;
    struct program *program;
    uint32_t (*sizes)[2];    /* by node: height, width */
    int *consumers;          /* by node: how many take its output */
    struct operand *outputs; /* by node: its tensor; PLACE_NONE: put off */

    /* Fused */
    struct operand (*sums)[2]; /* by convolution: of its output, by channel, and of the squares */
    struct affine *affines;    /* by BN, and by ReLU that only a convolution takes */
};

/* What node `i` slides over or normalises: the size of its input. */
struct pattern_shape walk_shape(const struct walk *walk, size_t i);
/* The node that takes the output of `node`, NULL when there is not exactly one of that kind. */
const struct node *walk_only_consumer(const struct walk *walk, size_t node, enum node_kind kind);

/* A convolution, of an output or of BN and ReLU of one, with the sums that the next BN needs. */
struct status fused_conv(struct walk *walk, size_t i);
/* Node `relu` after the BN `bn`. */
struct status fused_bn_relu(struct walk *walk, int bn, size_t relu);
/* Node `relu` after the sum of the BN `main` and `other`, a BN or an output. */
struct status fused_add_relu(struct walk *walk, int main, int other, size_t relu);

/* Adds the backward ops of a training program that ends in its loss. */
struct status program_add_backward(struct program *program);

#endif
