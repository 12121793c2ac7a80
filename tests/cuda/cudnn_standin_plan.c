#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudart_standin.h"
#include "tests/cuda/cudnn_standin_internal.h"

/* --- For what there are engines --------------------------------------------------------------- */

static _Atomic int refused = CUDNN_BACKEND_TENSOR_DESCRIPTOR;

void cudnn_standin_refuse(cudnnBackendDescriptorType_t operation)
{
    refused = operation;
}

static bool is_conv(const struct node *node)
{
    return node->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           node->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           node->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

static bool is_half(const struct tensor *tensor)
{
    return tensor->type == CUDNN_DATA_HALF || tensor->type == CUDNN_DATA_BFLOAT16;
}

/* The node that writes the tensor in a slot; NULL: none. */
static const struct node *writer(const struct program *program, const struct node *node, int slot)
{
    int w = program->tensors[node->slots[slot]].writer;
    return w < 0 ? NULL : &program->nodes[w];
}

static const char *conv_refusal(const struct program *program, const struct node *node)
{
    const struct tensor *x = &program->tensors[node->slots[CONV_X]];
    const struct tensor *w = &program->tensors[node->slots[CONV_W]];
    const struct tensor *y = &program->tensors[node->slots[CONV_Y]];
    const bool weights =
        node->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    if (program->node_count > 1 && (x->dims[1] % 2 || y->dims[1] % 2))
        return "a fused convolution with an odd number of channels";
    if (weights && !w->is_virtual && is_half(y) && !is_half(w))
        return "wgrad from half that writes f32 by itself";
    if (weights && x->is_virtual && (y->type != CUDNN_DATA_HALF || w->type != CUDNN_DATA_HALF))
        return "scale-bias-relu before wgrad in another type than half";
    if (node->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR && y->is_virtual)
        return "pointwise operations before dgrad";
    return NULL;
}

/* A tensor, named by its slot, whose elements 31 bits do not count. */
static bool is_too_large(const struct program *program, const struct node *node, int slot)
{
    return tensor_elements(&program->tensors[node->slots[slot]]) > INT32_MAX;
}

static const char *node_refusal(const struct program *program, const struct node *node)
{
    const struct node *before;
    switch (node->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        if (node->mode != CUDNN_POINTWISE_CMP_GT)
            return NULL;
        before = writer(program, node, POINTWISE_X);
        return before && before->mode == CUDNN_POINTWISE_RELU_FWD &&
                       !program->tensors[node->slots[POINTWISE_X]].is_virtual
                   ? NULL
                   : "a mask of something else than the relu's output";
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
        return program->node_count == 1 ? "statistics by themselves" : NULL;
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
        if (is_too_large(program, node, NORM_X))
            return "normalisation of 2^31 elements and more";
        return program->node_count == 1 && node->mode == CUDNN_NORM_FWD_INFERENCE
                   ? "normalisation for inference by itself"
                   : NULL;
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
        before = writer(program, node, NORM_BWD_DY);
        if (!before || before->mode != CUDNN_POINTWISE_RELU_BWD)
            return NULL;
        before = writer(program, before, POINTWISE_X);
        return before && before->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
                   ? NULL
                   : "a relu's gradient that does not come from a normalisation";
    case CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR:
        return program->tensors[node->slots[FINALIZE_EQ_SCALE]].type == CUDNN_DATA_BFLOAT16
                   ? "scale and bias in bf16"
                   : NULL;
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR:
        return program->tensors[node->slots[DBN_X]].type != CUDNN_DATA_HALF ||
                       program->node_count == 1
                   ? "dBN weights in another type than half, or by themselves"
                   : NULL;
    default:
        return is_conv(node) ? conv_refusal(program, node) : NULL;
    }
}

/* scale · x + bias before a convolution in half wants scale and bias in half. */
static bool has_wide_prologue(const struct program *program)
{
    const struct node *first = &program->nodes[0];
    if (first->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
        first->mode != CUDNN_POINTWISE_MUL)
        return false;
    bool convolves = false;
    for (int i = 0; i < program->node_count; i++)
        convolves |= is_conv(&program->nodes[i]);
    return convolves && program->tensors[first->slots[POINTWISE_X]].type == CUDNN_DATA_HALF &&
           program->tensors[first->slots[POINTWISE_B]].type != CUDNN_DATA_HALF;
}

const char *program_refusal(const struct program *program)
{
    if (has_wide_prologue(program))
        return "scale and bias before a convolution in half are not half";
    for (int i = 0; i < program->node_count; i++) {
        if ((int)program->nodes[i].type == refused)
            return "the test refuses this operation";
        const char *why = node_refusal(program, &program->nodes[i]);
        if (why)
            return why;
    }
    return NULL;
}

/* --- Engines ---------------------------------------------------------------------------------- */

enum { ENGINE_FAST = 0, ENGINE_STEADY, ENGINE_EXACT, ENGINES };

static bool has_node(const struct program *program, cudnnBackendDescriptorType_t type)
{
    for (int i = 0; i < program->node_count; i++)
        if (program->nodes[i].type == type)
            return true;
    return false;
}

/* Engines of a graph, the one recommended first first. */
static int engines_of(const struct program *program, int *ret_engines)
{
    bool convolves = false;
    int count = 0;
    if (program_refusal(program))
        return 0;
    for (int i = 0; i < program->node_count; i++)
        convolves |= is_conv(&program->nodes[i]);
    if (convolves) {
        ret_engines[count++] = ENGINE_FAST;
        ret_engines[count++] = ENGINE_STEADY;
    }
    if (!has_node(program, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR))
        ret_engines[count++] = ENGINE_EXACT;
    return count;
}

static int engine_notes(const struct program *program, int engine,
                        cudnnBackendNumericalNote_t *ret_notes)
{
    int count = 0;
    if (engine != ENGINE_EXACT)
        ret_notes[count++] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (engine == ENGINE_FAST &&
        has_node(program, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR))
        ret_notes[count++] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return count;
}

/* As if the one that runs everything were compiled for each graph. */
static int engine_behaviours(int engine, cudnnBackendBehaviorNote_t *ret_notes)
{
    ret_notes[0] = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    return engine == ENGINE_EXACT ? 1 : 0;
}

static int64_t engine_workspace(int engine)
{
    return engine == ENGINE_EXACT ? 512 : 4096 >> engine;
}

/* --- Plans as text ---------------------------------------------------------------------------- */

static const char plan_format[] = "{\"standin\":%d,\"engine\":%d,\"program\":\"";

/* Returns heap memory. */
static char *plan_print(const struct descriptor *plan)
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    fprintf(file, plan_format, CUDNN_VERSION, plan->engine);
    program_write(plan->program, file);
    fputs("\"}", file);
    fclose(file);
    return text;
}

static cudnnStatus_t plan_parse(const struct attribute *json, struct descriptor *plan)
{
    int version = 0, engine = -1;
    FILE *file = fmemopen(json->values, (size_t)json->count, "r");
    if (file && fscanf(file, plan_format, &version, &engine) == 2 && version == CUDNN_VERSION &&
        engine >= 0 && engine < ENGINES)
        plan->program = program_read(file);
    if (file)
        fclose(file);
    plan->engine = engine;
    return plan->program ? CUDNN_STATUS_SUCCESS : refuse(CUDNN_STATUS_BAD_PARAM, "this is no plan");
}

cudnnStatus_t plan_check(struct descriptor *plan);
cudnnStatus_t plan_check(struct descriptor *plan)
{
    const struct descriptor *config = attribute_link(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct attribute *json =
        attribute_find(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    if (!config == !json)
        return refuse(CUDNN_STATUS_BAD_PARAM, "a plan needs a config or a text");
    if (json && !attribute_find(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) &&
        !attribute_find(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP))
        return refuse(CUDNN_STATUS_BAD_PARAM, "neither a handle nor a device was given");
    if (json)
        return plan_parse(json, plan);
    plan->program = program_hold(config->program);
    plan->engine = config->engine;
    return CUDNN_STATUS_SUCCESS;
}

/* --- What can be asked ------------------------------------------------------------------------ */

static cudnnStatus_t heuristics_results(const struct descriptor *heuristics, int64_t capacity,
                                        int64_t *ret_count, struct descriptor *const *configs)
{
    int engines[ENGINES];
    int mode = attribute_enum(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE);
    int count = mode == CUDNN_HEUR_MODE_B ? 0 : engines_of(heuristics->program, engines);
    *ret_count = 0;
    for (int i = 0; i < count && i < capacity; i++) {
        struct descriptor *config = configs[i];
        if (config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || config->finalized)
            return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "value %d is no new config", i);
        config->program = program_hold(heuristics->program);
        config->engine = engines[i];
        config->finalized = true;
        *ret_count = i + 1;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t plan_text(const struct descriptor *plan, int64_t capacity, int64_t *ret_count,
                               char *ret_text)
{
    char *text = plan_print(plan);
    *ret_count = (int64_t)strlen(text);
    if (ret_text)
        memcpy(ret_text, text, (size_t)(*ret_count < capacity ? *ret_count : capacity));
    free(text);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t pointer,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t capacity,
                                       int64_t *ret_count, void *ret_values)
{
    const struct descriptor *descriptor = pointer;
    (void)type;
    if (!descriptor->finalized)
        return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d", name);
    *ret_count = 1;
    switch ((int)name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return heuristics_results(descriptor, capacity, ret_count, ret_values);
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
        struct descriptor *engine = *(struct descriptor **)ret_values;
        engine->program = program_hold(descriptor->program);
        engine->engine = descriptor->engine;
        engine->finalized = true;
        return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *(int64_t *)ret_values = descriptor->engine;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        *ret_count = engine_notes(descriptor->program, descriptor->engine, ret_values);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        *ret_count = engine_behaviours(descriptor->engine, ret_values);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)ret_values = engine_workspace(descriptor->engine);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
        return plan_text(descriptor, capacity, ret_count, ret_values);
    default:
        return refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d cannot be read", name);
    }
}

/* --- Executing -------------------------------------------------------------------------------- */

struct execution {
    struct program *program;
    void *pointers[PROGRAM_TENSORS];
    int64_t numbers[PROGRAM_TENSORS]; /* copies of what is given by value */
    void *workspace;
    size_t workspace_bytes;
};

static bool execution_run(void *context)
{
    struct execution *execution = context;
    memset(execution->workspace, 0xff, execution->workspace_bytes);
    program_run(execution->program, execution->pointers);
    return true;
}

static void execution_free(void *context)
{
    struct execution *execution = context;
    program_release(execution->program);
    free(execution);
}

static uint64_t tensor_bytes(const struct tensor *tensor)
{
    return (uint64_t)tensor_elements(tensor) * type_bytes(tensor->type);
}

static bool on_device(const void *pointer, uint64_t bytes)
{
    int first, last;
    return standin_is_device_memory(pointer, &first) &&
           standin_is_device_memory((const char *)pointer + bytes - 1, &last) && first == last;
}

/* Whether tensor `a`, which is written, lies on `b`; a vector may stand where another did. */
static bool overlap(const struct execution *execution, int a, int b)
{
    const struct tensor *t = execution->program->tensors;
    const char *p = execution->pointers[a], *q = execution->pointers[b];
    if (a == b || t[b].by_value || t[b].is_virtual)
        return false;
    if (p == q && tensor_elements(&t[a]) == t[a].dims[1] &&
        tensor_elements(&t[b]) == t[b].dims[1] && t[b].writer < 0)
        return false;
    return p < q + tensor_bytes(&t[b]) && q < p + tensor_bytes(&t[a]);
}

/* Finds each tensor's pointer in the pack. */
static cudnnStatus_t execution_bind(struct execution *execution, const struct descriptor *pack)
{
    const struct attribute *ids = attribute_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    void *const *pointers = attribute_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->values;
    const struct program *program = execution->program;
    for (int t = 0; t < program->tensor_count; t++) {
        const struct tensor *tensor = &program->tensors[t];
        void *pointer = NULL;
        for (int64_t i = 0; i < ids->count; i++)
            if (((const int64_t *)ids->values)[i] == tensor->id)
                pointer = pointers[i];
        if (tensor->is_virtual)
            continue;
        if (!pointer)
            return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor %lld has no memory",
                          (long long)tensor->id);
        if (tensor->by_value) {
            memcpy(&execution->numbers[t], pointer, type_bytes(tensor->type));
            execution->pointers[t] = &execution->numbers[t];
            continue;
        }
        if ((uintptr_t)pointer % 16 != 0)
            return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor %lld",
                          (long long)tensor->id);
        if (!on_device(pointer, tensor_bytes(tensor)))
            return refuse(CUDNN_STATUS_BAD_PARAM, "tensor %lld is not in device memory",
                          (long long)tensor->id);
        execution->pointers[t] = pointer;
    }
    for (int a = 0; a < program->tensor_count; a++)
        for (int b = 0; b < program->tensor_count; b++)
            if (program->tensors[a].writer >= 0 && !program->tensors[a].is_virtual &&
                overlap(execution, a, b))
                return refuse(CUDNN_STATUS_BAD_PARAM, "tensor %lld lies on tensor %lld",
                              (long long)program->tensors[a].id, (long long)program->tensors[b].id);
    return CUDNN_STATUS_SUCCESS;
}

static const char *program_label(const struct program *program)
{
    for (int i = 0; i < program->node_count; i++)
        switch (program->nodes[i].type) {
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
            return "cudnn conv";
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
            return "cudnn dgrad";
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
            return "cudnn wgrad";
        case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
            return "cudnn bn backward";
        case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
            return "cudnn pool backward";
        default:
            break;
        }
    return "cudnn";
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_pointer,
                                  cudnnBackendDescriptor_t pack_pointer)
{
    const struct descriptor *plan = plan_pointer, *pack = pack_pointer;
    if (!handle || plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !plan->finalized ||
        pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !pack->finalized)
        return refuse(CUDNN_STATUS_BAD_PARAM, "a handle, a plan and a pack are needed");
    struct execution *execution = calloc(1, sizeof *execution);
    execution->program = program_hold(plan->program);
    execution->workspace =
        *(void *const *)attribute_find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->values;
    execution->workspace_bytes = (size_t)engine_workspace(plan->engine);
    cudnnStatus_t status = execution_bind(execution, pack);
    if (status == CUDNN_STATUS_SUCCESS &&
        !on_device(execution->workspace, execution->workspace_bytes))
        status = refuse(CUDNN_STATUS_BAD_PARAM, "the workspace is not in device memory");
    if (status != CUDNN_STATUS_SUCCESS) {
        execution_free(execution);
        return status;
    }
    const struct standin_work work = {.label = program_label(plan->program),
                                      .try_run = execution_run,
                                      .context = execution,
                                      .release = execution_free};
    return standin_enqueue(handle->stream, &work) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream does not take it");
}
