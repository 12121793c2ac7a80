/* Evaluation: normalisations are folded into the convolutions before them, and ReLU and additions
 * are done as a convolution stores its output. */

#include <math.h>

#include "base/memory.h"
#include "train/cpu/plan.h"

struct eval_layer {
    struct operation *forward;
    struct operation *to_weights; /* from torchvision's order in f32 */
    void *weights;
    float *bias;
};

struct eval_pass {
    struct eval_layer *convs; /* as the outline's */
    struct eval_layer fc;
    float *dense;          /* one layer's weights while they are folded */
    float *ones, *zeros;   /* a normalisation that changes nothing, for the stem's pool */
    void *current, *other; /* a block's input and output */
    void *inner[2];        /* between a branch's convolutions; inner[0] serves the stem too */
    void *pooled;          /* (batch, head_channels) */
};

static struct status layer_plan_weights(struct plan *plan, size_t param, struct eval_layer *layer)
{
    const struct param *described = &plan->store->network->params[param];
    const struct layout *wanted = operation_weights(layer->forward);
    CLEANUP(layout_close) struct layout *dense = NULL;
    TRY(layout_open_dense(described->rank, described->shape, &dense));
    TRY(plan_add_reorder(plan, dense, wanted, &layer->to_weights));
    return plan_alloc(plan, layout_bytes(wanted), &layer->weights);
}

static struct status conv_plan(struct plan *plan, size_t i, enum operation_post post)
{
    const struct conv_bn *described = &plan->outline->convs[i];
    struct eval_layer *layer = &plan->eval->convs[i];
    const struct conv_config config = {
        .shape = described->shape,
        .dtype = plan->backend->dtype,
        .bias = true,
        .post = post,
    };
    TRY(plan_add_conv(plan, PASS_FORWARD, &config, &layer->forward));
    TRY(layer_plan_weights(plan, described->weight_param, layer));
    return plan_alloc(plan, described->shape.channels_out * sizeof(float), &layer->bias);
}

static struct status convs_plan(struct plan *plan)
{
    TRY(conv_plan(plan, 0, POST_RELU));
    for (size_t i = 0; i < plan->outline->block_count; i++) {
        const struct block *block = &plan->outline->blocks[i];
        const size_t last = block->first + block->length - 1;
        for (size_t j = block->first; j < last; j++)
            TRY(conv_plan(plan, j, POST_RELU));
        TRY(conv_plan(plan, last, POST_ADD_RELU));
        if (block->has_shortcut)
            TRY(conv_plan(plan, block->shortcut, POST_NONE));
    }
    return OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct status activations_plan(struct plan *plan)
{
    const struct outline *outline = plan->outline;
    struct eval_pass *eval = plan->eval;
    size_t outer = 0, inner = conv_output_count(&outline->convs[0].shape);
    for (size_t i = 0; i < outline->block_count; i++) {
        const struct block *block = &outline->blocks[i];
        const size_t last = block->first + block->length - 1;
        outer = larger(outer, conv_input_count(&outline->convs[block->first].shape));
        outer = larger(outer, conv_output_count(&outline->convs[last].shape));
        for (size_t j = block->first; j < last; j++)
            inner = larger(inner, conv_output_count(&outline->convs[j].shape));
    }
    TRY(plan_alloc_elements(plan, outer, &eval->current));
    TRY(plan_alloc_elements(plan, outer, &eval->other));
    TRY(plan_alloc_elements(plan, inner, &eval->inner[0]));
    TRY(plan_alloc_elements(plan, inner, &eval->inner[1]));
    return plan_alloc_elements(plan, (size_t)outline->batch * outline->head_channels,
                               &eval->pooled);
}

static struct status constants_plan(struct plan *plan)
{
    struct eval_pass *eval = plan->eval;
    const uint32_t channels = plan->outline->pool.channels;
    size_t dense = 0;
    for (size_t i = 0; i < plan->store->network->param_count; i++)
        dense = larger(dense, plan->store->network->params[i].count);
    TRY(plan_alloc(plan, dense * sizeof(float), &eval->dense));
    TRY(plan_alloc(plan, channels * sizeof(float), &eval->ones));
    TRY(plan_alloc(plan, channels * sizeof(float), &eval->zeros));
    for (uint32_t c = 0; c < channels; c++)
        eval->ones[c] = 1;
    return OK;
}

struct status eval_pass_open(struct plan *plan, struct eval_pass **ret_eval)
{
    /* Known to the plan at once, which closes it after a failure. */
    TRY(memory_alloc(1, sizeof **ret_eval, ret_eval));
    TRY(memory_alloc(plan->outline->conv_count, sizeof *plan->eval->convs, &plan->eval->convs));
    TRY(convs_plan(plan));
    TRY(plan_add_fc(plan, PASS_FORWARD, &plan->eval->fc.forward));
    TRY(layer_plan_weights(plan, plan->outline->fc_param, &plan->eval->fc));
    TRY(activations_plan(plan));
    return constants_plan(plan);
}

void eval_pass_close(struct eval_pass *eval)
{
    if (!eval)
        return;
    memory_free(eval->convs);
    memory_free(eval);
}

/* weight · γ/σ, and β − mean · γ/σ as bias. */
static struct status conv_fold(struct plan *plan, size_t i)
{
    const struct conv_bn *described = &plan->outline->convs[i];
    const struct conv_shape *shape = &described->shape;
    const struct eval_layer *layer = &plan->eval->convs[i];
    const struct store *store = plan->store;
    const float *gamma = store_value(store, described->bn_param);
    const float *beta = store_value(store, described->bn_param + 1);
    const float *mean = store_value(store, described->bn_param + 2);
    const float *variance = store_value(store, described->bn_param + 3);
    float *dense = plan->eval->dense;
    const size_t row = (size_t)shape->channels_in * shape->kernel * shape->kernel;
    TRY(store_read_dense(store, described->weight_param, dense));
    for (size_t c = 0; c < shape->channels_out; c++) {
        double scale = (double)gamma[c] / sqrt((double)variance[c] + BN_EPSILON);
        layer->bias[c] = (float)((double)beta[c] - (double)mean[c] * scale);
        for (size_t j = 0; j < row; j++)
            dense[c * row + j] = (float)((double)dense[c * row + j] * scale);
    }
    return plan_run(plan, layer->to_weights, dense, NULL, NULL, layer->weights);
}

static struct status weights_refresh(struct plan *plan)
{
    struct eval_pass *eval = plan->eval;
    if (plan->version == plan->store->version)
        return OK;
    for (size_t i = 0; i < plan->outline->conv_count; i++)
        TRY(conv_fold(plan, i));
    TRY(store_read_dense(plan->store, plan->outline->fc_param, eval->dense));
    TRY(plan_run(plan, eval->fc.to_weights, eval->dense, NULL, NULL, eval->fc.weights));
    plan->version = plan->store->version;
    return OK;
}

static struct status conv_forward(struct plan *plan, size_t i, const void *x, void *y)
{
    const struct eval_layer *layer = &plan->eval->convs[i];
    return plan_run(plan, layer->forward, (void *)x, layer->weights, layer->bias, y);
}

static void stem_pool(const struct plan *plan, const void *y, void *z)
{
    const struct backend *backend = plan->backend;
    const struct pool_shape *pool = &plan->outline->pool;
    const struct bn_forward unchanged = {plan->eval->ones, plan->eval->zeros};
    const size_t rows = (size_t)plan->outline->batch * pool->out_height;
    FOR_PARTS(part, backend->threads)
    {
        struct span span = span_part(rows, 1, part, backend->threads);
        for (size_t row = span.begin; row < span.end; row++)
            backend->kernels->pool_forward(pool, row, y, unchanged, z, NULL);
    }
}

/* The last convolution adds its output to what stands in its place: the shortcut's output, or the
 * block's input. */
static struct status block_forward(struct plan *plan, const struct block *block)
{
    struct eval_pass *eval = plan->eval;
    const size_t last = block->first + block->length - 1;
    void *output = block->has_shortcut ? eval->other : eval->current;
    const void *x = eval->current;
    if (block->has_shortcut)
        TRY(conv_forward(plan, block->shortcut, x, output));
    for (size_t i = block->first; i < last; i++) {
        void *y = eval->inner[(i - block->first) % 2];
        TRY(conv_forward(plan, i, x, y));
        x = y;
    }
    TRY(conv_forward(plan, last, x, output));
    eval->other = block->has_shortcut ? eval->current : eval->other;
    eval->current = output;
    return OK;
}

struct status eval_pass_run(struct plan *plan, const void *images, const int32_t *labels,
                            struct step_metrics *ret_metrics)
{
    struct eval_pass *eval = plan->eval;
    TRY(weights_refresh(plan));
    TRY(conv_forward(plan, 0, images, eval->inner[0]));
    stem_pool(plan, eval->inner[0], eval->current);
    for (size_t i = 0; i < plan->outline->block_count; i++)
        TRY(block_forward(plan, &plan->outline->blocks[i]));
    plan_average(plan, eval->current, eval->pooled);
    TRY(plan_run(plan, eval->fc.forward, eval->pooled, eval->fc.weights,
                 store_value(plan->store, plan->outline->fc_param + 1), plan->logits));
    return loss_run(&plan->loss, plan->logits, labels, plan->backend->threads, NULL, ret_metrics);
}
