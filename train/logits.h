#ifndef HEADRACE_TRAIN_LOGITS_H
#define HEADRACE_TRAIN_LOGITS_H

/* What one image's logits say, computed on the host: for the cpu backend and for reports. */

#include <stdint.h>

/* log(Σ exp(logits)), safe from overflow. `count` >= 1. */
double logits_log_sum(const float *logits, uint32_t count);

/* How many classes come before `label`; of equal logits the lower class does, and all others do
 * where the label's is not a number. */
uint32_t logits_rank(const float *logits, uint32_t count, uint32_t label);

#endif
