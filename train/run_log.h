#ifndef HEADRACE_TRAIN_RUN_LOG_H
#define HEADRACE_TRAIN_RUN_LOG_H

/* What a run says while it goes: lines for people (lines.h), JSON lines for programs, and a bar on
 * a terminal.
 *
 * RUN_DIR/log.jsonl holds one object a line, with "kind": "start" (options, sizes; once for each
 * start, with "epoch" and "step" where it begins: what stands before at that position or after it
 * was done again), "train" (a printed training line), "loader" (what loading an epoch's images
 * took), "eval", "checkpoint". */

#include <stdio.h>

#include "base/json.h"
#include "base/scope.h"
#include "base/status.h"
#include "index/loader_statistics.h"
#include "train/lines.h"

struct run_log;

/* Of the file with the JSON lines, in RUN_DIR. */
extern const char run_log_name[];

/* `lines` (borrowed; NULL: nobody reads) takes the lines. `folder` (NULL: none) is RUN_DIR. Lines
 * that cannot be written are a failure without a folder; with one, which has the log, that is said
 * once, and the run goes on without them. */
struct status run_log_open(FILE *lines, const char *folder, struct run_log **ret_log);
void run_log_close(struct run_log *log);
CLEANUP_POINTER(run_log_close, struct run_log)

/* One line of text, in front of everything. */
struct status run_log_print(struct run_log *log, const char *format, ...) PRINTF_LIKE(2, 3);
struct status run_log_train(struct run_log *log, const struct line *line);
struct status run_log_test(struct run_log *log, const struct line *line);
/* What loading took in the training of `epoch`. */
struct status run_log_loader(struct run_log *log, uint64_t epoch,
                             const struct loader_statistics *statistics);
/* The end of an evaluation after `epoch`. */
struct status run_log_eval(struct run_log *log, uint64_t epoch, const struct metric_sums *sums,
                           double seconds);
/* The same of the average of the weights, as a record of the kind "eval_ema" and "EMA * Acc@1 …".
 */
struct status run_log_eval_average(struct run_log *log, uint64_t epoch,
                                   const struct metric_sums *sums, double seconds);
/* Appends a record of a kind; takes ownership of `record`. A file that cannot be written is said
 * once, and the run goes on. */
void run_log_record(struct run_log *log, const char *kind, struct json *record);
/* Draws the bar, at most ten times a second; `what` is "epoch 3" or "evaluation". */
void run_log_bar(struct run_log *log, const char *what, uint64_t step, uint64_t steps,
                 double images_per_second);

#endif
