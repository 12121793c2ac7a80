#ifndef HEADRACE_TRAIN_RAMP_H
#define HEADRACE_TRAIN_RAMP_H

/* Training crops that grow during a run: small images teach most of what large ones do in less
 * time. As FFCV's ImageNet trainer does it: up to one epoch the first size, from another on the
 * last, between them in a straight line and rounded to multiples of 32, halves to the even one. */

#include <stdint.h>

struct ramp {
    uint32_t first_size, last_size;   /* pixels of a side; equal: no ramp. first <= last */
    uint64_t first_epoch, last_epoch; /* first < last */
};

/* The size of an epoch, never beyond either end. */
uint32_t ramp_size(const struct ramp *ramp, uint64_t epoch);

#endif
