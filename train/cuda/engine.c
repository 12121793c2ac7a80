#include "train/cuda/engine.h"

#include <inttypes.h>

#include "base/memory.h"

enum {
    CONFIGS = 32,
    NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
    BEHAVIOURS = CUDNN_BEHAVIOR_NOTE_TYPE_COUNT,
};

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

static struct status heuristics_open(const struct engine_rules *rules,
                                     cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                                     cudnnBackendDescriptor_t *ret_heuristics)
{
    CLEANUP(descriptor_close) cudnnBackendDescriptor_t heuristics = NULL;
    TRY(descriptor_open(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
    TRY(descriptor_set_link(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
    TRY(descriptor_set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    TRY(set_target(heuristics, rules, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP));
    TRY(descriptor_finish(heuristics));
    *ret_heuristics = MOVE(heuristics);
    return OK;
}

/* Fills `configs` with the first that are recommended, at most `capacity`; none is no failure.
 * cuDNN writes the source of a kernel for each that it gives, so more take longer. */
static struct status configs_find(cudnnBackendDescriptor_t heuristics, size_t capacity,
                                  struct descriptor_list *configs)
{
    cudnnBackendDescriptor_t config;
    int64_t count = 0;
    for (size_t i = 0; i < capacity; i++)
        TRY(descriptor_list_add(configs, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config));
    TRY_CUDNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)capacity, &count,
                                       configs->all));
    while (configs->count > (size_t)count)
        descriptor_close(configs->all[--configs->count]);
    return OK;
}

/* What an engine says of itself. */
struct engine_facts {
    int64_t number;
    uint32_t notes; /* bits by cudnnBackendNumericalNote_t */
    bool compiled;  /* as a plan is finalised, which takes most of a second; else ready-made */
};

/* Of the engine that a config is of. */
static struct status config_inspect(cudnnBackendDescriptor_t config, struct engine_facts *ret_facts)
{
    CLEANUP(descriptor_close) cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES];
    cudnnBackendBehaviorNote_t behaviours[BEHAVIOURS];
    int64_t count = 0;
    TRY(descriptor_open(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    TRY_CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
    *ret_facts = (struct engine_facts){0};
    TRY(descriptor_get_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &ret_facts->number));
    TRY_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                       CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, notes));
    for (int64_t i = 0; i < count && i < NOTES; i++)
        ret_facts->notes |= UINT32_C(1) << notes[i];
    TRY_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                       CUDNN_TYPE_BEHAVIOR_NOTE, BEHAVIOURS, &count, behaviours));
    for (int64_t i = 0; i < count && i < BEHAVIOURS; i++)
        ret_facts->compiled |= behaviours[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    return OK;
}

/* Holds the workspace that `owner`, a plan or a config, tells of against the limit. */
static struct status workspace_take(const struct engine_rules *rules,
                                    cudnnBackendDescriptor_t owner,
                                    cudnnBackendAttributeName_t name, struct engine_choice *choice)
{
    int64_t workspace = 0;
    TRY(descriptor_get_int(owner, name, &workspace));
    choice->workspace = (uint64_t)workspace;
    if (choice->workspace > rules->workspace_limit)
        FAIL(STATUS_UNSUPPORTED,
             "engine %" PRId64 " wants %" PRIu64 " bytes of workspace, %" PRIu64 " are allowed",
             choice->engine, choice->workspace, rules->workspace_limit);
    return OK;
}

/* Finalises the plan whose source was set. */
static struct status plan_finish(const struct engine_rules *rules, struct engine_choice *choice)
{
    TRY(descriptor_finish(choice->plan));
    return workspace_take(rules, choice->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, choice);
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
    struct engine_facts facts;
    TRY(config_inspect(*config, &facts));
    choice.engine = facts.number;
    if (facts.notes & rules->forbidden_notes)
        FAIL(STATUS_UNSUPPORTED, "engine %" PRId64 " does not compute as exactly as asked for",
             choice.engine);
    if (facts.compiled && rules->uncompiled) {
        TRY(workspace_take(rules, *config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, &choice));
    } else {
        TRY(plan_open(rules, &choice));
        TRY(descriptor_set_link(choice.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config));
        TRY(plan_finish(rules, &choice));
    }
    choice.config = MOVE(*config);
    *ret_choice = choice;
    choice = (struct engine_choice){0};
    return OK;
}

/* Choices on their way. */
struct choosing {
    const struct engine_rules *rules;
    struct engine_choice *choices;
    size_t count, capacity;
    struct status refusal; /* the last */
};

static void choosing_refuse(struct choosing *choosing, struct status refusal)
{
    status_ignore(choosing->refusal);
    choosing->refusal = refusal;
}

/* Those of one heuristic: asks for few configs first, for more while too many are refused. */
static struct status choices_add(cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                                 struct choosing *choosing)
{
    CLEANUP(descriptor_close) cudnnBackendDescriptor_t heuristics = NULL;
    size_t seen = 0, wanted = choosing->capacity - choosing->count;
    TRY(heuristics_open(choosing->rules, graph, mode, &heuristics));
    for (;;) {
        CLEANUP(descriptor_list_done) struct descriptor_list configs = {0};
        TRY(configs_find(heuristics, wanted, &configs));
        for (; seen < configs.count && choosing->count < choosing->capacity; seen++) {
            struct status made = choice_make(choosing->rules, &configs.all[seen],
                                             &choosing->choices[choosing->count]);
            if (made.code == STATUS_DONE)
                choosing->count++;
            else
                choosing_refuse(choosing, made);
        }
        if (choosing->count == choosing->capacity || configs.count < wanted || wanted >= CONFIGS)
            return OK;
        wanted = wanted * 4 < CONFIGS ? wanted * 4 : CONFIGS;
    }
}

struct status engine_choices_find(const struct engine_rules *rules, cudnnBackendDescriptor_t graph,
                                  struct engine_choice *ret_choices, size_t capacity,
                                  size_t *ret_count)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                   CUDNN_HEUR_MODE_FALLBACK};
    struct choosing choosing = {rules, ret_choices, 0, capacity, OK};
    for (size_t m = 0; m < ARRAY_LENGTH(modes) && choosing.count < capacity; m++) {
        if (choosing.count > 0 && modes[m] == CUDNN_HEUR_MODE_FALLBACK)
            break;
        struct status status = choices_add(graph, modes[m], &choosing);
        if (choosing.refusal.code == STATUS_DONE)
            choosing.refusal = status;
        else
            status_ignore(status);
    }
    *ret_count = choosing.count;
    if (choosing.count > 0) {
        status_ignore(choosing.refusal);
        return OK;
    }
    if (choosing.refusal.code == STATUS_DONE)
        FAIL(STATUS_UNSUPPORTED, "no engine is recommended for this device");
    choosing.refusal.code = STATUS_UNSUPPORTED;
    return status_context(choosing.refusal, "no engine runs it on this device");
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
