#ifndef HEADRACE_TRAIN_MODEL_H
#define HEADRACE_TRAIN_MODEL_H

/* A network on a device: backend and store as one thing, and the way between them and weights on
 * the host. */

#include "base/scope.h"
#include "base/status.h"
#include "train/backend.h"
#include "train/weights.h"

struct model {
    const struct network *network; /* borrowed */
    const struct backend_ops *ops;
    const char *backend_name;
    struct backend *backend;
    struct store *store;
    unsigned threads;
};

/* Opens a device of device_names, whose plans are kept in config->plan_cache, or the user's cache
 * where that is NULL. `network` must outlive the model. */
struct status model_open(const struct network *network, const char *device,
                         const struct backend_config *config, struct model **ret_model);
void model_close(struct model *model);
CLEANUP_POINTER(model_close, struct model)

/* Weights to the device and back: values and, with `state`, momentum and the average of a device
 * that keeps it. Counters stay on the host. */
struct status model_write(struct model *model, const struct weights *weights, bool state);
struct status model_read(struct model *model, struct weights *weights, bool state);

/* The running means and variances alone, which each batch moves before its step is made. */
struct status model_read_statistics(struct model *model, struct weights *weights);
struct status model_write_statistics(struct model *model, const struct weights *weights);

/* Moves the average of weights_average: on the device where it keeps one, without waiting for it.
 */
struct status model_move_average(struct model *model, struct weights *weights, double decay);

#endif
