#ifndef HEADRACE_INDEX_LOADER_MEMORY_H
#define HEADRACE_INDEX_LOADER_MEMORY_H

/* How a loader's memory is shared out: batches ahead, what each thread keeps from image to image,
 * and a common rest that large images take turns at. The page cache is not part of it. */

#include <stdint.h>

#include "base/status.h"
#include "index/loader.h"

struct loader_memory {
    unsigned slots, most_slots; /* batches made at once, and when the caller holds some */
    uint64_t slot_bytes;        /* of one batch */
    uint64_t thread_bytes;      /* that a thread keeps */
    uint64_t large_bytes;       /* beside that, for all threads */
};

/* What a loader takes without options->memory_bytes: three batches, 16 to 64 MiB a thread, 256 MiB
 * for large images. */
struct loader_memory loader_memory_usual(const struct loader_options *options, uint64_t slot_bytes,
                                         unsigned threads);

/* `threads` is the number that runs. options->memory_bytes 0: as usual. Else no more than that,
 * whatever the caller holds and however large the images are whose sizes the index knows. Fails
 * with STATUS_USAGE, telling the least that is needed, and where three batches are more than the
 * machine has.
 */
struct status loader_memory_plan(const struct index *index, const struct loader_options *options,
                                 uint64_t slot_bytes, unsigned threads,
                                 struct loader_memory *ret_memory);

#endif
