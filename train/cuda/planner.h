#ifndef HEADRACE_TRAIN_CUDA_PLANNER_H
#define HEADRACE_TRAIN_CUDA_PLANNER_H

/* From an operation graph to a plan. Private to the files around graph.h. */

#include "train/cuda/engine.h"
#include "train/cuda/operation.h"

cudnnHandle_t planner_handle(const struct planner *planner);

/* Makes a plan for `graph`, or takes it from the cache. `text` names pattern and shape; `elements`
 * is the value of OPERAND_ELEMENTS. */
struct status planner_make(struct planner *planner, const struct operation_graph *graph,
                           const char *text, int64_t elements, struct cudnn_plan **ret_plan);

/* What a plan is besides its engine. */
struct plan_frame {
    struct plan_layout layouts[TENSOR_COUNT];
    uint64_t scalars; /* as in struct operation_graph */
    int64_t elements;
};
/* A plan of one engine, or of none where `choice` is zeroed; takes over what it owns. */
struct status cudnn_plan_make(const struct plan_frame *frame, const char *text,
                              struct engine_choice *choice, struct cudnn_plan **ret_plan);
const struct engine_choice *cudnn_plan_choice(const struct cudnn_plan *plan);

/* Runs plans of one graph some times each and tells the fastest of those that ran. Allocates what
 * they need on the device for as long as that takes. */
struct status cudnn_plans_time(cudnnHandle_t handle, struct cudnn_plan *const *plans, size_t count,
                               size_t *ret_fastest);

#endif
