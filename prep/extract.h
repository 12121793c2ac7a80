#ifndef HEADRACE_PREP_EXTRACT_H
#define HEADRACE_PREP_EXTRACT_H

/* Unpacking the published archives: training into class folders, validation into class folders or
 * flat, test flat. How nothing is left half-done stands in stage.h; a second run does only what is
 * unfinished. */

#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "prep/archive_listing.h"
#include "prep/devkit.h"

struct extract_options {
    const char *archive;
    const char *dest;
    const struct devkit *devkit; /* or NULL: validation images stay flat */
    unsigned threads;
};

struct extract_result {
    enum archive_layout layout;
    bool is_flat;
    uint64_t classes;
    uint64_t images, bytes;    /* in the archive */
    uint64_t kept;             /* of the images: were there already */
    uint64_t ignored;          /* members that are not images */
    uint64_t extra;            /* files in class folders that the archive does not have */
    uint64_t other_counts;     /* classes with another number of images than published */
    char *other_count_example; /* "n01440764 has 1, published are 1300", or NULL */
    uint64_t missing; /* validation images of the ground truth that the archive does not have */
    uint64_t first_missing; /* its number */
};
void extract_result_done(struct extract_result *result);
CLEANUP_VALUE(extract_result_done, struct extract_result)

/* Progress and warnings go to stderr. Fails with STATUS_STOPPED after Ctrl-C; finished classes are
 * kept then, as after any failure. */
struct status extract(const struct extract_options *options, struct extract_result *ret_result);

#endif
