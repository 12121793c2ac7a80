#include "index/pack_windows.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"

/* The source is worked through in windows of consecutive images, several at a time: reading and
 * encoding go on in parallel, each window in a slot of a ring. Finished windows are committed in
 * order, by whichever thread finishes the one whose turn it is, so that no thread waits for another
 * while there are free slots. Windows are small enough to stay in a core's cache between reading
 * and writing. */
static const uint64_t window_bytes = (uint64_t)256 << 10;
enum { SLOTS_PER_THREAD = 4 };

struct window {
    size_t first, count;
    uint64_t padded_bytes; /* in the source */
};

struct slot {
    struct buffer bytes; /* the window's records as they stand in a shard */
    struct pack_finding *findings;
    size_t finding_count, finding_capacity;
    bool is_ready; /* filled, not yet committed */
};

struct ring {
    struct packer *packer;
    struct window *windows;
    size_t window_count;
    struct pack_scratch *scratch; /* of each thread */
    unsigned threads;
    struct progress *progress;

    struct slot *slots; /* window n uses slot n % slot_count */
    size_t slot_count;
    pthread_mutex_t lock; /* guards what follows, and the slots' is_ready */
    pthread_cond_t turn_changed;
    size_t turn; /* the window that is to be committed next */
    bool is_committing;
    bool failed;
};

static void findings_clear(struct slot *slot)
{
    for (size_t i = 0; i < slot->finding_count; i++)
        memory_free(slot->findings[i].problem);
    slot->finding_count = 0;
}

static void ring_done(struct ring *ring)
{
    for (unsigned i = 0; ring->scratch && i < ring->threads; i++)
        pack_scratch_done(&ring->scratch[i]);
    for (size_t i = 0; ring->slots && i < ring->slot_count; i++) {
        findings_clear(&ring->slots[i]);
        memory_free(ring->slots[i].findings);
        buffer_done(&ring->slots[i].bytes);
    }
    memory_free(ring->slots);
    memory_free(ring->scratch);
    memory_free(ring->windows);
    progress_close(ring->progress);
    pthread_mutex_destroy(&ring->lock);
    pthread_cond_destroy(&ring->turn_changed);
}
CLEANUP_VALUE(ring_done, struct ring)

static struct status windows_plan(struct ring *ring)
{
    const struct source *source = ring->packer->from.source;
    size_t capacity = 0;
    struct window *window = NULL;
    for (size_t i = 0; i < source->item_count; i++) {
        uint64_t bytes = shard_padded(source->items[i].length);
        if (!window || window->padded_bytes + bytes > window_bytes) {
            TRY(memory_grow(ring->window_count + 1, sizeof *window, &ring->windows, &capacity));
            window = &ring->windows[ring->window_count++];
            *window = (struct window){.first = i};
        }
        window->count++;
        window->padded_bytes += bytes;
    }
    return OK;
}

/* Where a window's images lie close together in one file, their reading starts at once. */
static void window_read_ahead(const struct pack_source *from, const struct window *window)
{
    const struct source_item *first = &from->source->items[window->first];
    const struct source_item *last = first + window->count - 1;
    if (last->shard == first->shard && last->offset > first->offset &&
        last->offset - first->offset < 2 * window->padded_bytes)
        shard_read_ahead(from->reader, first->shard, first->offset,
                         last->offset + last->length - first->offset);
}

/* Makes a window's records, with zeros between them. */
static struct status window_fill(const struct pack_source *from, const struct window *window,
                                 struct pack_scratch *scratch, struct slot *slot)
{
    const struct source *source = from->source;
    findings_clear(slot);
    slot->bytes.ceiling_bytes = SIZE_MAX;
    slot->bytes.length = 0; /* so that growing copies nothing */
    TRY(buffer_reserve(&slot->bytes, window->padded_bytes + SHARD_PADDING));
    TRY(memory_grow(window->count, sizeof *slot->findings, &slot->findings,
                    &slot->finding_capacity));
    window_read_ahead(from, window);
    for (size_t i = window->first; i < window->first + window->count; i++) {
        const struct source_item *item = &source->items[i];
        struct pack_finding *finding = &slot->findings[slot->finding_count++];
        TRY(status_context(pack_image(from, i, scratch, &slot->bytes, finding), "%s/%s",
                           class_table_at(source->classes, item->label)->wnid, item->name));
    }
    return OK;
}

static struct status problem_note(struct packer *packer, uint64_t number,
                                  const struct pack_finding *finding)
{
    const struct class_table *classes = packer->from.source->classes;
    const struct source_item *item = &finding->item;
    return problem_list_add(&packer->report->problems, number,
                            class_table_at(classes, item->label)->wnid, item->name,
                            finding->problem);
}

static struct status record_commit(struct packer *packer, const struct pack_finding *finding,
                                   const uint8_t *bytes)
{
    struct pack_report *report = packer->report;
    report->png_count += finding->is_png;
    report->shrunk += finding->is_shrunk;
    report->encodings[finding->item.encoding]++;
    if (finding->refusal != JPEG_TAKEN)
        report->refusals[finding->refusal]++;
    if (packer->writer)
        return shard_writer_add(packer->writer, &finding->item, bytes);
    packer->kept[packer->kept_count++] = finding->item;
    return OK;
}

/* Adds a window's records to the shards and the index. One thread at a time. */
static struct status window_commit(struct ring *ring, const struct window *window,
                                   struct slot *slot)
{
    struct packer *packer = ring->packer;
    const uint8_t *bytes = slot->bytes.data;
    uint64_t source_bytes = 0;
    for (size_t i = 0; i < slot->finding_count; i++) {
        struct pack_finding *finding = &slot->findings[i];
        bool is_skipped = finding->problem && packer->from.options->on_error == PACK_SKIP;
        if (finding->problem)
            TRY(problem_note(packer, window->first + i, finding));
        if (!is_skipped)
            TRY(record_commit(packer, finding, bytes));
        bytes += finding->padded_bytes;
        source_bytes += packer->from.source->items[window->first + i].length;
    }
    progress_add(ring->progress, slot->finding_count, source_bytes);
    return packer->writer ? shard_writer_flush(packer->writer) : OK;
}

/* Waits until the window that used the slot before is committed; false when packing failed. */
static bool slot_wait(struct ring *ring, size_t window)
{
    pthread_mutex_lock(&ring->lock);
    while (window >= ring->turn + ring->slot_count && !ring->failed)
        pthread_cond_wait(&ring->turn_changed, &ring->lock);
    bool is_free = !ring->failed;
    pthread_mutex_unlock(&ring->lock);
    return is_free;
}

static void ring_fail(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->failed = true;
    pthread_cond_broadcast(&ring->turn_changed);
    pthread_mutex_unlock(&ring->lock);
}

/* Commits all windows that are ready and have their turn. Called, and left, with the lock held. */
static struct status ready_commit(struct ring *ring)
{
    struct status status = OK;
    ring->is_committing = true;
    for (;;) {
        struct slot *slot = &ring->slots[ring->turn % ring->slot_count];
        if (!slot->is_ready || ring->failed)
            break;
        const struct window *window = &ring->windows[ring->turn];
        pthread_mutex_unlock(&ring->lock);
        status = window_commit(ring, window, slot);
        pthread_mutex_lock(&ring->lock);
        slot->is_ready = false;
        ring->failed = ring->failed || status.code != STATUS_DONE;
        ring->turn++;
        pthread_cond_broadcast(&ring->turn_changed);
    }
    ring->is_committing = false;
    return status;
}

static struct status window_finish(struct ring *ring, struct slot *slot)
{
    struct status status = OK;
    pthread_mutex_lock(&ring->lock);
    slot->is_ready = true;
    if (!ring->is_committing)
        status = ready_commit(ring);
    pthread_mutex_unlock(&ring->lock);
    return status;
}

static struct status window_pack(uint64_t number, unsigned thread, void *context)
{
    struct ring *ring = context;
    struct slot *slot = &ring->slots[number % ring->slot_count];
    if (!slot_wait(ring, number))
        return OK; /* whoever failed reports it */
    struct status status = stop_check();
    if (status.code == STATUS_DONE)
        status =
            window_fill(&ring->packer->from, &ring->windows[number], &ring->scratch[thread], slot);
    if (status.code == STATUS_DONE)
        status = window_finish(ring, slot);
    if (status.code != STATUS_DONE)
        ring_fail(ring);
    return status;
}

struct status pack_windows_run(struct packer *packer)
{
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(ring_done)
    struct ring ring = {
        .packer = packer,
        .threads = packer->from.options->threads,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .turn_changed = PTHREAD_COND_INITIALIZER,
    };
    const struct source *source = packer->from.source;
    uint64_t total_bytes = 0;
    for (size_t i = 0; i < source->item_count; i++)
        total_bytes += source->items[i].length;
    TRY(progress_open(packer->writer ? "pack" : "read", "images", source->item_count, total_bytes,
                      &ring.progress));
    TRY(pool_open(ring.threads, &pool));
    TRY(memory_alloc(ring.threads, sizeof *ring.scratch, &ring.scratch));
    ring.slot_count = (size_t)ring.threads * SLOTS_PER_THREAD;
    TRY(memory_alloc(ring.slot_count, sizeof *ring.slots, &ring.slots));
    TRY(windows_plan(&ring));
    return pool_run(pool, ring.window_count, window_pack, &ring);
}
