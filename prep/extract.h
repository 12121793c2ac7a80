#ifndef HEADRACE_PREP_EXTRACT_H
#define HEADRACE_PREP_EXTRACT_H

/* Unpacking the published archives, and Kaggle's zip file: training into class folders, validation
 * into class folders or flat, test flat. How nothing is left half-done stands in stage.h; a second
 * run does only what is unfinished. */

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "prep/archive_listing.h"
#include "prep/devkit.h"
#include "prep/image_name.h"

struct extract_options {
    const char *archive;
    const char *dest;
    const struct devkit *devkit; /* or NULL: validation images stay flat */
    unsigned threads;
    bool is_subset; /* fewer classes and images than published do not stop extract_delete_source */
    enum image_set part; /* of Kaggle's zip file: IMAGE_SET_TRAIN, or IMAGE_SET_VAL with a devkit
                            (the file itself is as good as one) */
};

struct extract_result {
    enum archive_layout layout;
    bool is_flat;
    bool names_tell_classes; /* flat, but each name ends in a WNID (headrace organize needs no more)
                              */
    uint64_t classes;
    uint64_t images, bytes;    /* in the archive */
    uint64_t kept;             /* of the images: were there already */
    uint64_t ignored;          /* members that are not images */
    uint64_t extra;            /* files in class folders that the archive does not have */
    uint64_t other_counts;     /* classes with another number of images than published */
    char *other_count_example; /* "n01440764 has 1, published are 1300", or NULL */
    uint64_t missing; /* validation images of the ground truth that the archive does not have */
    uint64_t first_missing; /* its number */
    uint64_t warnings;      /* of the archive's readers */
};
void extract_result_done(struct extract_result *result);
CLEANUP_VALUE(extract_result_done, struct extract_result)

/* Progress and warnings go to stderr. Fails with STATUS_STOPPED after Ctrl-C; finished classes are
 * kept then, as after any failure. */
struct status extract(const struct extract_options *options, struct extract_result *ret_result);

/* Whether the archive could be removed later: a link could not, what it leads to might be needed
 * elsewhere. To be called before a long extraction. */
struct status extract_check_removable(const char *archive);
/* Removes the archive, after all that `result` counts is as published and every byte below `dest`
 * was compared with it. Fails, and keeps it, where anything is not so. */
struct status extract_delete_source(const struct extract_options *options,
                                    const struct extract_result *result);

#endif
