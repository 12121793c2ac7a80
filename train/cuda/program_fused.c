#include "train/cuda/program_walk.h"

/* The fused forward pass, as the fastest published ResNet-50s have it: a convolution also sums up
 * its output for the BN behind it, and the next one applies BN and ReLU to its input as it reads
 * it, so that neither ever stands in memory. Where devices normalise together, each layer's sums
 * are made those of all before anything is made of them. */

struct status fused_conv(struct walk *walk, size_t i)
{
    const struct node *node = &walk->network->nodes[i];
    const struct affine *before = &walk->affines[node->inputs[0]];
    const bool applies = before->x.place != PLACE_NONE;
    const struct pattern_shape shape = walk_shape(walk, i);
    struct op op = {0};
    op.operands[TENSOR_X] = applies ? before->x : walk->outputs[node->inputs[0]];
    op.operands[TENSOR_EQ_SCALE] = before->scale;
    op.operands[TENSOR_EQ_BIAS] = before->bias;
    op.operands[TENSOR_W] = param_at(PLACE_WEIGHT, node->first_param);
    op.operands[TENSOR_Y] = walk->outputs[i] = program_tensor(walk->program);
    op.operands[TENSOR_SUM] = walk->sums[i][0] = program_tensor(walk->program);
    op.operands[TENSOR_SQUARE_SUM] = walk->sums[i][1] = program_tensor(walk->program);
    return program_add(walk->program, applies ? PATTERN_SBR_CONV_STATS : PATTERN_CONV_STATS, &shape,
                       &op);
}

/* Makes the sums that a BN is made of those of all devices, where they are joined. */
static struct status sums_join(struct walk *walk, int bn)
{
    const int conv = walk->network->nodes[bn].inputs[0];
    struct op op = {.kind = OP_SYNC_SUMS, .shape = walk_shape(walk, (size_t)bn)};
    if (!walk->program->config.joined)
        return OK;
    op.operands[TENSOR_SUM] = walk->sums[conv][0];
    op.operands[TENSOR_SQUARE_SUM] = walk->sums[conv][1];
    return program_push(walk->program, &op);
}

/* The statistics of a BN from its convolution's sums. */
static struct status bn_finalize(struct walk *walk, int bn)
{
    const struct node *node = &walk->network->nodes[bn];
    const int conv = node->inputs[0], param = node->first_param;
    struct pattern_shape shape = walk_shape(walk, (size_t)bn);
    struct op op = {0};
    shape.statistics_count =
        walk->program->config.joined * shape.batch * shape.height * shape.width;
    op.operands[TENSOR_SUM] = walk->sums[conv][0];
    op.operands[TENSOR_SQUARE_SUM] = walk->sums[conv][1];
    op.operands[TENSOR_SCALE] = param_at(PLACE_VALUE, param);
    op.operands[TENSOR_BIAS] = param_at(PLACE_VALUE, param + 1);
    op.operands[TENSOR_RUNNING_MEAN] = param_at(PLACE_VALUE, param + 2);
    op.operands[TENSOR_RUNNING_VAR] = param_at(PLACE_VALUE, param + 3);
    op.operands[TENSOR_NEXT_RUNNING_MEAN] = op.operands[TENSOR_RUNNING_MEAN];
    op.operands[TENSOR_NEXT_RUNNING_VAR] = op.operands[TENSOR_RUNNING_VAR];
    op.operands[TENSOR_MEAN] = program_tensor(walk->program);
    op.operands[TENSOR_INVSTD] = program_tensor(walk->program);
    op.operands[TENSOR_EQ_SCALE] = program_tensor(walk->program);
    op.operands[TENSOR_EQ_BIAS] = program_tensor(walk->program);
    walk->affines[bn] = (struct affine){
        .x = walk->outputs[conv],
        .scale = op.operands[TENSOR_EQ_SCALE],
        .bias = op.operands[TENSOR_EQ_BIAS],
    };
    return program_add(walk->program, PATTERN_BN_FINALIZE, &shape, &op);
}

static struct op affine_op(const struct affine *affine)
{
    struct op op = {0};
    op.operands[TENSOR_X] = affine->x;
    op.operands[TENSOR_EQ_SCALE] = affine->scale;
    op.operands[TENSOR_EQ_BIAS] = affine->bias;
    return op;
}

struct status fused_bn_relu(struct walk *walk, int bn, size_t relu)
{
    TRY(sums_join(walk, bn));
    TRY(bn_finalize(walk, bn));
    if (walk_only_consumer(walk, relu, NODE_CONV)) {
        walk->affines[relu] = walk->affines[bn];
        return OK;
    }
    const struct pattern_shape shape = walk_shape(walk, relu);
    struct op op = affine_op(&walk->affines[bn]);
    op.operands[TENSOR_Y] = walk->outputs[relu] = program_tensor(walk->program);
    return program_add(walk->program, PATTERN_SCALE_BIAS_RELU, &shape, &op);
}

struct status fused_add_relu(struct walk *walk, int main, int other, size_t relu)
{
    const bool dual = walk->outputs[other].place == PLACE_NONE;
    TRY(sums_join(walk, main));
    if (dual)
        TRY(sums_join(walk, other));
    TRY(bn_finalize(walk, main));
    if (dual)
        TRY(bn_finalize(walk, other));
    const struct pattern_shape shape = walk_shape(walk, relu);
    struct op op = affine_op(&walk->affines[main]);
    op.operands[TENSOR_Z] = dual ? walk->affines[other].x : walk->outputs[other];
    op.operands[TENSOR_Z_SCALE] = walk->affines[other].scale;
    op.operands[TENSOR_Z_BIAS] = walk->affines[other].bias;
    op.operands[TENSOR_Y] = walk->outputs[relu] = program_tensor(walk->program);
    return program_add(walk->program,
                       dual ? PATTERN_SCALE_BIAS_DUAL_ADD_RELU : PATTERN_SCALE_BIAS_ADD_RELU,
                       &shape, &op);
}
