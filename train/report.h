#ifndef HEADRACE_TRAIN_REPORT_H
#define HEADRACE_TRAIN_REPORT_H

/* A run on one page: HTML that loads nothing from elsewhere, with curves as SVG and images as data.
 */

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "index/access.h"
#include "train/backend.h"

struct report_options {
    const char *val;    /* validation set; NULL: the run's */
    const char *device; /* of device_names, for the predictions */
    uint32_t samples;   /* images with predictions; 0: none */
    struct access_options access;
};

/* Appends the page of the run in RUN_DIR. Without a checkpoint or validation set there are no
 * images; the page says why. Fails as history_read does. */
struct status report_append(struct buffer *html, const char *run_folder,
                            const struct report_options *options);

#endif
