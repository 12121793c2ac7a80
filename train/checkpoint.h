#ifndef HEADRACE_TRAIN_CHECKPOINT_H
#define HEADRACE_TRAIN_CHECKPOINT_H

/* Checkpoints. One is a pair of files:
 *
 *     STEM.safetensors  the weights alone, as torchvision's load_state_dict(strict=True) takes them
 *     STEM.state        a safetensors file too: momentum ("momentum.NAME"),
 *                       the average of --ema ("average.NAME") where one is kept, and in its
 * metadata the run's state and options as JSON with checksums, and the size and CRC-32C of the
 * weights that belong to it
 *
 * A pair is replaced as follows, so that a kill at any point leaves a whole one: both are written
 * beside and synced; the old weights get a second name, STEM.previous.safetensors; the new weights,
 * then the new state are renamed into place; the second name goes. The state decides: the weights
 * that its CRC fits, under either name, are its own. */

#include <stdbool.h>

#include "base/json.h"
#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"
#include "train/network.h"
#include "train/run_state.h"
#include "train/weights.h"

/* "RUN/checkpoint" from what people name: "RUN" (a folder: its NAME), "RUN/NAME", "RUN/NAME.state"
 * or "RUN/NAME.safetensors". On the heap. */
struct status checkpoint_stem(const char *path, const char *name, char **ret_stem);
/* Whether a state lies at STEM. */
bool checkpoint_exists(const char *stem);

/* Replaces the pair at STEM. `options` (borrowed) is what option_store gave. On failure the old
 * pair is still there. */
struct status checkpoint_save(const char *stem, const struct weights *weights,
                              const struct run_state *state, const struct class_table *classes,
                              const struct json *options);

/* Replaces STEM.safetensors by the average that the weights keep, under torchvision's names. The
 * state has it too: this file is for those who use the network. */
struct status checkpoint_save_average(const char *stem, const struct weights *weights);

/* Makes the pair at STEM the pair at `from` too, without a second copy where the file system has
 * hard links. What `from` becomes later does not change it. */
struct status checkpoint_copy(const char *from, const char *stem);

struct checkpoint {
    struct run_state state;
    char *folder; /* where it was loaded from; owned, like all below */
    struct network *network;
    struct class_table *classes;
    struct weights *weights; /* of the network */
    struct json *document;   /* the state as JSON; member "options" */
};

/* Loads the pair at STEM and checks it whole. Fails with STATUS_CORRUPT, naming the file and what
 * does not hold, with STATUS_NOT_FOUND when there is none. */
struct status checkpoint_load(const char *stem, struct checkpoint **ret_checkpoint);
/* What follows from a checkpoint's document, which is set: all other members but the folder, with
 * weights and momentum yet to be filled in. */
struct status checkpoint_prepare(struct checkpoint *checkpoint);
void checkpoint_free(struct checkpoint *checkpoint);
CLEANUP_POINTER(checkpoint_free, struct checkpoint)
/* What the run's options were: for option_restore. */
const struct json *checkpoint_options(const struct checkpoint *checkpoint);

/* Undoes a replacement that was cut off: the weights of the state at STEM stand under their own
 * name afterwards, and unfinished files are gone. Only for the process that will write there.
 * Nothing to undo is fine. */
struct status checkpoint_recover(const char *stem);

#endif
