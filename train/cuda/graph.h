#ifndef HEADRACE_TRAIN_CUDA_GRAPH_H
#define HEADRACE_TRAIN_CUDA_GRAPH_H

/* Execution plans of cuDNN's backend interface: a planner knows a device, a plan is one operation
 * graph made ready for it. What graphs there are is in patterns.h.
 *
 * A planner works with a handle (a GPU is there, plans can be executed) or with nothing but the
 * description of a device (plans are made, listed and measured, not executed). */

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "train/backend.h"

/* The tensors that plans read and write. A plan uses some of them; patterns.h says which. What is
 * said to be by channel of X or Y is (1, C, 1, 1), f32 unless it says io: the type of activations.
 */
enum plan_tensor {
    TENSOR_X = 0, /* input of the layer */
    TENSOR_Y,     /* its output */
    TENSOR_Z,     /* what is added before the relu, or to a gradient */
    TENSOR_DX,    /* gradients of the loss at these */
    TENSOR_DY,
    TENSOR_DZ,
    TENSOR_W,      /* weights: (out, kernel, kernel, in) in memory, io */
    TENSOR_DW,     /* f32, io for PATTERN_SBR_WGRAD */
    TENSOR_W_BIAS, /* by channel of Y */
    TENSOR_MASK,   /* whether the relu's output is positive */
    TENSOR_INDEX,  /* which element of its window a maximum is */
    TENSOR_SCALE,  /* by channel of X, like all that follow but the sums: γ */
    TENSOR_BIAS,   /* β */
    TENSOR_MEAN,   /* of the batch */
    TENSOR_INVSTD, /* 1 / sqrt(variance + epsilon) of the batch */
    TENSOR_RUNNING_MEAN,
    TENSOR_RUNNING_VAR,
    TENSOR_NEXT_RUNNING_MEAN, /* what these become; may be the same memory */
    TENSOR_NEXT_RUNNING_VAR,
    TENSOR_DSCALE,
    TENSOR_DBIAS,
    TENSOR_EQ_SCALE, /* fp16 with activations in fp16, else f32: x · EQ_SCALE + EQ_BIAS
                      * is the whole BN */
    TENSOR_EQ_BIAS,  /* the same type */
    TENSOR_Z_SCALE,  /* the same for Z */
    TENSOR_Z_BIAS,
    TENSOR_EQ_DY, /* dx = dy · EQ_DY + x · EQ_X + EQ_DBIAS is the whole gradient of BN */
    TENSOR_EQ_X,
    TENSOR_EQ_DBIAS,
    TENSOR_SUM, /* by channel of Y: over batch, height and width */
    TENSOR_SQUARE_SUM,
    TENSOR_COUNT,
};
extern const char *const plan_tensor_names[]; /* by value: "x", "eq_scale"; ends in NULL */

/* Where the tensors of one execution stand in device memory, aligned to 16 bytes; those that the
 * plan does not use are ignored. */
struct plan_pointers {
    void *at[TENSOR_COUNT];
};

struct planner_config {
    cudnnHandle_t handle;     /* borrowed; NULL: plans are only made, for `device_json` */
    const char *device_json;  /* a device for cuDNN (device_table.h); NULL with a handle */
    const char *device_name;  /* names the cache's folder: "NVIDIA H200" */
    enum train_dtype dtype;   /* of activations; DTYPE_F32 keeps TF32 out */
    bool deterministic;       /* only engines that give the same bits every time */
    bool tune;                /* plans are timed and the fastest is taken; needs a handle */
    bool uncompiled;          /* without a handle: engines that cuDNN would compile for a graph are
                               * chosen and their workspace is known, but they are not compiled */
    uint64_t workspace_limit; /* bytes; plans that want more are passed over */
    const char *cache_folder; /* plans are kept here, NULL: nowhere */
};

/* For one thread, like the handle; for several without one. */
struct planner;
/* Fails with STATUS_UNSUPPORTED where cuDNN refuses the device's description. */
struct status planner_open(const struct planner_config *config, struct planner **ret_planner);
void planner_close(struct planner *planner);
CLEANUP_POINTER(planner_close, struct planner)
/* The type of activations, their gradients and weights as cuDNN calls it. */
cudnnDataType_t planner_type(const struct planner *planner);

/* A tensor in memory: (n, c, h, w) with c next to each other. */
struct plan_layout {
    cudnnDataType_t type;
    int64_t dims[4]; /* n, c, h, w */
    uint64_t bytes;  /* to allocate; 0: the plan does not use the tensor */
    bool written;    /* by the plan; else read */
};

/* A plan that was finalised. It does not depend on the planner once it is made. */
struct cudnn_plan;
void cudnn_plan_close(struct cudnn_plan *plan);
CLEANUP_POINTER(cudnn_plan_close, struct cudnn_plan)

/* Queues the plan's work on the stream of `handle`. `workspace`: cudnn_plan_workspace bytes,
 * aligned to 256; NULL where that is 0. Fails when a pointer that the plan uses is NULL, or with
 * cuDNN's own message. May be called while the stream is captured. */
struct status cudnn_plan_execute(const struct cudnn_plan *plan, cudnnHandle_t handle,
                                 const struct plan_pointers *pointers, void *workspace);
uint64_t cudnn_plan_workspace(const struct cudnn_plan *plan); /* bytes */
/* "conv n64 c64 h56 w56 k64 r3 s1 p1 fp16: engine 36, workspace 0". Borrowed. */
const char *cudnn_plan_tag(const struct cudnn_plan *plan);
/* Type, shape and size of one tensor; bytes 0 where the plan does not use it. Borrowed. */
const struct plan_layout *cudnn_plan_layout(const struct cudnn_plan *plan, enum plan_tensor tensor);

#endif
