#include "train/cuda/engine.h"

#include <inttypes.h>

#include "base/memory.h"

enum { CONFIGS = 32, NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };

void engine_choice_done(struct engine_choice *choice)
{
    descriptor_close(choice->plan);
    descriptor_close(choice->config);
    *choice = (struct engine_choice){0};
}

static struct status set_target(cudnnBackendDescriptor_t descriptor,
                                const struct engine_rules *rules,
                                cudnnBackendAttributeName_t device_name)
{
    if (rules->handle) /* then the graph has brought it along */
        return OK;
    return descriptor_set_link(descriptor, device_name, rules->device);
}

/* Fills `configs` with what one heuristic recommends; none is no failure. */
static struct status configs_find(const struct engine_rules *rules, cudnnBackendDescriptor_t graph,
                                  cudnnBackendHeurMode_t mode, struct descriptor_list *configs)
{
    CLEANUP(descriptor_close) cudnnBackendDescriptor_t heuristics = NULL;
    cudnnBackendDescriptor_t config;
    int64_t count = 0;
    TRY(descriptor_open(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
    TRY(descriptor_set_link(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
    TRY(descriptor_set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    TRY(set_target(heuristics, rules, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP));
    TRY(descriptor_finish(heuristics));
    for (unsigned i = 0; i < CONFIGS; i++)
        TRY(descriptor_list_add(configs, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config));
    TRY_CUDNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &count,
                                       configs->all));
    while (configs->count > (size_t)count)
        descriptor_close(configs->all[--configs->count]);
    return OK;
}

/* Number and notes of the engine that a config is of. */
static struct status config_inspect(cudnnBackendDescriptor_t config, int64_t *ret_engine,
                                    uint32_t *ret_notes)
{
    CLEANUP(descriptor_close) cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES];
    int64_t count = 0;
    TRY(descriptor_open(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    TRY_CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
    TRY(descriptor_get_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, ret_engine));
    TRY_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                       CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, notes));
    *ret_notes = 0;
    for (int64_t i = 0; i < count && i < NOTES; i++)
        *ret_notes |= UINT32_C(1) << notes[i];
    return OK;
}

/* Finalises the plan whose source was set, and holds it against the limit. */
static struct status plan_finish(const struct engine_rules *rules, struct engine_choice *choice)
{
    int64_t workspace = 0;
    TRY(descriptor_finish(choice->plan));
    TRY(descriptor_get_int(choice->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &workspace));
    choice->workspace = (uint64_t)workspace;
    if (choice->workspace > rules->workspace_limit)
        FAIL(STATUS_UNSUPPORTED,
             "engine %" PRId64 " wants %" PRIu64 " bytes of workspace, %" PRIu64 " are allowed",
             choice->engine, choice->workspace, rules->workspace_limit);
    return OK;
}

static struct status plan_open(const struct engine_rules *rules, struct engine_choice *choice)
{
    TRY(descriptor_open(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &choice->plan));
    if (rules->handle)
        return descriptor_set(choice->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                              &rules->handle);
    return OK;
}

/* Takes `config` over when it succeeds. */
static struct status choice_make(const struct engine_rules *rules, cudnnBackendDescriptor_t *config,
                                 struct engine_choice *ret_choice)
{
    CLEANUP(engine_choice_done) struct engine_choice choice = {0};
    uint32_t notes = 0;
    TRY(config_inspect(*config, &choice.engine, &notes));
    if (notes & rules->forbidden_notes)
        FAIL(STATUS_UNSUPPORTED, "engine %" PRId64 " does not compute as exactly as asked for",
             choice.engine);
    TRY(plan_open(rules, &choice));
    TRY(descriptor_set_link(choice.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config));
    TRY(plan_finish(rules, &choice));
    choice.config = MOVE(*config);
    *ret_choice = choice;
    choice = (struct engine_choice){0};
    return OK;
}

struct status engine_choices_find(const struct engine_rules *rules, cudnnBackendDescriptor_t graph,
                                  struct engine_choice *ret_choices, size_t capacity,
                                  size_t *ret_count)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                   CUDNN_HEUR_MODE_FALLBACK};
    struct status refusal = OK;
    size_t count = 0;
    for (size_t m = 0; m < ARRAY_LENGTH(modes) && count < capacity; m++) {
        CLEANUP(descriptor_list_done) struct descriptor_list configs = {0};
        if (count > 0 && modes[m] == CUDNN_HEUR_MODE_FALLBACK)
            break;
        struct status status = configs_find(rules, graph, modes[m], &configs);
        for (size_t i = 0; status.code == STATUS_DONE && i < configs.count && count < capacity;
             i++) {
            struct status made = choice_make(rules, &configs.all[i], &ret_choices[count]);
            if (made.code == STATUS_DONE) {
                count++;
            } else {
                status_ignore(refusal);
                refusal = made;
            }
        }
        if (refusal.code == STATUS_DONE)
            refusal = status;
        else
            status_ignore(status);
    }
    *ret_count = count;
    if (count > 0) {
        status_ignore(refusal);
        return OK;
    }
    if (refusal.code == STATUS_DONE)
        FAIL(STATUS_UNSUPPORTED, "no engine is recommended for this device");
    refusal.code = STATUS_UNSUPPORTED;
    return status_context(refusal, "no engine runs it on this device");
}

struct status engine_choice_save(const struct engine_choice *choice, struct buffer *ret_json)
{
    int64_t count = 0;
    TRY_CUDNN(cudnnBackendGetAttribute(choice->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                       CUDNN_TYPE_CHAR, 0, &count, NULL));
    TRY(buffer_resize(ret_json, (size_t)count));
    TRY_CUDNN(cudnnBackendGetAttribute(choice->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                       CUDNN_TYPE_CHAR, count, &count, ret_json->data));
    return OK;
}

struct status engine_choice_load(const struct engine_rules *rules, const struct buffer *json,
                                 struct engine_choice *ret_choice)
{
    CLEANUP(engine_choice_done) struct engine_choice choice = {.engine = -1};
    TRY(plan_open(rules, &choice));
    TRY(set_target(choice.plan, rules, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP));
    TRY(descriptor_set(choice.plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                       json->length, json->data));
    TRY(plan_finish(rules, &choice));
    *ret_choice = choice;
    choice = (struct engine_choice){0};
    return OK;
}
