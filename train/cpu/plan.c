#include "train/cpu/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

struct status plan_alloc(struct plan *plan, enum memory_kind kind, size_t size_bytes,
                         void *ret_pointer)
{
    void *tensor = NULL;
    plan->backend->use.bytes[kind] += size_bytes;
    if (plan->backend->forecast)
        return OK;
    TRY(memory_grow(plan->tensor_count + 1, sizeof *plan->tensors, &plan->tensors,
                    &plan->tensor_capacity));
    TRY(memory_alloc_tensor(size_bytes, &tensor));
    plan->tensors[plan->tensor_count++] = tensor;
    plan->bytes += size_bytes;
    memcpy(ret_pointer, &tensor, sizeof tensor);
    return OK;
}

struct status plan_alloc_elements(struct plan *plan, size_t count, void *ret_pointer)
{
    return plan_alloc(plan, MEMORY_ACTIVATIONS, count * element_bytes(plan->backend), ret_pointer);
}

static void plan_note_scratch(struct plan *plan, const struct operation *operation)
{
    size_t needed = operation_scratch_bytes(operation);
    if (needed > plan->scratch_bytes)
        plan->scratch_bytes = needed;
}

static bool conv_config_equal(const struct conv_config *a, const struct conv_config *b)
{
    return memcmp(&a->shape, &b->shape, sizeof a->shape) == 0 && a->dtype == b->dtype &&
           a->bias == b->bias && a->post == b->post;
}

static struct status conv_text(const struct planned_operation *planned, struct buffer *text)
{
    const struct conv_shape *s = &planned->config.shape;
    return buffer_append_text(text,
                              "%ux%u/%u convolution of (%u, %u, %u, %u) to %u channels, %s: %s",
                              s->kernel, s->kernel, s->stride, s->batch, s->height, s->width,
                              s->channels_in, s->channels_out, operation_pass_names[planned->pass],
                              operation_implementation(planned->operation));
}

/* With HEADRACE_CPU_VERBOSE in the environment, says which of oneDNN's implementations run. */
static struct status conv_announce(const struct planned_operation *planned)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const char *text;
    if (!getenv("HEADRACE_CPU_VERBOSE"))
        return OK;
    TRY(conv_text(planned, &buffer));
    TRY(buffer_text(&buffer, &text));
    log_note("%s", text);
    return OK;
}

struct status plan_add_conv(struct plan *plan, enum operation_pass pass,
                            const struct conv_config *config, struct operation **ret_operation)
{
    for (size_t i = 0; i < plan->conv_count; i++)
        if (plan->convs[i].pass == pass && conv_config_equal(&plan->convs[i].config, config)) {
            *ret_operation = plan->convs[i].operation;
            plan->convs[i].uses++;
            return OK;
        }
    TRY(memory_grow(plan->conv_count + 1, sizeof *plan->convs, &plan->convs, &plan->conv_capacity));
    struct operation *operation = NULL;
    TRY(operation_open_conv(plan->backend->onednn, pass, config, &operation));
    plan->convs[plan->conv_count++] =
        (struct planned_operation){pass, *config, operation, .uses = 1};
    plan_note_scratch(plan, operation);
    *ret_operation = operation;
    return conv_announce(&plan->convs[plan->conv_count - 1]);
}

/* Takes ownership of `operation`. */
static struct status plan_keep(struct plan *plan, struct operation *operation)
{
    CLEANUP(operation_close) struct operation *owned = operation;
    TRY(memory_grow(plan->other_count + 1, sizeof *plan->others, &plan->others,
                    &plan->other_capacity));
    plan_note_scratch(plan, owned);
    plan->others[plan->other_count++] = MOVE(owned);
    return OK;
}

struct status plan_add_fc(struct plan *plan, enum operation_pass pass,
                          struct operation **ret_operation)
{
    const struct fc_config config = {
        .batch = plan->outline->batch,
        .in = plan->outline->head_channels,
        .out = plan->outline->classes,
        .dtype = plan->backend->dtype,
    };
    TRY(operation_open_fc(plan->backend->onednn, pass, &config, ret_operation));
    plan->fc[pass] = *ret_operation;
    return plan_keep(plan, *ret_operation);
}

struct status plan_add_reorder(struct plan *plan, const struct layout *from,
                               const struct layout *to, struct operation **ret_operation)
{
    TRY(operation_open_reorder(plan->backend->onednn, from, to, ret_operation));
    return plan_keep(plan, *ret_operation);
}

struct status plan_run(struct plan *plan, struct operation *operation, void *input, void *weights,
                       void *bias, void *output)
{
    const struct operation_tensors tensors = {
        .input = input,
        .weights = weights,
        .bias = bias,
        .output = output,
        .scratch = plan->scratch,
    };
    return operation_run(operation, &tensors);
}

void plan_blur(const struct plan *plan, size_t conv, uint32_t images, const void *x, void *y)
{
    const struct backend *backend = plan->backend;
    const struct conv_shape *conv_shape = &plan->outline->convs[conv].shape;
    const struct image_shape shape = {conv_shape->height, conv_shape->width,
                                      conv_shape->channels_in};
    FOR_PARTS(part, backend->threads)
    {
        struct span rows = span_part((size_t)images * shape.height, 1, part, backend->threads);
        for (size_t row = rows.begin; row < rows.end; row++)
            backend->kernels->blur(&shape, row, x, y);
    }
}

void plan_average(const struct plan *plan, const void *x, void *pooled)
{
    const struct backend *backend = plan->backend;
    const struct outline *outline = plan->outline;
    const size_t pixels = outline->head_pixels;
    FOR_PARTS(part, backend->threads)
    {
        struct span images = span_part(outline->batch, 1, part, backend->threads);
        for (size_t i = images.begin; i < images.end; i++) {
            struct rows rows = {i * pixels, (i + 1) * pixels, outline->head_channels};
            backend->kernels->average(rows, x, 1.0f / (float)pixels, pooled, i);
        }
    }
}

static struct status plan_init(struct plan *plan)
{
    const struct plan_config *config = &plan->config;
    if (config->batch == 0)
        FAIL(STATUS_USAGE, "a batch needs at least one image");
    TRY(outline_open(plan->store->network, config->batch, config->height, config->width,
                     &plan->outline));
    const struct loss_shape loss = {
        .batch = config->batch,
        .classes = plan->outline->classes,
        .label_smoothing = config->mode == PLAN_TRAIN ? config->label_smoothing : 0,
    };
    TRY(loss_init(&plan->loss, &loss));
    TRY(plan_alloc(plan, MEMORY_ACTIVATIONS, (size_t)loss.batch * loss.classes * sizeof(float),
                   &plan->logits));
    if (config->mode == PLAN_TRAIN)
        TRY(train_pass_open(plan, &plan->train));
    else
        TRY(eval_pass_open(plan, &plan->eval));
    return plan_alloc(plan, MEMORY_WORKSPACE, plan->scratch_bytes, &plan->scratch);
}

struct status plan_open(struct store *store, const struct plan_config *config,
                        struct plan **ret_plan)
{
    CLEANUP(plan_close) struct plan *plan = NULL;
    TRY(memory_alloc(1, sizeof *plan, &plan));
    plan->backend = store->backend;
    plan->store = store;
    plan->config = *config;
    backend_enter(plan->backend);
    TRY(plan_init(plan));
    if (config->adds)
        TRY(store_need_earlier(store));
    *ret_plan = MOVE(plan);
    return OK;
}

void plan_close(struct plan *plan)
{
    if (!plan)
        return;
    if (plan->train)
        train_pass_close(plan->train, plan);
    eval_pass_close(plan->eval);
    for (size_t i = 0; i < plan->conv_count; i++)
        operation_close(plan->convs[i].operation);
    memory_free(plan->convs);
    for (size_t i = 0; i < plan->other_count; i++)
        operation_close(plan->others[i]);
    memory_free(plan->others);
    for (size_t i = 0; i < plan->tensor_count; i++)
        memory_free(plan->tensors[i]);
    memory_free(plan->tensors);
    loss_done(&plan->loss);
    outline_close(plan->outline);
    memory_free(plan);
}

struct status plan_forward_backward(struct plan *plan, const struct step_input *input)
{
    struct step_metrics metrics;
    if (!plan->train)
        FAIL(STATUS_USAGE, "an evaluation plan has no backward pass");
    backend_enter(plan->backend);
    TRY(train_pass_run(plan, input, &metrics));
    metrics_push(&plan->metrics, metrics, input, &plan->store->stepping);
    return OK;
}

struct status plan_forward(struct plan *plan, const struct step_input *input)
{
    struct step_metrics metrics;
    if (!plan->eval)
        FAIL(STATUS_USAGE, "a training plan does not evaluate");
    backend_enter(plan->backend);
    TRY(eval_pass_run(plan, input->images, input->labels, &metrics));
    metrics_push(&plan->metrics, metrics, NULL, &plan->store->stepping);
    return OK;
}

struct status plan_metrics(struct plan *plan, struct step_metrics *ret_metrics, size_t capacity,
                           size_t *ret_count)
{
    *ret_count = metrics_take(&plan->metrics, &plan->store->stepping, ret_metrics, capacity);
    return OK;
}

struct status plan_logits(struct plan *plan, float *ret_logits)
{
    size_t count = (size_t)plan->outline->batch * plan->outline->classes;
    memcpy(ret_logits, plan->logits, count * sizeof *ret_logits);
    return OK;
}

uint64_t plan_bytes(const struct plan *plan)
{
    return plan->bytes + store_bytes(plan->store);
}

/* The fully connected layer's choice in one pass. */
static struct status fc_choice(const struct plan *plan, enum operation_pass pass,
                               plan_choice_fn *fn, void *context)
{
    CLEANUP(memory_free) char *text = NULL;
    const struct outline *outline = plan->outline;
    TRY(string_format(&text, "fully connected layer of (%u, %u) to %u, %s: %s", outline->batch,
                      outline->head_channels, outline->classes, operation_pass_names[pass],
                      operation_implementation(plan->fc[pass])));
    const struct plan_choice choice = {text, 1, operation_scratch_bytes(plan->fc[pass])};
    return fn(&choice, context);
}

struct status plan_choices(const struct plan *plan, plan_choice_fn *fn, void *context)
{
    for (size_t i = 0; i < plan->conv_count; i++) {
        CLEANUP(buffer_done) struct buffer buffer = {0};
        const struct planned_operation *planned = &plan->convs[i];
        struct plan_choice choice = {
            .uses = planned->uses,
            .workspace_bytes = operation_scratch_bytes(planned->operation),
        };
        TRY(conv_text(planned, &buffer));
        TRY(buffer_text(&buffer, &choice.text));
        TRY(fn(&choice, context));
    }
    for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD_WEIGHTS; pass++)
        if (plan->fc[pass])
            TRY(fc_choice(plan, pass, fn, context));
    return OK;
}
