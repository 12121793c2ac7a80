#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/cudart_standin_internal.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* Device memory: a reserved range a device, which nobody may touch outside of running work. Pinned
 * memory: blocks of the heap in a list. Copies and fills. */

enum { ALIGNMENT_BYTES = 256, GAP_BYTES = 512, POISON = 0xff };

/* An allocation: of a device, by offset; or pinned. */
struct extent {
    size_t offset, bytes;
};
struct device_memory {
    char *base;
    struct extent *extents; /* by offset */
    size_t count, capacity;
    size_t live_bytes, peak_bytes;
    bool open;
};
struct pinned {
    struct pinned *next;
    char *base;
    size_t bytes;
};

static struct device_memory devices[STANDIN_DEVICES_MAX];
static size_t region_bytes;
static int device_count;
static struct pinned *pinned_list;
static struct pinned *freed_list; /* that late work may still find */

static void region_protect(struct device_memory *memory, bool open)
{
    if (memory->open == open || !memory->base)
        return;
    if (mprotect(memory->base, region_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        abort();
    memory->open = open;
}

void memory_open(int device)
{
    for (int d = 0; d < device_count; d++)
        region_protect(&devices[d], device == ALL_DEVICES || device == d);
}

static void device_memory_done(struct device_memory *memory)
{
    if (memory->base) {
        ASAN_UNPOISON_MEMORY_REGION(memory->base, region_bytes);
        munmap(memory->base, region_bytes);
    }
    free(memory->extents);
    *memory = (struct device_memory){0};
}

static void pinned_list_free(struct pinned **list)
{
    while (*list) {
        struct pinned *block = *list;
        *list = block->next;
        free(block->base);
        free(block);
    }
}

void memory_reset(void)
{
    for (int d = 0; d < device_count; d++)
        device_memory_done(&devices[d]);
    pinned_list_free(&pinned_list);
    pinned_list_free(&freed_list);
    device_count = standin.options.devices;
    region_bytes = (standin.options.memory_bytes + 4095) / 4096 * 4096;
    for (int d = 0; d < device_count; d++) {
        void *base =
            mmap(NULL, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            abort();
        /* Large pages make the many changes of protection cheap; without them it works as well. */
        (void)madvise(base, region_bytes, MADV_HUGEPAGE);
        devices[d].base = base;
    }
}

size_t memory_alive(void)
{
    size_t count = 0;
    for (int d = 0; d < device_count; d++)
        count += devices[d].count;
    for (const struct pinned *block = pinned_list; block; block = block->next)
        count++;
    return count;
}

/* --- Looking up
 * ----------------------------------------------------------------------------------- */

static int device_of(const void *pointer)
{
    for (int d = 0; d < device_count; d++)
        if ((const char *)pointer >= devices[d].base &&
            (const char *)pointer < devices[d].base + region_bytes)
            return d;
    return NO_DEVICE;
}

/* The allocation that holds `pointer`, or NULL. */
static const struct extent *extent_of(int device, const void *pointer)
{
    const struct device_memory *memory = &devices[device];
    size_t offset = (size_t)((const char *)pointer - memory->base);
    for (size_t i = 0; i < memory->count; i++)
        if (offset >= memory->extents[i].offset &&
            offset < memory->extents[i].offset + memory->extents[i].bytes)
            return &memory->extents[i];
    return NULL;
}

static bool device_range_holds(const void *pointer, size_t bytes)
{
    int device = device_of(pointer);
    const struct extent *extent = device == NO_DEVICE ? NULL : extent_of(device, pointer);
    if (!extent)
        return false;
    size_t offset = (size_t)((const char *)pointer - devices[device].base);
    return bytes <= extent->offset + extent->bytes - offset;
}

static bool pinned_range_holds(const void *pointer, size_t bytes)
{
    for (const struct pinned *block = pinned_list; block; block = block->next)
        if ((const char *)pointer >= block->base &&
            (const char *)pointer + bytes <= block->base + block->bytes)
            return true;
    return false;
}

bool standin_is_device_memory(const void *pointer, int *ret_device)
{
    standin_enter();
    int device = device_of(pointer);
    bool known = device != NO_DEVICE && extent_of(device, pointer);
    if (known && ret_device)
        *ret_device = device;
    standin_leave(cudaSuccess);
    return known;
}

size_t standin_memory_bytes(int device)
{
    return devices[device].live_bytes;
}

size_t standin_memory_peak_bytes(int device)
{
    return devices[device].peak_bytes;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    standin_enter();
    int device = device_of(pointer);
    *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered};
    if (device != NO_DEVICE) {
        attributes->type = cudaMemoryTypeDevice;
        attributes->device = device;
        attributes->devicePointer = (void *)(uintptr_t)pointer;
    } else if (pinned_range_holds(pointer, 1)) {
        attributes->type = cudaMemoryTypeHost;
        attributes->hostPointer = attributes->devicePointer = (void *)(uintptr_t)pointer;
    }
    return standin_leave(cudaSuccess);
}

/* --- Allocating
 * ----------------------------------------------------------------------------------- */

/* First fit. Returns the index where the new extent belongs; SIZE_MAX: no room. */
static size_t find_room(const struct device_memory *memory, size_t bytes, size_t *ret_offset)
{
    size_t offset = 0;
    for (size_t i = 0; i <= memory->count; i++) {
        size_t end = i < memory->count ? memory->extents[i].offset : region_bytes;
        if (offset <= end && bytes <= end - offset && end - offset - bytes >= GAP_BYTES) {
            *ret_offset = offset;
            return i;
        }
        if (i < memory->count)
            offset = (memory->extents[i].offset + memory->extents[i].bytes + GAP_BYTES +
                      ALIGNMENT_BYTES - 1) /
                     ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    }
    return SIZE_MAX;
}

static void extent_insert(struct device_memory *memory, size_t place, struct extent extent)
{
    if (memory->count == memory->capacity) {
        memory->capacity = 2 * memory->capacity + 16;
        memory->extents =
            standin_resize(memory->extents, memory->capacity, sizeof *memory->extents);
    }
    memmove(&memory->extents[place + 1], &memory->extents[place],
            sizeof *memory->extents * (memory->count - place));
    memory->extents[place] = extent;
    memory->count++;
    memory->live_bytes += extent.bytes;
    if (memory->live_bytes > memory->peak_bytes)
        memory->peak_bytes = memory->live_bytes;
}

static cudaError_t device_alloc(void **ret_pointer, size_t bytes)
{
    int device = standin_device();
    size_t offset;
    *ret_pointer = NULL;
    if (device >= device_count)
        return cudaErrorNoDevice;
    if (bytes == 0)
        return cudaSuccess;
    struct device_memory *memory = &devices[device];
    size_t place = bytes < region_bytes ? find_room(memory, bytes, &offset) : SIZE_MAX;
    if (place == SIZE_MAX)
        return cudaErrorMemoryAllocation;
    extent_insert(memory, place, (struct extent){offset, bytes});
    memory_open(device);
    ASAN_UNPOISON_MEMORY_REGION(memory->base + offset, bytes);
    ASAN_POISON_MEMORY_REGION(memory->base + offset + bytes, GAP_BYTES);
    memset(memory->base + offset, POISON, bytes);
    *ret_pointer = memory->base + offset;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    standin_enter();
    cudaError_t error = capture_forbids();
    if (error == cudaSuccess)
        error = device_alloc(pointer, bytes);
    return standin_leave(error);
}

static cudaError_t device_free(void *pointer)
{
    int device = device_of(pointer);
    if (device == NO_DEVICE)
        return cudaErrorInvalidValue;
    cudaError_t error = /* as the real one does */
        standin.options.frees_early ? cudaSuccess : device_drain(device);
    struct device_memory *memory = &devices[device];
    size_t offset = (size_t)((char *)pointer - memory->base), place = 0;
    while (place < memory->count && memory->extents[place].offset != offset)
        place++;
    if (place == memory->count)
        return cudaErrorInvalidValue;
    memory_open(device);
    memset(pointer, POISON, memory->extents[place].bytes);
    ASAN_POISON_MEMORY_REGION(pointer, memory->extents[place].bytes);
    memory->live_bytes -= memory->extents[place].bytes;
    memory->count--;
    memmove(&memory->extents[place], &memory->extents[place + 1],
            sizeof *memory->extents * (memory->count - place));
    return error;
}

cudaError_t cudaFree(void *pointer)
{
    standin_enter();
    cudaError_t error = capture_forbids();
    if (error == cudaSuccess && pointer)
        error = device_free(pointer);
    return standin_leave(error);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    standin_enter();
    *total_bytes = region_bytes;
    *free_bytes = region_bytes - devices[standin_device()].live_bytes;
    return standin_leave(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    standin_enter();
    cudaError_t error = capture_forbids();
    if (error == cudaSuccess) {
        struct pinned *block = standin_alloc(1, sizeof *block);
        block->base = standin_alloc(bytes, 1);
        block->bytes = bytes;
        block->next = pinned_list;
        pinned_list = block;
        memset(block->base, POISON, bytes);
        *pointer = block->base;
    }
    return standin_leave(error);
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

static cudaError_t host_free(void *pointer)
{
    struct pinned **link = &pinned_list;
    while (*link && (*link)->base != pointer)
        link = &(*link)->next;
    if (!*link)
        return cudaErrorInvalidValue;
    for (int d = 0; d < device_count && !standin.options.frees_early; d++)
        device_drain(d);
    struct pinned *block = *link;
    *link = block->next;
    if (standin.options.frees_early) {
        memset(block->base, POISON, block->bytes);
        block->next = freed_list;
        freed_list = block;
    } else {
        free(block->base);
        free(block);
    }
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *pointer)
{
    standin_enter();
    cudaError_t error = capture_forbids();
    if (error == cudaSuccess && pointer)
        error = host_free(pointer);
    return standin_leave(error);
}

/* --- Copies and fills
 * ------------------------------------------------------------------------------ */

struct copy {
    char *to;
    const char *from; /* NULL: fill */
    size_t bytes;
    int value;
};

static bool copy_run(void *context)
{
    const struct copy *copy = context;
    if (copy->from)
        memmove(copy->to, copy->from, copy->bytes);
    else
        memset(copy->to, copy->value, copy->bytes);
    return true;
}

static struct work *copy_work(const char *label, struct copy copy)
{
    struct copy *context = standin_alloc(1, sizeof *context);
    *context = copy;
    const struct standin_work task = {
        .label = label,
        .bytes = copy.bytes,
        .try_run = copy_run,
        .context = context,
        .release = free,
    };
    return work_make(&task, ALL_DEVICES);
}

/* What kind of copy the pointers make; checks that device ranges are within one allocation. */
static cudaError_t copy_kind(const void *to, const void *from, size_t bytes,
                             enum cudaMemcpyKind named, enum cudaMemcpyKind *ret_kind)
{
    bool to_device = device_of(to) != NO_DEVICE, from_device = device_of(from) != NO_DEVICE;
    if ((to_device && !device_range_holds(to, bytes)) ||
        (from_device && !device_range_holds(from, bytes))) {
        standin_complain("a copy of %zu bytes leaves its allocation", bytes);
        return cudaErrorInvalidValue;
    }
    if (to_device)
        *ret_kind = from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    else
        *ret_kind = from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
    if (named != cudaMemcpyDefault && named != *ret_kind) {
        standin_complain("a copy of kind %d is said to be of kind %d", (int)*ret_kind, (int)named);
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

static const char *const copy_labels[] = {"copy host to host", "copy host to device",
                                          "copy device to host", "copy device to device"};

static cudaError_t copy_async(void *to, const void *from, size_t bytes, enum cudaMemcpyKind named,
                              cudaStream_t stream)
{
    struct CUstream_st *queue = stream_find(stream);
    enum cudaMemcpyKind kind;
    if (!queue)
        return cudaErrorInvalidResourceHandle;
    cudaError_t error = copy_kind(to, from, bytes, named, &kind);
    if (error != cudaSuccess)
        return error;
    const void *host = kind == cudaMemcpyHostToDevice ? from : to;
    if (kind != cudaMemcpyDeviceToDevice && !pinned_range_holds(host, bytes)) {
        standin_complain("cudaMemcpyAsync of memory that is not pinned, which would wait");
        return cudaErrorInvalidValue;
    }
    struct copy copy = {.to = to, .from = from, .bytes = bytes};
    return stream_push(queue, copy_work(copy_labels[kind], copy));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    standin_enter();
    return standin_leave(bytes ? copy_async(to, from, bytes, kind, stream) : cudaSuccess);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    standin_enter();
    cudaError_t error = cudaErrorInvalidDevice;
    if (device_of(to) == to_device && device_of(from) == from_device)
        error = copy_async(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
    return standin_leave(error);
}

static cudaError_t copy_now(void *to, const void *from, size_t bytes, enum cudaMemcpyKind named)
{
    struct CUstream_st *legacy = stream_find(NULL);
    enum cudaMemcpyKind kind;
    if (!legacy)
        return cudaErrorNoDevice;
    cudaError_t error = copy_kind(to, from, bytes, named, &kind);
    struct copy copy = {.to = to, .from = from, .bytes = bytes};
    if (error == cudaSuccess)
        error = stream_push(legacy, copy_work(copy_labels[kind], copy));
    return error == cudaSuccess ? stream_drain(legacy) : error;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    standin_enter();
    cudaError_t error = capture_forbids();
    if (error == cudaSuccess && bytes)
        error = copy_now(to, from, bytes, kind);
    return standin_leave(error);
}

static cudaError_t fill_async(void *to, int value, size_t bytes, cudaStream_t stream)
{
    struct CUstream_st *queue = stream_find(stream);
    if (!queue)
        return cudaErrorInvalidResourceHandle;
    if (!device_range_holds(to, bytes)) {
        standin_complain("a fill of %zu bytes leaves its allocation", bytes);
        return cudaErrorInvalidValue;
    }
    struct copy copy = {.to = to, .bytes = bytes, .value = value};
    return stream_push(queue, copy_work("fill", copy));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    standin_enter();
    return standin_leave(bytes ? fill_async(to, value, bytes, stream) : cudaSuccess);
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, NULL);
}
