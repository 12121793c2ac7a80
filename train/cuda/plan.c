#include "train/cuda/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/comm.h"
#include "train/cuda/errors.h"

/* cuDNN has fused patterns for fp16 alone. */
static bool can_be_fused(const struct plan *plan)
{
    return plan->config.mode == PLAN_TRAIN && plan->backend->config.dtype == DTYPE_FP16;
}

/* HEADRACE_CUDA_FUSION=0 leaves fused patterns out, to compare. */
static bool fusion_is_left_out(void)
{
    const char *asked = getenv("HEADRACE_CUDA_FUSION");
    return asked && strcmp(asked, "0") == 0;
}

/* Writes the program and makes it ready on the first device. Fails with STATUS_UNSUPPORTED where
 * that has not all patterns. */
static struct status program_make(struct plan *plan, bool fused)
{
    const struct program_config config = {
        .mode = plan->config.mode,
        .fused = fused,
        .joined = plan->config.mode == PLAN_TRAIN && plan->backend->joins_bn
                      ? plan->backend->rank_count
                      : 0,
        .batch = plan->share,
        .height = plan->config.height,
        .width = plan->config.width,
    };
    if (fused && fusion_is_left_out())
        FAIL(STATUS_UNSUPPORTED, "HEADRACE_CUDA_FUSION is 0");
    TRY(program_open(plan->store->network, &config, &plan->program));
    if (config.mode == PLAN_TRAIN)
        TRY(bucket_list_make(plan->program, plan->store->map, &plan->buckets));
    TRY(device_enter(&plan->backend->devices[0]));
    return replica_plan_open(plan, &plan->backend->devices[0], 0);
}

/* The processes other than this one; NULL: there are none, or none is asked. */
static struct comm *others_of(const struct plan *plan)
{
    const struct backend_config *config = &plan->backend->config;
    return config->comm && comm_size(config->comm) > 1 && !config->forecast ? config->comm : NULL;
}

/* program_make, before those of the other processes or after rank 0's where they take turns. */
static struct status program_make_in_turn(struct plan *plan, bool fused)
{
    struct comm *comm = plan->backend->config.in_turn ? others_of(plan) : NULL;
    if (comm && comm_rank(comm) > 0)
        TRY(comm_barrier(comm));
    struct status status = program_make(plan, fused);
    if (!comm || comm_rank(comm) > 0)
        return status;
    if (status.code != STATUS_UNSUPPORTED)
        TRY(status);
    struct status told = comm_barrier(comm);
    if (told.code == STATUS_DONE)
        return status;
    status_ignore(status);
    return told;
}

static void program_drop(struct plan *plan)
{
    replica_plan_close(plan, 0);
    plan->replicas[0] = (struct plan_replica){0};
    bucket_list_done(&plan->buckets);
    program_close(MOVE(plan->program));
}

/* Whether a process lacks fused patterns. All have to take the same ones where the sums of
 * --sync-bn meet in the order of the operations, and where they take turns. */
static struct status missing_somewhere(const struct plan *plan, bool missing_here,
                                       bool *ret_missing)
{
    const bool alike = plan->backend->joins_bn || plan->backend->config.in_turn;
    struct comm *comm = alike ? others_of(plan) : NULL;
    uint64_t missing = missing_here;
    if (comm)
        TRY(comm_max_u64(comm, &missing, 1));
    *ret_missing = missing != 0;
    return OK;
}

/* The program with fused patterns, or none, and the reason, where they are missing. */
static struct status fused_make(struct plan *plan)
{
    bool missing;
    struct status status = program_make_in_turn(plan, true);
    if (status.code != STATUS_UNSUPPORTED)
        TRY(status);
    TRY(missing_somewhere(plan, status.code == STATUS_UNSUPPORTED, &missing));
    if (!missing)
        return OK;
    struct status copied =
        string_copy(status.code == STATUS_UNSUPPORTED
                        ? status_message(&status)
                        : "another process has no plan for faster ones, and all take the same",
                    &plan->slow_reason);
    status_ignore(status);
    program_drop(plan);
    return copied;
}

static struct status other_open(struct device *device, unsigned index, void *context)
{
    return index == 0 ? OK : replica_plan_open(context, device, index);
}

static struct status plan_init(struct plan *plan)
{
    const struct plan_config *config = &plan->config;
    const unsigned devices = plan->backend->device_count;
    if (config->batch == 0)
        FAIL(STATUS_USAGE, "a batch needs at least one image");
    if (config->mode == PLAN_TRAIN && config->batch % devices != 0)
        FAIL(STATUS_USAGE,
             "a batch of %u images does not divide over %u GPUs: use a multiple of %u",
             config->batch, devices, devices);
    plan->share = (config->batch + devices - 1) / devices;
    plan->labels_at = layout_aligned(sizeof plan->header);
    plan->images_at = plan->labels_at + layout_aligned(plan->share * sizeof(int32_t));
    plan->slot_bytes = plan->images_at + (size_t)plan->share * config->height * config->width * 3;
    TRY(memory_alloc(devices, sizeof *plan->replicas, &plan->replicas));
    if (config->mode == PLAN_EVAL)
        TRY(store_need_folded(plan->store));
    if (config->adds)
        TRY(store_need_fresh(plan->store));
    if (can_be_fused(plan))
        TRY(fused_make(plan));
    if (!plan->program)
        TRY(program_make_in_turn(plan, false));
    /* cuDNN compiles some plans: the other devices find them in the planner's cache. */
    return backend_each(plan->backend, other_open, plan);
}

struct status plan_open(struct store *store, const struct plan_config *config,
                        struct plan **ret_plan)
{
    CLEANUP(plan_close) struct plan *plan = NULL;
    TRY(memory_alloc(1, sizeof *plan, &plan));
    plan->backend = store->backend;
    plan->store = store;
    plan->config = *config;
    TRY(plan_init(plan));
    *ret_plan = MOVE(plan);
    return OK;
}

static struct status one_close(struct device *device, unsigned index, void *context)
{
    status_ignore(device_finish(device)); /* a failure would keep the other devices from closing */
    replica_plan_close(context, index);
    return OK;
}

void plan_close(struct plan *plan)
{
    if (!plan)
        return;
    if (plan->replicas)
        status_ignore(backend_each(plan->backend, one_close, plan));
    memory_free(plan->replicas);
    bucket_list_done(&plan->buckets);
    program_close(plan->program);
    memory_free(plan->slow_reason);
    memory_free(plan);
}

struct calling {
    struct plan *plan;
    const struct step_input *input;
    unsigned variant;
};

static struct status one_call(struct device *device, unsigned index, void *context)
{
    const struct calling *calling = context;
    TRY(replica_feed(calling->plan, device, index, calling->input));
    return replica_run(calling->plan, device, index, calling->variant);
}

static struct status plan_call(struct plan *plan, const struct step_input *input, unsigned variant)
{
    struct calling calling = {plan, input, variant};
    TRY(step_check_labels(input->labels, plan->config.batch, plan->store->network->classes));
    struct status status = backend_each(plan->backend, one_call, &calling);
    if (status.code != STATUS_DONE)
        atomic_store(&plan->backend->broken, true);
    plan->calls += status.code == STATUS_DONE;
    return status;
}

struct status plan_forward_backward(struct plan *plan, const struct step_input *input)
{
    unsigned variant = VARIANT_PLAIN;
    if (plan->config.mode != PLAN_TRAIN)
        FAIL(STATUS_USAGE, "an evaluation plan has no backward pass");
    if (input->mixed_in > 0 && plan->share % 2)
        FAIL(STATUS_USAGE,
             "images are mixed in pairs, but a GPU's part of the batch is %u: take "
             "an even one",
             plan->share);
    if (input->adds) {
        TRY(store_need_fresh(plan->store));
        variant |= VARIANT_ADDS;
    }
    if (input->completes && plan->backend->devices[0].collective)
        variant |= VARIANT_REDUCES;
    plan->header = (struct step_header){(float)input->divisor, input->completes, input->mixed_in};
    plan->store->version++;
    plan->store->statistics_differ = !(variant & VARIANT_REDUCES) && !plan->backend->joins_bn;
    return plan_call(plan, input, variant);
}

static struct status one_fold(struct device *device, unsigned index, void *context)
{
    const struct plan *plan = context;
    const struct store_replica *store = &plan->store->replicas[index];
    TRY_CUDA(kernel_fold(store->values, plan->replicas[index].folds,
                         (uint32_t)plan->program->fold_count, (float)BN_EPSILON,
                         io_type(plan->backend->config.dtype), store->folded_weights,
                         store->folded_biases, device->compute));
    return OK;
}

struct status plan_forward(struct plan *plan, const struct step_input *input)
{
    struct store *store = plan->store;
    if (plan->config.mode != PLAN_EVAL)
        FAIL(STATUS_USAGE, "a training plan does not evaluate");
    if (store->folded_version != store->version) {
        TRY(store_average_statistics(store));
        TRY(backend_each(plan->backend, one_fold, plan));
        store->folded_version = store->version;
    }
    return plan_call(plan, input, VARIANT_PLAIN);
}

/* The entries of calls [begin, begin + count) of one device. */
static struct status ring_read(const struct plan *plan, unsigned index, uint64_t begin,
                               size_t count, struct kernel_metrics *ret_entries)
{
    struct device *device = &plan->backend->devices[index];
    const struct kernel_metrics *entries = plan->replicas[index].ring->entries;
    TRY(device_enter(device));
    TRY(device_finish(device));
    while (count) {
        size_t at = begin % KERNEL_RING;
        size_t run = count < KERNEL_RING - at ? count : KERNEL_RING - at;
        TRY_CUDA(
            cudaMemcpy(ret_entries, entries + at, run * sizeof *entries, cudaMemcpyDeviceToHost));
        ret_entries += run;
        begin += run;
        count -= run;
    }
    return OK;
}

static void metrics_add(struct step_metrics *sum, const struct kernel_metrics *entry)
{
    sum->loss_sum += entry->loss_sum;
    sum->top1 += entry->top1;
    sum->top5 += entry->top5;
    sum->count += entry->count;
    sum->completes = entry->completes;
    sum->applied = entry->applied;
    sum->learning_rate = entry->learning_rate;
    sum->loss_scale = entry->loss_scale;
}

struct status plan_metrics(struct plan *plan, struct step_metrics *ret_metrics, size_t capacity,
                           size_t *ret_count)
{
    if (plan->calls - plan->metrics_read > KERNEL_RING)
        plan->metrics_read = plan->calls - KERNEL_RING;
    const uint64_t unread = plan->calls - plan->metrics_read;
    const size_t count = unread < capacity ? unread : capacity;
    CLEANUP(memory_free) struct kernel_metrics *entries = NULL;
    TRY(memory_alloc(count, sizeof *entries, &entries));
    for (size_t i = 0; i < count; i++)
        ret_metrics[i] = (struct step_metrics){0};
    for (unsigned d = 0; d < plan->backend->device_count; d++) {
        TRY(ring_read(plan, d, plan->metrics_read, count, entries));
        for (size_t i = 0; i < count; i++)
            metrics_add(&ret_metrics[i], &entries[i]);
    }
    plan->metrics_read += count;
    *ret_count = count;
    return OK;
}

/* One device's logits, without the padding of their rows. */
static struct status logits_read(const struct plan *plan, unsigned index, uint32_t rows,
                                 float *ret_logits)
{
    struct device *device = &plan->backend->devices[index];
    const struct plan_replica *replica = &plan->replicas[index];
    const uint32_t classes = plan->store->network->classes, columns = plan->program->columns;
    CLEANUP(memory_free) float *padded = NULL;
    TRY(memory_alloc((size_t)rows * columns, sizeof *padded, &padded));
    TRY(device_enter(device));
    TRY(device_finish(device));
    TRY_CUDA(cudaMemcpy(padded, replica->block + replica->offsets[plan->program->logits],
                        (size_t)rows * columns * sizeof *padded, cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < rows; i++)
        memcpy(ret_logits + (size_t)i * classes, padded + (size_t)i * columns,
               classes * sizeof *padded);
    return OK;
}

struct status plan_logits(struct plan *plan, float *ret_logits)
{
    const uint32_t batch = plan->config.batch;
    for (uint32_t begin = 0; begin < batch; begin += plan->share) {
        const uint32_t rows = batch - begin < plan->share ? batch - begin : plan->share;
        TRY(logits_read(plan, begin / plan->share, rows,
                        ret_logits + (size_t)begin * plan->store->network->classes));
    }
    return OK;
}

uint64_t plan_bytes(const struct plan *plan)
{
    uint64_t bytes = store_bytes(plan->store);
    for (unsigned i = 0; i < plan->backend->device_count; i++) {
        const struct plan_replica *replica = &plan->replicas[i];
        bytes += replica->block_bytes + replica->workspace_bytes + SLOT_COUNT * plan->slot_bytes;
    }
    return bytes;
}

const char *plan_slow_reason(const struct plan *plan)
{
    return plan->slow_reason;
}

struct status plan_choices(const struct plan *plan, plan_choice_fn *fn, void *context)
{
    const struct program *program = plan->program;
    CLEANUP(memory_free) unsigned *uses = NULL;
    TRY(memory_alloc(program->plan_count, sizeof *uses, &uses));
    for (size_t i = 0; i < program->op_count; i++)
        if (program->ops[i].kind == OP_PATTERN)
            uses[program->ops[i].plan]++;
    for (size_t i = 0; i < program->plan_count; i++) {
        const struct cudnn_plan *made = plan->replicas[0].plans[i];
        const struct plan_choice choice = {
            .text = cudnn_plan_tag(made),
            .uses = uses[i],
            .workspace_bytes = cudnn_plan_workspace(made),
        };
        TRY(fn(&choice, context));
    }
    return OK;
}
