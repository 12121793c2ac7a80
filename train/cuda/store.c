#include "train/cuda/store.h"

#include <string.h>

#include "base/memory.h"
#include "train/comm.h"
#include "train/cuda/errors.h"

static float *role_array(const struct store_replica *replica, enum param_role role)
{
    switch (role) {
    case ROLE_VALUE:
        return replica->values;
    case ROLE_GRADIENT:
        return replica->gradients;
    case ROLE_MOMENTUM:
        return replica->momenta;
    case ROLE_AVERAGE:
        return replica->average;
    }
    return NULL;
}

static struct status arrays_open(struct store *store, struct device *device,
                                 struct store_replica *replica)
{
    const struct param_map *map = store->map;
    const enum train_dtype dtype = store->backend->config.dtype;
    TRY(device_alloc(device, MEMORY_PARAMETERS, map->total * sizeof(float), &replica->values));
    TRY(device_alloc(device, MEMORY_GRADIENTS, map->trained * sizeof(float), &replica->gradients));
    TRY(device_alloc(device, MEMORY_OPTIMIZER, map->trained * sizeof(float), &replica->momenta));
    if (io_type(dtype) == KERNEL_F32)
        replica->weights = replica->values;
    else
        TRY(device_alloc(device, MEMORY_PARAMETERS, map->trained * io_bytes(dtype),
                         &replica->weights));
    TRY(device_alloc_bare(device, MEMORY_OTHER, map->trained / KERNEL_BLOCK * sizeof(uint32_t),
                          &replica->block_segments));
    TRY(device_upload(device, replica->block_segments, map->block_segments,
                      map->trained / KERNEL_BLOCK * sizeof(uint32_t)));
    return device_alloc(device, MEMORY_OTHER, map->segment_count * sizeof(struct arena_segment),
                        &replica->segments);
}

static struct status replica_open(struct device *device, unsigned index, void *context)
{
    struct store *store = context;
    struct store_replica *replica = &store->replicas[index];
    const struct update_state state = {
        .bad_segment = KERNEL_NO_SEGMENT,
        .found = KERNEL_NO_SEGMENT,
        .loss_scale = 1,
    };
    TRY(arrays_open(store, device, replica));
    TRY(device_alloc_bare(device, MEMORY_OTHER, sizeof state, &replica->state));
    TRY(device_upload(device, replica->state, &state, sizeof state));
    const uint32_t blocks = (uint32_t)(store->map->trained / KERNEL_BLOCK);
    return device_alloc(device, MEMORY_OTHER,
                        kernel_update_workspace_bytes(blocks, store->map->segment_count),
                        &replica->workspace);
}

struct status store_open(struct backend *backend, const struct network *network,
                         struct store **ret_store)
{
    CLEANUP(store_close) struct store *store = NULL;
    TRY(memory_alloc(1, sizeof *store, &store));
    store->backend = backend;
    store->network = network;
    store->version = 1;
    TRY(param_map_open(network, &store->map));
    TRY(memory_alloc(backend->device_count, sizeof *store->replicas, &store->replicas));
    TRY(backend_each(backend, replica_open, store));
    *ret_store = MOVE(store);
    return OK;
}

static struct status replica_close(struct device *device, unsigned index, void *context)
{
    const struct store *store = context;
    struct store_replica *replica = &store->replicas[index];
    (void)device;
    store_drop_update(replica);
    if (replica->weights != replica->values)
        cudaFree(replica->weights);
    void *const arrays[] = {
        replica->values,        replica->gradients, replica->momenta,
        replica->average,       replica->fresh,     replica->folded_weights,
        replica->folded_biases, replica->segments,  replica->block_segments,
        replica->rates,         replica->state,     replica->workspace,
    };
    for (size_t i = 0; i < ARRAY_LENGTH(arrays); i++)
        cudaFree(arrays[i]);
    return OK;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->replicas)
        status_ignore(backend_each(store->backend, replica_close, store));
    param_map_close(store->map);
    memory_free(store->replicas);
    memory_free(store);
}

uint64_t store_bytes(const struct store *store)
{
    const struct store_replica *replica = &store->replicas[0];
    const uint64_t io = io_bytes(store->backend->config.dtype);
    uint64_t bytes = (store->map->total + 2 * store->map->trained) * sizeof(float);
    if (replica->weights != replica->values)
        bytes += store->map->trained * io;
    if (replica->average)
        bytes += store->map->total * sizeof(float);
    if (replica->fresh)
        bytes += store->map->trained * sizeof(float);
    if (replica->folded_weights)
        bytes += store->map->trained * (io + sizeof(float));
    return bytes * store->backend->device_count;
}

struct writing {
    struct store *store;
    enum param_role role;
    size_t param;
    const float *values; /* packed */
};

static struct status replica_write(struct device *device, unsigned index, void *context)
{
    const struct writing *writing = context;
    const struct store *store = writing->store;
    const struct store_replica *replica = &store->replicas[index];
    const struct param_place *place = &store->map->params[writing->param];
    float *target = role_array(replica, writing->role) + place->offset;
    TRY(device_finish(device));
    TRY(device_upload(device, target, writing->values, place->count * sizeof(float)));
    if (writing->role != ROLE_VALUE || replica->weights == replica->values ||
        !param_is_trained(&store->network->params[writing->param]))
        return OK;
    const enum kernel_type type = io_type(store->backend->config.dtype);
    char *copy = (char *)replica->weights + place->offset * io_bytes(store->backend->config.dtype);
    TRY_CUDA(kernel_cast(type, copy, KERNEL_F32, target, place->count, device->compute));
    return OK;
}

struct status store_write(struct store *store, enum param_role role, size_t param,
                          const double *values)
{
    CLEANUP(memory_free) float *packed = NULL;
    TRY(memory_alloc(store->map->params[param].count, sizeof *packed, &packed));
    if (role == ROLE_AVERAGE)
        TRY(store_need_average(store));
    param_map_pack(store->map, param, values, packed);
    struct writing writing = {store, role, param, packed};
    store->version++;
    return backend_each(store->backend, replica_write, &writing);
}

/* A part of an array of one device, which is waited for. */
static struct status replica_read(const struct store *store, unsigned index, enum param_role role,
                                  uint64_t offset, uint64_t count, float *ret_values)
{
    struct device *device = &store->backend->devices[index];
    TRY(device_enter(device));
    TRY(device_finish(device));
    TRY_CUDA(cudaMemcpy(ret_values, role_array(&store->replicas[index], role) + offset,
                        count * sizeof *ret_values, cudaMemcpyDeviceToHost));
    return OK;
}

struct status store_read(struct store *store, enum param_role role, size_t param,
                         double *ret_values)
{
    const struct param_place *place = &store->map->params[param];
    CLEANUP(memory_free) float *packed = NULL;
    if (!param_is_trained(&store->network->params[param]))
        TRY(store_average_statistics(store));
    TRY(memory_alloc(place->count, sizeof *packed, &packed));
    TRY(replica_read(store, 0, role, place->offset, place->count, packed));
    param_map_unpack(store->map, param, packed, ret_values);
    return OK;
}

struct status store_average_statistics(struct store *store)
{
    const unsigned devices = store->backend->device_count;
    const uint64_t begin = store->map->trained, count = store->map->total - begin;
    struct comm *comm = store->backend->config.comm;
    const unsigned processes = comm ? comm_size(comm) : 1;
    if (!store->statistics_differ || devices * processes == 1)
        return OK;
    CLEANUP(memory_free) float *one = NULL;
    CLEANUP(memory_free) double *sums = NULL;
    TRY(memory_alloc(count, sizeof *one, &one));
    TRY(memory_alloc(count, sizeof *sums, &sums));
    for (unsigned d = 0; d < devices; d++) {
        TRY(replica_read(store, d, ROLE_VALUE, begin, count, one));
        for (uint64_t i = 0; i < count; i++)
            sums[i] += one[i];
    }
    if (processes > 1)
        TRY(comm_sum_f64(comm, sums, count));
    for (uint64_t i = 0; i < count; i++)
        one[i] = (float)(sums[i] / (devices * processes));
    for (unsigned d = 0; d < devices; d++) {
        TRY(device_enter(&store->backend->devices[d]));
        TRY(device_upload(&store->backend->devices[d], store->replicas[d].values + begin, one,
                          count * sizeof *one));
    }
    store->statistics_differ = false;
    return OK;
}

static struct status fresh_open(struct device *device, unsigned index, void *context)
{
    struct store *store = context;
    return device_alloc(device, MEMORY_GRADIENTS, store->map->trained * sizeof(float),
                        &store->replicas[index].fresh);
}

struct status store_need_fresh(struct store *store)
{
    return store->replicas[0].fresh ? OK : backend_each(store->backend, fresh_open, store);
}

static struct status folded_open(struct device *device, unsigned index, void *context)
{
    struct store *store = context;
    struct store_replica *replica = &store->replicas[index];
    TRY(device_alloc(device, MEMORY_PARAMETERS,
                     store->map->trained * io_bytes(store->backend->config.dtype),
                     &replica->folded_weights));
    return device_alloc(device, MEMORY_PARAMETERS, store->map->trained * sizeof(float),
                        &replica->folded_biases);
}

struct status store_need_folded(struct store *store)
{
    return store->replicas[0].folded_biases ? OK : backend_each(store->backend, folded_open, store);
}

static struct status average_open(struct device *device, unsigned index, void *context)
{
    struct store *store = context;
    return device_alloc(device, MEMORY_AVERAGE, store->map->total * sizeof(float),
                        &store->replicas[index].average);
}

struct status store_need_average(struct store *store)
{
    return store->replicas[0].average ? OK : backend_each(store->backend, average_open, store);
}
