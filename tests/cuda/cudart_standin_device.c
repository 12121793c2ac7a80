#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/cudart_standin_internal.h"

/* The lock, the devices, errors. */

enum { MEMORY_DEFAULT_BYTES = 1 << 30 };

struct standin_state standin;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool initialised;
static _Thread_local int current_device;
static _Thread_local cudaError_t last_error;
static _Thread_local bool inside_work;

void standin_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("CUDA stand-in: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void *standin_alloc(size_t count, size_t size_bytes)
{
    void *block = calloc(count ? count : 1, size_bytes);
    if (!block)
        abort();
    return block;
}

void *standin_resize(void *block, size_t count, size_t size_bytes)
{
    block = realloc(block, count * size_bytes);
    if (!block)
        abort();
    return block;
}

/* --- Set-up
 * --------------------------------------------------------------------------------------- */

static void set_up(const struct standin_options *options)
{
    if (options->devices > STANDIN_DEVICES_MAX)
        abort();
    streams_reset();
    graphs_reset();
    standin = (struct standin_state){.options = *options, .failing_device = -1};
    if (!standin.options.memory_bytes)
        standin.options.memory_bytes = MEMORY_DEFAULT_BYTES;
    standin.random = random_stream_make(options->seed, RANDOM_TEST, 0, 0);
    memory_reset();
    streams_begin();
    schedule_reset();
    initialised = true;
}

static struct standin_options options_from_environment(void)
{
    const char *devices = getenv("STANDIN_DEVICES"), *seed = getenv("STANDIN_SEED");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct standin_options options = {.devices = 1};
    if (devices)
        options.devices = (int)strtol(devices, NULL, 10);
    if (visible) {
        options.first_device = (int)strtol(visible, NULL, 10);
        options.devices = *visible ? 1 : 0;
        for (const char *comma = visible; (comma = strchr(comma, ',')); comma++)
            options.devices++;
    }
    if (seed) {
        options.order = STANDIN_DEFERRED;
        options.seed = strtoull(seed, NULL, 10);
    }
    return options;
}

void standin_reset(const struct standin_options *options)
{
    const struct standin_options usual = {.devices = 1};
    pthread_mutex_lock(&lock);
    set_up(options ? options : &usual);
    current_device = 0;
    last_error = cudaSuccess;
    pthread_mutex_unlock(&lock);
}

size_t standin_leaks(void)
{
    standin_enter();
    size_t count = streams_alive() + graphs_alive() + memory_alive();
    standin_leave(cudaSuccess);
    return count;
}

/* --- The lock
 * ------------------------------------------------------------------------------------- */

void standin_enter(void)
{
    if (inside_work) {
        standin_complain("work on a stream called the runtime, which may deadlock");
        abort();
    }
    pthread_mutex_lock(&lock);
    if (!initialised) {
        const struct standin_options options = options_from_environment();
        set_up(&options);
    }
}

cudaError_t standin_leave_asking(cudaError_t error)
{
    memory_open(NO_DEVICE);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t standin_leave_quietly(cudaError_t error)
{
    standin.idle_since_ms = 0;
    standin.questions = 0;
    return standin_leave_asking(error);
}

cudaError_t standin_leave(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return standin_leave_quietly(error);
}

void standin_sleep(bool ran, double most_ms)
{
    struct timespec until;
    memory_open(NO_DEVICE);
    if (ran)
        pthread_cond_broadcast(&changed);
    clock_gettime(CLOCK_REALTIME, &until);
    const double nsec = (double)until.tv_nsec + most_ms * 1e6;
    until.tv_sec += (time_t)(nsec / 1e9);
    until.tv_nsec = (long)fmod(nsec, 1e9);
    pthread_cond_timedwait(&changed, &lock, &until);
}

void standin_set_inside(bool inside)
{
    inside_work = inside;
}

int standin_device(void)
{
    return current_device;
}

/* --- Devices
 * -------------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
    standin_enter();
    if (standin.options.driver_version && standin.options.driver_version < CUDART_VERSION)
        return standin_leave(cudaErrorInsufficientDriver);
    if (standin.options.devices == 0)
        return standin_leave(cudaErrorNoDevice); /* the count is left alone, as by the real one */
    *count = standin.options.devices;
    return standin_leave(cudaSuccess);
}

static cudaError_t check_device(int device)
{
    if (standin.options.devices == 0)
        return cudaErrorNoDevice;
    return device >= 0 && device < standin.options.devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int device)
{
    standin_enter();
    cudaError_t error = check_device(device);
    if (error == cudaSuccess)
        current_device = device;
    return standin_leave(error);
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags, (void)flags;
    standin_enter();
    return standin_leave(check_device(device));
}

cudaError_t cudaGetDevice(int *device)
{
    standin_enter();
    *device = current_device;
    return standin_leave(check_device(current_device));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    standin_enter();
    cudaError_t error = check_device(device);
    if (error != cudaSuccess)
        return standin_leave(error);
    *properties = (struct cudaDeviceProp){
        .totalGlobalMem = standin.options.memory_bytes,
        .sharedMemPerBlock = 48 << 10,
        .regsPerBlock = 65536,
        .warpSize = 32,
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {0x7fffffff, 65535, 65535},
        .major = 9,
        .minor = 0,
        .multiProcessorCount = 132,
        .concurrentKernels = 1,
        .pciBusID = device + 1,
        .asyncEngineCount = 3,
        .unifiedAddressing = 1,
        .memoryBusWidth = 6144,
        .l2CacheSize = 60 << 20,
        .maxThreadsPerMultiProcessor = 2048,
        .streamPrioritiesSupported = 1,
    };
    snprintf(properties->name, sizeof properties->name, "CPU stand-in");
    snprintf(properties->uuid.bytes, sizeof properties->uuid.bytes, "device %d",
             standin.options.first_device + device);
    return standin_leave(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    standin_enter();
    cudaError_t error = check_device(device);
    if (error != cudaSuccess)
        return standin_leave(error);
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 132;
        break;
    case cudaDevAttrClockRate: /* kHz */
        *value = 1980000;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 3201000;
        break;
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    default:
        standin_complain("device attribute %d is not known", (int)attribute);
        error = cudaErrorNotSupported;
    }
    return standin_leave(error);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
    standin_enter();
    cudaError_t error = check_device(device);
    if (error == cudaSuccess)
        snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned)device + 1);
    return standin_leave(error);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    standin_enter();
    *can = device != peer;
    return standin_leave(check_device(device) ? check_device(device) : check_device(peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)flags;
    standin_enter();
    return standin_leave(check_device(peer));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    standin_enter();
    *least = 0;
    *greatest = -5;
    return standin_leave(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void)
{
    standin_enter();
    cudaError_t error = capture_forbids();
    if (error == cudaSuccess)
        error = device_drain(current_device);
    return standin_leave(error);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    standin_enter();
    *version = standin.options.driver_version ? standin.options.driver_version : CUDART_VERSION;
    return standin_leave(cudaSuccess);
}

/* --- Errors
 * --------------------------------------------------------------------------------------- */

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

#define ERROR_NAMES(X)                                                                             \
    X(cudaSuccess)                                                                                 \
    X(cudaErrorInvalidValue)                                                                       \
    X(cudaErrorMemoryAllocation)                                                                   \
    X(cudaErrorInvalidConfiguration)                                                               \
    X(cudaErrorInvalidDevice)                                                                      \
    X(cudaErrorNoDevice)                                                                           \
    X(cudaErrorInsufficientDriver)                                                                 \
    X(cudaErrorInvalidResourceHandle)                                                              \
    X(cudaErrorNotReady)                                                                           \
    X(cudaErrorNotSupported)                                                                       \
    X(cudaErrorStreamCaptureUnsupported)                                                           \
    X(cudaErrorStreamCaptureInvalidated)                                                           \
    X(cudaErrorStreamCaptureMerge)                                                                 \
    X(cudaErrorStreamCaptureUnmatched)                                                             \
    X(cudaErrorStreamCaptureUnjoined)                                                              \
    X(cudaErrorStreamCaptureIsolation)                                                             \
    X(cudaErrorStreamCaptureImplicit)                                                              \
    X(cudaErrorStreamCaptureWrongThread)                                                           \
    X(cudaErrorCapturedEvent)

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define ERROR_CASE(name)                                                                           \
    case name:                                                                                     \
        return #name;
        ERROR_NAMES(ERROR_CASE)
    default:
        return "cudaError";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}
