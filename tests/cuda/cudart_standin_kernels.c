#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudart_standin_fiber.h"
#include "tests/cuda/cudart_standin_internal.h"
#include "train/cuda/launch_cpu.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* Kernels on the CPU. One block runs at a time; its threads are fibers. A fiber runs one thread
 * after the other until one has to wait; only then another fiber is started, so that kernels
 * without barriers cost one fiber. */

enum { THREADS_MAX = 1024, WARP = 32, STACK_BYTES = 64 << 10, SHARED_BYTES = 48 << 10 };
enum { SHARED_GAP_BYTES = 32 };

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

enum fiber_state { FIBER_IDLE = 0, FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_WARP };

struct fiber {
    enum fiber_state state;
    struct stack stack;
    unsigned thread;          /* index within the block */
    uint64_t value, received; /* shuffled; or a barrier's predicate and their disjunction */
    unsigned source;          /* the lane whose value is received */
};

/* The threads of a warp that have begun and not ended are fibers. */
struct warp {
    unsigned next_thread, end_thread, finished;
    struct fiber *fibers[WARP];
    unsigned fiber_count;
};

static struct fiber fibers[THREADS_MAX], *idle[THREADS_MAX];
static unsigned fiber_count, idle_count; /* fibers that there are; those that have no thread */
static struct warp warps[THREADS_MAX / WARP], *current; /* the warp that runs */
static struct fiber *running;
static struct stack scheduler;

static const struct kernel_call *call;
static unsigned thread_count, warp_count, finished;
static const char *kernel_name;

static struct {
    _Alignas(64) char bytes[SHARED_BYTES];
    size_t used;
    uint64_t block; /* counts blocks since the start of the process */
} shared;

static void fiber_leave(struct fiber *fiber, enum fiber_state state)
{
    fiber->state = state;
    stack_change(&fiber->stack, &scheduler);
}

static void thread_begin(struct fiber *fiber)
{
    unsigned t = current->next_thread++;
    fiber->thread = t;
    threadIdx.x = t % blockDim.x;
    threadIdx.y = t / blockDim.x % blockDim.y;
    threadIdx.z = t / blockDim.x / blockDim.y;
}

static void fiber_main(void)
{
    stack_arrive();
    for (;;) {
        while (current->next_thread < current->end_thread) {
            thread_begin(running);
            call->run(call->arguments);
            finished++;
            current->finished++;
        }
        fiber_leave(running, FIBER_IDLE);
    }
}

static void fiber_enter(struct fiber *fiber)
{
    running = fiber;
    stack_change(&scheduler, &fiber->stack);
}

static struct fiber *fiber_take(void)
{
    if (idle_count > 0)
        return idle[--idle_count];
    struct fiber *fiber = &fibers[fiber_count++];
    stack_init(&fiber->stack, standin_alloc(STACK_BYTES, 1), STACK_BYTES, fiber_main);
    return fiber;
}

/* --- Waiting
 * --------------------------------------------------------------------------------------- */

static void wait_at(enum fiber_state state)
{
    struct fiber *fiber = running;
    uint3 thread = threadIdx;
    fiber_leave(fiber, state);
    threadIdx = thread;
}

int kernel_barrier(int predicate)
{
    struct fiber *fiber = running;
    fiber->value = predicate != 0;
    wait_at(FIBER_AT_BARRIER);
    return (int)fiber->received;
}

uint64_t kernel_exchange(uint64_t value, unsigned lane)
{
    struct fiber *fiber = running;
    fiber->value = value;
    fiber->source = lane;
    wait_at(FIBER_AT_WARP);
    return fiber->received;
}

unsigned kernel_lane(void)
{
    return running->thread % WARP;
}

static void die(const char *what)
{
    standin_complain("%s, block (%u, %u, %u): %s", kernel_name, blockIdx.x, blockIdx.y, blockIdx.z,
                     what);
    abort();
}

/* When all 32 threads of the warp wait for each other, they get each other's values. */
static bool warp_release(struct warp *warp)
{
    struct fiber *lanes[WARP];
    unsigned waiting = 0;
    for (unsigned i = 0; i < warp->fiber_count; i++)
        if (warp->fibers[i]->state == FIBER_AT_WARP) {
            lanes[warp->fibers[i]->thread % WARP] = warp->fibers[i];
            waiting++;
        }
    if (waiting > 0 && warp->finished > 0)
        die("a thread ended while others of its warp shuffle");
    if (waiting < WARP)
        return false;
    for (unsigned lane = 0; lane < WARP; lane++) {
        lanes[lane]->received = lanes[lanes[lane]->source % WARP]->value;
        lanes[lane]->state = FIBER_READY;
    }
    return true;
}

/* Runs the warp until all of its threads have ended or wait for other warps. */
static void warp_run(struct warp *warp)
{
    current = warp;
    do {
        unsigned kept = 0;
        for (unsigned i = 0; i < warp->fiber_count; i++) {
            struct fiber *fiber = warp->fibers[i];
            if (fiber->state == FIBER_READY)
                fiber_enter(fiber);
            if (fiber->state == FIBER_IDLE)
                idle[idle_count++] = fiber;
            else
                warp->fibers[kept++] = fiber;
        }
        warp->fiber_count = kept;
        while (warp->next_thread < warp->end_thread) {
            struct fiber *fiber = fiber_take();
            fiber_enter(fiber);
            if (fiber->state == FIBER_IDLE)
                idle[idle_count++] = fiber;
            else
                warp->fibers[warp->fiber_count++] = fiber;
        }
    } while (warp_release(warp));
}

/* When all threads of the block wait at a barrier, they go on, with all their predicates. */
static bool barrier_release(void)
{
    unsigned waiting = 0;
    uint64_t any = 0;
    for (unsigned w = 0; w < warp_count; w++)
        for (unsigned i = 0; i < warps[w].fiber_count; i++) {
            waiting += warps[w].fibers[i]->state == FIBER_AT_BARRIER;
            any |= warps[w].fibers[i]->value;
        }
    if (waiting > 0 && finished > 0)
        die("a thread ended before a barrier that others wait at");
    if (waiting < thread_count)
        return false;
    for (unsigned w = 0; w < warp_count; w++)
        for (unsigned i = 0; i < warps[w].fiber_count; i++) {
            warps[w].fibers[i]->received = any;
            warps[w].fibers[i]->state = FIBER_READY;
        }
    return true;
}

/* --- A block, a grid
 * ------------------------------------------------------------------------------- */

void *kernel_shared(struct kernel_shared_slot *slot, size_t size_bytes)
{
    if (slot->block != shared.block) {
        size_t end = shared.used + (size_bytes + 15) / 16 * 16 + SHARED_GAP_BYTES;
        if (end > sizeof shared.bytes)
            die("more shared memory than there is");
        slot->block = shared.block;
        slot->offset = shared.used;
        shared.used = end;
        ASAN_UNPOISON_MEMORY_REGION(shared.bytes + slot->offset, size_bytes);
        memset(shared.bytes + slot->offset, 0xff, size_bytes);
    }
    return shared.bytes + slot->offset;
}

static void run_block(void)
{
    ASAN_POISON_MEMORY_REGION(shared.bytes, sizeof shared.bytes);
    shared.used = 0;
    shared.block++;
    finished = 0;
    for (unsigned w = 0; w < warp_count; w++) {
        unsigned begin = w * WARP, end = begin + WARP;
        warps[w] = (struct warp){.next_thread = begin,
                                 .end_thread = end < thread_count ? end : thread_count};
    }
    for (;;) {
        for (unsigned w = 0; w < warp_count; w++)
            warp_run(&warps[shared.block % 2 ? w : warp_count - 1 - w]);
        if (finished == thread_count)
            break;
        if (!barrier_release())
            die("its threads wait for ever");
    }
}

static bool run_grid(void *context)
{
    call = context;
    kernel_name = call->name;
    gridDim = call->grid;
    blockDim = call->block;
    thread_count = blockDim.x * blockDim.y * blockDim.z;
    warp_count = (thread_count + WARP - 1) / WARP;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
                run_block();
    return true;
}

static bool shape_is_valid(dim3 grid, dim3 block)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    return threads > 0 && threads <= THREADS_MAX && block.z <= 64 && grid.x > 0 && grid.y > 0 &&
           grid.z > 0 && grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535;
}

void standin_fail_launches(int device)
{
    standin_enter();
    standin.failing_device = device;
    standin_leave(cudaSuccess);
}

cudaError_t kernel_launch(struct kernel_call *launched, cudaStream_t stream)
{
    standin_enter();
    struct CUstream_st *queue = stream_find(stream);
    cudaError_t error = cudaSuccess;
    if (!shape_is_valid(launched->grid, launched->block))
        error = cudaErrorInvalidConfiguration;
    else if (!queue || queue->device != standin_device())
        error = cudaErrorInvalidResourceHandle;
    else if (queue->device == standin.failing_device)
        error = cudaErrorLaunchFailure;
    if (error != cudaSuccess) {
        free(launched);
        return standin_leave(error);
    }
    const struct standin_work task = {.label = launched->name,
                                      .try_run = run_grid,
                                      .context = launched,
                                      .release = free};
    return standin_leave(stream_push(queue, work_make(&task, queue->device)));
}
