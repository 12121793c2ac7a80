#ifndef HEADRACE_TRAIN_CPU_PLAN_H
#define HEADRACE_TRAIN_CPU_PLAN_H

/* A planned network: what training and evaluation share, and the operations, memory and metrics
 * that both keep. */

#include "train/cpu/loss.h"
#include "train/cpu/outline.h"
#include "train/cpu/store.h"

struct train_pass; /* plan_train.c */
struct eval_pass;  /* plan_eval.c */

/* An operation and what it was made from: equal layers share one. */
struct planned_operation {
    enum operation_pass pass;
    struct conv_config config;
    struct operation *operation;
    unsigned uses; /* by layers */
};

struct plan {
    struct backend *backend;
    struct store *store;
    struct plan_config config;
    struct outline *outline;

    struct planned_operation *convs;
    size_t conv_count, conv_capacity;
    struct operation **others; /* fully connected layer, reorders */
    size_t other_count, other_capacity;
    const struct operation *fc[3]; /* of the others, by enum operation_pass; NULL: not planned */
    void **tensors;                /* everything that plan_alloc gave */
    size_t tensor_count, tensor_capacity;
    uint64_t bytes;
    size_t scratch_bytes; /* the largest need of an operation */
    void *scratch;

    float *logits; /* (batch, classes) */
    struct loss loss;
    struct metrics_queue metrics;

    uint64_t version;         /* of the store's values that the plan's own weights were made from */
    struct train_pass *train; /* one of the two */
    struct eval_pass *eval;
};

/* For the two kinds of plan. */

/* Memory that lives as long as the plan; `ret_pointer` is the address of any pointer, which stays
 * as it is in a forecast. */
struct status plan_alloc(struct plan *plan, enum memory_kind kind, size_t size_bytes,
                         void *ret_pointer);
/* An activation of `count` elements. */
struct status plan_alloc_elements(struct plan *plan, size_t count, void *ret_pointer);
/* Operations that live as long as the plan; scratch memory is provided for them by plan_run. */
struct status plan_add_conv(struct plan *plan, enum operation_pass pass,
                            const struct conv_config *config, struct operation **ret_operation);
struct status plan_add_fc(struct plan *plan, enum operation_pass pass,
                          struct operation **ret_operation);
struct status plan_add_reorder(struct plan *plan, const struct layout *from,
                               const struct layout *to, struct operation **ret_operation);
struct status plan_run(struct plan *plan, struct operation *operation, void *input, void *weights,
                       void *bias, void *output);
/* Blurs the input x of convolution `conv`, or a gradient of it, for `images` images. */
void plan_blur(const struct plan *plan, size_t conv, uint32_t images, const void *x, void *y);
/* The average over the last activation x (batch, pixels, channels) into pooled (batch, channels).
 */
void plan_average(const struct plan *plan, const void *x, void *pooled);

struct status train_pass_open(struct plan *plan, struct train_pass **ret_train);
void train_pass_close(struct train_pass *train, const struct plan *plan);
struct status train_pass_run(struct plan *plan, const struct step_input *input,
                             struct step_metrics *ret_metrics);

struct status eval_pass_open(struct plan *plan, struct eval_pass **ret_eval);
void eval_pass_close(struct eval_pass *eval);
struct status eval_pass_run(struct plan *plan, const void *images, const int32_t *labels,
                            struct step_metrics *ret_metrics);

#endif
