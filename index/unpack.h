#ifndef HEADRACE_INDEX_UNPACK_H
#define HEADRACE_INDEX_UNPACK_H

/* The original files back out of an index. */

#include <stdint.h>

#include "base/status.h"
#include "index/index.h"

struct unpack_report {
    uint64_t images, image_bytes; /* written now */
    uint64_t kept;                /* there before, with the right size */
    uint64_t lossy;               /* of both, those that are not the original images */
};

/* Writes each record as DEST/CLASS/NAME, bit for bit as it was packed, its CRC checked. A class
 * folder appears when it is complete (base/stage.h); a second run finishes what a first one left.
 * Classes without records get no folder. */
struct status index_unpack(struct index *index, const char *dest, unsigned threads,
                           struct unpack_report *ret_report);

#endif
