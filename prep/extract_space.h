#ifndef HEADRACE_PREP_EXTRACT_SPACE_H
#define HEADRACE_PREP_EXTRACT_SPACE_H

/* What an extraction will take up, from the archive's own headers; private to extract*.c and
 * prep.c. */

#include "prep/extract_job.h"

/* Whether there is so much room for an archive of this size that nothing needs to be counted. */
bool extract_is_roomy(const struct stage *stage, uint64_t archive_bytes);
/* Adds every image and class folder of an archive to *need, for a destination on the stage's file
 * system that has nothing yet. Reads all headers, the inner archives' in parallel; of a compressed
 * archive, which has to be read whole for that, the size alone. */
struct status extract_count(const struct extract_options *options, const struct stage *stage,
                            struct stage_need *need);
/* Fails with STATUS_NO_SPACE where the job's archive does not fit; classes that are there already
 * take nothing. */
struct status extract_check_space(const struct extract_job *job);

#endif
