#ifndef HEADRACE_TRAIN_CPU_LOSS_H
#define HEADRACE_TRAIN_CPU_LOSS_H

/* Softmax cross-entropy, its gradient, and how many labels are among the best. */

#include "train/backend.h"

struct loss_shape {
    uint32_t batch, classes;
    float label_smoothing;
};

/* Room for one loss_run, reused. */
struct loss {
    struct loss_shape shape;
    double *losses;  /* (batch) */
    uint32_t *ranks; /* (batch): classes before the label's */
};

struct status loss_init(struct loss *loss, const struct loss_shape *shape);
void loss_done(struct loss *loss);

/* logits (batch, classes); mixed_in as in struct step_input. ret_gradient (may be NULL) gets the
 * gradient of the loss's sum over the labels >= 0 times `weight`, in the same shape. Fails with
 * STATUS_USAGE for a label that is no class; nothing is changed then. */
struct status loss_run(struct loss *loss, const float *logits, const int32_t *labels,
                       float mixed_in, unsigned threads, double weight, float *ret_gradient,
                       struct step_metrics *ret_metrics);

#endif
