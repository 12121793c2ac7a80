#ifndef HEADRACE_TESTS_SUPPORT_INTERFERE_H
#define HEADRACE_TESTS_SUPPORT_INTERFERE_H

/* Stands between a trainer and its backend: notes what steps are given, and breaks gradients. */

#include "train/backend.h"

struct trainer;

extern struct interference {
    /* Updates from `break_first` on, `break_count` of them, find an infinite gradient of
     * layer4.1.conv2.weight. */
    unsigned break_first, break_count;
    struct step_input seen[64]; /* what the run's micro-batches were given, the last ones */
    size_t seen_count;
    unsigned updates;
} interference;

/* For train_run_prepared; starts the counts anew. */
void interfere(struct trainer *trainer);

#endif
