#ifndef HEADRACE_TRAIN_TRAINER_INTERNAL_H
#define HEADRACE_TRAIN_TRAINER_INTERNAL_H

/* What trainer.c (the loop) and trainer_open.c (how it comes to be) share. */

#include "train/dataset.h"
#include "train/model.h"
#include "train/run_log.h"
#include "train/trainer.h"

struct trainer {
    const struct train_options *options;
    struct json *stored_options;   /* as checkpoints keep them */
    struct checkpoint *checkpoint; /* what was resumed; NULL: a new run */
    bool resumed_in_place;         /* it lies in RUN_DIR */
    struct dataset *data;
    struct network *network;
    struct weights
        *weights; /* on the host: scratch of checkpoints; its counters are the live ones */
    struct model *model;
    struct plan *train_plan, *eval_plan; /* NULL: not needed */
    struct run_log *log;
    char *checkpoint_stem, *best_stem;
    struct schedule schedule;
    struct run_state state;

    /* Of the epoch that runs */
    struct line line;
    double window_started_s; /* since the last printed line */
    uint64_t window_images;
    uint64_t pending_steps; /* whose metrics were not taken yet */
    unsigned bad_steps;     /* in a row, with a loss that is not finite */
    bool saved;             /* the state as it is now is in the checkpoint */
};

#endif
