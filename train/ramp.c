#include "train/ramp.h"

#include <math.h>

static const double multiple = 32;

uint32_t ramp_size(const struct ramp *ramp, uint64_t epoch)
{
    if (epoch >= ramp->last_epoch)
        return ramp->last_size;
    if (epoch <= ramp->first_epoch)
        return ramp->first_size;
    double t = (double)(epoch - ramp->first_epoch) / (double)(ramp->last_epoch - ramp->first_epoch);
    double size = ramp->first_size + t * (ramp->last_size - ramp->first_size);
    double rounded = nearbyint(size / multiple) * multiple;
    return (uint32_t)fmin(fmax(rounded, ramp->first_size), ramp->last_size);
}
