#ifndef HEADRACE_INDEX_RECORD_ORIGINAL_H
#define HEADRACE_INDEX_RECORD_ORIGINAL_H

/* The original file of a record, bit for bit, whatever its encoding. */

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"
#include "image/coefficients.h"
#include "image/jpeg_scan.h"
#include "index/cache_reader.h"
#include "index/index.h"

/* Scratch of one thread. Zero it to start. */
struct restorer {
    struct jpeg_scanner *scanner; /* opened when first needed */
    struct coefficients coefficients;
    struct buffer kept, stored;
};
void restorer_done(struct restorer *restorer);
CLEANUP_VALUE(restorer_done, struct restorer)

/* Replaces the content of `original` by the file whose record these bytes are. At least
 * RECORD_PADDING bytes after them are readable. Fails with STATUS_CORRUPT where the record does not
 * hold, STATUS_UNSUPPORTED for an unknown encoding and STATUS_NO_MEMORY. */
struct status record_restore(struct restorer *restorer, uint8_t encoding, const void *bytes,
                             size_t length, struct buffer *original);

/* Reads record `i` and restores it; its CRC is checked where known. Failures name its place. */
struct status record_original(struct restorer *restorer, struct index *index, uint64_t i,
                              struct buffer *original);
/* The same through a cache of the index (cache_reader.h). */
struct status record_original_through(struct restorer *restorer, struct index *index,
                                      struct cache_reader *cache, uint64_t i,
                                      struct buffer *original);

#endif
