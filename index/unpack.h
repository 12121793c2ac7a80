#ifndef HEADRACE_INDEX_UNPACK_H
#define HEADRACE_INDEX_UNPACK_H

/* The original files back out of an index. */

#include <stdint.h>

#include "base/status.h"
#include "index/index.h"
#include "index/problem.h"

struct unpack_report {
    uint64_t images, image_bytes; /* written now */
    uint64_t kept;                /* there before, with the right size */
    uint64_t lossy;               /* of both, those that are not the original images */
    struct problem_list problems; /* records that were left out, in the index's order */
};
void unpack_report_done(struct unpack_report *report);
CLEANUP_VALUE(unpack_report_done, struct unpack_report)

struct unpack_options {
    unsigned threads;
    bool skip; /* leave out records that are damaged, where else the first of them ends the work */
};

/* Writes each record as DEST/CLASS/NAME, bit for bit as it was packed, its CRC checked. A class
 * folder appears when it is complete (base/stage.h); a second run finishes what a first one left.
 * Classes without records get no folder. Fill the report with zeros before. */
struct status index_unpack(struct index *index, const char *dest,
                           const struct unpack_options *options, struct unpack_report *report);

#endif
