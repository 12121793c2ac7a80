#ifndef HEADRACE_TRAIN_TRAINER_INTERNAL_H
#define HEADRACE_TRAIN_TRAINER_INTERNAL_H

/* What trainer.c (the loop), trainer_step.c (a step of it), trainer_open.c (how it comes to be)
 * and trainer_agree.c (what all its processes have in common) share. */

#include "train/dataset.h"
#include "train/mirrored.h"
#include "train/model.h"
#include "train/ranks.h"
#include "train/run_log.h"
#include "train/trainer.h"

struct trainer {
    const struct train_options *options;
    struct comm *comm;             /* borrowed */
    struct json *stored_options;   /* as checkpoints keep them */
    struct checkpoint *checkpoint; /* what was resumed; NULL: a new run */
    bool resumed_in_place;         /* it lies in RUN_DIR */
    int held_fd;                   /* RUN_DIR's log, locked; -1: not yet, or another rank has it */
    struct dataset *data;
    struct network *network;
    struct weights
        *weights; /* on the host: scratch of checkpoints; its counters are the live ones */
    struct model *model;
    struct division division;
    struct plan *train_plan, *eval_plan; /* NULL: not needed */
    struct mirrored *mirrored;           /* NULL: evaluation takes images as they are */
    struct run_log *log;
    char *checkpoint_stem, *best_stem, *average_stem;
    struct schedule schedule;
    struct ramp ramp;
    uint32_t image_size; /* of the training plan and feed */
    struct run_state state;
    struct step_input *inputs; /* (accumulate): the micro-batches of a step */
    /* A server may keep a rank from the later micro-batches of a step, so that the statistics of
     * normalisation are read before its first one: a stop goes back to them. */
    bool reads_statistics;

    /* Of the epoch that runs */
    struct line line;
    double window_started_s; /* since the last printed line */
    uint64_t window_images;
    uint64_t pending;        /* micro-batches whose metrics were not taken yet */
    unsigned bad_losses;     /* steps in a row with a loss that is not finite */
    unsigned skips_in_a_row; /* steps whose update was skipped */
    uint64_t epoch_skips;
    bool stopping; /* all processes agreed to stop before the next step */
    bool saved;    /* the state as it is now is in the checkpoint */
};

/* Whether this process writes what the run leaves. */
static inline bool trainer_writes(const struct trainer *trainer)
{
    return comm_rank(trainer->comm) == 0;
}

/* Each fails on all processes when they do not have the same. */
struct status trainer_agree_data(struct trainer *trainer);
struct status trainer_agree_device(struct trainer *trainer);
/* Leaves the weights and momentum of the device in trainer->weights. */
struct status trainer_agree_weights(struct trainer *trainer);

/* Opens the training plan and feed for the images of the epoch that the state stands in, unless
 * they are open already; the old ones are closed first. */
struct status trainer_size_images(struct trainer *trainer);
/* Steps done since the run's first epoch began. */
uint64_t trainer_global_step(const struct trainer *trainer);
/* Hands the device the learning rates of the epoch, from where the run stands. */
struct status trainer_begin_updates(struct trainer *trainer);
/* Takes the count of skipped steps and the loss scale into the state. */
struct status trainer_note_updates(struct trainer *trainer);
/* Trains on one global batch and prints what is due; or trainer->stopping is set, on all processes,
 * and the state is that before the step. Fails with STATUS_FAILED when losses or
 * gradients were not finite for several steps in a row. */
struct status trainer_step(struct trainer *trainer);
/* Adds the metrics since the last call to the sums. */
struct status trainer_take_metrics(struct trainer *trainer);

#endif
