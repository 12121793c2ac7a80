#include "train/schedule.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

const char *const schedule_shape_names[] = {"step", "cosine", "linear", "polynomial", NULL};
const char *const schedule_unit_names[] = {"auto", "epoch", "step", NULL};

static const double warmup_start = 1e-4;

static bool is_by_step(const struct schedule *schedule)
{
    if (schedule->unit == SCHEDULE_UNIT_AUTO)
        return schedule->shape == SCHEDULE_LINEAR || schedule->shape == SCHEDULE_POLYNOMIAL;
    return schedule->unit == SCHEDULE_UNIT_STEP;
}

/* The rate after the warm-up as a share of the base rate; `position` in epochs. */
static double shape_at(const struct schedule *schedule, double position)
{
    if (schedule->shape == SCHEDULE_STEP)
        return pow(schedule->step_factor, floor(position / schedule->step_epochs));
    double span = (double)schedule->epochs - schedule->warmup_epochs;
    double t = span > 0 ? fmin((position - schedule->warmup_epochs) / span, 1) : 1;
    return schedule->shape == SCHEDULE_COSINE ? (1 + cos(M_PI * t)) / 2 : 1 - t;
}

/* In steps, as MLPerf's reference counts: the end rate is that of one step after the last. */
static double polynomial_lr(const struct schedule *schedule, double position)
{
    double steps = (double)schedule->steps_per_epoch;
    double after = (position - schedule->warmup_epochs) * steps;
    double span = ((double)schedule->epochs - schedule->warmup_epochs) * steps + 1;
    double left = 1 - fmin(after / span, 1);
    return schedule->end_lr + (schedule->base_lr - schedule->end_lr) * left * left;
}

double schedule_lr(const struct schedule *schedule, uint64_t step)
{
    uint64_t epoch = step / schedule->steps_per_epoch;
    double position = (double)epoch;
    double warm;
    if (is_by_step(schedule)) {
        position += (double)(step % schedule->steps_per_epoch) / (double)schedule->steps_per_epoch;
        double start = schedule->shape == SCHEDULE_POLYNOMIAL ? 0 : warmup_start;
        warm = start + (1 - start) * position / schedule->warmup_epochs;
    } else {
        warm = fmin((position + 1) / schedule->warmup_epochs, 1);
    }
    if (position < schedule->warmup_epochs)
        return schedule->base_lr * warm;
    if (schedule->shape == SCHEDULE_POLYNOMIAL)
        return polynomial_lr(schedule, position);
    return schedule->base_lr * shape_at(schedule, position);
}
