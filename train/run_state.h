#ifndef HEADRACE_TRAIN_RUN_STATE_H
#define HEADRACE_TRAIN_RUN_STATE_H

/* Where a run stands and what it was made with: the part of a checkpoint that is no tensor. */

#include <stdint.h>

#include "base/json.h"
#include "base/status.h"
#include "image/class_table.h"
#include "image/pixels.h"
#include "train/backend.h"

/* Sums over images, for means. */
struct metric_sums {
    double loss;
    uint64_t top1, top5, count;
};

struct run_state {
    char arch[16];
    uint32_t classes;

    /* Position: `step` steps of `epoch` are done; steps_per_epoch of them: the epoch still has to
     * be evaluated. */
    uint64_t epoch, step;
    uint64_t steps_per_epoch, train_images;
    struct metric_sums epoch_sums; /* of the steps done in this epoch */
    uint64_t skipped;              /* of all steps done, those without an update */
    struct loss_scale scale;       /* of the next step */
    double best_top1;              /* percent; -1: not evaluated yet */
    uint64_t best_epoch;

    /* What the results depend on to the last bit */
    char backend[16];
    enum train_dtype dtype;
    unsigned threads;
    uint32_t device_batch; /* images that are normalised together, without --sync-bn; 0: unknown */
    enum pixels pixels;

    /* Evaluation: geometry in pixels; with the mirrored image too */
    uint32_t val_resize, val_crop;
    bool val_flip;
};

/* {"version": 1, …, "class_table": …}; `classes` has state->classes entries. */
void run_state_store(const struct run_state *state, const struct class_table *classes,
                     struct json *object);
/* The reverse. Fails with STATUS_CORRUPT, naming what is missing or out of range. The caller owns
 * *ret_classes (class_table_free). */
struct status run_state_restore(const struct json *object, struct run_state *ret_state,
                                struct class_table **ret_classes);

#endif
