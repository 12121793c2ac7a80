#ifndef HEADRACE_TRAIN_BACKEND_MODULE_H
#define HEADRACE_TRAIN_BACKEND_MODULE_H

/* For a backend that is a module of its own: the members of struct backend_ops under their usual
 * names, which backend.h describes, and BACKEND_MODULE, the module's one visible symbol. */

#include "base/scope.h"
#include "train/backend.h"

struct status backend_open(const struct backend_config *config, struct backend **ret_backend);
void backend_close(struct backend *backend);
CLEANUP_POINTER(backend_close, struct backend)
enum train_dtype backend_dtype(const struct backend *backend);
unsigned backend_replicas(const struct backend *backend);
struct status backend_describe(const struct backend *backend, struct buffer *text);
void backend_input_format(const struct backend *backend, struct tensor_format *format);

struct status store_open(struct backend *backend, const struct network *network,
                         struct store **ret_store);
void store_close(struct store *store);
CLEANUP_POINTER(store_close, struct store)
struct status store_write(struct store *store, enum param_role role, size_t param,
                          const double *values);
struct status store_read(struct store *store, enum param_role role, size_t param,
                         double *ret_values);
struct status store_begin(struct store *store, const struct update_rule *rule);
struct status store_update(struct store *store);
struct status store_average(struct store *store, double decay);
struct status store_progress(struct store *store, uint64_t *ret_applied,
                             struct loss_scale *ret_scale);

struct status plan_open(struct store *store, const struct plan_config *config,
                        struct plan **ret_plan);
void plan_close(struct plan *plan);
CLEANUP_POINTER(plan_close, struct plan)
struct status plan_forward_backward(struct plan *plan, const struct step_input *input);
struct status plan_forward(struct plan *plan, const struct step_input *input);
struct status plan_metrics(struct plan *plan, struct step_metrics *ret_metrics, size_t capacity,
                           size_t *ret_count);
struct status plan_logits(struct plan *plan, float *ret_logits);
uint64_t plan_bytes(const struct plan *plan);
const char *plan_slow_reason(const struct plan *plan); /* where BACKEND_MODULE is given it */
void backend_memory(const struct backend *backend, struct memory_use *ret_use);
struct status plan_choices(const struct plan *plan, plan_choice_fn *fn, void *context);

__attribute__((visibility("default"))) backend_entry_fn headrace_backend_module;

/* Defines the entry; once in each module. */
#define BACKEND_MODULE(its_name, its_average, its_slow_reason)                                     \
    const struct backend_module *headrace_backend_module(void)                                     \
    {                                                                                              \
        static const struct backend_ops ops = {                                                    \
            .open = backend_open,                                                                  \
            .close = backend_close,                                                                \
            .dtype = backend_dtype,                                                                \
            .replicas = backend_replicas,                                                          \
            .describe = backend_describe,                                                          \
            .input_format = backend_input_format,                                                  \
            .store_open = store_open,                                                              \
            .store_close = store_close,                                                            \
            .store_write = store_write,                                                            \
            .store_read = store_read,                                                              \
            .store_begin = store_begin,                                                            \
            .store_update = store_update,                                                          \
            .store_average = its_average,                                                          \
            .store_progress = store_progress,                                                      \
            .plan_open = plan_open,                                                                \
            .plan_close = plan_close,                                                              \
            .plan_forward_backward = plan_forward_backward,                                        \
            .plan_forward = plan_forward,                                                          \
            .plan_metrics = plan_metrics,                                                          \
            .plan_logits = plan_logits,                                                            \
            .plan_bytes = plan_bytes,                                                              \
            .plan_slow_reason = its_slow_reason,                                                   \
            .memory = backend_memory,                                                              \
            .plan_choices = plan_choices,                                                          \
        };                                                                                         \
        static const struct backend_module module = {                                              \
            .build_id = HEADRACE_BUILD_ID,                                                         \
            .name = its_name,                                                                      \
            .ops = &ops,                                                                           \
        };                                                                                         \
        return &module;                                                                            \
    }

#endif
