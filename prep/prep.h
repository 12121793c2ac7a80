#ifndef HEADRACE_PREP_PREP_H
#define HEADRACE_PREP_PREP_H

/* From a folder of downloads to verified class folders: DEST/train and DEST/val. */

#include "prep/extract.h"
#include "prep/verify.h"

struct prep_options {
    const char *src;
    const char *dest;
    bool is_subset; /* for verify */
    bool decode;    /* for verify */
    unsigned threads;
};

struct prep_result {
    struct extract_result train, val;
    struct verify_report *report; /* owned */
};
void prep_result_done(struct prep_result *result);
CLEANUP_VALUE(prep_result_done, struct prep_result)

/* Finds the two archives and the devkit in `src`, by their published names or else by what they
 * hold, extracts and verifies. Where something is missing it fails with STATUS_NOT_FOUND before
 * anything is written, and says what the files are called, how large they are and where they come
 * from. Findings of the verification are in the report, not a failure. */
struct status prep(const struct prep_options *options, struct prep_result *ret_result);

#endif
