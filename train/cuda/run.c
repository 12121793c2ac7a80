#include "train/cuda/errors.h"
#include "train/cuda/plan.h"

/* A call on its way through a device's streams. */
struct run {
    const struct plan *plan;
    const struct plan_replica *replica;
    const struct store_replica *store;
    struct device *device;
    bool adds, reduces;
    size_t next_bucket;
};

static const void *operand_in(const struct run *run, struct operand operand)
{
    const struct store_replica *store = run->store;
    const struct param_place *params = run->plan->store->map->params;
    const size_t io = io_bytes(run->plan->backend->config.dtype);
    switch (operand.place) {
    case PLACE_NONE:
        return NULL;
    case PLACE_TENSOR:
        return run->replica->block + run->replica->offsets[operand.index];
    case PLACE_VALUE:
        return store->values + params[operand.index].offset;
    case PLACE_WEIGHT:
        return (char *)store->weights + params[operand.index].offset * io;
    case PLACE_GRADIENT:
        return (run->adds ? store->fresh : store->gradients) + params[operand.index].offset;
    case PLACE_FOLDED_WEIGHT:
        return (char *)store->folded_weights + params[operand.index].offset * io;
    case PLACE_FOLDED_BIAS:
        return store->folded_biases + params[operand.index].offset;
    }
    return NULL;
}

static void *operand_of(const struct run *run, const struct op *op, enum plan_tensor tensor)
{
    return (void *)operand_in(run, op->operands[tensor]);
}

static struct status pattern_run(const struct run *run, const struct op *op)
{
    struct plan_pointers pointers = {0};
    for (int t = 0; t < TENSOR_COUNT; t++)
        pointers.at[t] = operand_of(run, op, t);
    return cudnn_plan_execute(run->replica->plans[op->plan], run->device->cudnn, &pointers,
                              run->replica->workspace);
}

static struct status loss_run(const struct run *run, const struct op *op)
{
    const struct plan *plan = run->plan;
    const bool train = plan->config.mode == PLAN_TRAIN;
    const struct loss_call loss = {
        .batch = plan->share,
        .classes = plan->store->network->classes,
        .columns = plan->program->columns,
        .smoothing = train ? plan->config.label_smoothing : 0,
        .logits_type = KERNEL_F32,
        .gradient_type = io_type(plan->backend->config.dtype),
        .logits = operand_of(run, op, TENSOR_X),
        .labels = (const int32_t *)(run->replica->step_data + plan->labels_at),
        .header = (const struct step_header *)run->replica->step_data,
        .gradient = operand_of(run, op, TENSOR_DX),
        .state = train ? run->store->state : NULL,
        .ring = run->replica->ring,
        .workspace = run->replica->loss_workspace,
    };
    TRY_CUDA(kernel_loss(&loss, run->device->compute));
    return OK;
}

/* A weight's gradient to f32. */
static struct status cast_run(const struct run *run, const struct op *op)
{
    const struct param_place *place = &run->plan->store->map->params[op->operands[TENSOR_DW].index];
    TRY_CUDA(kernel_cast(KERNEL_F32, operand_of(run, op, TENSOR_DW),
                         io_type(run->plan->backend->config.dtype), operand_of(run, op, TENSOR_X),
                         place->count, run->device->compute));
    return OK;
}

static struct status blur_run(const struct run *run, const struct op *op)
{
    const struct blur_shape shape = {
        .batch = (uint32_t)op->shape.batch,
        .height = (uint32_t)op->shape.height,
        .width = (uint32_t)op->shape.width,
        .channels = (uint32_t)op->shape.in,
    };
    TRY_CUDA(kernel_blur(&shape, io_type(run->plan->backend->config.dtype),
                         operand_of(run, op, TENSOR_X), operand_of(run, op, TENSOR_Z),
                         operand_of(run, op, TENSOR_Y), run->device->compute));
    return OK;
}

/* What the kernels are to know of a BN by the statistics of all devices. */
static struct bn_layer bn_layer_of(const struct run *run, const struct op *op)
{
    const struct pattern_shape *shape = &op->shape;
    const uint32_t rows = (uint32_t)(shape->batch * shape->height * shape->width);
    return (struct bn_layer){
        .rows = rows,
        .channels = (uint32_t)shape->in,
        .all_rows = (uint64_t)rows * run->plan->program->config.joined,
        .epsilon = (float)BN_EPSILON,
        .momentum = (float)BN_MOMENTUM,
        .relu = op->relu,
        .type = io_type(run->plan->backend->config.dtype),
        .x = operand_of(run, op, TENSOR_X),
        .z = operand_of(run, op, TENSOR_Z),
        .y = operand_of(run, op, TENSOR_Y),
        .gamma = operand_of(run, op, TENSOR_SCALE),
        .beta = operand_of(run, op, TENSOR_BIAS),
        .running_mean = operand_of(run, op, TENSOR_RUNNING_MEAN),
        .running_var = operand_of(run, op, TENSOR_RUNNING_VAR),
        .mean = operand_of(run, op, TENSOR_MEAN),
        .invstd = operand_of(run, op, TENSOR_INVSTD),
        .sums = operand_of(run, op, TENSOR_SUM),
        .workspace = run->replica->workspace,
        .dy = operand_of(run, op, TENSOR_DY),
        .dx = operand_of(run, op, TENSOR_DX),
        .dz = operand_of(run, op, TENSOR_DZ),
        .dgamma = operand_of(run, op, TENSOR_DSCALE),
        .dbeta = operand_of(run, op, TENSOR_DBIAS),
    };
}

/* The sums of this device, those of all, what follows from them. */
static struct status sync_bn_run(const struct run *run, const struct op *op)
{
    const bool backward = op->kind == OP_SYNC_BN_BACKWARD;
    const struct bn_layer layer = bn_layer_of(run, op);
    const struct summand sums = {layer.sums, layer.sums, 2 * (size_t)layer.channels};
    struct device *device = run->device;
    TRY_CUDA(backward ? kernel_bn_backward_sums(&layer, device->compute)
                      : kernel_bn_sums(&layer, device->compute));
    TRY(device_sum(device, &sums, 1));
    TRY_CUDA(backward ? kernel_bn_propagate(&layer, device->compute)
                      : kernel_bn_normalise(&layer, device->compute));
    return OK;
}

/* The sums that a convolution made of its output, or those of both that end a block. */
static struct status sync_sums_run(const struct run *run, const struct op *op)
{
    struct summand sums[4];
    size_t count = 0;
    if (op > run->plan->program->ops && op[-1].kind == OP_SYNC_SUMS)
        return OK; /* they went with that one's */
    for (; op->kind == OP_SYNC_SUMS && count < ARRAY_LENGTH(sums); op++) {
        const size_t channels = (size_t)op->shape.in;
        float *sum = operand_of(run, op, TENSOR_SUM);
        float *squares = operand_of(run, op, TENSOR_SQUARE_SUM);
        sums[count++] = (struct summand){sum, sum, channels};
        sums[count++] = (struct summand){squares, squares, channels};
    }
    return device_sum(run->device, sums, count);
}

/* This device's sums are its gradients of β and γ, which stay as they are. */
static struct status sync_dbn_apply_run(const struct run *run, const struct op *op)
{
    const struct bn_layer layer = bn_layer_of(run, op);
    const size_t channels = layer.channels;
    const struct summand sums[] = {{layer.dbeta, layer.sums, channels},
                                   {layer.dgamma, layer.sums + channels, channels}};
    TRY(device_sum(run->device, sums, ARRAY_LENGTH(sums)));
    TRY_CUDA(kernel_bn_propagate(&layer, run->device->compute));
    return OK;
}

static struct status op_run(const struct run *run, const struct op *op)
{
    switch (op->kind) {
    case OP_PATTERN:
        return pattern_run(run, op);
    case OP_LOSS:
        return loss_run(run, op);
    case OP_COLUMN_SUMS:
        TRY_CUDA(kernel_column_sums(io_type(run->plan->backend->config.dtype),
                                    operand_of(run, op, TENSOR_DY), run->plan->share,
                                    run->plan->program->columns, false,
                                    operand_of(run, op, TENSOR_DBIAS), run->device->compute));
        return OK;
    case OP_CAST:
        return cast_run(run, op);
    case OP_BLUR:
        return blur_run(run, op);
    case OP_SYNC_BN:
    case OP_SYNC_BN_BACKWARD:
        return sync_bn_run(run, op);
    case OP_SYNC_SUMS:
        return sync_sums_run(run, op);
    case OP_SYNC_DBN_APPLY:
        return sync_dbn_apply_run(run, op);
    }
    return OK;
}

/* What is due when the gradients of a bucket are complete. */
static struct status bucket_run(const struct run *run, size_t i)
{
    const struct bucket *bucket = &run->plan->buckets.buckets[i];
    const uint64_t count = bucket->end - bucket->begin;
    float *gradients = run->store->gradients + bucket->begin;
    if (run->adds)
        TRY_CUDA(kernel_add(gradients, KERNEL_F32, run->store->fresh + bucket->begin, count,
                            run->device->compute));
    if (!run->reduces)
        return OK;
    TRY_CUDA(cudaEventRecord(run->replica->ready[i], run->device->compute));
    TRY_CUDA(cudaStreamWaitEvent(run->device->reduce, run->replica->ready[i], 0));
    return collective_sum(run->device->collective, &(struct summand){gradients, gradients, count},
                          1, run->device->reduce);
}

/* Gives all devices the mean of their running statistics, which forward has moved, while backward
 * runs. At the end of each step, so that a run that is saved and resumed has the same bits: what is
 * rounded is the same whether anybody asks or not. */
static struct status statistics_run(const struct run *run)
{
    const struct param_map *map = run->plan->store->map;
    float *statistics = run->store->values + map->trained;
    const uint64_t count = map->total - map->trained;
    TRY_CUDA(cudaEventRecord(run->replica->forwarded, run->device->compute));
    TRY_CUDA(cudaStreamWaitEvent(run->device->reduce, run->replica->forwarded, 0));
    TRY(collective_sum(run->device->collective, &(struct summand){statistics, statistics, count}, 1,
                       run->device->reduce));
    TRY_CUDA(kernel_scale(statistics, 1 / (float)run->plan->backend->rank_count, count,
                          run->device->reduce));
    return OK;
}

/* Puts all ops on the compute stream, and the sums beside them. */
static struct status program_run(void *context)
{
    struct run *run = context;
    const struct program *program = run->plan->program;
    const struct bucket_list *buckets = &run->plan->buckets;
    for (size_t i = 0; i < program->op_count; i++) {
        if (run->reduces && i == program->backward_begin && !program->config.joined)
            TRY(statistics_run(run));
        TRY(op_run(run, &program->ops[i]));
        while (run->next_bucket < buckets->count && buckets->buckets[run->next_bucket].last_op == i)
            TRY(bucket_run(run, run->next_bucket++));
    }
    if (!run->reduces)
        return OK;
    TRY_CUDA(cudaEventRecord(run->replica->reduced, run->device->reduce));
    TRY_CUDA(cudaStreamWaitEvent(run->device->compute, run->replica->reduced, 0));
    return OK;
}

struct status replica_run(struct plan *plan, struct device *device, unsigned index,
                          unsigned variant)
{
    struct plan_replica *replica = &plan->replicas[index];
    struct run run = {
        .plan = plan,
        .replica = replica,
        .store = &plan->store->replicas[index],
        .device = device,
        .adds = variant & VARIANT_ADDS,
        .reduces = variant & VARIANT_REDUCES,
    };
    /* Libraries allocate and load on their first use, which a captured stream does not stand. */
    if (!replica->has_run[variant]) {
        replica->has_run[variant] = true;
        return program_run(&run);
    }
    if (!replica->graphs[variant])
        TRY(device_capture(device, program_run, &run, &replica->graphs[variant]));
    TRY_CUDA(cudaGraphLaunch(replica->graphs[variant], device->compute));
    return OK;
}
