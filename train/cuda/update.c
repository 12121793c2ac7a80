#include "base/memory.h"
#include "train/cuda/errors.h"
#include "train/cuda/store.h"

/* What moves the weights and their average: the rule, its rates and the state of its steps are on
 * the devices, so that no step waits for the host to know whether it was applied. */

static struct update_arena arena_of(const struct store *store, const struct store_replica *replica)
{
    const enum train_dtype dtype = store->backend->config.dtype;
    const struct param_map *map = store->map;
    return (struct update_arena){
        .block_count = (uint32_t)(map->trained / KERNEL_BLOCK),
        .segment_count = map->segment_count,
        .values = replica->values,
        .gradients = replica->gradients,
        .momenta = replica->momenta,
        .io_type = io_type(dtype),
        .io = io_type(dtype) == KERNEL_F32 ? NULL : replica->weights,
        .block_segments = replica->block_segments,
        .segments = replica->segments,
        .rates = replica->rates,
        .rate_count = store->rate_count,
        .state = replica->state,
        .workspace = replica->workspace,
    };
}

struct beginning {
    struct store *store;
    const float *rates;
    struct update_state state;
};

static struct status replica_begin(struct device *device, unsigned index, void *context)
{
    const struct beginning *beginning = context;
    const struct store *store = beginning->store;
    struct store_replica *replica = &store->replicas[index];
    TRY(device_finish(device));
    store_drop_update(replica);
    cudaFree(MOVE(replica->rates));
    TRY(device_alloc_bare(device, MEMORY_OTHER, store->rate_count * sizeof(float),
                          &replica->rates));
    TRY(device_upload(device, replica->rates, beginning->rates, store->rate_count * sizeof(float)));
    TRY(device_upload(device, replica->segments, store->map->segments,
                      store->map->segment_count * sizeof *store->map->segments));
    return device_upload(device, replica->state, &beginning->state, sizeof beginning->state);
}

struct status store_begin(struct store *store, const struct update_rule *rule)
{
    CLEANUP(memory_free) float *rates = NULL;
    TRY(memory_alloc(rule->rate_count, sizeof *rates, &rates));
    for (uint64_t i = 0; i < rule->rate_count; i++)
        rates[i] = (float)rule->rates[i];
    store->rate_count = rule->rate_count;
    store->applied_before = rule->applied;
    store->rule = (struct update_config){
        .kind = rule->kind == OPTIMIZER_LARS ? KERNEL_LARS : KERNEL_SGD,
        .trust = (float)rule->lars_eta,
        .epsilon = (float)rule->lars_epsilon,
        .momentum = (float)rule->momentum,
        .weight_decay = (float)rule->weight_decay,
        .nesterov = rule->nesterov,
        .dynamic_scale = rule->scale.dynamic,
        .grown_after = rule->scale.grow_after,
    };
    param_map_set_decay(store->map, rule->decay_norm_and_bias);
    struct beginning beginning = {
        .store = store,
        .rates = rates,
        .state = {.bad_segment = KERNEL_NO_SEGMENT,
                  .found = KERNEL_NO_SEGMENT,
                  .since_growth = rule->scale.clean_steps,
                  .loss_scale = (float)rule->scale.value,
                  .learning_rate = rates[0]},
    };
    return backend_each(store->backend, replica_begin, &beginning);
}

void store_drop_update(struct store_replica *replica)
{
    if (replica->update)
        cudaGraphExecDestroy(MOVE(replica->update));
    replica->has_updated = false;
}

/* An update on its way to a device. */
struct updating {
    const struct store *store;
    const struct store_replica *replica;
    struct device *device;
};

static struct status update_queue(void *context)
{
    const struct updating *updating = context;
    const struct update_arena arena = arena_of(updating->store, updating->replica);
    TRY_CUDA(kernel_update(&updating->store->rule, &arena, updating->device->compute));
    return OK;
}

/* By itself the first time, from a graph afterwards. */
static struct status replica_update(struct device *device, unsigned index, void *context)
{
    struct store *store = context;
    struct store_replica *replica = &store->replicas[index];
    struct updating updating = {store, replica, device};
    if (!replica->has_updated) {
        replica->has_updated = true;
        return update_queue(&updating);
    }
    if (!replica->update)
        TRY(device_capture(device, update_queue, &updating, &replica->update));
    TRY_CUDA(cudaGraphLaunch(replica->update, device->compute));
    return OK;
}

struct status store_update(struct store *store)
{
    store->version++;
    return backend_each(store->backend, replica_update, store);
}

struct status store_progress(struct store *store, uint64_t *ret_applied,
                             struct loss_scale *ret_scale)
{
    struct update_state state;
    TRY(device_enter(&store->backend->devices[0]));
    TRY(device_finish(&store->backend->devices[0]));
    TRY_CUDA(cudaMemcpy(&state, store->replicas[0].state, sizeof state, cudaMemcpyDeviceToHost));
    *ret_applied = store->applied_before + state.applied;
    *ret_scale = (struct loss_scale){
        .value = state.loss_scale,
        .dynamic = store->rule.dynamic_scale,
        .grow_after = store->rule.grown_after,
        .clean_steps = state.since_growth,
    };
    return OK;
}

struct averaging {
    const struct store *store;
    float keep, take;
};

static struct status replica_average(struct device *device, unsigned index, void *context)
{
    const struct averaging *averaging = context;
    const struct store_replica *replica = &averaging->store->replicas[index];
    TRY_CUDA(kernel_average(replica->average, replica->values, averaging->keep, averaging->take,
                            averaging->store->map->total, device->compute));
    return OK;
}

struct status store_average(struct store *store, double decay)
{
    struct averaging averaging = {store, (float)decay, (float)(1 - decay)};
    TRY(store_need_average(store));
    if (store->backend->config.forecast)
        return OK;
    return backend_each(store->backend, replica_average, &averaging);
}
