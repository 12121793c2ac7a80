#ifndef HEADRACE_TRAIN_EMA_H
#define HEADRACE_TRAIN_EMA_H

/* When and how an average of the weights is kept, as torchvision's reference training does: after
 * every N-th step of an epoch, from its first on, average = decay·average + (1 − decay)·weights,
 * running statistics too; until the warm-up is over the average is the weights. The decay that is
 * given is rescaled, so that it means the same for any batch and length of a run. */

#include <stdbool.h>
#include <stdint.h>

struct ema {
    double decay;    /* as given; 0: no average is kept */
    uint64_t every;  /* N */
    uint64_t batch;  /* global */
    uint64_t epochs; /* of the run */
    double warmup_epochs;
};

/* 1 − min(1, (1 − decay) · batch · N / epochs). */
double ema_rescaled_decay(const struct ema *ema);
/* Whether the average moves after this step of an epoch; *ret_decay is 0 where it becomes the
 * weights. */
bool ema_is_due(const struct ema *ema, uint64_t epoch, uint64_t step, double *ret_decay);

#endif
