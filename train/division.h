#ifndef HEADRACE_TRAIN_DIVISION_H
#define HEADRACE_TRAIN_DIVISION_H

/* How a global batch is divided: over processes, the devices of each, and micro-batches that follow
 * each other. */

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

struct division {
    uint32_t processes, rank; /* this one's */
    uint32_t replicas;        /* devices of a process */
    uint32_t accumulate;      /* micro-batches of a step */
    uint32_t device_batch;    /* images of a device in a micro-batch */
};

/* Sets division->device_batch from the other members. Fails with STATUS_USAGE, naming the nearest
 * sizes that can be divided, where `global_batch` cannot. */
struct status division_make(uint32_t global_batch, struct division *division);

/* "2 processes x 4 devices x 32", "1 device x 2 micro-batches x 16". */
struct status division_append(const struct division *division, struct buffer *text);

/* A number of images rounded up to as many for each of `parts` devices. */
static inline uint64_t division_round_up(uint64_t images, uint32_t parts)
{
    return (images + parts - 1) / parts * parts;
}

/* Images of a micro-batch: in this process, in all. */
static inline uint32_t division_local_batch(const struct division *division)
{
    return division->device_batch * division->replicas;
}
static inline uint32_t division_micro_batch(const struct division *division)
{
    return division_local_batch(division) * division->processes;
}

#endif
