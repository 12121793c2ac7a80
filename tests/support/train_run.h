#ifndef HEADRACE_TESTS_SUPPORT_TRAIN_RUN_H
#define HEADRACE_TESTS_SUPPORT_TRAIN_RUN_H

#include <stdio.h>

#include "base/status.h"
#include "train/comm.h"
#include "train/run_state.h"

struct trainer;

/* Runs what "headrace train ARGUMENTS" does; ARGUMENTS are words between single blanks. `lines`
 * (NULL: nowhere) takes the lines; *ret_sums is set by -e. */
struct status train_run_sums(const char *arguments, FILE *lines, struct metric_sums *ret_sums);
struct status train_run(const char *arguments);
/* As one of several processes. `prepare` (NULL: nothing) may change what the trainer works with
 * before it starts. */
struct status train_run_with(struct comm *comm, const char *arguments,
                             void (*prepare)(struct trainer *), struct metric_sums *ret_sums);
struct status train_run_prepared(const char *arguments, void (*prepare)(struct trainer *));

#endif
