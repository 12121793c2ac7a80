#ifndef HEADRACE_TRAIN_TRAINER_H
#define HEADRACE_TRAIN_TRAINER_H

/* The training loop: batches to gradients to weights, accuracy after each epoch, checkpoints, and a
 * stop on request that can be resumed. */

#include <stdio.h>

#include "base/scope.h"
#include "base/status.h"
#include "train/checkpoint.h"
#include "train/comm.h"
#include "train/options.h"

struct trainer;

/* Opens data, network, device and RUN_DIR (options->out). `options` is borrowed. `comm` (borrowed)
 * joins the processes that train together, which all make the same calls; rank 0 alone writes to
 * RUN_DIR and `lines` (borrowed, NULL: none), which takes the lines of the run. `checkpoint` (NULL:
 * none, start anew) is taken over: the run goes on from it. With options->evaluate nothing is
 * trained and RUN_DIR is not touched. Fails with STATUS_USAGE where RUN_DIR holds a run already and
 * there is no checkpoint to go on from. */
struct status trainer_open(const struct train_options *options, struct comm *comm,
                           struct checkpoint *checkpoint, FILE *lines,
                           struct trainer **ret_trainer);
void trainer_close(struct trainer *trainer);
CLEANUP_POINTER(trainer_close, struct trainer)

/* Trains to the last epoch (or options->steps). A checkpoint that cannot be written is said, and
 * the run goes on; only the last one's failure is the run's. Fails with STATUS_STOPPED, saying how
 * to go on, when a stop was asked for and the state is saved; when the loss is not finite several
 * steps in a row. */
struct status trainer_run(struct trainer *trainer);

/* Measures the accuracy on the validation set and prints its lines. */
struct status trainer_evaluate(struct trainer *trainer, struct metric_sums *ret_sums);

#endif
