/* Devices of forecasts: known by a description, whether or not there is one. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "train/cuda/device.h"
#include "train/cuda/device_table.h"
#include "train/cuda/errors.h"

/* What the driver keeps for the context, with the code of cuDNN, NCCL and our kernels, and what is
 * lost between allocations. */
static const uint64_t reserved_bytes = 1ull << 30;

/* The file that comes beside this module. */
static struct status neighbour_path(const char *file, char **ret_path)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)device_describe, &info) == 0)
        FAIL(STATUS_FAILED, "the folder of headrace-cuda.so is not known: %s", dlerror());
    const char *slash = strrchr(info.dli_fname, '/');
    const int length = slash ? (int)(slash - info.dli_fname) : 1;
    return string_format(ret_path, "%.*s/%s", length, slash ? info.dli_fname : ".", file);
}

/* cuDNN compiles plans once it has found a driver. Where there is none, one without devices stands
 * in, of the same soname; it stays loaded. */
static struct status driver_provide(void)
{
    CLEANUP(memory_free) char *path = NULL;
    int version = 0;
    if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
        return OK;
    TRY(neighbour_path("headrace-nodriver.so", &path));
    if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        FAIL(STATUS_NOT_FOUND,
             "without an NVIDIA driver a forecast needs headrace-nodriver.so, which is built and "
             "installed with headrace-cuda.so: %s",
             dlerror());
    return OK;
}

/* A rate in MHz; 0 where the driver does not say. */
static uint32_t rate_mhz(enum cudaDeviceAttr attribute)
{
    int rate_khz = 0;
    if (cudaDeviceGetAttribute(&rate_khz, attribute, 0) != cudaSuccess || rate_khz < 0)
        return 0;
    return (uint32_t)rate_khz / 1000;
}

/* What the first device says of itself; the title is borrowed from `properties`. */
static struct status first_describe(struct cudaDeviceProp *properties,
                                    struct device_entry *ret_entry)
{
    int visible;
    TRY(device_count(&visible));
    TRY_CUDA(cudaGetDeviceProperties(properties, 0));
    *ret_entry = (struct device_entry){
        .name = "device 0",
        .title = properties->name,
        .capability = (uint32_t)(properties->major * 100 + properties->minor * 10),
        .multiprocessors = (uint32_t)properties->multiProcessorCount,
        .blocks = (uint32_t)properties->maxBlocksPerMultiProcessor,
        .threads = (uint32_t)properties->maxThreadsPerMultiProcessor,
        .shared_bytes = (uint32_t)properties->sharedMemPerBlockOptin,
        .reserved_bytes = (uint32_t)properties->reservedSharedMemPerBlock,
        .clock_mhz = rate_mhz(cudaDevAttrClockRate),
        .memory_clock_mhz = rate_mhz(cudaDevAttrMemoryClockRate),
        .memory_bus_bits = (uint32_t)properties->memoryBusWidth,
        .l2_bytes = (uint64_t)properties->l2CacheSize,
        .memory_bytes = properties->totalGlobalMem,
    };
    return OK;
}

struct status device_describe(struct device *device, const struct backend_config *config)
{
    CLEANUP(buffer_done) struct buffer json = {0};
    struct cudaDeviceProp properties;
    struct device_entry first;
    const struct device_entry *entry = &first;
    if (config->forecast_device)
        TRY(device_table_find(config->forecast_device, &entry));
    else
        TRY(first_describe(&properties, &first));
    snprintf(device->name, sizeof device->name, "%s", entry->title);
    device->major = (int)(entry->capability / 100);
    device->minor = (int)(entry->capability / 10 % 10);
    device->use.capacity_bytes = entry->memory_bytes;
    device->use.reserved_bytes = reserved_bytes;
    TRY(device_check_dtype(device, config->dtype));
    TRY(driver_provide());
    TRY(device_entry_json(entry, &json));
    struct planner_config planning = {
        .device_name = device->name,
        .dtype = config->dtype,
        .deterministic = config->deterministic,
        .uncompiled = true,
        .workspace_limit = DEVICE_WORKSPACE_LIMIT_BYTES,
    };
    TRY(buffer_text(&json, &planning.device_json));
    return planner_open(&planning, &device->planner);
}
