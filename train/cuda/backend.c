/* The cuDNN backend: its module's one entry, and the table behind it. */

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "train/comm.h"
#include "train/cuda/cuda.h"
#include "train/cuda/plan.h"
#include "train/cuda/store.h"

struct each {
    struct backend *backend;
    device_fn *fn;
    void *context;
};

static struct status each_device(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    const struct each *each = context;
    struct device *device = &each->backend->devices[item];
    TRY(device_enter(device));
    return status_context(each->fn(device, (unsigned)item, each->context), "device %d (%s)",
                          device->ordinal, device->name);
}

struct status backend_each(struct backend *backend, device_fn *fn, void *context)
{
    struct each each = {backend, fn, context};
    if (!backend->pool) /* one device, or a forecast, for which the first stands for all */
        return each_device(0, 0, &each);
    return pool_run(backend->pool, backend->device_count, each_device, &each);
}

static struct status one_close(struct device *device, unsigned index, void *context)
{
    (void)index;
    (void)context;
    device_done(device);
    return OK;
}

void backend_close(struct backend *backend)
{
    if (!backend)
        return;
    if (backend->devices)
        status_ignore(backend_each(backend, one_close, NULL));
    pool_close(backend->pool);
    memory_free(backend->devices);
    memory_free(backend);
}

static unsigned processes_of(struct comm *comm)
{
    return comm ? comm_size(comm) : 1;
}

/* How many devices this process drives: all that are visible, or where several processes share a
 * machine, one. */
static unsigned devices_wanted(const struct backend_config *config, int visible)
{
    if (config->devices)
        return config->devices;
    return config->comm && comm_local_size(config->comm) > 1 ? 1 : (unsigned)visible;
}

/* In a forecast there are as many devices as are asked for. */
static struct status devices_imagine(struct backend *backend)
{
    const struct backend_config *config = &backend->config;
    int visible = 1;
    if (!config->forecast_device && !config->devices)
        TRY(device_count(&visible));
    backend->device_count = devices_wanted(config, visible);
    backend->rank_count = backend->device_count * processes_of(config->comm);
    return OK;
}

/* Which devices this process drives: where several processes share a machine, each its own. */
static struct status devices_choose(struct backend *backend, int *ret_first)
{
    struct backend_config *config = &backend->config;
    int visible = 0;
    TRY(device_count(&visible));
    unsigned beside = config->comm ? comm_local_size(config->comm) : 1;
    unsigned local = config->comm ? comm_local_rank(config->comm) : 0;
    unsigned wanted = devices_wanted(config, visible);
    unsigned first = (unsigned)config->first_device + (beside > 1 ? local * wanted : 0);
    if (wanted > (unsigned)visible)
        FAIL(STATUS_USAGE,
             "%u GPUs were asked for, but this process sees %d: use --gpus %d, or look at "
             "CUDA_VISIBLE_DEVICES",
             wanted, visible, visible);
    if (first + wanted > (unsigned)visible && beside > 1)
        first %= (unsigned)visible;
    if (first + wanted > (unsigned)visible)
        FAIL(STATUS_USAGE,
             "process %u of the %u on this machine would use GPUs %u to %u, but sees only %d: use "
             "fewer --gpus or fewer processes",
             local, beside, first, first + wanted - 1, visible);
    backend->device_count = wanted;
    *ret_first = (int)first;
    return OK;
}

struct opening {
    const struct backend_config *config;
    int first;
    char id[COLLECTIVE_ID_BYTES];
    unsigned first_rank, ranks;
};

static struct status one_open(struct device *device, unsigned index, void *context)
{
    const struct opening *opening = context;
    if (opening->config->forecast)
        return device_describe(device, opening->config);
    return device_open(device, opening->first + (int)index, opening->config);
}

static struct status one_join(struct device *device, unsigned index, void *context)
{
    const struct opening *opening = context;
    return collective_open(opening->id, opening->first_rank + index, opening->ranks,
                           &device->collective);
}

/* Fails on all processes when two of them use the same device, with which NCCL cannot sum. */
static struct status devices_compare(struct backend *backend)
{
    struct comm *comm = backend->config.comm;
    const size_t own = backend->device_count, all = own * comm_size(comm);
    CLEANUP(memory_free) cudaUUID_t *ours = NULL, *theirs = NULL;
    TRY(memory_alloc(own, sizeof *ours, &ours));
    TRY(memory_alloc(all, sizeof *theirs, &theirs));
    for (size_t i = 0; i < own; i++)
        ours[i] = backend->devices[i].uuid;
    TRY(comm_gather(comm, ours, own * sizeof *ours, theirs));
    for (size_t i = 0; i < all; i++)
        for (size_t j = 0; j < i; j++)
            if (memcmp(&theirs[i], &theirs[j], sizeof *theirs) == 0)
                FAIL(STATUS_USAGE,
                     "GPU %zu of rank %zu is GPU %zu of rank %zu too: start at most as many "
                     "processes on a machine as it has GPUs, or give each others to see "
                     "(CUDA_VISIBLE_DEVICES)",
                     i % own, i / own, j % own, j / own);
    return OK;
}

/* Of one device there is nothing to join, but HEADRACE_CUDA_JOIN=1 joins it with itself: so what
 * --sync-bn runs is tested where there is one GPU. */
static bool one_is_joined(const struct backend *backend)
{
    const char *asked = getenv("HEADRACE_CUDA_JOIN");
    return backend->config.sync_bn && asked && strcmp(asked, "1") == 0;
}

/* Connects the devices of all processes. */
static struct status devices_join(struct backend *backend)
{
    struct comm *comm = backend->config.comm;
    unsigned processes = processes_of(comm), rank = comm ? comm_rank(comm) : 0;
    struct opening opening = {
        .first_rank = rank * backend->device_count,
        .ranks = processes * backend->device_count,
    };
    if (processes > 1) {
        uint64_t most[1] = {backend->device_count};
        TRY(comm_max_u64(comm, most, 1));
        if (most[0] != backend->device_count)
            FAIL(STATUS_USAGE,
                 "this process drives %u GPUs and another one %llu: give all the same --gpus",
                 backend->device_count, (unsigned long long)most[0]);
        TRY(devices_compare(backend));
    }
    backend->rank_count = opening.ranks;
    if (opening.ranks == 1 && !one_is_joined(backend))
        return OK;
    if (rank == 0)
        TRY(collective_name(opening.id));
    if (processes > 1)
        TRY(comm_broadcast(comm, opening.id, sizeof opening.id, 0));
    return backend_each(backend, one_join, &opening);
}

struct status backend_open(const struct backend_config *config, struct backend **ret_backend)
{
    CLEANUP(backend_close) struct backend *backend = NULL;
    struct opening opening = {0};
    TRY(memory_alloc(1, sizeof *backend, &backend));
    backend->config = *config;
    if (config->dtype == DTYPE_AUTO)
        backend->config.dtype = DTYPE_FP16;
    TRY(config->forecast ? devices_imagine(backend) : devices_choose(backend, &opening.first));
    if (backend->device_count > 1 && !config->forecast)
        TRY(pool_open(backend->device_count, &backend->pool));
    TRY(memory_alloc(backend->device_count, sizeof *backend->devices, &backend->devices));
    for (unsigned i = 0; i < backend->device_count; i++)
        backend->devices[i] = (struct device){.ordinal = opening.first + (int)i,
                                              .broken = &backend->broken,
                                              .forecast = config->forecast};
    opening.config = &backend->config;
    TRY(backend_each(backend, one_open, &opening));
    if (!config->forecast)
        TRY(devices_join(backend));
    backend->joins_bn = config->sync_bn && (backend->rank_count > 1 || one_is_joined(backend));
    /* Borrowed for the call only. */
    backend->config.plan_cache = backend->config.forecast_device = NULL;
    *ret_backend = MOVE(backend);
    return OK;
}

enum train_dtype backend_dtype(const struct backend *backend)
{
    return backend->config.dtype;
}

unsigned backend_replicas(const struct backend *backend)
{
    return backend->device_count;
}

struct status backend_describe(const struct backend *backend, struct buffer *text)
{
    const struct device *first = &backend->devices[0];
    size_t cudnn = cudnnGetVersion();
    TRY(buffer_append_text(text, "cuda: "));
    if (backend->device_count > 1)
        TRY(buffer_append_text(text, "%u x ", backend->device_count));
    TRY(buffer_append_text(text, "%s (sm_%d%d), %s, cuDNN %zu.%zu.%zu", first->name, first->major,
                           first->minor, train_dtype_names[backend->config.dtype], cudnn / 10000,
                           cudnn / 100 % 100, cudnn % 100));
    if (!first->collective)
        return OK;
    int major, minor, patch;
    TRY(collective_version(&major, &minor, &patch));
    return buffer_append_text(text, ", NCCL %d.%d.%d", major, minor, patch);
}

void backend_input_format(const struct backend *backend, struct tensor_format *format)
{
    (void)backend;
    format->type = TENSOR_U8;
    format->layout = TENSOR_NHWC;
}

void backend_memory(const struct backend *backend, struct memory_use *ret_use)
{
    *ret_use = backend->devices[0].use;
}

BACKEND_MODULE("cuda", store_average, plan_slow_reason)
