#ifndef HEADRACE_TRAIN_HISTORY_H
#define HEADRACE_TRAIN_HISTORY_H

/* What a run did, read back from RUN_DIR/log.jsonl (run_log.h). */

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/scope.h"
#include "base/status.h"

/* A start of the program: the first, or a resumption. */
struct history_start {
    uint64_t epoch, step; /* where it began */
    uint64_t steps_per_epoch, train_images, val_images, classes;
    const char *device, *dtype;
    const struct json *options; /* option_store's form */
};

/* A printed training line. Losses and accuracies are of its one step, means of the epoch so far. */
struct history_train {
    uint64_t epoch, step;
    double position; /* in epochs */
    double loss, loss_mean, top1_mean, lr, images_per_second;
};

struct history_eval {
    uint64_t epoch; /* it ran after */
    double loss, top1, top5;
    uint64_t images;
};

/* All in order; strings and JSON belong to the history. What a resumption did again is there once,
 * as done last. */
struct history {
    struct history_start *starts;
    size_t start_count, start_capacity;
    struct history_train *trains;
    size_t train_count, train_capacity;
    struct history_eval *evals;
    size_t eval_count, eval_capacity;
    struct json **records; /* one a line, what the rest borrows from */
    size_t record_count, record_capacity;
};

/* Reads the log of the run in `folder`. A last line that was cut off is passed over. Fails with
 * STATUS_NOT_FOUND where there is no log, STATUS_CORRUPT naming the line of another bad record. */
struct status history_read(const char *folder, struct history **ret_history);
void history_free(struct history *history);
CLEANUP_POINTER(history_free, struct history)

/* The start that a step of an epoch belongs to: the last that began at or before it. Fails with
 * STATUS_NOT_FOUND in a log without one. */
struct status history_start_at(const struct history *history, uint64_t epoch, uint64_t step,
                               const struct history_start **ret_start);

#endif
