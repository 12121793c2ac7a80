#ifndef HEADRACE_PREP_REPAIR_H
#define HEADRACE_PREP_REPAIR_H

/* Extracting again just what verification found bad. */

#include "prep/verify.h"

struct repair_result {
    uint64_t images, bytes; /* that were written */
};

/* Writes those images of `archive` (below options->prefix, where it holds class folders) into the
 * verified class folders that are missing there, have another size, or are found to be damaged. The
 * archive says which of a report's sets (training or validation images) is meant. Nothing is
 * removed; how nothing is left half-done stands in stage.h.
 */
struct status repair(const struct verify_report *report, const struct verify_options *options,
                     const char *archive, struct repair_result *ret_result);

#endif
