#ifndef HEADRACE_TRAIN_REFERENCE_BACKEND_H
#define HEADRACE_TRAIN_REFERENCE_BACKEND_H

/* The objects behind train/backend.h in the reference backend. */

#include "train/backend.h"
#include "train/reference/ops.h"
#include "train/stepping.h"

struct backend {
    unsigned threads;
    struct pool *pool;
    struct comm *comm; /* borrowed; NULL: alone */
    bool sync_bn;
};

/* For each parameter its value, gradient and momentum; convolution weights as (kernel, kernel, in,
 * out). */
struct store {
    struct backend *backend;
    const struct network *network; /* borrowed */
    real *block;                   /* the memory behind all tensors */
    real *(*tensors)[3];           /* [param][role]; NULL where there is none */
    real *gradients;               /* all of them, in `block` */
    size_t gradient_count;
    real *earlier; /* gradients of the step's micro-batches before this one; NULL: never needed */
    struct stepping stepping;
    uint64_t bytes;
};

struct status reference_store_open(struct backend *backend, const struct network *network,
                                   struct store **ret_store);
void reference_store_close(struct store *store);
struct status reference_store_write(struct store *store, enum param_role role, size_t param,
                                    const double *values);
struct status reference_store_read(struct store *store, enum param_role role, size_t param,
                                   double *ret_values);
struct status reference_store_begin(struct store *store, const struct update_rule *rule);
struct status reference_store_update(struct store *store);
struct status reference_store_progress(struct store *store, uint64_t *ret_applied,
                                       struct loss_scale *ret_scale);
/* Puts the gradients aside, to be added to those that the next backward pass leaves. */
struct status reference_store_keep_gradients(struct store *store);
void reference_store_add_gradients(struct store *store);
/* Sums gradients over all processes and takes the mean of the running statistics. */
struct status reference_store_share(struct store *store);

struct status reference_plan_open(struct store *store, const struct plan_config *config,
                                  struct plan **ret_plan);
void reference_plan_close(struct plan *plan);
struct status reference_plan_forward_backward(struct plan *plan, const struct step_input *input);
struct status reference_plan_forward(struct plan *plan, const struct step_input *input);
struct status reference_plan_metrics(struct plan *plan, struct step_metrics *ret_metrics,
                                     size_t capacity, size_t *ret_count);
struct status reference_plan_logits(struct plan *plan, float *ret_logits);
uint64_t reference_plan_bytes(const struct plan *plan);

#endif
