#include "train/cuda/planner.h"

#include <string.h>

#include "base/memory.h"
#include "train/cuda/plan_cache.h"

enum { TUNED_CHOICES = 8 };

struct planner {
    struct engine_rules rules; /* its device is owned; the notes are each graph's own */
    enum train_dtype dtype;
    bool deterministic, tune;
    struct plan_cache *cache; /* NULL: none */
};

static uint32_t note(cudnnBackendNumericalNote_t note)
{
    return UINT32_C(1) << note;
}

/* What would cost accuracy beyond that of the type. Engines without a matrix product may say that
 * they use tensor cores, too: that is of no account. */
static uint32_t forbidden_notes(const struct planner *planner, bool convolves)
{
    uint32_t notes = note(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) |
                     note(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) |
                     note(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
    if (planner->dtype == DTYPE_F32 && convolves) /* tensor cores round f32 to TF32 */
        notes |= note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    if (planner->deterministic)
        notes |= note(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    return notes;
}

static struct status device_open(const char *json, cudnnBackendDescriptor_t *ret_device)
{
    CLEANUP(descriptor_close) cudnnBackendDescriptor_t device = NULL;
    TRY(descriptor_open(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device));
    TRY(descriptor_set(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                       strlen(json), json));
    TRY(descriptor_finish(device));
    *ret_device = MOVE(device);
    return OK;
}

struct status planner_open(const struct planner_config *config, struct planner **ret_planner)
{
    CLEANUP(planner_close) struct planner *planner = NULL;
    TRY(memory_alloc(1, sizeof *planner, &planner));
    planner->rules.handle = config->handle;
    planner->rules.workspace_limit = config->workspace_limit;
    planner->dtype = config->dtype;
    planner->deterministic = config->deterministic;
    planner->tune = config->tune && config->handle;
    planner->rules.uncompiled = config->uncompiled && !config->handle;
    if (!config->handle)
        TRY(status_context(device_open(config->device_json, &planner->rules.device),
                           "cuDNN: the description of %s", config->device_name));
    if (config->cache_folder)
        TRY(plan_cache_open(config->cache_folder, config->device_name, cudnnGetVersion(),
                            &planner->cache));
    *ret_planner = MOVE(planner);
    return OK;
}

void planner_close(struct planner *planner)
{
    if (!planner)
        return;
    descriptor_close(planner->rules.device);
    plan_cache_close(planner->cache);
    memory_free(planner);
}

cudnnDataType_t planner_type(const struct planner *planner)
{
    return planner->dtype == DTYPE_FP16   ? CUDNN_DATA_HALF
           : planner->dtype == DTYPE_BF16 ? CUDNN_DATA_BFLOAT16
                                          : CUDNN_DATA_FLOAT;
}

cudnnHandle_t planner_handle(const struct planner *planner)
{
    return planner->rules.handle;
}

/* A plan that an earlier run left. STATUS_NOT_FOUND, STATUS_CORRUPT and what cuDNN refuses all mean
 * that a new one has to be made, which then takes the old one's place. */
static struct status plan_recall(const struct planner *planner, const struct plan_frame *frame,
                                 const char *key, struct cudnn_plan **ret_plan)
{
    CLEANUP(buffer_done) struct buffer json = {0};
    CLEANUP(engine_choice_done) struct engine_choice choice = {0};
    bool tuned;
    TRY(plan_cache_read(planner->cache, key, &tuned, &json));
    if (planner->tune && !tuned)
        FAIL(STATUS_NOT_FOUND, "the plan was not timed");
    TRY(engine_choice_load(&planner->rules, &json, &choice));
    return cudnn_plan_make(frame, key, &choice, ret_plan);
}

static struct status plan_keep(const struct planner *planner, const char *key,
                               const struct cudnn_plan *plan)
{
    CLEANUP(buffer_done) struct buffer json = {0};
    TRY(engine_choice_save(cudnn_plan_choice(plan), &json));
    return plan_cache_write(planner->cache, key, planner->tune, &json);
}

static struct status plan_choose(const struct planner *planner, const struct plan_frame *frame,
                                 const struct operation_graph *graph, const char *key,
                                 struct cudnn_plan **ret_plan)
{
    struct engine_choice choices[TUNED_CHOICES] = {{0}};
    struct cudnn_plan *plans[TUNED_CHOICES] = {NULL};
    size_t count = 0, best = 0;
    struct engine_rules rules = planner->rules;
    rules.forbidden_notes = forbidden_notes(planner, graph->convolves);
    struct status status = engine_choices_find(&rules, graph->graph, choices,
                                               planner->tune ? TUNED_CHOICES : 1, &count);
    for (size_t i = 0; i < count && status.code == STATUS_DONE; i++)
        status = cudnn_plan_make(frame, key, &choices[i], &plans[i]);
    if (count > 1 && status.code == STATUS_DONE)
        status = cudnn_plans_time(planner->rules.handle, plans, count, &best);
    if (status.code == STATUS_DONE)
        *ret_plan = MOVE(plans[best]);
    for (size_t i = 0; i < count; i++) {
        engine_choice_done(&choices[i]);
        cudnn_plan_close(plans[i]);
    }
    return status;
}

struct status planner_make(struct planner *planner, const struct operation_graph *graph,
                           const char *text, int64_t elements, struct cudnn_plan **ret_plan)
{
    CLEANUP(memory_free) char *key = NULL;
    struct plan_frame frame = {.scalars = graph->scalars, .elements = elements};
    memcpy(frame.layouts, graph->layouts, sizeof frame.layouts);
    TRY(string_format(&key, "%s %s%s", text, train_dtype_names[planner->dtype],
                      planner->deterministic ? " deterministic" : ""));
    if (planner->cache) {
        struct status recalled = plan_recall(planner, &frame, key, ret_plan);
        if (recalled.code == STATUS_DONE)
            return OK;
        status_ignore(recalled);
    }
    TRY(plan_choose(planner, &frame, graph, key, ret_plan));
    if (planner->cache) /* without it the next run takes longer, no more */
        status_ignore(plan_keep(planner, key, *ret_plan));
    return OK;
}
