#ifndef HEADRACE_TRAIN_CUDA_CUDA_H
#define HEADRACE_TRAIN_CUDA_CUDA_H

/* What the parts of this backend share. */

#include "base/pool.h"
#include "train/backend_module.h"
#include "train/cuda/device.h"

struct backend {
    struct backend_config config; /* with the dtype in use */
    unsigned device_count;
    unsigned rank_count; /* devices of all processes */
    bool joins_bn;       /* they normalise by the statistics of all */
    struct device *devices;
    struct pool *pool;  /* a thread a device; NULL: there is one device */
    atomic_bool broken; /* a device failed where the others wait for its part of a sum */
};

/* Calls fn for each device, with it as the thread's current one: all at the same time, since they
 * may wait for each other. The failure of the first device that failed is returned, with its
 * ordinal. */
typedef struct status device_fn(struct device *device, unsigned index, void *context);
struct status backend_each(struct backend *backend, device_fn *fn, void *context);

#endif
