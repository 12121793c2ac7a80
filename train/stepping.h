#ifndef HEADRACE_TRAIN_STEPPING_H
#define HEADRACE_TRAIN_STEPPING_H

/* What a backend whose updates end within the call keeps of them: which were applied, the rates and
 * the loss scale of the next, and the metrics that nobody has asked for yet. */

#include "train/backend.h"

/* Micro-batches whose metrics are kept until they are asked for. */
#define METRICS_KEPT 1024

/* A store's updates. */
struct stepping {
    struct update_rule rule; /* its rates are owned */
    double *rates;
    uint64_t applied;               /* in all */
    struct loss_scale scale;        /* of the next step */
    uint64_t updates;               /* applied or skipped, since the store was opened */
    bool was_applied[METRICS_KEPT]; /* of the last ones, by update % METRICS_KEPT */
};

void stepping_init(struct stepping *stepping);
void stepping_done(struct stepping *stepping);
/* Takes over a rule and copies its rates. */
struct status stepping_begin(struct stepping *stepping, const struct update_rule *rule);
/* The rate of the next update. */
double stepping_rate(const struct stepping *stepping);
/* The next update of one tensor as a step of SGD, with g = gradient_factor·(the stored gradient) +
 * decay·w: LARS is that with a rate of 1 and the tensor's own rate in the two factors. */
struct tensor_step {
    double rate, momentum, decay, gradient_factor;
    bool nesterov;
};
/* Norms are Euclidean, of the values and of the stored gradient; asked for only where
 * stepping_needs_norms. */
struct tensor_step stepping_tensor(const struct stepping *stepping, enum param_kind kind,
                                   double value_norm, double gradient_norm);
bool stepping_needs_norms(const struct stepping *stepping, enum param_kind kind);
/* What the gradient of a loss is multiplied with: the loss scale over the divisor, 0 where the
 * global batch holds no valid image. */
double stepping_loss_weight(const struct stepping *stepping, uint64_t divisor);
/* Counts an update: applied where the gradients were finite. Moves the loss scale. */
void stepping_advance(struct stepping *stepping, bool finite);

/* The metrics of a plan. */
struct metrics_queue {
    struct step_metrics metrics[METRICS_KEPT]; /* a ring */
    uint64_t updates[METRICS_KEPT];            /* the number of the update that each led to */
    size_t first, count;
};

/* Adds a micro-batch, of which the four sums are given. `input` is NULL in evaluation. */
void metrics_push(struct metrics_queue *queue, struct step_metrics sums,
                  const struct step_input *input, const struct stepping *stepping);
/* The member plan_metrics of struct backend_ops. */
size_t metrics_take(struct metrics_queue *queue, const struct stepping *stepping,
                    struct step_metrics *ret_metrics, size_t capacity);

#endif
