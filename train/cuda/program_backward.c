#include "base/memory.h"
#include "train/cuda/program_walk.h"

/* The backward ops: for each forward op from the last to the first, the gradients of its inputs
 * and parameters. A tensor that two ops read gets its gradient from the later one first; the
 * earlier one, a convolution or a blur, adds its own. */

struct backward {
    struct program *program;
    struct operand *gradients; /* by forward tensor; PLACE_NONE: not there yet */
};

static struct operand gradient_at(struct operand param)
{
    return (struct operand){PLACE_GRADIENT, param.index};
}

/* The gradient at an input that must have none yet. */
static struct status gradient_begin(struct backward *backward, const struct op *forward,
                                    struct operand input, struct operand *ret_gradient)
{
    struct operand *gradient = &backward->gradients[input.index];
    if (gradient->place != PLACE_NONE)
        FAIL(STATUS_UNSUPPORTED,
             "the cuda backend cannot add the gradients of two paths at the input of %s: only a "
             "convolution's first path may meet another one",
             pattern_names[backward->program->plans[forward->plan].pattern]);
    *ret_gradient = *gradient = program_tensor(backward->program);
    return OK;
}

static struct status simple_back(struct backward *backward, const struct op *forward,
                                 enum pattern pattern)
{
    const struct pattern_shape shape = backward->program->plans[forward->plan].shape;
    struct op op = {0};
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_W] = forward->operands[TENSOR_W];
    op.operands[TENSOR_INDEX] = forward->operands[TENSOR_INDEX];
    TRY(gradient_begin(backward, forward, forward->operands[TENSOR_X], &op.operands[TENSOR_DX]));
    return program_add(backward->program, pattern, &shape, &op);
}

static struct status fc_back(struct backward *backward, const struct op *forward)
{
    const struct pattern_shape shape = backward->program->plans[forward->plan].shape;
    struct op op = {0};
    op.operands[TENSOR_X] = forward->operands[TENSOR_X];
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_DW] = gradient_at(forward->operands[TENSOR_W]);
    TRY(program_add(backward->program, PATTERN_FC_WGRAD, &shape, &op));
    struct op sums = {.kind = OP_COLUMN_SUMS};
    sums.operands[TENSOR_DY] = op.operands[TENSOR_DY];
    sums.operands[TENSOR_DBIAS] = gradient_at(forward->operands[TENSOR_W_BIAS]);
    TRY(program_push(backward->program, &sums));
    return simple_back(backward, forward, PATTERN_FC_DGRAD);
}

/* The images need no gradient. The weights' comes first: it ends the life of x. */
static struct status conv_back(struct backward *backward, const struct op *forward)
{
    struct program *program = backward->program;
    const struct pattern_shape shape = program->plans[forward->plan].shape;
    const struct operand x = forward->operands[TENSOR_X];
    struct op op = {0};
    op.operands[TENSOR_X] = x;
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_DW] = gradient_at(forward->operands[TENSOR_W]);
    TRY(program_add(program, PATTERN_CONV_WGRAD, &shape, &op));
    if (x.index == program->input)
        return OK;
    const struct operand other = backward->gradients[x.index];
    op.operands[TENSOR_X] = op.operands[TENSOR_DW] = (struct operand){0};
    op.operands[TENSOR_W] = forward->operands[TENSOR_W];
    op.operands[TENSOR_DZ] = other;
    op.operands[TENSOR_DX] = backward->gradients[x.index] = program_tensor(program);
    return program_add(program,
                       other.place == PLACE_NONE ? PATTERN_CONV_DGRAD : PATTERN_CONV_DGRAD_ADD,
                       &shape, &op);
}

static struct status bn_back(struct backward *backward, const struct op *forward,
                             enum pattern pattern)
{
    const struct pattern_shape shape = backward->program->plans[forward->plan].shape;
    struct op op = {0};
    for (int t = 0; t < TENSOR_COUNT; t++)
        if (t == TENSOR_X || t == TENSOR_SCALE || t == TENSOR_BIAS || t == TENSOR_MEAN ||
            t == TENSOR_INVSTD || t == TENSOR_MASK)
            op.operands[t] = forward->operands[t];
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_DSCALE] = gradient_at(forward->operands[TENSOR_SCALE]);
    op.operands[TENSOR_DBIAS] = gradient_at(forward->operands[TENSOR_BIAS]);
    TRY(gradient_begin(backward, forward, forward->operands[TENSOR_X], &op.operands[TENSOR_DX]));
    if (pattern == PATTERN_BN_ADD_RELU_BACKWARD)
        TRY(gradient_begin(backward, forward, forward->operands[TENSOR_Z],
                           &op.operands[TENSOR_DZ]));
    if (pattern != PATTERN_BN_RELU_BACKWARD)
        op.operands[TENSOR_BIAS] = (struct operand){0};
    return program_add(backward->program, pattern, &shape, &op);
}

/* The BN that several devices normalise together. */
static struct status sync_bn_back(struct backward *backward, const struct op *forward)
{
    struct op op = {.kind = OP_SYNC_BN_BACKWARD, .shape = forward->shape, .relu = forward->relu};
    static const enum plan_tensor kept[] = {TENSOR_X, TENSOR_Y, TENSOR_SCALE, TENSOR_MEAN,
                                            TENSOR_INVSTD};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        op.operands[kept[i]] = forward->operands[kept[i]];
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_DSCALE] = gradient_at(forward->operands[TENSOR_SCALE]);
    op.operands[TENSOR_DBIAS] = gradient_at(forward->operands[TENSOR_BIAS]);
    op.operands[TENSOR_SUM] = program_tensor(backward->program);
    TRY(gradient_begin(backward, forward, forward->operands[TENSOR_X], &op.operands[TENSOR_DX]));
    if (forward->operands[TENSOR_Z].place != PLACE_NONE)
        TRY(gradient_begin(backward, forward, forward->operands[TENSOR_Z],
                           &op.operands[TENSOR_DZ]));
    return program_push(backward->program, &op);
}

/* The op that made the scale of an affine: it has the BN's parameters and statistics. */
static struct op finalize_of(const struct backward *backward, struct operand scale)
{
    const struct program *program = backward->program;
    for (size_t i = 0; i < program->backward_begin; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind == OP_PATTERN && program->plans[op->plan].pattern == PATTERN_BN_FINALIZE &&
            op->operands[TENSOR_EQ_SCALE].index == scale.index)
            return *op;
    }
    return (struct op){0};
}

/* What the gradient of a BN is made from, but for dy and dx. */
static struct op bn_operands(const struct op *finalize, struct operand x)
{
    struct op op = {0};
    op.operands[TENSOR_X] = x;
    op.operands[TENSOR_SCALE] = finalize->operands[TENSOR_SCALE];
    op.operands[TENSOR_MEAN] = finalize->operands[TENSOR_MEAN];
    op.operands[TENSOR_INVSTD] = finalize->operands[TENSOR_INVSTD];
    op.operands[TENSOR_DSCALE] = gradient_at(finalize->operands[TENSOR_SCALE]);
    op.operands[TENSOR_DBIAS] = gradient_at(finalize->operands[TENSOR_BIAS]);
    return op;
}

/* A BN by itself, of x, whose gradient gets its tensor here. Sums of all devices are beyond cuDNN.
 */
static struct status affine_back(struct backward *backward, const struct op *forward,
                                 enum plan_tensor x, enum plan_tensor scale, struct operand dy,
                                 enum pattern pattern)
{
    const struct op finalize = finalize_of(backward, forward->operands[scale]);
    const struct pattern_shape shape = backward->program->plans[forward->plan].shape;
    struct op op = bn_operands(&finalize, forward->operands[x]);
    op.operands[TENSOR_DY] = dy;
    TRY(gradient_begin(backward, forward, forward->operands[x], &op.operands[TENSOR_DX]));
    if (backward->program->config.joined) {
        op.kind = OP_SYNC_BN_BACKWARD;
        op.shape = shape;
        op.relu = pattern == PATTERN_BN_RELU_BACKWARD;
        if (op.relu)
            op.operands[TENSOR_Y] = forward->operands[TENSOR_Y];
        op.operands[TENSOR_SUM] = program_tensor(backward->program);
        return program_push(backward->program, &op);
    }
    if (pattern == PATTERN_BN_RELU_BACKWARD)
        op.operands[TENSOR_BIAS] = finalize.operands[TENSOR_BIAS];
    return program_add(backward->program, pattern, &shape, &op);
}

/* relu(BN(x) + z) or relu(BN(x) + BN(z)): the gradient before the ReLU is that of both sides. */
static struct status affine_add_back(struct backward *backward, const struct op *forward, bool dual)
{
    const struct pattern_shape shape = backward->program->plans[forward->plan].shape;
    struct op op = {0};
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_Y] = forward->operands[TENSOR_Y];
    if (dual)
        op.operands[TENSOR_DX] = program_tensor(backward->program);
    else
        TRY(gradient_begin(backward, forward, forward->operands[TENSOR_Z],
                           &op.operands[TENSOR_DX]));
    TRY(program_add(backward->program, PATTERN_RELU_BACKWARD, &shape, &op));
    const struct operand sum = op.operands[TENSOR_DX];
    if (dual)
        TRY(affine_back(backward, forward, TENSOR_Z, TENSOR_Z_SCALE, sum, PATTERN_BN_BACKWARD));
    return affine_back(backward, forward, TENSOR_X, TENSOR_EQ_SCALE, sum, PATTERN_BN_BACKWARD);
}

/* The weights' gradient comes in the type of activations: cuDNN has no other with this prologue. */
static struct status applied_weight_back(struct backward *backward, const struct op *forward)
{
    const struct pattern_shape shape = backward->program->plans[forward->plan].shape;
    struct op op = {0}, cast = {.kind = OP_CAST};
    op.operands[TENSOR_X] = forward->operands[TENSOR_X];
    op.operands[TENSOR_EQ_SCALE] = forward->operands[TENSOR_EQ_SCALE];
    op.operands[TENSOR_EQ_BIAS] = forward->operands[TENSOR_EQ_BIAS];
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_DW] = cast.operands[TENSOR_X] = program_tensor(backward->program);
    cast.operands[TENSOR_DW] = gradient_at(forward->operands[TENSOR_W]);
    TRY(program_add(backward->program, PATTERN_SBR_WGRAD, &shape, &op));
    return program_push(backward->program, &cast);
}

/* From the gradient at BN(x), which `at_bn` makes with its sums, to that at x. */
static struct status dbn_apply(struct backward *backward, const struct op *forward,
                               const struct op *at_bn, const struct pattern_shape *shape)
{
    static const enum plan_tensor folded[] = {TENSOR_EQ_DY, TENSOR_EQ_X, TENSOR_EQ_DBIAS};
    static const enum plan_tensor summed[] = {TENSOR_SCALE, TENSOR_MEAN, TENSOR_INVSTD,
                                              TENSOR_DSCALE, TENSOR_DBIAS};
    struct program *program = backward->program;
    const struct operand x = at_bn->operands[TENSOR_X];
    struct op op = {.kind = OP_SYNC_DBN_APPLY, .shape = *shape};
    op.operands[TENSOR_X] = x;
    op.operands[TENSOR_DY] = at_bn->operands[TENSOR_DX];
    TRY(gradient_begin(backward, forward, x, &op.operands[TENSOR_DX]));
    if (!program->config.joined) {
        for (size_t i = 0; i < sizeof folded / sizeof *folded; i++)
            op.operands[folded[i]] = at_bn->operands[folded[i]];
        return program_add(program, PATTERN_DBN_APPLY, shape, &op);
    }
    for (size_t i = 0; i < sizeof summed / sizeof *summed; i++)
        op.operands[summed[i]] = at_bn->operands[summed[i]];
    op.operands[TENSOR_SUM] = program_tensor(program);
    return program_push(program, &op);
}

/* A convolution of relu(BN(x)): the gradient at BN(x), and from there at x. */
static struct status applied_conv_back(struct backward *backward, const struct op *forward)
{
    struct program *program = backward->program;
    const struct operand x = forward->operands[TENSOR_X];
    const struct op finalize = finalize_of(backward, forward->operands[TENSOR_EQ_SCALE]);
    const struct pattern_shape shape = program->plans[forward->plan].shape;
    const struct pattern_shape plain = {.batch = shape.batch,
                                        .height = shape.height,
                                        .width = shape.width,
                                        .in = shape.in};
    struct op op = bn_operands(&finalize, x);
    op.operands[TENSOR_BIAS] = finalize.operands[TENSOR_BIAS];
    TRY(applied_weight_back(backward, forward));
    op.operands[TENSOR_DY] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_W] = forward->operands[TENSOR_W];
    op.operands[TENSOR_DX] = program_tensor(program);
    op.operands[TENSOR_EQ_DY] = program_tensor(program);
    op.operands[TENSOR_EQ_X] = program_tensor(program);
    op.operands[TENSOR_EQ_DBIAS] = program_tensor(program);
    TRY(program_add(program, PATTERN_DGRAD_DRELU_DBN, &shape, &op));
    return dbn_apply(backward, forward, &op, &plain);
}

/* A blur is its own transpose. */
static struct status blur_back(struct backward *backward, const struct op *forward)
{
    struct op op = {.kind = OP_BLUR, .shape = forward->shape};
    struct operand *gradient = &backward->gradients[forward->operands[TENSOR_X].index];
    op.operands[TENSOR_X] = backward->gradients[forward->operands[TENSOR_Y].index];
    op.operands[TENSOR_Z] = *gradient;
    op.operands[TENSOR_Y] = *gradient = program_tensor(backward->program);
    return program_push(backward->program, &op);
}

static struct status op_back(struct backward *backward, const struct op *forward)
{
    if (forward->kind == OP_LOSS) {
        backward->gradients[forward->operands[TENSOR_X].index] = forward->operands[TENSOR_DX];
        return OK;
    }
    if (forward->kind == OP_BLUR)
        return blur_back(backward, forward);
    if (forward->kind == OP_SYNC_BN)
        return sync_bn_back(backward, forward);
    if (forward->kind == OP_SYNC_SUMS)
        return OK; /* as BN_FINALIZE */
    switch (backward->program->plans[forward->plan].pattern) {
    case PATTERN_CONV:
    case PATTERN_CONV_STATS:
        return conv_back(backward, forward);
    case PATTERN_SBR_CONV_STATS:
        return applied_conv_back(backward, forward);
    case PATTERN_BN_FINALIZE:
        return OK; /* what takes its scale takes care of it */
    case PATTERN_SCALE_BIAS_RELU:
        return affine_back(backward, forward, TENSOR_X, TENSOR_EQ_SCALE,
                           backward->gradients[forward->operands[TENSOR_Y].index],
                           PATTERN_BN_RELU_BACKWARD);
    case PATTERN_SCALE_BIAS_ADD_RELU:
        return affine_add_back(backward, forward, false);
    case PATTERN_SCALE_BIAS_DUAL_ADD_RELU:
        return affine_add_back(backward, forward, true);
    case PATTERN_BN:
        return bn_back(backward, forward, PATTERN_BN_BACKWARD);
    case PATTERN_BN_RELU:
        return bn_back(backward, forward, PATTERN_BN_RELU_BACKWARD);
    case PATTERN_BN_ADD_RELU:
        return bn_back(backward, forward, PATTERN_BN_ADD_RELU_BACKWARD);
    case PATTERN_MAX_POOL_INDEX:
        return simple_back(backward, forward, PATTERN_MAX_POOL_BACKWARD);
    case PATTERN_AVG_POOL:
        return simple_back(backward, forward, PATTERN_AVG_POOL_BACKWARD);
    case PATTERN_FC:
        return fc_back(backward, forward);
    default:
        FAIL(STATUS_UNSUPPORTED, "%s has no backward pass",
             pattern_names[backward->program->plans[forward->plan].pattern]);
    }
}

struct status program_add_backward(struct program *program)
{
    CLEANUP(memory_free) struct operand *gradients = NULL;
    TRY(memory_alloc(program->tensor_count, sizeof *gradients, &gradients));
    struct backward backward = {program, gradients};
    for (size_t i = program->backward_begin; i-- > 0;) {
        const struct op forward = program->ops[i]; /* the list moves as it grows */
        TRY(op_back(&backward, &forward));
    }
    return OK;
}
