#include "train/division.h"

#include <inttypes.h>
#include <stdio.h>

struct status division_make(uint32_t global_batch, struct division *division)
{
    uint64_t parts = (uint64_t)division->processes * division->replicas * division->accumulate;
    division->device_batch = (uint32_t)(global_batch / parts);
    if (global_batch % parts == 0)
        return OK;
    uint64_t below = global_batch / parts * parts;
    char nearest[64];
    if (below)
        snprintf(nearest, sizeof nearest, "%" PRIu64 " or %" PRIu64, below, below + parts);
    else
        snprintf(nearest, sizeof nearest, "%" PRIu64, parts);
    FAIL(STATUS_USAGE,
         "a batch of %" PRIu32 " cannot be divided evenly over %" PRIu32 " process%s x %" PRIu32
         " device%s x %" PRIu32 " micro-batch%s: take --batch-size %s",
         global_batch, division->processes, division->processes == 1 ? "" : "es",
         division->replicas, division->replicas == 1 ? "" : "s", division->accumulate,
         division->accumulate == 1 ? "" : "es", nearest);
}

static struct status part_append(struct buffer *text, uint32_t count, const char *one,
                                 const char *many)
{
    return buffer_append_text(text, "%" PRIu32 " %s x ", count, count == 1 ? one : many);
}

struct status division_append(const struct division *division, struct buffer *text)
{
    if (division->processes > 1)
        TRY(part_append(text, division->processes, "process", "processes"));
    TRY(part_append(text, division->replicas, "device", "devices"));
    if (division->accumulate > 1)
        TRY(part_append(text, division->accumulate, "micro-batch", "micro-batches"));
    return buffer_append_text(text, "%" PRIu32, division->device_batch);
}
