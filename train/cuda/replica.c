#include "base/memory.h"
#include "train/cuda/errors.h"
#include "train/cuda/plan.h"

struct planning {
    const struct plan *plan;
    struct device *device;
    struct plan_replica *replica;
};

static struct status one_plan_make(uint64_t item, unsigned thread, void *context)
{
    const struct planning *planning = context;
    const struct planned *planned = &planning->plan->program->plans[item];
    (void)thread;
    return cudnn_plan_open(planning->device->planner, planned->pattern, &planned->shape,
                           &planning->replica->plans[item]);
}

/* A planner with a handle is for one thread; one that only knows a description is for all. */
static struct status plans_make(const struct plan *plan, struct device *device,
                                struct plan_replica *replica)
{
    CLEANUP(pool_close) struct pool *pool = NULL;
    const size_t count = plan->program->plan_count;
    struct planning planning = {plan, device, replica};
    TRY(memory_alloc(count, sizeof *replica->plans, &replica->plans));
    TRY(pool_open(device->forecast ? cores_available() : 1, &pool));
    TRY(pool_run(pool, count, one_plan_make, &planning));
    for (size_t i = 0; i < count; i++) {
        uint64_t needed = cudnn_plan_workspace(replica->plans[i]);
        if (needed > replica->workspace_bytes)
            replica->workspace_bytes = needed;
    }
    for (size_t i = 0; i < plan->program->op_count; i++) {
        const struct op *op = &plan->program->ops[i];
        const struct pattern_shape *s = &op->shape;
        if (op->kind != OP_SYNC_BN && op->kind != OP_SYNC_BN_BACKWARD)
            continue;
        uint64_t needed =
            kernel_bn_workspace_bytes((uint32_t)(s->batch * s->height * s->width), (uint32_t)s->in);
        if (needed > replica->workspace_bytes)
            replica->workspace_bytes = needed;
    }
    return OK;
}

/* Of a tensor of a joined BN. */
static uint64_t bn_tensor_bytes(const struct plan *plan, const struct pattern_shape *shape,
                                enum plan_tensor tensor)
{
    const uint64_t channels = (uint64_t)shape->in;
    if (tensor == TENSOR_SUM)
        return 2 * channels * sizeof(float);
    if (tensor == TENSOR_MEAN || tensor == TENSOR_INVSTD)
        return channels * sizeof(float);
    return (uint64_t)(shape->batch * shape->height * shape->width) * channels *
           io_bytes(plan->backend->config.dtype);
}

/* The size that an op wants of a tensor. */
static uint64_t operand_bytes(const struct plan *plan, const struct plan_replica *replica,
                              const struct op *op, enum plan_tensor tensor)
{
    const struct pattern_shape *shape = &op->shape;
    if (op->kind == OP_PATTERN)
        return cudnn_plan_layout(replica->plans[op->plan], tensor)->bytes;
    if (op->kind == OP_BLUR)
        return (uint64_t)(shape->batch * shape->height * shape->width * shape->in) *
               io_bytes(plan->backend->config.dtype);
    if (op->kind == OP_SYNC_BN || op->kind == OP_SYNC_BN_BACKWARD || op->kind == OP_SYNC_DBN_APPLY)
        return bn_tensor_bytes(plan, shape, tensor);
    return 0; /* what these ops touch has its size from a pattern */
}

/* Sizes as the ops want them, then places. */
static struct status tensors_place(const struct plan *plan, struct plan_replica *replica)
{
    const struct program *program = plan->program;
    CLEANUP(memory_free) struct tensor_life *lives = NULL;
    TRY(memory_alloc(program->tensor_count, sizeof *lives, &lives));
    TRY(memory_alloc(program->tensor_count, sizeof *replica->offsets, &replica->offsets));
    program_lives(program, lives);
    for (size_t i = 0; i < program->op_count; i++) {
        const struct op *op = &program->ops[i];
        for (int t = 0; t < TENSOR_COUNT; t++) {
            if (op->operands[t].place != PLACE_TENSOR)
                continue;
            struct tensor_life *life = &lives[op->operands[t].index];
            uint64_t bytes = operand_bytes(plan, replica, op, t);
            if (bytes > life->bytes)
                life->bytes = bytes;
        }
    }
    TRY(layout_assign(lives, program->tensor_count, &replica->block_bytes));
    for (uint32_t i = 0; i < program->tensor_count; i++)
        replica->offsets[i] = lives[i].offset;
    return OK;
}

static struct status slots_open(const struct plan *plan, struct device *device,
                                struct plan_replica *replica)
{
    for (int i = 0; i < SLOT_COUNT; i++) {
        struct slot *slot = &replica->slots[i];
        TRY(device_alloc_pinned(device, plan->slot_bytes, &slot->pinned));
        TRY(device_alloc_bare(device, MEMORY_BATCHES, plan->slot_bytes, &slot->device));
        TRY(device_open_event(device, &slot->copied));
        TRY(device_open_event(device, &slot->consumed));
    }
    return device_alloc(device, MEMORY_OTHER, plan->images_at, &replica->step_data);
}

static struct status buckets_open(const struct plan *plan, struct device *device,
                                  struct plan_replica *replica)
{
    TRY(memory_alloc(plan->buckets.count, sizeof(cudaEvent_t), &replica->ready));
    for (size_t i = 0; i < plan->buckets.count; i++)
        TRY(device_open_event(device, &replica->ready[i]));
    TRY(device_open_event(device, &replica->forwarded));
    return device_open_event(device, &replica->reduced);
}

/* What kernel_fold needs to know, in device memory. */
static struct status folds_open(const struct plan *plan, struct device *device,
                                struct plan_replica *replica)
{
    const struct program *program = plan->program;
    const struct param_map *map = plan->store->map;
    CLEANUP(memory_free) struct bn_fold *folds = NULL;
    TRY(memory_alloc(program->fold_count, sizeof *folds, &folds));
    for (size_t i = 0; i < program->fold_count; i++) {
        const struct param_place *weight = &map->params[program->folds[i].conv_param];
        const struct param_place *bn = &map->params[program->folds[i].bn_param];
        const uint32_t channels = (uint32_t)bn[0].count;
        folds[i] = (struct bn_fold){
            .weight = weight->offset,
            .gamma = bn[0].offset,
            .beta = bn[1].offset,
            .mean = bn[2].offset,
            .variance = bn[3].offset,
            .channels = channels,
            .row = (uint32_t)(weight->count / channels),
        };
    }
    TRY(device_alloc_bare(device, MEMORY_OTHER, program->fold_count * sizeof *folds,
                          &replica->folds));
    if (program->fold_count)
        TRY(device_upload(device, replica->folds, folds, program->fold_count * sizeof *folds));
    return OK;
}

struct status replica_plan_open(struct plan *plan, struct device *device, unsigned index)
{
    struct plan_replica *replica = &plan->replicas[index];
    TRY(plans_make(plan, device, replica));
    TRY(tensors_place(plan, replica));
    TRY(device_alloc(device, MEMORY_ACTIVATIONS, replica->block_bytes, &replica->block));
    TRY(device_alloc(device, MEMORY_WORKSPACE, replica->workspace_bytes, &replica->workspace));
    TRY(device_alloc(device, MEMORY_OTHER, kernel_loss_workspace_bytes(plan->share),
                     &replica->loss_workspace));
    TRY(device_alloc(device, MEMORY_OTHER, sizeof *replica->ring, &replica->ring));
    TRY(slots_open(plan, device, replica));
    TRY(buckets_open(plan, device, replica));
    return folds_open(plan, device, replica);
}

static void event_close(cudaEvent_t event)
{
    if (event)
        cudaEventDestroy(event);
}

static void slots_close(struct plan_replica *replica)
{
    for (int i = 0; i < SLOT_COUNT; i++) {
        cudaFreeHost(replica->slots[i].pinned);
        cudaFree(replica->slots[i].device);
        event_close(replica->slots[i].copied);
        event_close(replica->slots[i].consumed);
    }
}

void replica_plan_close(struct plan *plan, unsigned index)
{
    struct plan_replica *replica = &plan->replicas[index];
    for (int i = 0; i < VARIANT_COUNT; i++)
        if (replica->graphs[i])
            cudaGraphExecDestroy(replica->graphs[i]);
    for (size_t i = 0; replica->plans && i < plan->program->plan_count; i++)
        cudnn_plan_close(replica->plans[i]);
    for (size_t i = 0; replica->ready && i < plan->buckets.count; i++)
        event_close(replica->ready[i]);
    event_close(replica->forwarded);
    event_close(replica->reduced);
    slots_close(replica);
    void *const arrays[] = {replica->block,     replica->workspace, replica->loss_workspace,
                            replica->step_data, replica->ring,      replica->folds};
    for (size_t i = 0; i < ARRAY_LENGTH(arrays); i++)
        cudaFree(arrays[i]);
    memory_free(replica->plans);
    memory_free(replica->offsets);
    memory_free(replica->ready);
}
