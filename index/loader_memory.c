#include "index/loader_memory.h"

#include "base/memory.h"
#include "index/record_image.h"

static const unsigned usual_slots = 3, least_slots = 2;
static const uint64_t least_thread_bytes = 1 << 20, most_thread_bytes = 64 << 20;
static const uint64_t usual_thread_bytes = 16 << 20;
static const uint64_t usual_large_bytes = 256 << 20;

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

struct loader_memory loader_memory_usual(const struct loader_options *options, uint64_t slot_bytes,
                                         unsigned threads)
{
    unsigned slots = options->slots ? options->slots : usual_slots;
    return (struct loader_memory){
        .slots = slots,
        .most_slots = 4 * slots,
        .slot_bytes = slot_bytes,
        .thread_bytes =
            clamp(usual_large_bytes / 2 / threads, usual_thread_bytes, most_thread_bytes),
        .large_bytes = usual_large_bytes,
    };
}

/* The most scratch that an image of the index needs; one of unknown size counts for its length. */
static struct status largest_find(const struct index *index, uint64_t *ret_bytes)
{
    *ret_bytes = 0;
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        TRY(index_record(index, i, &record));
        uint64_t bytes = record_image_scratch_bytes(&record, record.width, record.height);
        if (bytes > *ret_bytes)
            *ret_bytes = bytes;
    }
    return OK;
}

/* Batches are touched as they are made: too large ones would have the kernel kill the process. */
static struct status usual_check(const struct loader_memory *plan)
{
    uint64_t installed = memory_installed_bytes(), batches;
    if (!size_multiply(plan->slots, plan->slot_bytes, &batches) ||
        (installed > 0 && batches > installed))
        FAIL(STATUS_USAGE,
             "%u batches of %llu bytes are more than the %llu bytes of memory that this machine "
             "has; give a smaller batch or smaller images",
             plan->slots, (unsigned long long)plan->slot_bytes, (unsigned long long)installed);
    return OK;
}

struct status loader_memory_plan(const struct index *index, const struct loader_options *options,
                                 uint64_t slot_bytes, unsigned threads,
                                 struct loader_memory *ret_memory)
{
    struct loader_memory plan = loader_memory_usual(options, slot_bytes, threads);
    *ret_memory = plan;
    if (!options->memory_bytes)
        return usual_check(&plan);
    uint64_t largest, batches, least;
    TRY(largest_find(index, &largest));
    uint64_t scratch = threads * least_thread_bytes + largest;
    if (!size_multiply(least_slots, slot_bytes, &batches) || !size_add(batches, scratch, &least) ||
        least > options->memory_bytes)
        FAIL(STATUS_USAGE,
             "%llu bytes of memory are too few: two batches of %llu bytes, %u threads and the "
             "largest image of '%s' need %llu; give --memory as much, a smaller batch or fewer "
             "threads",
             (unsigned long long)options->memory_bytes, (unsigned long long)slot_bytes, threads,
             index_path(index), (unsigned long long)(batches + scratch));
    uint64_t slots = (options->memory_bytes - scratch) / slot_bytes;
    if (slots < plan.slots)
        plan.slots = (unsigned)slots;
    if (slots < plan.most_slots)
        plan.most_slots = (unsigned)slots;
    uint64_t rest = options->memory_bytes - plan.most_slots * slot_bytes - largest;
    plan.thread_bytes = clamp(rest / 2 / threads, least_thread_bytes, plan.thread_bytes);
    plan.large_bytes =
        options->memory_bytes - plan.most_slots * slot_bytes - threads * plan.thread_bytes;
    *ret_memory = plan;
    return OK;
}
