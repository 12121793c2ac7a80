#include "train/cuda/program_walk.h"

#include <string.h>

#include "base/memory.h"

struct operand program_tensor(struct program *program)
{
    return (struct operand){PLACE_TENSOR, program->tensor_count++};
}

static struct status plan_number(struct program *program, enum pattern pattern,
                                 const struct pattern_shape *shape, size_t *ret_plan)
{
    for (size_t i = 0; i < program->plan_count; i++) {
        const struct planned *planned = &program->plans[i];
        if (planned->pattern == pattern && memcmp(&planned->shape, shape, sizeof *shape) == 0) {
            *ret_plan = i;
            return OK;
        }
    }
    TRY(memory_grow(program->plan_count + 1, sizeof *program->plans, &program->plans,
                    &program->plan_capacity));
    program->plans[program->plan_count] = (struct planned){pattern, *shape};
    *ret_plan = program->plan_count++;
    return OK;
}

struct status program_push(struct program *program, const struct op *op)
{
    TRY(memory_grow(program->op_count + 1, sizeof *program->ops, &program->ops,
                    &program->op_capacity));
    program->ops[program->op_count++] = *op;
    return OK;
}

struct status program_add(struct program *program, enum pattern pattern,
                          const struct pattern_shape *shape, const struct op *operands)
{
    struct op op = *operands;
    op.kind = OP_PATTERN;
    TRY(plan_number(program, pattern, shape, &op.plan));
    return program_push(program, &op);
}

static bool trains(const struct walk *walk)
{
    return walk->program->config.mode == PLAN_TRAIN;
}

static struct status node_refuse(const struct walk *walk, size_t node)
{
    FAIL(STATUS_UNSUPPORTED,
         "the cuda backend cannot plan node %zu of %s, %s after node %d: it knows a normalisation "
         "after each convolution, then a ReLU, or an addition with a ReLU",
         node, walk->network->arch, node_kind_name(walk->network->nodes[node].kind),
         walk->network->nodes[node].inputs[0]);
}

const struct node *walk_only_consumer(const struct walk *walk, size_t node, enum node_kind kind)
{
    if (walk->consumers[node] != 1)
        return NULL;
    for (size_t i = node + 1; i < walk->network->node_count; i++) {
        const struct node *other = &walk->network->nodes[i];
        if (other->inputs[0] == (int)node || other->inputs[1] == (int)node)
            return other->kind == kind ? other : NULL;
    }
    return NULL;
}

struct pattern_shape walk_shape(const struct walk *walk, size_t i)
{
    const struct node *node = &walk->network->nodes[i];
    const uint32_t *size = walk->sizes[node->inputs[0]];
    struct pattern_shape shape = {
        .batch = walk->program->config.batch,
        .height = size[0],
        .width = size[1],
        .in = node->channels_in,
        .out = node->channels_out,
        .kernel = node->kernel,
        .stride = node->stride,
        .padding = node->padding,
    };
    if (walk->network->nodes[node->inputs[0]].kind == NODE_INPUT)
        shape.in = INPUT_CHANNELS;
    if (node->kind == NODE_FC)
        shape.out = columns_padded(node->channels_out);
    return shape;
}

/* The output of an earlier node; PLACE_NONE where it is put off. */
static struct operand output_of(const struct walk *walk, int node)
{
    return node < 0 ? (struct operand){0} : walk->outputs[node];
}

/* A convolution by itself; in evaluation its BN takes it along. */
static struct status conv_walk(struct walk *walk, size_t i)
{
    const struct node *node = &walk->network->nodes[i];
    struct op op = {0};
    const bool is_there = output_of(walk, node->inputs[0]).place != PLACE_NONE ||
                          walk->affines[node->inputs[0]].x.place != PLACE_NONE;
    if (!walk_only_consumer(walk, i, NODE_BN) || !is_there)
        return node_refuse(walk, i);
    if (!trains(walk))
        return OK;
    if (walk->program->config.fused)
        return fused_conv(walk, i);
    op.operands[TENSOR_X] = output_of(walk, node->inputs[0]);
    op.operands[TENSOR_W] = param_at(PLACE_WEIGHT, node->first_param);
    op.operands[TENSOR_Y] = walk->outputs[i] = program_tensor(walk->program);
    const struct pattern_shape shape = walk_shape(walk, i);
    return program_add(walk->program, PATTERN_CONV, &shape, &op);
}

/* y = [relu](BN(x) [+ z]) of the BN node `i`, with the tensors of training. */
static struct status bn_train(struct walk *walk, size_t i, bool relu, struct operand z,
                              struct operand *ret_output)
{
    const struct node *node = &walk->network->nodes[i];
    const bool adds = z.place != PLACE_NONE;
    struct op op = {0};
    op.operands[TENSOR_X] = output_of(walk, node->inputs[0]);
    op.operands[TENSOR_SCALE] = param_at(PLACE_VALUE, node->first_param);
    op.operands[TENSOR_BIAS] = param_at(PLACE_VALUE, node->first_param + 1);
    op.operands[TENSOR_RUNNING_MEAN] = param_at(PLACE_VALUE, node->first_param + 2);
    op.operands[TENSOR_RUNNING_VAR] = param_at(PLACE_VALUE, node->first_param + 3);
    op.operands[TENSOR_NEXT_RUNNING_MEAN] = op.operands[TENSOR_RUNNING_MEAN];
    op.operands[TENSOR_NEXT_RUNNING_VAR] = op.operands[TENSOR_RUNNING_VAR];
    op.operands[TENSOR_MEAN] = program_tensor(walk->program);
    op.operands[TENSOR_INVSTD] = program_tensor(walk->program);
    op.operands[TENSOR_Y] = *ret_output = program_tensor(walk->program);
    op.operands[TENSOR_Z] = z;
    const struct pattern_shape shape = walk_shape(walk, i);
    if (walk->program->config.joined) {
        op.kind = OP_SYNC_BN;
        op.shape = shape;
        op.relu = relu;
        op.operands[TENSOR_SUM] = program_tensor(walk->program);
        op.operands[TENSOR_NEXT_RUNNING_MEAN] = op.operands[TENSOR_NEXT_RUNNING_VAR] =
            (struct operand){0};
        return program_push(walk->program, &op);
    }
    if (adds)
        op.operands[TENSOR_MASK] = program_tensor(walk->program);
    return program_add(walk->program,
                       adds   ? PATTERN_BN_ADD_RELU
                       : relu ? PATTERN_BN_RELU
                              : PATTERN_BN,
                       &shape, &op);
}

/* The same in evaluation, folded into the convolution before it. */
static struct status bn_eval(struct walk *walk, size_t i, bool relu, struct operand z,
                             struct operand *ret_output)
{
    struct program *program = walk->program;
    const struct node *node = &walk->network->nodes[i];
    const size_t conv = (size_t)node->inputs[0];
    const int conv_param = walk->network->nodes[conv].first_param;
    struct op op = {0};
    op.operands[TENSOR_X] = output_of(walk, walk->network->nodes[conv].inputs[0]);
    op.operands[TENSOR_W] = param_at(PLACE_FOLDED_WEIGHT, conv_param);
    op.operands[TENSOR_W_BIAS] = param_at(PLACE_FOLDED_BIAS, node->first_param + 1);
    op.operands[TENSOR_Z] = z;
    op.operands[TENSOR_Y] = *ret_output = program_tensor(program);
    TRY(memory_grow(program->fold_count + 1, sizeof *program->folds, &program->folds,
                    &program->fold_capacity));
    program->folds[program->fold_count++] =
        (struct fold){(uint32_t)conv_param, (uint32_t)node->first_param};
    const struct pattern_shape shape = walk_shape(walk, conv);
    return program_add(program,
                       z.place != PLACE_NONE ? PATTERN_CONV_BIAS_ADD_RELU
                       : relu                ? PATTERN_CONV_BIAS_RELU
                                             : PATTERN_CONV_BIAS,
                       &shape, &op);
}

static struct status bn_emit(struct walk *walk, int i, bool relu, struct operand z,
                             struct operand *ret_output)
{
    return trains(walk) ? bn_train(walk, (size_t)i, relu, z, ret_output)
                        : bn_eval(walk, (size_t)i, relu, z, ret_output);
}

/* A BN waits for the one node that takes it. */
static struct status bn_walk(const struct walk *walk, size_t i)
{
    const struct node *node = &walk->network->nodes[i];
    if (walk->network->nodes[node->inputs[0]].kind != NODE_CONV ||
        (!walk_only_consumer(walk, i, NODE_RELU) && !walk_only_consumer(walk, i, NODE_ADD)))
        return node_refuse(walk, i);
    return OK;
}

static bool is_waiting_bn(const struct walk *walk, int node)
{
    return walk->network->nodes[node].kind == NODE_BN && walk->outputs[node].place == PLACE_NONE;
}

/* An addition waits for its ReLU; one of its sides is a BN that takes the other along. */
static struct status relu_walk(struct walk *walk, size_t i)
{
    const struct network *network = walk->network;
    int input = network->nodes[i].inputs[0];
    const bool fused = trains(walk) && walk->program->config.fused;
    if (is_waiting_bn(walk, input))
        return fused ? fused_bn_relu(walk, input, i)
                     : bn_emit(walk, input, true, (struct operand){0}, &walk->outputs[i]);
    const struct node *add = &network->nodes[input];
    if (add->kind != NODE_ADD || !walk_only_consumer(walk, (size_t)input, NODE_RELU))
        return node_refuse(walk, i);
    int main = add->inputs[0], other = add->inputs[1];
    if (!is_waiting_bn(walk, main)) {
        main = add->inputs[1];
        other = add->inputs[0];
    }
    if (!is_waiting_bn(walk, main) || main == other)
        return node_refuse(walk, i);
    if (fused)
        return fused_add_relu(walk, main, other, i);
    if (is_waiting_bn(walk, other))
        TRY(bn_emit(walk, other, false, (struct operand){0}, &walk->outputs[other]));
    return bn_emit(walk, main, true, output_of(walk, other), &walk->outputs[i]);
}

static struct status pool_walk(struct walk *walk, size_t i)
{
    const struct node *node = &walk->network->nodes[i];
    const bool average = node->kind == NODE_GLOBAL_AVG_POOL;
    struct op op = {0};
    op.operands[TENSOR_X] = output_of(walk, node->inputs[0]);
    op.operands[TENSOR_Y] = walk->outputs[i] = program_tensor(walk->program);
    if (op.operands[TENSOR_X].place == PLACE_NONE)
        return node_refuse(walk, i);
    if (!average && trains(walk))
        op.operands[TENSOR_INDEX] = program_tensor(walk->program);
    const struct pattern_shape shape = walk_shape(walk, i);
    return program_add(walk->program,
                       average        ? PATTERN_AVG_POOL
                       : trains(walk) ? PATTERN_MAX_POOL_INDEX
                                      : PATTERN_MAX_POOL,
                       &shape, &op);
}

static struct status blur_walk(struct walk *walk, size_t i)
{
    struct op op = {.kind = OP_BLUR, .shape = walk_shape(walk, i)};
    op.operands[TENSOR_X] = output_of(walk, walk->network->nodes[i].inputs[0]);
    if (op.operands[TENSOR_X].place == PLACE_NONE)
        return node_refuse(walk, i);
    op.operands[TENSOR_Y] = walk->outputs[i] = program_tensor(walk->program);
    return program_push(walk->program, &op);
}

static struct status fc_walk(struct walk *walk, size_t i)
{
    const struct node *node = &walk->network->nodes[i];
    struct op op = {0};
    if (walk->sizes[i][0] != 1 || walk->sizes[i][1] != 1 ||
        output_of(walk, node->inputs[0]).place == PLACE_NONE)
        return node_refuse(walk, i);
    op.operands[TENSOR_X] = output_of(walk, node->inputs[0]);
    op.operands[TENSOR_W] = param_at(PLACE_WEIGHT, node->first_param);
    op.operands[TENSOR_W_BIAS] = param_at(PLACE_VALUE, node->first_param + 1);
    op.operands[TENSOR_Y] = walk->outputs[i] = program_tensor(walk->program);
    const struct pattern_shape shape = walk_shape(walk, i);
    return program_add(walk->program, PATTERN_FC, &shape, &op);
}

static struct status loss_walk(struct walk *walk, size_t i)
{
    struct program *program = walk->program;
    const int input = walk->network->nodes[i].inputs[0];
    if (walk->network->nodes[input].kind != NODE_FC || i + 1 != walk->network->node_count)
        return node_refuse(walk, i);
    struct op op = {.kind = OP_LOSS};
    op.operands[TENSOR_X] = output_of(walk, input);
    program->logits = op.operands[TENSOR_X].index;
    if (trains(walk)) {
        op.operands[TENSOR_DX] = program_tensor(program);
        program->dlogits = op.operands[TENSOR_DX].index;
    }
    TRY(program_push(program, &op));
    program->backward_begin = program->op_count;
    return OK;
}

static struct status node_walk(struct walk *walk, size_t i)
{
    switch (walk->network->nodes[i].kind) {
    case NODE_INPUT:
        if (i != 0)
            return node_refuse(walk, i);
        walk->outputs[i] = program_tensor(walk->program);
        walk->program->input = walk->outputs[i].index;
        return OK;
    case NODE_CONV:
        return conv_walk(walk, i);
    case NODE_BN:
        return bn_walk(walk, i);
    case NODE_RELU:
        return relu_walk(walk, i);
    case NODE_ADD:
        return OK; /* its ReLU emits it */
    case NODE_MAX_POOL:
    case NODE_GLOBAL_AVG_POOL:
        return pool_walk(walk, i);
    case NODE_FC:
        return fc_walk(walk, i);
    case NODE_BLUR:
        return blur_walk(walk, i);
    case NODE_LOSS:
        return loss_walk(walk, i);
    }
    return node_refuse(walk, i);
}

static struct status network_walk(const struct network *network, struct program *program)
{
    CLEANUP(memory_free) uint32_t(*sizes)[2] = NULL;
    CLEANUP(memory_free) int *consumers = NULL;
    CLEANUP(memory_free) struct operand *outputs = NULL;
    CLEANUP(memory_free) struct operand(*sums)[2] = NULL;
    CLEANUP(memory_free) struct affine *affines = NULL;
    TRY(memory_alloc(network->node_count, sizeof *sizes, &sizes));
    TRY(memory_alloc(network->node_count, sizeof *consumers, &consumers));
    TRY(memory_alloc(network->node_count, sizeof *outputs, &outputs));
    TRY(memory_alloc(network->node_count, sizeof *sums, &sums));
    TRY(memory_alloc(network->node_count, sizeof *affines, &affines));
    TRY(network_sizes(network, program->config.height, program->config.width, sizes));
    for (size_t i = 0; i < network->node_count; i++)
        for (int j = 0; j < 2; j++)
            if (network->nodes[i].inputs[j] >= 0)
                consumers[network->nodes[i].inputs[j]]++;
    struct walk walk = {network, program, sizes, consumers, outputs, sums, affines};
    for (size_t i = 0; i < network->node_count; i++)
        TRY(node_walk(&walk, i));
    return OK;
}

struct status program_open(const struct network *network, const struct program_config *config,
                           struct program **ret_program)
{
    CLEANUP(program_close) struct program *program = NULL;
    TRY(memory_alloc(1, sizeof *program, &program));
    program->config = *config;
    program->columns = columns_padded(network->classes);
    TRY(network_walk(network, program));
    if (config->mode == PLAN_TRAIN)
        TRY(program_add_backward(program));
    *ret_program = MOVE(program);
    return OK;
}

void program_lives(const struct program *program, struct tensor_life *lives)
{
    for (uint32_t i = 0; i < program->tensor_count; i++)
        lives[i].first = SIZE_MAX;
    for (size_t i = 0; i < program->op_count; i++)
        for (int t = 0; t < TENSOR_COUNT; t++) {
            const struct operand *operand = &program->ops[i].operands[t];
            if (operand->place != PLACE_TENSOR)
                continue;
            if (lives[operand->index].first == SIZE_MAX)
                lives[operand->index].first = i;
            lives[operand->index].last = i;
        }
    lives[program->input].first = 0;
    lives[program->logits].last = program->op_count;
}

void program_close(struct program *program)
{
    if (!program)
        return;
    memory_free(program->ops);
    memory_free(program->plans);
    memory_free(program->folds);
    memory_free(program);
}
