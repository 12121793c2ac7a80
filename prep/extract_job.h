#ifndef HEADRACE_PREP_EXTRACT_JOB_H
#define HEADRACE_PREP_EXTRACT_JOB_H

/* What the parts of extraction share; private to extract*.c. */

#include <pthread.h>
#include <stdatomic.h>

#include "base/progress.h"
#include "base/stage.h"
#include "base/stop.h"
#include "prep/archive_listing.h"
#include "prep/extract.h"
#include "prep/kaggle_zip.h"

struct extract_job {
    const struct extract_options *options;
    struct archive_file *file; /* a tar, or */
    struct kaggle_zip *zip;
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

/* An image in an archive of any form. */
struct extract_input {
    const char *name; /* file name */
    uint64_t size_bytes;
    uint64_t stored_bytes; /* what it takes in the archive, for the progress */
    /* The next piece of its bytes, borrowed until the next call; length 0 when all was read. Is not
     * called for an image that is there already. */
    struct status (*read)(void *context, const void **ret_bytes, size_t *ret_length);
    void *context;
};

/* Writes an image unless it is there, or compares it with what is there. */
struct status extract_image(struct extract_job *job, const struct extract_input *input,
                            struct stage_unit *unit);
/* The same for the member that a tar's reader stands on. Adds what it takes in the archive to
 * *done_bytes. */
struct status extract_member(struct extract_job *job, struct archive_reader *reader,
                             const struct archive_member *member, struct stage_unit *unit,
                             uint64_t *done_bytes);
/* Counts a class of training images that has another number of them than published. Thread-safe. */
void extract_note_count(struct extract_job *job, const char *class_name, uint64_t images);
/* Counts the validation images that the devkit has and the archive has not. `is_seen`: by number,
 * from 1. */
void extract_note_missing(struct extract_job *job, const bool *is_seen);
/* Counts and shows what libarchive warned of. */
void extract_warnings(struct extract_job *job, const struct archive_reader *reader);
/* Extracts, or compares. */
struct status extract_run(const struct extract_options *options, bool is_comparing,
                          struct extract_result *ret_result);
/* A tar of tars. */
struct status extract_train(struct extract_job *job);
/* One part of Kaggle's zip file, as job->layout says. */
struct status extract_zip(struct extract_job *job);

#endif
