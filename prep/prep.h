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
    bool
        delete_source; /* prep_delete_sources will be called: fails early where it could not work */
    unsigned threads;
};

struct prep_result {
    struct extract_result train, val;  /* without images: DEST had it, SRC has no archive of it */
    char *train_archive, *val_archive; /* owned, or NULL */
    char *devkit;                      /* owned */
    struct verify_report *report;      /* owned; of DEST/train and DEST/val */
};
void prep_result_done(struct prep_result *result);
CLEANUP_VALUE(prep_result_done, struct prep_result)

/* Finds the two archives and the devkit in `src`, by their published names or else by what they
 * hold (the devkit packed or unpacked), or Kaggle's zip file, which `src` may also be itself;
 * extracts and verifies. Where something is missing it fails with STATUS_NOT_FOUND before anything
 * is written, and says what the files are called, how large they are and where they come from; only
 * an archive whose part of `dest` is there already may be missing. Findings of the verification are
 * in the report, not a failure. */
struct status prep(const struct prep_options *options, struct prep_result *ret_result);
/* Removes the two archives (extract.h), unless there were findings. */
struct status prep_delete_sources(const struct prep_options *options,
                                  const struct prep_result *result);

#endif
