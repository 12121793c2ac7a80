#ifndef HEADRACE_TESTS_CUDA_CUDART_STANDIN_H
#define HEADRACE_TESTS_CUDA_CUDART_STANDIN_H

/* The CUDA runtime on the CPU, for tests: the symbols of libcudart that train/cuda/ uses, and these
 * functions to steer and watch them.
 *
 * Device memory is memory of this process that can only be touched while work runs: a host access
 * is a SIGSEGV. It starts as 0xff bytes (NaN, −1). Under AddressSanitizer the room between
 * allocations is poisoned, so a kernel that leaves its arrays is found.
 *
 * Work on streams waits until somebody synchronises (or runs as soon as it can, STANDIN_IMMEDIATE).
 * Any stream's next work may run then, whichever thread synchronises, of whichever device; only the
 * order within a stream and events' waits are respected, and in a graph only its edges. So a
 * missing wait gives wrong results for some seed. One piece of work runs at a time.
 *
 * Stricter than CUDA: cudaMemcpyAsync between pageable memory and a device fails, and so does
 * anything that a captured stream would not stand. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum standin_order {
    STANDIN_IMMEDIATE = 0, /* as soon as it can, in the order of the calls */
    STANDIN_DEFERRED, /* random, by seed: some streams far ahead of others, now and then early */
    STANDIN_PARALLEL, /* a turn for each stream in which something can run, as if all work took
                         the same time: for traces */
};

#define STANDIN_EVERY_STREAM (~0u)

struct standin_options {
    int devices; /* what cudaGetDeviceCount says; 0: it fails with cudaErrorNoDevice */
    /* What the driver serves, as 12040 for CUDA 12.4: less than the runtime is too old for it. 0:
     * as much as the runtime. */
    int driver_version;
    enum standin_order order;
    uint64_t seed; /* STANDIN_DEFERRED */
    /* STANDIN_DEFERRED: the stream that was made as this one (from 1) of the device does something
     * only where no other can; 0: none, STANDIN_EVERY_STREAM: all but the legacy one.
     * Nothing runs then before somebody waits. */
    int starved_device;
    unsigned starved_stream;
    size_t memory_bytes; /* of each device; 0: 1 GiB */
    /* The wait number `ignored_wait` (from 1) of cudaStreamWaitEvent on streams of the device does
     * nothing; 0: none. */
    int ignored_device;
    unsigned ignored_wait;
    /* The host's wait number `ignored_host_wait` (from 1) for events of that device does not wait.
     */
    unsigned ignored_host_wait;
    /* cudaFree and cudaFreeHost do not wait for work, which finds 0xff where it comes late. */
    bool frees_early;
    int first_device; /* what the machine calls the first: other processes may see others */
    /* Where nothing can run for so long the process is aborted; 0: a minute. */
    unsigned standstill_ms;
};
/* Starts anew: all streams, events, graphs, memory and the trace are gone. `options` NULL: one
 * device, STANDIN_IMMEDIATE. No other thread may be inside a call. Without it the first call finds
 * that, or what the environment says: STANDIN_DEVICES, STANDIN_SEED (then deferred), and
 * CUDA_VISIBLE_DEVICES, numbers that follow each other. */
void standin_reset(const struct standin_options *options);

/* From now on kernels cannot be launched on this device; −1: on all they can. */
void standin_fail_launches(int device);
/* Waits made on a device's streams since the reset (cudaStreamWaitEvent). */
unsigned standin_waits(int device);
/* Waits of the host since the reset for records of a device's events (cudaEventSynchronize, the
 * first cudaEventQuery), where there was something to wait for. */
unsigned standin_host_waits(int device);
/* Live bytes of cudaMalloc on a device, and the most there were. */
size_t standin_memory_bytes(int device);
size_t standin_memory_peak_bytes(int device);
/* Streams, events, graphs, executable graphs, device and pinned allocations that still exist. */
size_t standin_leaks(void);
/* Whether `pointer` is memory of a device (which one: ret_device) / pinned. For stand-ins of other
 * libraries, to check their arguments. */
bool standin_is_device_memory(const void *pointer, int *ret_device);

/* Work of other stand-ins. Runs in its stream's turn, once a launch if it was captured into a
 * graph. */
struct standin_work {
    const char *label; /* for the trace; a string that lives on */
    uint64_t bytes;    /* for the trace */
    /* Does it and returns true, or returns false when it cannot be done yet: it is asked again when
     * something else has run. Device memory of all devices may be touched within. It must not call
     * the runtime. */
    bool (*try_run)(void *context);
    void *context;
    bool foreign; /* another process may do what it waits for: it is asked again and again */
    void (*release)(void *context); /* when it is not needed any more; may be NULL */
};
/* `context` is owned by the runtime from here on, also when this fails. */
cudaError_t standin_enqueue(cudaStream_t stream, const struct standin_work *work);

/* What ran, in the order of running. Kept since the reset; event records and waits are not in it.
 */
struct standin_event {
    const char *label;
    uint64_t bytes;
    int device;
    unsigned stream; /* numbered from 0 since the reset; of a graph's node, the one it was captured
                        from */
    unsigned turn;   /* STANDIN_PARALLEL: works with the same turn ran side by side */
};
size_t standin_trace(const struct standin_event **ret_events);
void standin_trace_clear(void);
unsigned standin_stream_number(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
