/* A training step: forward with batch statistics, then backward. */

#include <string.h>

#include "base/memory.h"
#include "train/cpu/bf16.h"
#include "train/cpu/bn.h"
#include "train/cpu/plan.h"

/* The weights of one pass, in the layout that its operation likes. */
struct pass_weights {
    struct operation *from_store; /* NULL: the store's own layout and type serve */
    void *own;                    /* may be another pass's */
};

/* The weights' part of a layer, convolution or fully connected. */
struct train_weights {
    size_t param;
    struct operation *forward, *backward_data, *backward_weights;
    struct pass_weights for_forward, for_backward;
    struct operation *gradient_to_store; /* NULL: gradients are made where the store keeps them */
};

/* A convolution, its normalisation and its tensors, each (batch, out_height, out_width,
 * channels_out). */
struct train_conv {
    struct train_weights weights;
    const void *x; /* input: another layer's z, or the images */
    void *blurred; /* the input blurred; NULL where it is not */
    void *y;       /* the convolution's output */
    void *z;       /* behind the ReLU or pool; NULL for a shortcut */
    uint8_t *mask; /* behind an addition: where the ReLU let through. The stem: the pool's index */
    struct bn bn;
};

/* Gradients of activations: at any moment at most three are alive, two at the block's output and
 * one inside its branch. */
enum { GRADIENT_BUFFERS = 3 };

struct train_pass {
    struct train_conv *convs; /* as the outline's */
    struct train_weights fc;
    struct bn_sums sums;
    void *pooled, *pooled_gradient; /* (batch, head_channels) */
    float *logits_gradient;         /* (batch, classes) */
    void *logits_gradient_elements; /* the same in the compute type; the same memory for f32 */
    float *weights_gradient;        /* where a layout differs from the store's */
    void *mixed;                    /* (batch, H, W, 3); NULL until a batch is mixed */
    void *buffers[GRADIENT_BUFFERS];
    bool used[GRADIENT_BUFFERS];
};

static void *buffer_take(struct train_pass *train)
{
    unsigned i = 0;
    while (train->used[i])
        i++;
    train->used[i] = true;
    return train->buffers[i];
}

static void buffer_give(struct train_pass *train, const void *buffer)
{
    for (unsigned i = 0; i < GRADIENT_BUFFERS; i++)
        if (train->buffers[i] == buffer)
            train->used[i] = false;
}

/* Its place among the outline's. */
static size_t conv_number(const struct plan *plan, const struct train_conv *conv)
{
    return (size_t)(conv - plan->train->convs);
}

static struct status conv_plan_operations(struct plan *plan, const struct conv_bn *described,
                                          bool needs_data_gradient, struct train_weights *weights)
{
    const struct conv_config config = {.shape = described->shape, .dtype = plan->backend->dtype};
    weights->param = described->weight_param;
    TRY(plan_add_conv(plan, PASS_FORWARD, &config, &weights->forward));
    if (needs_data_gradient)
        TRY(plan_add_conv(plan, PASS_BACKWARD_DATA, &config, &weights->backward_data));
    return plan_add_conv(plan, PASS_BACKWARD_WEIGHTS, &config, &weights->backward_weights);
}

static struct status conv_plan_tensors(struct plan *plan, const struct conv_bn *described,
                                       struct train_conv *conv)
{
    const struct conv_shape *shape = &described->shape;
    if (conv_rows(shape) < 2 && !plan->backend->sync_bn)
        FAIL(STATUS_USAGE,
             "one image of %u x %u pixels leaves one value a channel, which batch normalisation "
             "cannot train on: use a larger batch or larger images",
             plan->config.height, plan->config.width);
    TRY(bn_init(&conv->bn, described->bn_param, shape->channels_out, conv_rows(shape)));
    if (described->blurs)
        TRY(plan_alloc_elements(plan, conv_input_count(shape), &conv->blurred));
    return plan_alloc_elements(plan, conv_output_count(shape), &conv->y);
}

static struct status stem_plan_tensors(struct plan *plan, struct train_conv *stem)
{
    const struct pool_shape *pool = &plan->outline->pool;
    size_t count =
        (size_t)plan->outline->batch * pool->out_height * pool->out_width * pool->channels;
    TRY(plan_alloc_elements(plan, count, &stem->z));
    return plan_alloc(plan, MEMORY_ACTIVATIONS, count, &stem->mask);
}

static struct status block_plan_tensors(struct plan *plan, const struct block *block, const void *x)
{
    struct train_conv *convs = plan->train->convs;
    for (size_t i = block->first; i < block->first + block->length; i++) {
        size_t count = conv_output_count(&plan->outline->convs[i].shape);
        convs[i].x = i == block->first ? x : convs[i - 1].z;
        TRY(plan_alloc_elements(plan, count, &convs[i].z));
        if (i == block->first + block->length - 1)
            TRY(plan_alloc(plan, MEMORY_ACTIVATIONS, count / 8, &convs[i].mask));
    }
    if (block->has_shortcut)
        convs[block->shortcut].x = x;
    return OK;
}

static const void *block_output(const struct train_pass *train, const struct block *block)
{
    return train->convs[block->first + block->length - 1].z;
}

static struct status convs_plan(struct plan *plan)
{
    const struct outline *outline = plan->outline;
    struct train_conv *convs = plan->train->convs;
    for (size_t i = 0; i < outline->conv_count; i++) {
        TRY(conv_plan_operations(plan, &outline->convs[i], i > 0, &convs[i].weights));
        TRY(conv_plan_tensors(plan, &outline->convs[i], &convs[i]));
    }
    TRY(stem_plan_tensors(plan, &convs[0]));
    const void *x = convs[0].z;
    for (size_t i = 0; i < outline->block_count; i++) {
        TRY(block_plan_tensors(plan, &outline->blocks[i], x));
        x = block_output(plan->train, &outline->blocks[i]);
    }
    return OK;
}

static struct status head_plan(struct plan *plan)
{
    const struct outline *outline = plan->outline;
    struct train_pass *train = plan->train;
    size_t pooled = (size_t)outline->batch * outline->head_channels;
    size_t logits = (size_t)outline->batch * outline->classes;
    train->fc.param = outline->fc_param;
    TRY(plan_add_fc(plan, PASS_FORWARD, &train->fc.forward));
    TRY(plan_add_fc(plan, PASS_BACKWARD_DATA, &train->fc.backward_data));
    TRY(plan_add_fc(plan, PASS_BACKWARD_WEIGHTS, &train->fc.backward_weights));
    TRY(plan_alloc_elements(plan, pooled, &train->pooled));
    TRY(plan_alloc_elements(plan, pooled, &train->pooled_gradient));
    TRY(plan_alloc(plan, MEMORY_ACTIVATIONS, logits * sizeof(float), &train->logits_gradient));
    train->logits_gradient_elements = train->logits_gradient;
    if (plan->backend->dtype != DTYPE_F32)
        TRY(plan_alloc_elements(plan, logits, &train->logits_gradient_elements));
    return OK;
}

static struct status mixed_plan(struct plan *plan)
{
    const struct plan_config *config = &plan->config;
    const size_t pixels = (size_t)config->batch * config->height * config->width;
    return plan_alloc(plan, MEMORY_BATCHES, pixels * 3 * element_bytes(plan->backend),
                      &plan->train->mixed);
}

/* Every layer with weights: the convolutions, then the fully connected one. */
static struct train_weights *weights_of(struct plan *plan, size_t i)
{
    return i < plan->outline->conv_count ? &plan->train->convs[i].weights : &plan->train->fc;
}

static struct status store_take_layouts(struct plan *plan)
{
    CLEANUP(memory_free) const struct layout **wanted = NULL;
    TRY(memory_alloc(plan->store->network->param_count, sizeof *wanted, &wanted));
    for (size_t i = 0; i <= plan->outline->conv_count; i++) {
        const struct train_weights *weights = weights_of(plan, i);
        wanted[weights->param] = operation_weights(weights->backward_weights);
    }
    return store_adopt_layouts(plan->store, wanted);
}

/* Weights for `operation`: the store's, or `shared` (NULL: none yet) where its layout is the same,
 * or memory of their own. */
static struct status pass_weights_plan(struct plan *plan, size_t param,
                                       const struct operation *operation,
                                       const struct operation *shared_operation,
                                       const struct pass_weights *shared, struct pass_weights *pass)
{
    const struct layout *stored = plan->store->params[param].layout;
    const struct layout *wanted = operation_weights(operation);
    if (layout_equal(stored, wanted))
        return OK;
    if (shared && layout_equal(operation_weights(shared_operation), wanted)) {
        pass->own = shared->own;
        return OK;
    }
    TRY(plan_add_reorder(plan, stored, wanted, &pass->from_store));
    return plan_alloc(plan, MEMORY_PARAMETERS, layout_bytes(wanted), &pass->own);
}

static struct status weights_plan(struct plan *plan)
{
    size_t different_bytes = 0;
    for (size_t i = 0; i <= plan->outline->conv_count; i++) {
        struct train_weights *w = weights_of(plan, i);
        TRY(pass_weights_plan(plan, w->param, w->forward, NULL, NULL, &w->for_forward));
        if (w->backward_data)
            TRY(pass_weights_plan(plan, w->param, w->backward_data, w->forward, &w->for_forward,
                                  &w->for_backward));
        const struct layout *made = operation_weights(w->backward_weights);
        const struct layout *stored = plan->store->params[w->param].layout;
        if (layout_equal(made, stored))
            continue;
        TRY(plan_add_reorder(plan, made, stored, &w->gradient_to_store));
        if (layout_bytes(made) > different_bytes)
            different_bytes = layout_bytes(made);
    }
    return different_bytes
               ? plan_alloc(plan, MEMORY_GRADIENTS, different_bytes, &plan->train->weights_gradient)
               : OK;
}

static struct status gradients_plan(struct plan *plan)
{
    const struct outline *outline = plan->outline;
    size_t largest = 0;
    uint32_t channels_max = 0;
    for (size_t i = 0; i < outline->conv_count; i++) {
        const struct conv_shape *shape = &outline->convs[i].shape;
        size_t input = i > 0 ? conv_input_count(shape) : 0, output = conv_output_count(shape);
        largest = input > largest ? input : largest;
        largest = output > largest ? output : largest;
        channels_max = shape->channels_out > channels_max ? shape->channels_out : channels_max;
    }
    for (unsigned i = 0; i < GRADIENT_BUFFERS; i++)
        TRY(plan_alloc_elements(plan, largest, &plan->train->buffers[i]));
    return bn_sums_init(&plan->train->sums, plan->backend, channels_max);
}

struct status train_pass_open(struct plan *plan, struct train_pass **ret_train)
{
    /* Known to the plan at once, which closes it after a failure. */
    TRY(memory_alloc(1, sizeof **ret_train, ret_train));
    TRY(memory_alloc(plan->outline->conv_count, sizeof *plan->train->convs, &plan->train->convs));
    TRY(convs_plan(plan));
    TRY(head_plan(plan));
    TRY(store_take_layouts(plan));
    TRY(weights_plan(plan));
    if (plan->config.mixes)
        TRY(mixed_plan(plan));
    return gradients_plan(plan);
}

void train_pass_close(struct train_pass *train, const struct plan *plan)
{
    for (size_t i = 0; train->convs && i < plan->outline->conv_count; i++)
        bn_done(&train->convs[i].bn);
    memory_free(train->convs);
    bn_sums_done(&train->sums);
    memory_free(train);
}

static struct status weights_refresh(struct plan *plan)
{
    if (plan->version == plan->store->version)
        return OK;
    for (size_t i = 0; i <= plan->outline->conv_count; i++) {
        const struct train_weights *w = weights_of(plan, i);
        const struct pass_weights *const passes[] = {&w->for_forward, &w->for_backward};
        for (size_t j = 0; j < ARRAY_LENGTH(passes); j++)
            if (passes[j]->from_store)
                TRY(plan_run(plan, passes[j]->from_store, store_value(plan->store, w->param), NULL,
                             NULL, passes[j]->own));
    }
    plan->version = plan->store->version;
    return OK;
}

static void *pass_weights_of(const struct plan *plan, size_t param, const struct pass_weights *pass)
{
    return pass->own ? pass->own : store_value(plan->store, param);
}

static struct status layer_forward(struct plan *plan, const struct train_weights *w, const void *x,
                                   void *bias, void *y)
{
    return plan_run(plan, w->forward, (void *)x, pass_weights_of(plan, w->param, &w->for_forward),
                    bias, y);
}

static struct status layer_backward_data(struct plan *plan, const struct train_weights *w,
                                         void *y_gradient, void *x_gradient)
{
    return plan_run(plan, w->backward_data, x_gradient,
                    pass_weights_of(plan, w->param, &w->for_backward), NULL, y_gradient);
}

static struct status layer_backward_weights(struct plan *plan, const struct train_weights *w,
                                            const void *x, void *y_gradient)
{
    float *stored = store_gradient(plan->store, w->param);
    float *made = w->gradient_to_store ? plan->train->weights_gradient : stored;
    TRY(plan_run(plan, w->backward_weights, (void *)x, made, NULL, y_gradient));
    return w->gradient_to_store ? plan_run(plan, w->gradient_to_store, made, NULL, NULL, stored)
                                : OK;
}

/* What a convolution is applied to. */
static const void *conv_source(const struct train_conv *conv)
{
    return conv->blurred ? conv->blurred : conv->x;
}

static struct status conv_forward(struct plan *plan, struct train_conv *conv)
{
    if (conv->blurred)
        plan_blur(plan, conv_number(plan, conv), plan->outline->batch, conv->x, conv->blurred);
    TRY(layer_forward(plan, &conv->weights, conv_source(conv), NULL, conv->y));
    return bn_measure(&conv->bn, &plan->train->sums, plan->store, conv->y);
}

static struct bn_shortcut shortcut_of(const struct train_pass *train, const struct block *block)
{
    struct train_conv *conv = &train->convs[block->shortcut];
    return (struct bn_shortcut){&conv->bn, conv->y};
}

static struct status block_forward(struct plan *plan, const struct block *block)
{
    struct train_conv *convs = plan->train->convs;
    const size_t last = block->first + block->length - 1;
    const void *x = convs[block->first].x;
    for (size_t i = block->first; i < last; i++) {
        TRY(conv_forward(plan, &convs[i]));
        bn_apply_relu(&convs[i].bn, plan->backend, convs[i].y, convs[i].z);
    }
    TRY(conv_forward(plan, &convs[last]));
    if (block->has_shortcut)
        TRY(conv_forward(plan, &convs[block->shortcut]));
    struct bn_shortcut shortcut = shortcut_of(plan->train, block);
    bn_apply_add_relu(&convs[last].bn, plan->backend, convs[last].y, x,
                      block->has_shortcut ? &shortcut : NULL, convs[last].z, convs[last].mask);
    return OK;
}

static struct status forward(struct plan *plan, const void *images)
{
    const struct outline *outline = plan->outline;
    struct train_pass *train = plan->train;
    struct train_conv *stem = &train->convs[0];
    stem->x = images;
    TRY(conv_forward(plan, stem));
    bn_apply_relu_pool(&stem->bn, plan->backend, &outline->pool, stem->y, stem->z, stem->mask);
    const void *x = stem->z;
    for (size_t i = 0; i < outline->block_count; i++) {
        TRY(block_forward(plan, &outline->blocks[i]));
        x = block_output(train, &outline->blocks[i]);
    }
    plan_average(plan, x, train->pooled);
    return layer_forward(plan, &train->fc, train->pooled,
                         store_value(plan->store, outline->fc_param + 1), plan->logits);
}

/* The fully connected layer's bias, and its other gradients' input in the compute type. */
static void logits_gradient_finish(struct plan *plan)
{
    const struct train_pass *train = plan->train;
    const size_t batch = plan->outline->batch, classes = plan->outline->classes;
    float *bias_gradient = store_gradient(plan->store, plan->outline->fc_param + 1);
    uint16_t *halves = train->logits_gradient_elements;
    for (size_t c = 0; c < classes; c++) {
        double sum = 0;
        for (size_t i = 0; i < batch; i++)
            sum += (double)train->logits_gradient[i * classes + c];
        bias_gradient[c] = (float)sum;
    }
    if (plan->backend->dtype == DTYPE_BF16)
        for (size_t i = 0; i < batch * classes; i++)
            halves[i] = bf16_from_f32(train->logits_gradient[i]);
}

/* From the logits' gradient to that at the last block's output. */
static struct status head_backward(struct plan *plan, void *x_gradient)
{
    const struct backend *backend = plan->backend;
    const struct outline *outline = plan->outline;
    struct train_pass *train = plan->train;
    const size_t pixels = outline->head_pixels;
    logits_gradient_finish(plan);
    TRY(layer_backward_weights(plan, &train->fc, train->pooled, train->logits_gradient_elements));
    TRY(layer_backward_data(plan, &train->fc, train->logits_gradient_elements,
                            train->pooled_gradient));
    FOR_PARTS(part, backend->threads)
    {
        struct span images = span_part(outline->batch, 1, part, backend->threads);
        for (size_t i = images.begin; i < images.end; i++) {
            struct rows rows = {i * pixels, (i + 1) * pixels, outline->head_channels};
            backend->kernels->spread(rows, train->pooled_gradient, i, 1.0f / (float)pixels,
                                     x_gradient);
        }
    }
    return OK;
}

/* The gradient at an activation is p + q; q is NULL where nothing was added. */
struct gradient_pair {
    void *p, *q;
};

/* Replaces the gradient at a convolution's output by that at its input. */
static struct status conv_backward(struct plan *plan, const struct train_conv *conv,
                                   void **gradient)
{
    struct train_pass *train = plan->train;
    void *x_gradient = buffer_take(train);
    TRY(layer_backward_weights(plan, &conv->weights, conv_source(conv), *gradient));
    TRY(layer_backward_data(plan, &conv->weights, *gradient, x_gradient));
    buffer_give(train, *gradient);
    *gradient = x_gradient;
    if (!conv->blurred)
        return OK;
    void *unblurred_gradient = buffer_take(train);
    plan_blur(plan, conv_number(plan, conv), plan->outline->batch, x_gradient, unblurred_gradient);
    buffer_give(train, x_gradient);
    *gradient = unblurred_gradient;
    return OK;
}

/* From the gradient at a block's output to that at its input. */
static struct status block_backward(struct plan *plan, const struct block *block,
                                    struct gradient_pair *gradient)
{
    struct train_pass *train = plan->train;
    struct train_conv *convs = train->convs;
    const size_t last = block->first + block->length - 1;
    struct bn_shortcut shortcut = shortcut_of(train, block);
    void *branch = buffer_take(train), *side = gradient->p;
    TRY(bn_backward_add_relu(&convs[last].bn, &train->sums, plan->store, convs[last].y,
                             block->has_shortcut ? &shortcut : NULL, convs[last].mask, side,
                             gradient->q, branch));
    buffer_give(train, gradient->q);
    TRY(conv_backward(plan, &convs[last], &branch));
    for (size_t i = last; i-- > block->first;) {
        TRY(bn_backward_relu(&convs[i].bn, &train->sums, plan->store, convs[i].y, branch));
        TRY(conv_backward(plan, &convs[i], &branch));
    }
    if (block->has_shortcut)
        TRY(conv_backward(plan, &convs[block->shortcut], &side));
    *gradient = (struct gradient_pair){branch, side};
    return OK;
}

static struct status backward(struct plan *plan)
{
    const struct outline *outline = plan->outline;
    struct train_pass *train = plan->train;
    struct train_conv *stem = &train->convs[0];
    memset(train->used, 0, sizeof train->used);
    struct gradient_pair gradient = {buffer_take(train), NULL};
    TRY(head_backward(plan, gradient.p));
    for (size_t i = outline->block_count; i-- > 0;)
        TRY(block_backward(plan, &outline->blocks[i], &gradient));
    void *stem_gradient = buffer_take(train);
    TRY(bn_backward_relu_pool(&stem->bn, &train->sums, plan->store, &outline->pool, stem->y,
                              stem->mask, gradient.p, gradient.q, stem_gradient));
    return layer_backward_weights(plan, &stem->weights, stem->x, stem_gradient);
}

/* out = (1 − share) · a + share · b. */
static void image_mix(enum train_dtype dtype, size_t count, const void *a, const void *b,
                      float share, void *out)
{
    if (dtype == DTYPE_BF16) {
        const uint16_t *x = a, *y = b;
        uint16_t *z = out;
        for (size_t i = 0; i < count; i++)
            z[i] = bf16_from_f32((1 - share) * bf16_to_f32(x[i]) + share * bf16_to_f32(y[i]));
        return;
    }
    const float *x = a, *y = b;
    float *z = out;
    for (size_t i = 0; i < count; i++)
        z[i] = (1 - share) * x[i] + share * y[i];
}

/* The batch's images, mixed where it says so. */
static struct status images_find(struct plan *plan, const struct step_input *input,
                                 const void **ret_images)
{
    const struct plan_config *config = &plan->config;
    const struct backend *backend = plan->backend;
    const size_t count = (size_t)config->height * config->width * 3;
    const size_t bytes = count * element_bytes(backend);
    *ret_images = input->images;
    if (!(input->mixed_in > 0))
        return OK;
    if (!plan->train->mixed)
        TRY(mixed_plan(plan));
    FOR_PARTS(part, backend->threads)
    {
        struct span images = span_part(config->batch, 1, part, backend->threads);
        for (size_t i = images.begin; i < images.end; i++) {
            const size_t other = step_partner(input->labels, input->mixed_in, (uint32_t)i);
            const uint8_t *all = input->images;
            image_mix(backend->dtype, count, all + i * bytes, all + other * bytes,
                      other == i ? 0 : input->mixed_in, (uint8_t *)plan->train->mixed + i * bytes);
        }
    }
    *ret_images = plan->train->mixed;
    return OK;
}

struct status train_pass_run(struct plan *plan, const struct step_input *input,
                             struct step_metrics *ret_metrics)
{
    struct store *store = plan->store;
    const void *images;
    TRY(weights_refresh(plan));
    TRY(images_find(plan, input, &images));
    TRY(forward(plan, images));
    store->version++; /* the running statistics move */
    TRY(loss_run(&plan->loss, plan->logits, input->labels, input->mixed_in, plan->backend->threads,
                 stepping_loss_weight(&store->stepping, input->divisor),
                 plan->train->logits_gradient, ret_metrics));
    if (input->adds)
        TRY(store_keep_gradients(store));
    TRY(backward(plan));
    if (input->adds)
        store_add_gradients(store);
    if (input->completes)
        TRY(store_share(store));
    return OK;
}
