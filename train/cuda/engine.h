#ifndef HEADRACE_TRAIN_CUDA_ENGINE_H
#define HEADRACE_TRAIN_CUDA_ENGINE_H

/* cuDNN's engines: which of them run a graph, on which terms. Private to the files around graph.h.
 */

#include <stdbool.h>

#include "base/bytes.h"
#include "train/cuda/descriptor.h"

/* What an engine must be. One of `handle` and `device` is given. */
struct engine_rules {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
    uint32_t forbidden_notes; /* bits by cudnnBackendNumericalNote_t */
    uint64_t workspace_limit; /* bytes */
    bool uncompiled;          /* engines that would be compiled are taken at their word */
};

/* An engine's way to run a graph. */
struct engine_choice {
    cudnnBackendDescriptor_t plan;   /* finalised, owned; NULL: it would be compiled */
    cudnnBackendDescriptor_t config; /* what it was made from, owned; NULL: from a cache */
    uint64_t workspace;              /* bytes */
    int64_t engine;                  /* cuDNN's number; -1: from a cache */
};
void engine_choice_done(struct engine_choice *choice);
CLEANUP_VALUE(engine_choice_done, struct engine_choice)

/* Those that cuDNN's heuristics recommend, best first, at most `capacity`. Fails with
 * STATUS_UNSUPPORTED, giving the reason of the last refusal, when there is none. */
struct status engine_choices_find(const struct engine_rules *rules, cudnnBackendDescriptor_t graph,
                                  struct engine_choice *ret_choices, size_t capacity,
                                  size_t *ret_count);

/* A choice as text, and back: for caches. Loading fails where cuDNN or the rules refuse it. */
struct status engine_choice_save(const struct engine_choice *choice, struct buffer *ret_json);
struct status engine_choice_load(const struct engine_rules *rules, const struct buffer *json,
                                 struct engine_choice *ret_choice);

#endif
