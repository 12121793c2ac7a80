#ifndef HEADRACE_TRAIN_WEIGHTS_H
#define HEADRACE_TRAIN_WEIGHTS_H

/* A network's parameters on the host, in torchvision's names and layout: what files hold and what
 * goes into a backend's store and comes out of it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/scope.h"
#include "base/status.h"
#include "train/network.h"
#include "train/safetensors.h"

struct weights {
    const struct network *network; /* borrowed */
    float **values;                /* by parameter; NULL for counters */
    float **momentum;              /* by parameter; NULL for what is not trained */
    int64_t *counters;             /* by parameter; num_batches_tracked, else 0 */
    float *memory;                 /* behind values and momentum */
    float *
        *average; /* by parameter; NULL for counters: what weights_average keeps; NULL: nothing */
    float *average_memory;
};

/* All zero. `network` must outlive the weights. */
struct status weights_open(const struct network *network, struct weights **ret_weights);
void weights_close(struct weights *weights);
CLEANUP_POINTER(weights_close, struct weights)

/* Takes values and counters from a torchvision state_dict. A "module." before all names (from
 * DataParallel) is dropped, *ret_stripped says so (NULL is fine). Names must be the network's, no
 * fewer and no more, with its shapes; only num_batches_tracked may be missing (0). Fails listing
 * what is missing and unexpected, or naming a layer and both shapes. `path` is for messages. */
struct status weights_from_safetensors(struct weights *weights, const struct safetensors *file,
                                       const char *path, bool *ret_stripped);

/* Takes the momentum from tensors named "momentum.NAME", and the average from "average.NAME" where
 * the file has one. Fails when one is missing or has another shape. */
struct status weights_state_from_safetensors(struct weights *weights,
                                             const struct safetensors *file, const char *path);

/* Describes the weights as tensors for safetensors_write: values and counters in the order of the
 * state_dict, or momentum and average, whose names go into `names`. *ret_tensors is heap memory
 * (memory_free) that borrows from the weights and the names. */
struct status weights_describe_values(const struct weights *weights,
                                      struct safetensor **ret_tensors, size_t *ret_count);
struct status weights_describe_state(const struct weights *weights, struct arena *names,
                                     struct safetensor **ret_tensors, size_t *ret_count);

/* Moves the average towards the values, running statistics too: average = decay·average + (1 −
 * decay)·value. The first one is the values themselves, and so is every one with decay 0. */
struct status weights_average(struct weights *weights, double decay);
/* Makes room for an average where there is none; it is all zero. */
struct status weights_open_average(struct weights *weights);
void weights_close_average(struct weights *weights);
/* The average as values, with the same counters: borrows all from the weights. */
struct weights weights_average_view(const struct weights *weights);

#endif
