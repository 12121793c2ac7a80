#include "train/cuda/graph.h"

#include <inttypes.h>

#include "base/memory.h"
#include "train/cuda/planner.h"
#include "train/network.h"

const char *const plan_tensor_names[] = {
    [TENSOR_X] = "x",
    [TENSOR_Y] = "y",
    [TENSOR_Z] = "z",
    [TENSOR_DX] = "dx",
    [TENSOR_DY] = "dy",
    [TENSOR_DZ] = "dz",
    [TENSOR_W] = "w",
    [TENSOR_DW] = "dw",
    [TENSOR_W_BIAS] = "w_bias",
    [TENSOR_MASK] = "mask",
    [TENSOR_INDEX] = "index",
    [TENSOR_SCALE] = "scale",
    [TENSOR_BIAS] = "bias",
    [TENSOR_MEAN] = "mean",
    [TENSOR_INVSTD] = "invstd",
    [TENSOR_RUNNING_MEAN] = "running_mean",
    [TENSOR_RUNNING_VAR] = "running_var",
    [TENSOR_NEXT_RUNNING_MEAN] = "next_running_mean",
    [TENSOR_NEXT_RUNNING_VAR] = "next_running_var",
    [TENSOR_DSCALE] = "dscale",
    [TENSOR_DBIAS] = "dbias",
    [TENSOR_EQ_SCALE] = "eq_scale",
    [TENSOR_EQ_BIAS] = "eq_bias",
    [TENSOR_Z_SCALE] = "z_scale",
    [TENSOR_Z_BIAS] = "z_bias",
    [TENSOR_EQ_DY] = "eq_dy",
    [TENSOR_EQ_X] = "eq_x",
    [TENSOR_EQ_DBIAS] = "eq_dbias",
    [TENSOR_SUM] = "sum",
    [TENSOR_SQUARE_SUM] = "square_sum",
    [TENSOR_COUNT] = NULL,
};

enum { SCALARS = OPERAND_COUNT - OPERAND_EPSILON };

struct cudnn_plan {
    struct engine_choice choice;
    char *tag;
    struct plan_layout layouts[TENSOR_COUNT];
    uint64_t scalars; /* as in struct operation_graph */
    float epsilon, momentum, zero;
    int64_t elements;
};

struct status cudnn_plan_make(const struct plan_frame *frame, const char *text,
                              struct engine_choice *choice, struct cudnn_plan **ret_plan)
{
    CLEANUP(cudnn_plan_close) struct cudnn_plan *plan = NULL;
    TRY(memory_alloc(1, sizeof *plan, &plan));
    for (unsigned i = 0; i < TENSOR_COUNT; i++)
        plan->layouts[i] = frame->layouts[i];
    plan->scalars = frame->scalars;
    plan->elements = frame->elements;
    plan->epsilon = (float)BN_EPSILON;
    plan->momentum = (float)BN_MOMENTUM;
    if (choice->engine < 0)
        TRY(string_format(&plan->tag, "%s: engine from the cache, workspace %" PRIu64, text,
                          choice->workspace));
    else
        TRY(string_format(&plan->tag, "%s: engine %" PRId64 ", workspace %" PRIu64, text,
                          choice->engine, choice->workspace));
    plan->choice = *choice;
    *choice = (struct engine_choice){0};
    *ret_plan = MOVE(plan);
    return OK;
}

void cudnn_plan_close(struct cudnn_plan *plan)
{
    if (!plan)
        return;
    engine_choice_done(&plan->choice);
    memory_free(plan->tag);
    memory_free(plan);
}

const struct engine_choice *cudnn_plan_choice(const struct cudnn_plan *plan)
{
    return &plan->choice;
}

uint64_t cudnn_plan_workspace(const struct cudnn_plan *plan)
{
    return plan->choice.workspace;
}

const char *cudnn_plan_tag(const struct cudnn_plan *plan)
{
    return plan->tag;
}

const struct plan_layout *cudnn_plan_layout(const struct cudnn_plan *plan, enum plan_tensor tensor)
{
    return &plan->layouts[tensor];
}

/* Where each operand that cuDNN asks for stands: tensors in device memory, numbers in the plan. */
struct bindings {
    int64_t ids[OPERAND_COUNT];
    const void *pointers[OPERAND_COUNT];
    size_t count;
};

static void bind(struct bindings *bindings, unsigned operand, const void *pointer)
{
    bindings->ids[bindings->count] = operand_id(operand);
    bindings->pointers[bindings->count++] = pointer;
}

static struct status plan_bind(const struct cudnn_plan *plan, const struct plan_pointers *pointers,
                               struct bindings *bindings)
{
    const void *numbers[SCALARS] = {
        [OPERAND_EPSILON - OPERAND_EPSILON] = &plan->epsilon,
        [OPERAND_MOMENTUM - OPERAND_EPSILON] = &plan->momentum,
        [OPERAND_ZERO - OPERAND_EPSILON] = &plan->zero,
        [OPERAND_ELEMENTS - OPERAND_EPSILON] = &plan->elements,
    };
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        if (plan->layouts[i].bytes == 0)
            continue;
        if (!pointers->at[i])
            FAIL(STATUS_FAILED, "cuDNN: %s: no memory was given for %s", plan->tag,
                 plan_tensor_names[i]);
        bind(bindings, i, pointers->at[i]);
    }
    for (unsigned i = OPERAND_EPSILON; i < OPERAND_COUNT; i++)
        if (plan->scalars >> (i - TENSOR_COUNT) & 1)
            bind(bindings, i, numbers[i - OPERAND_EPSILON]);
    return OK;
}

static struct status bindings_run(const struct bindings *bindings, cudnnBackendDescriptor_t plan,
                                  cudnnHandle_t handle, void *workspace)
{
    CLEANUP(descriptor_close) cudnnBackendDescriptor_t pack = NULL;
    TRY(descriptor_open(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    TRY(descriptor_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, bindings->count,
                       bindings->ids));
    TRY(descriptor_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                       bindings->count, bindings->pointers));
    TRY(descriptor_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                       &workspace));
    TRY(descriptor_finish(pack));
    TRY_CUDNN(cudnnBackendExecute(handle, plan, pack));
    return OK;
}

struct status cudnn_plan_execute(const struct cudnn_plan *plan, cudnnHandle_t handle,
                                 const struct plan_pointers *pointers, void *workspace)
{
    struct bindings bindings = {.count = 0};
    TRY(plan_bind(plan, pointers, &bindings));
    return status_context(bindings_run(&bindings, plan->choice.plan, handle, workspace),
                          "cuDNN: %s", plan->tag);
}
