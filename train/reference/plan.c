#include <string.h>

#include "base/memory.h"
#include "train/reference/backend.h"
#include "train/reference/slots.h"

/* A node's tensors in one plan. */
struct place {
    struct window_shape window;
    size_t count;      /* elements of the output */
    real *value;       /* the output */
    real *gradient;    /* of the output; TRAIN plans only, NULL where nothing asks for it */
    int last_consumer; /* the last node that takes the output, which is the first to hand back a
                          gradient */
    double *bn_saved;  /* BN: reference_bn_forward's ret_saved */
    uint32_t *winner;  /* MAX_POOL: for the way back */
};

struct plan {
    struct store *store;
    const struct network *network;
    struct plan_config config;
    struct place *places; /* one a node */
    real **slots;         /* the memory behind values and gradients */
    size_t slot_count;
    uint64_t bytes;
    struct metrics_queue metrics;
};
CLEANUP_POINTER(reference_plan_close, struct plan)

static const struct place *input_place(const struct plan *plan, const struct node *node, int which)
{
    return &plan->places[node->inputs[which]];
}

/* The processes that normalise together; NULL: each by itself. */
static struct comm *bn_comm(const struct plan *plan)
{
    const struct backend *backend = plan->store->backend;
    return backend->sync_bn ? backend->comm : NULL;
}

static struct status places_shape(struct plan *plan)
{
    const struct network *network = plan->network;
    CLEANUP(memory_free) uint32_t(*sizes)[2] = NULL;
    TRY(memory_alloc(network->node_count, sizeof *sizes, &sizes));
    TRY(network_sizes(network, plan->config.height, plan->config.width, sizes));
    for (size_t i = 0; i < network->node_count; i++) {
        const struct node *node = &network->nodes[i];
        const uint32_t *in = node->inputs[0] < 0 ? sizes[i] : sizes[node->inputs[0]];
        struct place *place = &plan->places[i];
        place->window = (struct window_shape){
            .batch = plan->config.batch,
            .height = in[0],
            .width = in[1],
            .in = node->channels_in,
            .out_height = sizes[i][0],
            .out_width = sizes[i][1],
            .out = node->channels_out,
            .kernel = node->kernel,
            .stride = node->stride,
            .padding = node->padding,
        };
        place->count = (size_t)plan->config.batch * sizes[i][0] * sizes[i][1] * node->channels_out;
        place->last_consumer = -1;
        for (int j = 0; j < 2; j++)
            if (node->inputs[j] >= 0)
                plan->places[node->inputs[j]].last_consumer = (int)i;
        if (node->kind == NODE_BN && plan->config.mode == PLAN_TRAIN && !bn_comm(plan) &&
            place->count == node->channels_out)
            FAIL(STATUS_USAGE,
                 "one image of %u x %u pixels leaves one value a channel, which batch "
                 "normalisation cannot train on: use a larger batch or larger images",
                 plan->config.height, plan->config.width);
    }
    return OK;
}

/* Whether the backward pass makes a gradient of the node's output. */
static bool node_has_gradient(const struct node *node)
{
    return node->kind != NODE_INPUT && node->kind != NODE_LOSS;
}

/* When each value (entry i) and gradient (entry nodes + i) is in use: node i runs at moment i and,
 * on the way back, at moment 2·nodes − 1 − i. */
static void lives_make(const struct plan *plan, struct tensor_life *lives)
{
    int nodes = (int)plan->network->node_count;
    for (int i = 0; i < nodes; i++) {
        const struct node *node = &plan->network->nodes[i];
        const struct place *place = &plan->places[i];
        if (node->kind == NODE_LOSS)
            continue;
        bool train = plan->config.mode == PLAN_TRAIN;
        /* The logits are asked for after the last step. */
        int end = place->last_consumer == nodes - 1 ? 2 * nodes : place->last_consumer;
        int way_back = 2 * nodes - 1 - i;
        lives[i] = (struct tensor_life){
            .count = place->count,
            .birth = i,
            .death = train && end < way_back ? way_back : end,
        };
        if (train && node_has_gradient(node))
            lives[nodes + i] = (struct tensor_life){
                .count = place->count,
                .birth = 2 * nodes - 1 - place->last_consumer,
                .death = way_back,
            };
    }
}

static struct status tensor_open(struct plan *plan, size_t count, size_t size_bytes,
                                 void *ret_tensor)
{
    plan->bytes += count * size_bytes;
    return memory_alloc_tensor(count * size_bytes, ret_tensor);
}

static struct status slots_open(struct plan *plan)
{
    size_t nodes = plan->network->node_count;
    CLEANUP(memory_free) struct tensor_life *lives = NULL;
    CLEANUP(memory_free) size_t *sizes = NULL;
    TRY(memory_alloc(2 * nodes, sizeof *lives, &lives));
    TRY(memory_alloc(2 * nodes, sizeof *sizes, &sizes));
    TRY(memory_alloc(2 * nodes, sizeof *plan->slots, &plan->slots));
    lives_make(plan, lives);
    TRY(reference_slots_assign(lives, 2 * nodes, sizes, &plan->slot_count));
    for (size_t i = 0; i < plan->slot_count; i++)
        TRY(tensor_open(plan, sizes[i], sizeof(real), &plan->slots[i]));
    for (size_t i = 0; i < nodes; i++) {
        if (lives[i].count)
            plan->places[i].value = plan->slots[lives[i].slot];
        if (lives[nodes + i].count)
            plan->places[i].gradient = plan->slots[lives[nodes + i].slot];
    }
    return OK;
}

static struct status places_open(struct plan *plan)
{
    for (size_t i = 0; i < plan->network->node_count; i++) {
        const struct node *node = &plan->network->nodes[i];
        struct place *place = &plan->places[i];
        if (node->kind == NODE_MAX_POOL)
            TRY(tensor_open(plan, place->count, sizeof *place->winner, &place->winner));
        if (node->kind == NODE_BN)
            TRY(tensor_open(plan, 4 * (size_t)node->channels_out, sizeof *place->bn_saved,
                            &place->bn_saved));
    }
    return OK;
}

struct status reference_plan_open(struct store *store, const struct plan_config *config,
                                  struct plan **ret_plan)
{
    CLEANUP(reference_plan_close) struct plan *plan = NULL;
    TRY(memory_alloc(1, sizeof *plan, &plan));
    plan->store = store;
    plan->network = store->network;
    plan->config = *config;
    TRY(memory_alloc(plan->network->node_count, sizeof *plan->places, &plan->places));
    TRY(places_shape(plan));
    TRY(slots_open(plan));
    TRY(places_open(plan));
    *ret_plan = MOVE(plan);
    return OK;
}

void reference_plan_close(struct plan *plan)
{
    if (!plan)
        return;
    for (size_t i = 0; plan->places && i < plan->network->node_count; i++) {
        memory_free(plan->places[i].winner);
        memory_free(plan->places[i].bn_saved);
    }
    for (size_t i = 0; i < plan->slot_count; i++)
        memory_free(plan->slots[i]);
    memory_free(plan->slots);
    memory_free(plan->places);
    memory_free(plan);
}

/* A parameter of a node: `which` counts from its first one. */
static real *param_tensor(const struct plan *plan, const struct node *node, int which,
                          enum param_role role)
{
    return plan->store->tensors[node->first_param + which][role];
}

static struct status bn_run(struct plan *plan, const struct node *node, const struct place *place)
{
    const real *x = input_place(plan, node, 0)->value;
    size_t channels = node->channels_out, rows = place->count / channels;
    struct bn_params params = {
        .weight = param_tensor(plan, node, 0, ROLE_VALUE),
        .bias = param_tensor(plan, node, 1, ROLE_VALUE),
        .running_mean = param_tensor(plan, node, 2, ROLE_VALUE),
        .running_var = param_tensor(plan, node, 3, ROLE_VALUE),
    };
    struct pool *pool = plan->store->backend->pool;
    if (plan->config.mode == PLAN_EVAL)
        return reference_bn_infer(pool, rows, channels, x, &params, place->value);
    return reference_bn_forward(pool, bn_comm(plan), rows, channels, x, &params, place->value,
                                place->bn_saved);
}

static struct status node_forward(struct plan *plan, size_t i)
{
    struct pool *pool = plan->store->backend->pool;
    const struct node *node = &plan->network->nodes[i];
    const struct place *place = &plan->places[i];
    const struct window_shape *window = &place->window;
    const real *x = node->inputs[0] < 0 ? NULL : input_place(plan, node, 0)->value;
    switch (node->kind) {
    case NODE_CONV:
        return reference_conv_forward(pool, window, x, param_tensor(plan, node, 0, ROLE_VALUE),
                                      place->value);
    case NODE_BN:
        return bn_run(plan, node, place);
    case NODE_RELU:
        return reference_relu_forward(pool, place->count, x, place->value);
    case NODE_ADD:
        return reference_add_forward(pool, place->count, x, input_place(plan, node, 1)->value,
                                     place->value);
    case NODE_MAX_POOL:
        return reference_max_pool_forward(pool, window, x, place->value, place->winner);
    case NODE_GLOBAL_AVG_POOL:
        return reference_average_forward(pool, window->batch,
                                         (size_t)window->height * window->width, window->in, x,
                                         place->value);
    case NODE_BLUR:
        return reference_blur_forward(pool, window, x, place->value);
    case NODE_FC:
        return reference_fc_forward(pool, window->batch, window->in, window->out, x,
                                    param_tensor(plan, node, 0, ROLE_VALUE),
                                    param_tensor(plan, node, 1, ROLE_VALUE), place->value);
    case NODE_INPUT:
    case NODE_LOSS:
        break;
    }
    return OK;
}

/* The gradients of a node's parameters, and its part in the gradient `dx` of its first input (NULL:
 * not wanted). */
static struct status conv_backward(struct plan *plan, size_t i, const real *x, real *dx)
{
    struct pool *pool = plan->store->backend->pool;
    const struct node *node = &plan->network->nodes[i];
    const struct place *place = &plan->places[i];
    TRY(reference_conv_backward_weight(pool, &place->window, x, place->gradient,
                                       param_tensor(plan, node, 0, ROLE_GRADIENT)));
    if (!dx)
        return OK;
    return reference_conv_backward_data(pool, &place->window, place->gradient,
                                        param_tensor(plan, node, 0, ROLE_VALUE), dx);
}

static struct status node_backward(struct plan *plan, size_t i)
{
    struct pool *pool = plan->store->backend->pool;
    const struct node *node = &plan->network->nodes[i];
    const struct place *place = &plan->places[i];
    const struct window_shape *window = &place->window;
    const real *x = input_place(plan, node, 0)->value, *dy = place->gradient;
    real *dx = input_place(plan, node, 0)->gradient;
    switch (node->kind) {
    case NODE_CONV:
        return conv_backward(plan, i, x, dx);
    case NODE_BN:
        return reference_bn_backward(pool, bn_comm(plan), place->count / window->out, window->out,
                                     x, dy, param_tensor(plan, node, 0, ROLE_VALUE),
                                     place->bn_saved, dx,
                                     param_tensor(plan, node, 0, ROLE_GRADIENT),
                                     param_tensor(plan, node, 1, ROLE_GRADIENT));
    case NODE_RELU:
        return reference_relu_backward(pool, place->count, place->value, dy, dx);
    case NODE_ADD:
        TRY(reference_add_backward(pool, place->count, dy, dx));
        return reference_add_backward(pool, place->count, dy, input_place(plan, node, 1)->gradient);
    case NODE_MAX_POOL:
        return reference_max_pool_backward(pool, window, dy, place->winner, dx);
    case NODE_GLOBAL_AVG_POOL:
        return reference_average_backward(pool, window->batch,
                                          (size_t)window->height * window->width, window->in, dy,
                                          dx);
    case NODE_BLUR:
        return reference_blur_backward(pool, window, dy, dx);
    case NODE_FC:
        return reference_fc_backward(pool, window->batch, window->in, window->out, x,
                                     param_tensor(plan, node, 0, ROLE_VALUE), dy, dx,
                                     param_tensor(plan, node, 0, ROLE_GRADIENT),
                                     param_tensor(plan, node, 1, ROLE_GRADIENT));
    case NODE_INPUT:
    case NODE_LOSS:
        break;
    }
    return OK;
}

static const struct place *logits_place(const struct plan *plan)
{
    return input_place(plan, &plan->network->nodes[plan->network->node_count - 1], 0);
}

/* The images into the first node's output, mixed where the input says so. */
static void images_take(const struct plan *plan, const struct step_input *input)
{
    const struct place *first = &plan->places[0];
    const size_t size = first->count / plan->config.batch;
    const float mixed_in = plan->config.mode == PLAN_TRAIN ? input->mixed_in : 0;
    for (uint32_t n = 0; n < plan->config.batch; n++) {
        const uint32_t partner = step_partner(input->labels, mixed_in, n);
        const float *image = (const float *)input->images + n * size;
        const float *other = (const float *)input->images + partner * size;
        for (size_t i = 0; i < size; i++)
            first->value[n * size + i] =
                partner == n ? (real)image[i]
                             : (1 - (real)mixed_in) * image[i] + (real)mixed_in * other[i];
    }
}

/* From the images to the loss; in TRAIN plans the logits' gradient too. */
static struct status forward_run(struct plan *plan, const struct step_input *input)
{
    TRY(step_check_labels(input->labels, plan->config.batch, plan->network->classes));
    images_take(plan, input);
    for (size_t i = 1; i < plan->network->node_count; i++)
        TRY(node_forward(plan, i));

    const struct place *logits = logits_place(plan);
    const struct stepping *stepping = &plan->store->stepping;
    bool train = plan->config.mode == PLAN_TRAIN;
    struct loss_sums sums;
    reference_loss(plan->config.batch, plan->network->classes, logits->value, input->labels,
                   train ? plan->config.label_smoothing : 0, train ? input->mixed_in : 0,
                   stepping_loss_weight(stepping, input->divisor), logits->gradient, &sums);
    const struct step_metrics metrics = {
        .loss_sum = sums.loss,
        .top1 = sums.top1,
        .top5 = sums.top5,
        .count = sums.count,
    };
    metrics_push(&plan->metrics, metrics, train ? input : NULL, stepping);
    return OK;
}

struct status reference_plan_forward(struct plan *plan, const struct step_input *input)
{
    return forward_run(plan, input);
}

static struct status backward_run(struct plan *plan)
{
    for (size_t i = plan->network->node_count - 2; i > 0; i--) {
        const struct node *node = &plan->network->nodes[i];
        for (int j = 0; j < 2 && node->inputs[j] >= 0; j++) {
            const struct place *from = input_place(plan, node, j);
            if (from->gradient && from->last_consumer == (int)i)
                memset(from->gradient, 0, sizeof(real) * from->count);
        }
        TRY(node_backward(plan, i));
    }
    return OK;
}

struct status reference_plan_forward_backward(struct plan *plan, const struct step_input *input)
{
    if (input->adds)
        TRY(reference_store_keep_gradients(plan->store));
    TRY(forward_run(plan, input));
    TRY(backward_run(plan));
    if (input->adds)
        reference_store_add_gradients(plan->store);
    return input->completes ? reference_store_share(plan->store) : OK;
}

struct status reference_plan_metrics(struct plan *plan, struct step_metrics *ret_metrics,
                                     size_t capacity, size_t *ret_count)
{
    *ret_count = metrics_take(&plan->metrics, &plan->store->stepping, ret_metrics, capacity);
    return OK;
}

struct status reference_plan_logits(struct plan *plan, float *ret_logits)
{
    const struct place *logits = logits_place(plan);
    for (size_t i = 0; i < logits->count; i++)
        ret_logits[i] = (float)logits->value[i];
    return OK;
}

uint64_t reference_plan_bytes(const struct plan *plan)
{
    return plan->bytes + plan->store->bytes;
}
