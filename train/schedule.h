#ifndef HEADRACE_TRAIN_SCHEDULE_H
#define HEADRACE_TRAIN_SCHEDULE_H

/* The learning rate as a pure function of the position, so that a resumed run follows the very same
 * trace. Each shape is as the trainer that it comes from computes it:
 *
 *   step    lr · factor^(epoch / step_epochs), by epoch: the PyTorch ImageNet examples.
 *   cosine  lr · (1 + cos(π·t)) / 2, by epoch: NVIDIA's DeepLearningExamples.
 *   linear  lr · (1 − t), by step: FFCV's ImageNet trainer.
 *   polynomial  end + (lr − end) · (1 − t)², by step: MLPerf's reference, whose t would come to 1
 *               one step after the last.
 *
 * t runs from 0 after the warm-up to 1 at the end. A warm-up rises linearly: by epoch to
 * lr·(epoch + 1) / warmup_epochs (NVIDIA), by step from lr·1e-4 at step 0 to lr (FFCV), or from 0
 * (polynomial). */

#include <stdint.h>

enum schedule_shape { SCHEDULE_STEP = 0, SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_POLYNOMIAL };
extern const char *const schedule_shape_names[]; /* by value; ends in NULL */

/* How often the rate changes. */
enum schedule_unit {
    SCHEDULE_UNIT_AUTO = 0, /* as the shape's origin does */
    SCHEDULE_UNIT_EPOCH,
    SCHEDULE_UNIT_STEP,
};
extern const char *const schedule_unit_names[]; /* by value; ends in NULL */

struct schedule {
    enum schedule_shape shape;
    enum schedule_unit unit;
    double base_lr;
    double end_lr;        /* SCHEDULE_POLYNOMIAL */
    double warmup_epochs; /* 0: none */
    double step_epochs;   /* SCHEDULE_STEP: epochs between two drops */
    double step_factor;   /* SCHEDULE_STEP: what a drop multiplies with */
    uint64_t epochs;
    uint64_t steps_per_epoch; /* >= 1 */
};

/* The rate of a step, counted from 0 over all epochs. */
double schedule_lr(const struct schedule *schedule, uint64_t step);

#endif
