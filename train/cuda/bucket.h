#ifndef HEADRACE_TRAIN_CUDA_BUCKET_H
#define HEADRACE_TRAIN_CUDA_BUCKET_H

/* Ranges of the gradient arena that are summed over the devices at once, each as soon as backward
 * has made all of it. */

#include "train/cuda/param_map.h"

struct bucket {
    uint64_t begin, end; /* elements */
    size_t last_op;      /* of the program: the one after which all gradients are there */
};

struct bucket_list {
    struct bucket *buckets; /* by last_op */
    size_t count, capacity;
};

/* Cuts the arena where parameters begin, into ranges of at least an eighth of it or 25 MiB,
 * whichever is less. The last one, whose sum nothing hides, ends up the smallest. */
struct status bucket_list_make(const struct program *program, const struct param_map *map,
                               struct bucket_list *ret_list);
void bucket_list_done(struct bucket_list *list);

#endif
