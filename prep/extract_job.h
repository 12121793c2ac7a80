#ifndef HEADRACE_PREP_EXTRACT_JOB_H
#define HEADRACE_PREP_EXTRACT_JOB_H

/* What the parts of extraction share; private to extract.c and extract_train.c. */

#include <pthread.h>
#include <stdatomic.h>

#include "base/progress.h"
#include "base/stage.h"
#include "base/stop.h"
#include "prep/archive_listing.h"
#include "prep/extract.h"

/* Of a training image; for the number of files to expect. */
#define EXTRACT_MEAN_IMAGE_BYTES 110000

struct extract_job {
    const struct extract_options *options;
    struct archive_file *file;
    enum archive_layout layout;
    bool is_flat;
    bool is_comparing; /* nothing is written: what was extracted is compared with the archive */
    struct stage *stage;
    struct progress *progress;
    atomic_uint_fast64_t images, bytes, kept, ignored, extra, warnings;
    uint64_t classes, missing, first_missing;
    uint64_t names_without_class; /* of a flat archive */
    pthread_mutex_t mutex;        /* guards what follows */
    uint64_t other_counts;
    char *other_count_example;
};

/* Writes an image unless it is there, or compares it with what is there. Adds what it takes in the
 * archive to *done_bytes. */
struct status extract_image(struct extract_job *job, struct archive_reader *reader,
                            const struct archive_member *member, struct stage_unit *unit,
                            uint64_t *done_bytes);
/* Counts and shows what libarchive warned of. */
void extract_warnings(struct extract_job *job, const struct archive_reader *reader);
/* Extracts, or compares. */
struct status extract_run(const struct extract_options *options, bool is_comparing,
                          struct extract_result *ret_result);
/* A tar of tars. */
struct status extract_train(struct extract_job *job);

#endif
