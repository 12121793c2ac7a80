#include "train/cuda/device.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "train/comm.h"
#include "train/cuda/errors.h"

/* Below this much, what is in use on a fresh device is the context of this very process. */
static const uint64_t busy_bytes = 2ull << 30;
/* What to say when the runtime finds no device to count. */
static struct status count_failure(cudaError_t error)
{
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (error == cudaErrorInsufficientDriver && driver > 0)
        FAIL(STATUS_FAILED,
             "the NVIDIA driver of this machine serves CUDA up to %d.%d, but this program needs "
             "%d.%d: "
             "install a newer driver, or use --device cpu",
             driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (path_exists("/dev/nvidiactl"))
        FAIL(
            STATUS_FAILED,
            "CUDA %d.%d does not reach the NVIDIA devices that /dev/nvidiactl stands for: %s (%s); "
            "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu",
            runtime / 1000, runtime % 1000 / 10, cudaGetErrorString(error),
            cudaGetErrorName(error));
    FAIL(STATUS_NOT_FOUND,
         "no CUDA device: there is no NVIDIA driver on this machine (no /dev/nvidiactl; %s); use "
         "--device cpu",
         cudaGetErrorName(error));
}

struct status device_count(int *ret_count)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return count_failure(error);
    if (count == 0)
        return count_failure(cudaErrorNoDevice);
    *ret_count = count;
    return OK;
}

struct status device_check_dtype(const struct device *device, enum train_dtype dtype)
{
    if (device->major < 8 && (dtype == DTYPE_BF16 || dtype == DTYPE_TF32))
        FAIL(STATUS_UNSUPPORTED,
             "%s on the GPU needs compute capability 8.0 or later, but device %d (%s) has %d.%d: "
             "use fp16 or f32",
             train_dtype_names[dtype], device->ordinal, device->name, device->major, device->minor);
    return OK;
}

static struct status busy_warn(const struct device *device)
{
    size_t free_bytes = 0, total_bytes = 0;
    TRY_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (total_bytes - free_bytes > busy_bytes)
        log_warning("device %d (%s) is in use by others: %.1f of its %.1f GiB are taken, and steps "
                    "may be slow",
                    device->ordinal, device->name, (double)(total_bytes - free_bytes) / 0x1p30,
                    (double)total_bytes / 0x1p30);
    return OK;
}

static struct status cudnn_check(cudnnStatus_t status, const char *what)
{
    if (status != CUDNN_STATUS_SUCCESS)
        FAIL(STATUS_FAILED, "cuDNN does not start: %s: %s", what, cudnnGetErrorString(status));
    return OK;
}

static struct status streams_open(struct device *device)
{
    /* The sums' few blocks go before the many of compute that wait for a multiprocessor. */
    TRY_CUDA(cudaStreamCreateWithPriority(&device->compute, cudaStreamNonBlocking, 0));
    TRY_CUDA(cudaStreamCreateWithPriority(&device->copy, cudaStreamNonBlocking, 0));
    TRY_CUDA(cudaStreamCreateWithPriority(&device->reduce, cudaStreamNonBlocking, -1));
    cudaEvent_t *const events[] = {&device->idle, &device->summand, &device->summed};
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++)
        TRY_CUDA(cudaEventCreateWithFlags(events[i], cudaEventDisableTiming));
    TRY(cudnn_check(cudnnCreate(&device->cudnn), "cudnnCreate"));
    return cudnn_check(cudnnSetStream(device->cudnn, device->compute), "cudnnSetStream");
}

struct status device_open(struct device *device, int ordinal, const struct backend_config *config)
{
    struct cudaDeviceProp properties;
    device->ordinal = ordinal;
    TRY(device_enter(device));
    TRY_CUDA(cudaGetDeviceProperties(&properties, ordinal));
    snprintf(device->name, sizeof device->name, "%.*s", (int)sizeof device->name - 1,
             properties.name);
    device->uuid = properties.uuid;
    device->major = properties.major;
    device->minor = properties.minor;
    if (config->comm && comm_size(config->comm) > 1)
        device->comm = config->comm;
    TRY(device_check_dtype(device, config->dtype));
    TRY(busy_warn(device));
    TRY(streams_open(device));
    const struct planner_config planning = {
        .handle = device->cudnn,
        .device_name = device->name,
        .dtype = config->dtype,
        .deterministic = config->deterministic,
        .tune = config->tune,
        .workspace_limit = DEVICE_WORKSPACE_LIMIT_BYTES,
        .cache_folder = config->plan_cache,
    };
    return planner_open(&planning, &device->planner);
}

/* NCCL sees that a connection broke, the processes' watch whose it was: a moment later, perhaps. */
static struct status loss_explain(const struct device *device, struct status found)
{
    enum { LOOKS = 60 };
    static const struct timespec pause = {.tv_nsec = 50000000};
    for (int look = 0; look < LOOKS && device->comm; look++) {
        struct status lost = comm_check(device->comm);
        if (lost.code != STATUS_DONE) {
            status_ignore(found);
            return lost;
        }
        nanosleep(&pause, NULL);
    }
    return found;
}

/* Whether all others are there still. */
static struct status others_check(const struct device *device)
{
    if (device->comm)
        TRY(comm_check(device->comm));
    if (atomic_load(device->broken))
        FAIL(STATUS_FAILED, "another GPU of this process did not come to a sum: see its error");
    struct status found = collective_check(device->collective);
    return found.code == STATUS_DONE ? OK : loss_explain(device, found);
}

static void others_leave(struct device *device)
{
    if (!device->collective)
        return;
    struct status lost = others_check(device);
    if (lost.code != STATUS_DONE)
        collective_abort(device->collective);
    status_ignore(lost);
    collective_close(MOVE(device->collective));
}

void device_done(struct device *device)
{
    if (device->forecast) {
        planner_close(device->planner);
        return;
    }
    if (cudaSetDevice(device->ordinal) != cudaSuccess)
        return;
    others_leave(device);
    planner_close(device->planner);
    if (device->cudnn)
        cudnnDestroy(device->cudnn);
    cudaEvent_t events[] = {device->idle, device->summand, device->summed};
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    cudaStream_t streams[] = {device->compute, device->copy, device->reduce};
    for (int i = 0; i < 3; i++)
        if (streams[i])
            cudaStreamDestroy(streams[i]);
}

struct status device_enter(const struct device *device)
{
    if (device->forecast)
        return OK;
    TRY_CUDA(cudaSetDevice(device->ordinal));
    return OK;
}

struct status device_wait(struct device *device, cudaEvent_t event)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    if (!device->collective) {
        TRY_CUDA(cudaEventSynchronize(event));
        return OK;
    }
    for (;;) {
        cudaError_t error = cudaEventQuery(event);
        if (error == cudaSuccess)
            return OK;
        if (error != cudaErrorNotReady)
            return cuda_failure(error, "cudaEventQuery");
        (void)cudaGetLastError(); /* "not ready" is no error of what comes next */
        struct status lost = others_check(device);
        if (lost.code != STATUS_DONE) {
            collective_abort(device->collective);
            return lost;
        }
        nanosleep(&pause, NULL);
    }
}

struct status device_finish(struct device *device)
{
    if (device->forecast)
        return OK;
    TRY_CUDA(cudaEventRecord(device->idle, device->compute));
    return device_wait(device, device->idle);
}

struct status device_alloc_bare(struct device *device, enum memory_kind kind, uint64_t size_bytes,
                                void *ret_pointer)
{
    void *memory = NULL;
    device->use.bytes[kind] += size_bytes;
    if (size_bytes && !device->forecast) {
        cudaError_t error = cudaMalloc(&memory, size_bytes);
        if (error == cudaErrorMemoryAllocation)
            FAIL(STATUS_NO_MEMORY,
                 "the device has no %.2f GiB of memory left: use a smaller batch (-b), more "
                 "--accumulate, or look who else uses it (nvidia-smi)",
                 (double)size_bytes / 0x1p30);
        TRY_CUDA(error);
    }
    memcpy(ret_pointer, &memory, sizeof memory);
    return OK;
}

struct status device_alloc(struct device *device, enum memory_kind kind, uint64_t size_bytes,
                           void *ret_pointer)
{
    void *memory = NULL;
    TRY(device_alloc_bare(device, kind, size_bytes, &memory));
    memcpy(ret_pointer, &memory, sizeof memory);
    if (memory)
        TRY_CUDA(cudaMemsetAsync(memory, 0, size_bytes, device->compute));
    return OK;
}

struct status device_alloc_pinned(struct device *device, uint64_t size_bytes, void *ret_pointer)
{
    void *memory = NULL;
    device->use.pinned_bytes += size_bytes;
    if (!device->forecast) {
        TRY_CUDA(cudaMallocHost(&memory, size_bytes));
        memset(memory, 0, size_bytes);
    }
    memcpy(ret_pointer, &memory, sizeof memory);
    return OK;
}

struct status device_open_event(const struct device *device, cudaEvent_t *ret_event)
{
    if (!device->forecast)
        TRY_CUDA(cudaEventCreateWithFlags(ret_event, cudaEventDisableTiming));
    return OK;
}

struct status device_upload(const struct device *device, void *target, const void *source,
                            size_t size_bytes)
{
    if (device->forecast)
        return OK;
    TRY_CUDA(cudaMemcpy(target, source, size_bytes, cudaMemcpyHostToDevice));
    return OK;
}

struct status device_sum(struct device *device, const struct summand *summands, size_t count)
{
    TRY_CUDA(cudaEventRecord(device->summand, device->compute));
    TRY_CUDA(cudaStreamWaitEvent(device->reduce, device->summand, 0));
    TRY(collective_sum(device->collective, summands, count, device->reduce));
    TRY_CUDA(cudaEventRecord(device->summed, device->reduce));
    TRY_CUDA(cudaStreamWaitEvent(device->compute, device->summed, 0));
    return OK;
}

struct status device_capture(struct device *device, capture_fn *fn, void *context,
                             cudaGraphExec_t *ret_graph)
{
    cudaGraph_t graph = NULL;
    /* Only this thread's calls are held to what a captured stream stands: others serve other
     * devices or load data. */
    TRY_CUDA(cudaStreamBeginCapture(device->compute, cudaStreamCaptureModeThreadLocal));
    struct status status = fn(context);
    cudaError_t error = cudaStreamEndCapture(device->compute, &graph);
    if (status.code == STATUS_DONE && error == cudaSuccess)
        error = cudaGraphInstantiate(ret_graph, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    TRY(status);
    if (error != cudaSuccess)
        return cuda_failure(error, "the capture of a step");
    return OK;
}
