/* Evaluation: normalisations are folded into the convolutions before them, and ReLU and additions
 * are done as a convolution stores its output. The first layers, whose activations are large, run
 * for a few images at a time, so that what one writes is still in the cache when the next reads it.
 */

#include <math.h>

#include "base/memory.h"
#include "train/cpu/plan.h"

struct eval_layer {
    struct operation *forward;
    uint32_t images;              /* at a time */
    struct operation *to_weights; /* from torchvision's order in f32 */
    void *weights;
    float *bias;
};

/* Blocks [first, end), run for `images` images at a time. */
struct segment {
    size_t first, end;
    uint32_t images;
};

struct eval_pass {
    struct segment early, late; /* the early one has the stem */
    struct eval_layer *convs;   /* as the outline's */
    struct eval_layer fc;
    float *dense;        /* one layer's weights while they are folded */
    float *ones, *zeros; /* a normalisation that changes nothing, for the stem's pool */
    size_t joined_count; /* elements of one image in: */
    void *joined;        /* the early segment's output, for the whole batch */
    void *scratch[2];    /* blocks' outputs, alternating */
    void *inner[2];      /* between a branch's convolutions; inner[0] serves the stem too */
    void *blurred;       /* a convolution's input; NULL where none is blurred */
    void *pooled;        /* (batch, head_channels) */
};

static struct status layer_plan_weights(struct plan *plan, size_t param, struct eval_layer *layer)
{
    const struct param *described = &plan->store->network->params[param];
    const struct layout *wanted = operation_weights(layer->forward);
    CLEANUP(layout_close) struct layout *dense = NULL;
    TRY(layout_open_dense(described->rank, described->shape, &dense));
    TRY(plan_add_reorder(plan, dense, wanted, &layer->to_weights));
    return plan_alloc(plan, MEMORY_PARAMETERS, layout_bytes(wanted), &layer->weights);
}

static struct status conv_plan(struct plan *plan, size_t i, uint32_t images,
                               enum operation_post post)
{
    const struct conv_bn *described = &plan->outline->convs[i];
    struct eval_layer *layer = &plan->eval->convs[i];
    struct conv_config config = {
        .shape = described->shape,
        .dtype = plan->backend->dtype,
        .bias = true,
        .post = post,
    };
    config.shape.batch = images;
    layer->images = images;
    TRY(plan_add_conv(plan, PASS_FORWARD, &config, &layer->forward));
    TRY(layer_plan_weights(plan, described->weight_param, layer));
    return plan_alloc(plan, MEMORY_PARAMETERS, described->shape.channels_out * sizeof(float),
                      &layer->bias);
}

static struct status segment_plan(struct plan *plan, const struct segment *segment)
{
    for (size_t i = segment->first; i < segment->end; i++) {
        const struct block *block = &plan->outline->blocks[i];
        const size_t last = block->first + block->length - 1;
        for (size_t j = block->first; j < last; j++)
            TRY(conv_plan(plan, j, segment->images, POST_RELU));
        TRY(conv_plan(plan, last, segment->images, POST_ADD_RELU));
        if (block->has_shortcut)
            TRY(conv_plan(plan, block->shortcut, segment->images, POST_NONE));
    }
    return OK;
}

/* Elements of one image. */
static size_t image_input_count(const struct plan *plan, size_t conv)
{
    return conv_input_count(&plan->outline->convs[conv].shape) / plan->outline->batch;
}

static size_t image_output_count(const struct plan *plan, size_t conv)
{
    return conv_output_count(&plan->outline->convs[conv].shape) / plan->outline->batch;
}

static size_t pooled_count(const struct plan *plan)
{
    const struct pool_shape *pool = &plan->outline->pool;
    return (size_t)pool->out_height * pool->out_width * pool->channels;
}

static size_t block_last(const struct block *block)
{
    return block->first + block->length - 1;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The largest divisor of the batch up to `limit` images; the whole batch where that is few. */
static uint32_t images_choose(uint32_t batch, uint32_t limit)
{
    uint32_t images = limit;
    while (images > 1 && batch % images != 0)
        images--;
    return 2 * images >= limit ? images : batch;
}

/* Cuts where an image's activation has become small. */
static void segments_choose(struct plan *plan)
{
    const size_t large_bytes = 512 << 10;
    const uint32_t images_max = 2 * plan->backend->threads;
    const struct outline *outline = plan->outline;
    size_t cut = 0;
    while (cut < outline->block_count) {
        size_t input = image_input_count(plan, outline->blocks[cut].first);
        size_t output = image_output_count(plan, block_last(&outline->blocks[cut]));
        if (larger(input, output) * element_bytes(plan->backend) < large_bytes)
            break;
        cut++;
    }
    plan->eval->early = (struct segment){0, cut, images_choose(outline->batch, images_max)};
    plan->eval->late = (struct segment){cut, outline->block_count, outline->batch};
}

/* The largest input or output of a segment's blocks, and the largest tensor inside. */
struct segment_sizes {
    size_t outer, inner;
};

static struct segment_sizes segment_measure(const struct plan *plan, const struct segment *segment)
{
    struct segment_sizes sizes = {0};
    for (size_t i = segment->first; i < segment->end; i++) {
        const struct block *block = &plan->outline->blocks[i];
        sizes.outer = larger(sizes.outer, image_input_count(plan, block->first));
        sizes.outer = larger(sizes.outer, image_output_count(plan, block_last(block)));
        for (size_t j = block->first; j < block_last(block); j++)
            sizes.inner = larger(sizes.inner, image_output_count(plan, j));
    }
    return (struct segment_sizes){sizes.outer * segment->images, sizes.inner * segment->images};
}

/* The largest input that is blurred, of all images that pass it at a time. */
static size_t blurred_count(const struct plan *plan)
{
    const struct eval_pass *eval = plan->eval;
    size_t count = 0;
    for (size_t i = 0; i < plan->outline->conv_count; i++)
        if (plan->outline->convs[i].blurs)
            count = larger(count, image_input_count(plan, i) * eval->convs[i].images);
    return count;
}

static struct status activations_plan(struct plan *plan)
{
    const struct outline *outline = plan->outline;
    struct eval_pass *eval = plan->eval;
    struct segment_sizes early = segment_measure(plan, &eval->early);
    struct segment_sizes late = segment_measure(plan, &eval->late);
    size_t outer = larger(larger(early.outer, late.outer), pooled_count(plan) * eval->early.images);
    size_t inner =
        larger(larger(early.inner, late.inner), image_output_count(plan, 0) * eval->early.images);
    eval->joined_count =
        eval->early.end > 0
            ? image_output_count(plan, block_last(&outline->blocks[eval->early.end - 1]))
            : pooled_count(plan);
    TRY(plan_alloc_elements(plan, eval->joined_count * outline->batch, &eval->joined));
    TRY(plan_alloc_elements(plan, outer, &eval->scratch[0]));
    TRY(plan_alloc_elements(plan, outer, &eval->scratch[1]));
    TRY(plan_alloc_elements(plan, inner, &eval->inner[0]));
    TRY(plan_alloc_elements(plan, inner, &eval->inner[1]));
    if (blurred_count(plan) > 0)
        TRY(plan_alloc_elements(plan, blurred_count(plan), &eval->blurred));
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
    TRY(plan_alloc(plan, MEMORY_OTHER, dense * sizeof(float), &eval->dense));
    TRY(plan_alloc(plan, MEMORY_OTHER, channels * sizeof(float), &eval->ones));
    TRY(plan_alloc(plan, MEMORY_OTHER, channels * sizeof(float), &eval->zeros));
    for (uint32_t c = 0; eval->ones && c < channels; c++)
        eval->ones[c] = 1;
    return OK;
}

struct status eval_pass_open(struct plan *plan, struct eval_pass **ret_eval)
{
    /* Known to the plan at once, which closes it after a failure. */
    TRY(memory_alloc(1, sizeof **ret_eval, ret_eval));
    TRY(memory_alloc(plan->outline->conv_count, sizeof *plan->eval->convs, &plan->eval->convs));
    segments_choose(plan);
    TRY(conv_plan(plan, 0, plan->eval->early.images, POST_RELU));
    TRY(segment_plan(plan, &plan->eval->early));
    TRY(segment_plan(plan, &plan->eval->late));
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
    if (plan->outline->convs[i].blurs) {
        plan_blur(plan, i, layer->images, x, plan->eval->blurred);
        x = plan->eval->blurred;
    }
    return plan_run(plan, layer->forward, (void *)x, layer->weights, layer->bias, y);
}

/* Images [0, early.images) of y into z. */
static void stem_pool(const struct plan *plan, const void *y, void *z)
{
    const struct backend *backend = plan->backend;
    const struct pool_shape *pool = &plan->outline->pool;
    const struct bn_forward unchanged = {plan->eval->ones, plan->eval->zeros};
    const size_t rows = (size_t)plan->eval->early.images * pool->out_height;
    FOR_PARTS(part, backend->threads)
    {
        struct span span = span_part(rows, 1, part, backend->threads);
        for (size_t row = span.begin; row < span.end; row++)
            backend->kernels->pool_forward(pool, row, y, unchanged, z, NULL);
    }
}

/* The last convolution adds its output to what stands at `output`: the shortcut's output, or the
 * block's input, x itself. */
static struct status block_run(struct plan *plan, const struct block *block, const void *x,
                               void *output)
{
    const size_t last = block_last(block);
    if (block->has_shortcut)
        TRY(conv_forward(plan, block->shortcut, x, output));
    for (size_t i = block->first; i < last; i++) {
        void *y = plan->eval->inner[(i - block->first) % 2];
        TRY(conv_forward(plan, i, x, y));
        x = y;
    }
    return conv_forward(plan, last, x, output);
}

static bool shortcut_follows(const struct plan *plan, size_t block, const struct segment *segment)
{
    while (block < segment->end && !plan->outline->blocks[block].has_shortcut)
        block++;
    return block < segment->end;
}

/* Runs a segment on x, which is overwritten unless a shortcut comes first. From the last shortcut
 * on all happens in place: at `output`, or anywhere if that is NULL. */
static struct status segment_run(struct plan *plan, const struct segment *segment, void *x,
                                 void *output, void **ret_output)
{
    struct eval_pass *eval = plan->eval;
    for (size_t i = segment->first; i < segment->end; i++) {
        const struct block *block = &plan->outline->blocks[i];
        void *y = x;
        if (block->has_shortcut && output && !shortcut_follows(plan, i + 1, segment))
            y = output;
        else if (block->has_shortcut)
            y = x == eval->scratch[0] ? eval->scratch[1] : eval->scratch[0];
        TRY(block_run(plan, block, x, y));
        x = y;
    }
    *ret_output = x;
    return OK;
}

/* The stem and the early blocks, a few images at a time, into eval->joined. */
static struct status early_run(struct plan *plan, const void *images)
{
    const struct eval_pass *eval = plan->eval;
    const size_t bytes = element_bytes(plan->backend);
    for (uint32_t i = 0; i < plan->outline->batch; i += eval->early.images) {
        const char *image = (const char *)images + i * image_input_count(plan, 0) * bytes;
        void *output = (char *)eval->joined + i * eval->joined_count * bytes;
        void *pooled = shortcut_follows(plan, 0, &eval->early) ? eval->scratch[0] : output;
        TRY(conv_forward(plan, 0, image, eval->inner[0]));
        stem_pool(plan, eval->inner[0], pooled);
        TRY(segment_run(plan, &eval->early, pooled, output, &output));
    }
    return OK;
}

struct status eval_pass_run(struct plan *plan, const void *images, const int32_t *labels,
                            struct step_metrics *ret_metrics)
{
    struct eval_pass *eval = plan->eval;
    void *x;
    TRY(weights_refresh(plan));
    TRY(early_run(plan, images));
    TRY(segment_run(plan, &eval->late, eval->joined, NULL, &x));
    plan_average(plan, x, eval->pooled);
    TRY(plan_run(plan, eval->fc.forward, eval->pooled, eval->fc.weights,
                 store_value(plan->store, plan->outline->fc_param + 1), plan->logits));
    return loss_run(&plan->loss, plan->logits, labels, 0, plan->backend->threads, 0, NULL,
                    ret_metrics);
}
