#ifndef HEADRACE_PREP_EXTRACT_SPACE_H
#define HEADRACE_PREP_EXTRACT_SPACE_H

/* What an extraction will take up, from the archive's own headers; private to extract*.c and
 * prep.c. */

#include "base/stage.h"
#include "prep/extract.h"

/* Whether there is so much room for an archive of this size that nothing needs to be counted. */
bool extract_is_roomy(const struct stage *stage, uint64_t archive_bytes);
/* Adds every image and class folder of the archive to *need; classes that `stage` has already are
 * left out, unless `is_fresh`: it is then for another destination on the same file system, which
 * has nothing yet. Reads all headers, the inner archives' in parallel; of a compressed archive,
 * which has to be read whole for that, the size alone. */
struct status extract_count(const struct extract_options *options, const struct stage *stage,
                            bool is_fresh, struct stage_need *need);
/* Fails with STATUS_NO_SPACE where the options' archive does not fit. */
struct status extract_check_space(const struct extract_options *options, const struct stage *stage);

#endif
