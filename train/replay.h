#ifndef HEADRACE_TRAIN_REPLAY_H
#define HEADRACE_TRAIN_REPLAY_H

/* The very batches of a run, computed anew: order and crops are pure functions of seed, epoch and
 * record, so nothing of them was stored. */

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"
#include "image/tensor.h"
#include "index/access.h"
#include "index/loader.h"

struct replay;

/* Reads the log of the run in RUN_DIR and opens its training set where the run found it; `data`
 * (NULL: there) names another place for --data or --train, `access` (NULL: as the environment says)
 * what URLs are read with. Fails for synthetic runs. */
struct status replay_open(const char *run_folder, const char *data,
                          const struct access_options *access, struct replay **ret_replay);
void replay_close(struct replay *replay);
CLEANUP_POINTER(replay_close, struct replay)

/* A step counted over all epochs, taken apart. */
struct replay_position {
    uint64_t epoch, step;
};
struct replay_position replay_position_of(const struct replay *replay, uint64_t global_step);
/* Steps that the run was to make in all: its epochs, or --steps. */
uint64_t replay_steps(const struct replay *replay);
uint32_t replay_batch_size(const struct replay *replay);
/* Images of a step: a batch, but in an epoch's last one no more micro-batches (--accumulate) than
 * it takes to see each image. */
uint32_t replay_step_images(const struct replay *replay, uint64_t global_step);
/* Of the training crops in that step. */
uint32_t replay_image_size(const struct replay *replay, uint64_t global_step);
/* The share of its neighbour in each image of that step (train/mixup.h); 0: none. */
float replay_mixed_in(const struct replay *replay, uint64_t global_step);
/* Borrowed. */
const struct class_table *replay_classes(const struct replay *replay);

/* The batch of a step in a format, borrowed until the next call. */
struct status replay_batch(struct replay *replay, uint64_t global_step,
                           const struct tensor_format *format, const struct batch **ret_batch);

/* One image's place: class and name (borrowed) and crop. Reads no pixels. */
struct replay_record {
    const char *wnid, *name;
    uint32_t label;
    struct crop crop;
};
struct status replay_record_at(struct replay *replay, uint64_t global_step, uint32_t slot,
                               struct replay_record *ret_record);

/* Whether two records are the same image, cut and turned in the same way. */
bool replay_record_is_same(const struct replay_record *a, const struct replay_record *b);

#endif
