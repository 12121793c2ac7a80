#ifndef HEADRACE_TRAIN_TRAINED_H
#define HEADRACE_TRAIN_TRAINED_H

/* A trained network from a file: a run's checkpoint, or bare weights under torchvision's names. */

#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"
#include "image/pixels.h"
#include "train/checkpoint.h"
#include "train/network.h"
#include "train/weights.h"

struct trained {
    struct network *network; /* owned, like all below */
    struct weights *weights;
    struct class_table *classes;
    struct checkpoint *checkpoint; /* NULL: bare weights */
    char *path;                    /* of the weights, for people */
    uint32_t val_resize, val_crop; /* that it was evaluated at; 0: not known */
    bool val_flip;                 /* of bare weights: false */
    enum pixels pixels;            /* of bare weights: PIXELS_PILLOW */
};

/* Opens `path`: a RUN_DIR (its model_best, else its checkpoint), or one file of a pair, or bare
 * weights (safetensors), which need `arch` (else NULL) and take ImageNet's classes where they have
 * 1000, else those of `set`. Fails with STATUS_USAGE where `arch` is missing or contradicts the
 * checkpoint, or the classes of bare weights are unknown. */
struct status trained_open(const char *path, const char *arch, const struct class_table *set,
                           struct trained **ret_trained);
void trained_close(struct trained *trained);
CLEANUP_POINTER(trained_close, struct trained)

#endif
