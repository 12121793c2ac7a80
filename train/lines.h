#ifndef HEADRACE_TRAIN_LINES_H
#define HEADRACE_TRAIN_LINES_H

/* The lines of a run, as the trainer of the TencentOS guide prints them (tab-separated; whatever
 * reads its output reads these), with fields of ours behind the training lines ("scale" where there
 * is a loss scale):
 *
 *   Epoch: [0][ 10/401]\tTime  0.512 ( 0.700)\tData  0.001 ( 0.020)\tLoss 6.9316e+00 (6.9400e+00)
 *       \tAcc@1   0.12 (  0.10)\tAcc@5   0.60 (  0.55)\timages/s 500.0\tlr 0.1
 *   Test: [180/196]\tTime …\tLoss …\tAcc@1 …\tAcc@5 …
 *    * Acc@1 77.890 Acc@5 93.886 */

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "train/run_state.h"

/* A quantity that is shown as its last value and its mean. */
struct meter {
    double last, sum;
    uint64_t count;
};
void meter_add(struct meter *meter, double value);
double meter_mean(const struct meter *meter); /* 0 before the first value */

/* Means over images. Accuracy in percent. */
double sums_loss(const struct metric_sums *sums);
double sums_top1(const struct metric_sums *sums);
double sums_top5(const struct metric_sums *sums);
void sums_add(struct metric_sums *sums, const struct step_metrics *metrics);
void sums_add_sums(struct metric_sums *sums, const struct metric_sums *added);

struct line {
    uint64_t epoch; /* of a training line */
    uint64_t step, steps;
    struct meter time, data; /* seconds a step; data: waiting for the batch */
    struct metric_sums last, mean;
    double images_per_second, lr, loss_scale; /* of a training line; loss_scale 0 or 1: none */
};

/* Each appends one line without its end. */
struct status line_append_train(struct buffer *text, const struct line *line);
struct status line_append_test(struct buffer *text, const struct line *line);
struct status line_append_summary(struct buffer *text, const struct metric_sums *sums);

#endif
