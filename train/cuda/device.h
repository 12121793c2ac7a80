#ifndef HEADRACE_TRAIN_CUDA_DEVICE_H
#define HEADRACE_TRAIN_CUDA_DEVICE_H

/* One device: its streams and libraries.
 *
 *     copy      batches from pinned memory, ahead of their use
 *     compute   everything else
 *     reduce    all sums over the devices: those of gradients run beside compute
 *
 * Functions that take a device expect it to be the calling thread's current one (device_enter). */

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "train/backend.h"
#include "train/cuda/collective.h"
#include "train/cuda/graph.h"
#include "train/cuda/kernels.h"

/* cuDNN's plans that want more are passed over. */
#define DEVICE_WORKSPACE_LIMIT_BYTES ((uint64_t)1 << 30)

struct device {
    int ordinal;       /* as CUDA counts the visible ones */
    char name[64];     /* "NVIDIA H200" */
    cudaUUID_t uuid;   /* the same whoever sees it */
    int major, minor;  /* compute capability */
    struct comm *comm; /* borrowed; NULL: no other process can be lost while this one waits */
    const atomic_bool *broken; /* borrowed; one of this process's devices left a step unfinished */
    cudaStream_t compute, copy, reduce;
    cudaEvent_t idle;            /* for device_finish */
    cudaEvent_t summand, summed; /* for device_sum */
    cudnnHandle_t cudnn;         /* on the compute stream */
    struct planner *planner;
    struct collective *collective; /* NULL: nothing is summed over devices */

    /* A forecast has a planner, and none of what is above it: memory is counted, not allocated. */
    bool forecast;
    struct memory_use use;
};

/* How many devices are visible, at least 1. Fails with STATUS_NOT_FOUND where no NVIDIA device is,
 * and with STATUS_FAILED where a driver is there that does not serve: which one, and what is
 * needed.
 */
struct status device_count(int *ret_count);

/* Fails with STATUS_UNSUPPORTED where the device cannot compute in config->dtype (not DTYPE_AUTO).
 * Warns when others use the device. The collective is left to the caller. */
struct status device_open(struct device *device, int ordinal, const struct backend_config *config);
/* Ends what waits for devices that are lost. */
/* The same without a device, for config->forecast: the one that is described by name, or what the
 * first that is there says of itself. */
struct status device_describe(struct device *device, const struct backend_config *config);
void device_done(struct device *device);

/* Fails with STATUS_UNSUPPORTED where the device cannot compute in `dtype`. */
struct status device_check_dtype(const struct device *device, enum train_dtype dtype);

struct status device_enter(const struct device *device);
/* Waits for an event. Fails when another process or device is known to be lost, whose part of a sum
 * would never come, and ends the sums of this one. */
struct status device_wait(struct device *device, cudaEvent_t event);
/* Waits until the compute stream has done what was put on it. */
struct status device_finish(struct device *device);

/* Device memory that the compute stream zeroes before what is put on it from now on; free with
 * cudaFree. A size of 0 gives NULL. On failure *ret_pointer may be set: it is then to be freed too.
 */
struct status device_alloc(struct device *device, enum memory_kind kind, uint64_t size_bytes,
                           void *ret_pointer);
/* The same with anything in it, for what is written whole before it is read. */
struct status device_alloc_bare(struct device *device, enum memory_kind kind, uint64_t size_bytes,
                                void *ret_pointer);
/* Zeroed memory of the host that the device reads by itself; free with cudaFreeHost. */
struct status device_alloc_pinned(struct device *device, uint64_t size_bytes, void *ret_pointer);
/* An event without a time; NULL in a forecast. */
struct status device_open_event(const struct device *device, cudaEvent_t *ret_event);
/* Copies from the host to device memory that no work touches; complete when this returns. */
struct status device_upload(const struct device *device, void *target, const void *source,
                            size_t size_bytes);

/* Puts sums over all devices between what was put on the compute stream before and what comes
 * after. May be captured. */
struct status device_sum(struct device *device, const struct summand *summands, size_t count);

/* Makes a graph of what `fn` puts on the compute stream. */
typedef struct status capture_fn(void *context);
struct status device_capture(struct device *device, capture_fn *fn, void *context,
                             cudaGraphExec_t *ret_graph);

/* The type of activations. */
static inline enum kernel_type io_type(enum train_dtype dtype)
{
    return dtype == DTYPE_FP16 ? KERNEL_F16 : dtype == DTYPE_BF16 ? KERNEL_BF16 : KERNEL_F32;
}
static inline size_t io_bytes(enum train_dtype dtype)
{
    return io_type(dtype) == KERNEL_F32 ? 4 : 2;
}

#endif
