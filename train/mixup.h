#ifndef HEADRACE_TRAIN_MIXUP_H
#define HEADRACE_TRAIN_MIXUP_H

/* Mixup (Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018):
 * each image and its target are mixed with a partner's, by one share for a whole batch, drawn from
 * Beta(alpha, alpha). The partner is the neighbour in the batch (struct step_input), which is a
 * random image as the order is one. Both images of a pair mix with each other, so that a share and
 * 1 minus it give the same pairs: the smaller one is taken, which leaves each image the larger part
 * of itself. */

#include <stdint.h>

/* The partner's share, in [0, 0.5], in a step of an epoch; of all its micro-batches and processes.
 * alpha 0: none. */
float mixup_share(double alpha, uint64_t seed, uint64_t epoch, uint64_t step);

#endif
