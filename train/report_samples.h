#ifndef HEADRACE_TRAIN_REPORT_SAMPLES_H
#define HEADRACE_TRAIN_REPORT_SAMPLES_H

#include "base/bytes.h"
#include "base/status.h"
#include "train/history.h"
#include "train/report.h"

/* Appends images of the validation set, spread over it, with what the run's best weights say of
 * them. */
struct status report_append_samples(struct buffer *html, const char *run_folder,
                                    const struct history_start *start,
                                    const struct report_options *options);

#endif
