#ifndef HEADRACE_TRAIN_FEED_H
#define HEADRACE_TRAIN_FEED_H

/* Where a run's batches come from: an index, or random images that need no data. */

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "index/index.h"
#include "index/loader.h"
#include "train/backend.h"

struct feed;

/* Batches of the loader with these options. `index` is borrowed. */
struct status feed_open_index(struct index *index, const struct loader_options *options,
                              struct feed **ret_feed);

struct synthetic_options {
    uint64_t images; /* of an epoch */
    uint32_t classes;
    uint32_t batch, size;      /* images of a batch over all ranks; pixels of a side */
    uint32_t rank, world_size; /* this rank takes its contiguous slice of each batch */
    /* An incomplete last batch: its rest has label -1 (evaluation), it is left out, or else filled.
     */
    bool last_partial, drop_last;
    struct tensor_format format;
    uint64_t seed;
};
/* A few batches of noise with random labels, made once and given out in turn: no step waits for
 * them. */
struct status feed_open_synthetic(const struct synthetic_options *options, struct feed **ret_feed);

/* Bytes of these batches. */
struct status feed_synthetic_bytes(const struct synthetic_options *options, uint64_t *ret_bytes);

void feed_close(struct feed *feed);
CLEANUP_POINTER(feed_close, struct feed)

uint64_t feed_steps(const struct feed *feed);
/* Images of an epoch. */
uint64_t feed_images(const struct feed *feed);
/* What loading took since feed_start; all 0 for random images. */
struct loader_statistics feed_statistics(const struct feed *feed);
/* Begins an epoch at a step. */
struct status feed_start(struct feed *feed, uint64_t epoch, uint64_t first_step);
/* The next batch, borrowed until the next call; *ret_done after the epoch's last. */
struct status feed_next(struct feed *feed, struct step_input *ret_input, bool *ret_done);
/* The next `count` batches (at most the loader options' `slots`), fewer at the epoch's end; all are
 * borrowed until the next call. */
struct status feed_next_several(struct feed *feed, uint32_t count, struct step_input *ret_inputs,
                                uint32_t *ret_count);

#endif
