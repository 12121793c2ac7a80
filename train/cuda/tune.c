#include <cuda_runtime_api.h>
#include <math.h>

#include "train/cuda/errors.h"
#include "train/cuda/layout.h"
#include "train/cuda/planner.h"

/* Times plans where they will run. */

enum { WARM_UPS = 2, RUNS = 5 };

/* Memory, events and stream of a timing. */
struct stopwatch {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    void *memory;
};

static void stopwatch_done(struct stopwatch *watch)
{
    if (watch->begin)
        (void)cudaEventDestroy(watch->begin);
    if (watch->end)
        (void)cudaEventDestroy(watch->end);
    (void)cudaFree(watch->memory);
}
CLEANUP_VALUE(stopwatch_done, struct stopwatch)

/* One block for all tensors of a plan and the largest workspace. */
static struct status stopwatch_open(cudnnHandle_t handle, struct cudnn_plan *const *plans,
                                    size_t count, struct plan_pointers *ret_pointers,
                                    void **ret_workspace, struct stopwatch *watch)
{
    uint64_t tensors = 0, workspace = 0;
    for (unsigned i = 0; i < TENSOR_COUNT; i++)
        tensors += layout_aligned(cudnn_plan_layout(plans[0], i)->bytes);
    for (size_t i = 0; i < count; i++)
        if (cudnn_plan_workspace(plans[i]) > workspace)
            workspace = cudnn_plan_workspace(plans[i]);
    TRY_CUDNN(cudnnGetStream(handle, &watch->stream));
    TRY_CUDA(cudaEventCreate(&watch->begin));
    TRY_CUDA(cudaEventCreate(&watch->end));
    TRY_CUDA(cudaMalloc(&watch->memory, tensors + workspace));
    TRY_CUDA(cudaMemsetAsync(watch->memory, 0, tensors, watch->stream));
    uint8_t *next = watch->memory;
    for (unsigned i = 0; i < TENSOR_COUNT; i++) {
        ret_pointers->at[i] = next;
        next += layout_aligned(cudnn_plan_layout(plans[0], i)->bytes);
    }
    *ret_workspace = workspace > 0 ? next : NULL;
    return OK;
}

/* Milliseconds of the fastest run: interruptions only ever add. */
static struct status plan_time(const struct stopwatch *watch, cudnnHandle_t handle,
                               const struct cudnn_plan *plan, const struct plan_pointers *pointers,
                               void *workspace, float *ret_ms)
{
    *ret_ms = INFINITY;
    for (unsigned i = 0; i < WARM_UPS + RUNS; i++) {
        float ms = 0;
        TRY_CUDA(cudaEventRecord(watch->begin, watch->stream));
        TRY(cudnn_plan_execute(plan, handle, pointers, workspace));
        TRY_CUDA(cudaEventRecord(watch->end, watch->stream));
        TRY_CUDA(cudaEventSynchronize(watch->end));
        TRY_CUDA(cudaEventElapsedTime(&ms, watch->begin, watch->end));
        if (i >= WARM_UPS && ms < *ret_ms)
            *ret_ms = ms;
    }
    return OK;
}

struct status cudnn_plans_time(cudnnHandle_t handle, struct cudnn_plan *const *plans, size_t count,
                               size_t *ret_fastest)
{
    CLEANUP(stopwatch_done) struct stopwatch watch = {0};
    struct plan_pointers pointers = {{NULL}};
    void *workspace = NULL;
    float best_ms = INFINITY;
    TRY(stopwatch_open(handle, plans, count, &pointers, &workspace, &watch));
    struct status refusal = OK;
    for (size_t i = 0; i < count; i++) {
        float ms = INFINITY;
        struct status timed = plan_time(&watch, handle, plans[i], &pointers, workspace, &ms);
        if (timed.code == STATUS_DONE && ms < best_ms) {
            best_ms = ms;
            *ret_fastest = i;
        }
        status_ignore(refusal);
        refusal = timed;
    }
    if (isinf(best_ms))
        return refusal;
    status_ignore(refusal);
    return OK;
}
