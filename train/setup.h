#ifndef HEADRACE_TRAIN_SETUP_H
#define HEADRACE_TRAIN_SETUP_H

/* From a parsed command line to what a run needs: recipe, resumed checkpoint, checks. */

#include "base/bytes.h"
#include "base/option.h"
#include "base/status.h"
#include "train/checkpoint.h"
#include "train/comm.h"
#include "train/options.h"

/* Completes `options`, as parsed with train_option_table over its defaults: what the command line
 * did not give comes from the checkpoint that is resumed, else from the recipe. A positional
 * argument is
 * --data. Options may borrow strings from `recipe` and from *ret_checkpoint, which the caller owns
 * (checkpoint_free; NULL where nothing is resumed). Of several processes only rank 0 reads
 * checkpoints. Fails with STATUS_USAGE. */
struct status setup_make(struct comm *comm, struct train_options *options,
                         struct option_parse *parse, struct buffer *recipe,
                         struct checkpoint **ret_checkpoint);

#endif
