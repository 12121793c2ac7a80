#ifndef HEADRACE_TESTS_SUPPORT_TRAIN_RUN_H
#define HEADRACE_TESTS_SUPPORT_TRAIN_RUN_H

#include <stdio.h>

#include "base/status.h"
#include "train/run_state.h"

/* Runs what "headrace train ARGUMENTS" does; ARGUMENTS are words between single blanks. `lines`
 * (NULL: nowhere) takes the lines; *ret_sums is set by -e. */
struct status train_run_sums(const char *arguments, FILE *lines, struct metric_sums *ret_sums);
struct status train_run(const char *arguments);

#endif
