#include "index/loader.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"
#include "index/loader_memory.h"
#include "index/prefetch.h"
#include "index/read_ahead.h"
#include "index/sampler.h"

enum { STOP_LOOK_MS = 50 }; /* between two looks at whether a wait is still wanted */

/* A slot of the ring. It is free, or being filled (in `pending`, in step order), or held by the
 * caller. */
struct slot {
    struct batch batch; /* first: batch_release finds its slot by it */
    struct loader *loader;
    uint32_t claimed; /* images that a worker has begun */
    uint32_t done;
    struct status failure; /* of the lowest image that failed */
    uint32_t failed_image;
};

struct worker {
    struct loader *loader;
    struct sampler *sampler;
    pthread_t thread;
    uint64_t scratch_bytes; /* the most that an image took */
};

struct loader {
    struct index *index;
    struct loader_options options;
    struct order order;
    const int32_t *labels; /* of the index */
    size_t image_bytes;
    struct loader_memory memory;
    struct budget large;           /* scratch that images need beyond what threads keep */
    struct read_ahead *read_ahead; /* NULL: only class folders, where it does nothing … */
    struct prefetch *prefetch;     /* … or this instead, for a cache and for URLs */
    struct cache *own_cache;       /* NULL: none, or it is the caller's */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t work;   /* workers: a slot became free, an epoch began, closing */
    pthread_cond_t ready;  /* the caller: a batch is done */
    struct slot **free;
    struct slot **pending; /* a ring of slot_cap places */
    struct slot **all;
    size_t free_count, pending_first, pending_count, slot_count, slot_cap;
    uint64_t next_step, end_step;
    uint32_t busy; /* images being made */
    bool restarting;
    atomic_bool closing;  /* reads under way end, too */
    uint8_t *bad_records; /* one bit a record, so that each is named once */
    struct loader_statistics statistics;
    double started_s; /* the epoch */

    struct worker *workers;
    unsigned worker_count;   /* threads running */
    struct sampler *sampler; /* the caller's own, for loader_sample */
};

const char *const loader_on_error_names[] = {"fail", "skip", NULL};

void loader_options_init(struct loader_options *options)
{
    *options = (struct loader_options){
        .mode = LOADER_TRAIN,
        .global_batch = 256,
        .world_size = 1,
        .image_size = 224,
        .val_resize = 256,
        .val_crop = 224,
        .crop = crop_options_default,
        .format = tensor_format_imagenet,
    };
}

/* ---- slots ---- */

static void slot_free(struct slot *slot)
{
    if (!slot)
        return;
    memory_free(slot->batch.images);
    memory_free(slot->batch.labels);
    memory_free(slot->batch.samples);
    status_clear(&slot->failure);
    memory_free(slot);
}
CLEANUP_POINTER(slot_free, struct slot)

/* Images of a rank's batch. */
static uint32_t batch_count(const struct loader_options *options)
{
    return options->global_batch / options->world_size;
}

/* Makes one more slot and puts it on the free list. */
static struct status slot_add(struct loader *loader)
{
    CLEANUP(slot_free) struct slot *slot = NULL;
    uint32_t count = batch_count(&loader->options);
    TRY(memory_alloc(1, sizeof *slot, &slot));
    slot->loader = loader;
    slot->batch.count = count;
    TRY(memory_alloc_tensor(count * loader->image_bytes, &slot->batch.images));
    TRY(memory_alloc(count, sizeof *slot->batch.labels, &slot->batch.labels));
    TRY(memory_alloc(count, sizeof *slot->batch.samples, &slot->batch.samples));
    loader->all[loader->slot_count++] = slot;
    loader->free[loader->free_count++] = MOVE(slot);
    return OK;
}

static struct slot *pending_last(struct loader *loader)
{
    if (loader->pending_count == 0)
        return NULL;
    size_t last = loader->pending_first + loader->pending_count - 1;
    return loader->pending[last % loader->slot_cap];
}

/* Begins the next step in a free slot, if there are both. */
static struct slot *slot_begin(struct loader *loader)
{
    if (loader->next_step == loader->end_step || loader->free_count == 0)
        return NULL;
    struct slot *slot = loader->free[--loader->free_count];
    slot->claimed = slot->done = 0;
    status_clear(&slot->failure);
    slot->batch.epoch = loader->order.epoch;
    slot->batch.step = loader->next_step++;
    if (loader->read_ahead)
        read_ahead_advance(loader->read_ahead, slot->batch.step);
    size_t place = (loader->pending_first + loader->pending_count++) % loader->slot_cap;
    loader->pending[place] = slot;
    return slot;
}

/* The slot whose images are to be begun next, or NULL when there is nothing to do. */
static struct slot *slot_to_fill(struct loader *loader)
{
    struct slot *slot = pending_last(loader);
    return slot && slot->claimed < slot->batch.count ? slot : slot_begin(loader);
}

/* ---- workers ---- */

static bool record_is_news(struct loader *loader, uint64_t record)
{
    uint8_t bit = (uint8_t)(1u << (record & 7));
    bool news = !(loader->bad_records[record >> 3] & bit);
    loader->bad_records[record >> 3] |= bit;
    return news;
}

/* With the mutex held: what a failed image means for its batch. */
static void image_failed(struct loader *loader, struct slot *slot, uint32_t image,
                         struct status failure)
{
    uint64_t record = slot->batch.samples[image].record;
    if (loader->options.on_error == LOADER_SKIP && failure.code != STATUS_STOPPED) {
        loader->statistics.bad_records++;
        if (record_is_news(loader, record))
            log_warning("%s; its place stays empty", status_message(&failure));
        status_clear(&failure);
    } else if (slot->failure.code == STATUS_DONE || image < slot->failed_image) {
        status_clear(&slot->failure);
        slot->failure = failure;
        slot->failed_image = image;
    } else {
        status_clear(&failure);
    }
}

/* Makes one image of a slot; no lock is held. */
static struct status image_fill(struct worker *worker, struct slot *slot, uint32_t image,
                                struct sampler_work *work)
{
    struct loader *loader = worker->loader;
    struct batch *batch = &slot->batch;
    uint8_t *out = (uint8_t *)batch->images + image * loader->image_bytes;
    uint32_t global_slot = loader->options.rank * batch->count + image;
    uint64_t record = order_record(&loader->order, batch->step, global_slot);
    batch->samples[image] = (struct batch_sample){.record = record};
    batch->labels[image] = -1;
    if (record == ORDER_NO_RECORD) {
        memset(out, 0, loader->image_bytes);
        return OK;
    }
    work->place = batch->step * batch->count + image;
    struct status status =
        sampler_run(worker->sampler, batch->epoch, record, out, &batch->samples[image], work);
    if (status.code != STATUS_DONE) {
        batch->samples[image].record = record;
        memset(out, 0, loader->image_bytes);
        return status;
    }
    int32_t label = loader->labels[record];
    batch->labels[image] = loader->options.label_map ? loader->options.label_map[label] : label;
    return OK;
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    struct loader *loader = worker->loader;
    const int background_nice = 10;
    if (loader->options.background) /* on Linux of this thread alone; refusal changes nothing */
        setpriority(PRIO_PROCESS, 0, background_nice);
    stop_follow(&loader->closing);
    pthread_mutex_lock(&loader->mutex);
    for (;;) {
        struct slot *slot = NULL;
        while (!loader->closing && !(slot = slot_to_fill(loader)))
            pthread_cond_wait(&loader->work, &loader->mutex);
        if (loader->closing)
            break;
        uint32_t image = slot->claimed++;
        loader->busy++;
        pthread_mutex_unlock(&loader->mutex);

        struct sampler_work work = {0};
        struct status status = image_fill(worker, slot, image, &work);

        pthread_mutex_lock(&loader->mutex);
        loader->busy--;
        loader->statistics.images += slot->batch.samples[image].record != ORDER_NO_RECORD;
        loader->statistics.bytes += work.bytes;
        if (worker->scratch_bytes < work.scratch_bytes)
            worker->scratch_bytes = work.scratch_bytes;
        loader->statistics.read_seconds += work.read_seconds;
        loader->statistics.decode_seconds += work.decode_seconds;
        if (status.code != STATUS_DONE)
            image_failed(loader, slot, image, status);
        if (++slot->done == slot->batch.count || (loader->restarting && loader->busy == 0))
            pthread_cond_broadcast(&loader->ready);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static struct status workers_start(struct loader *loader, unsigned threads)
{
    TRY(memory_alloc(threads, sizeof *loader->workers, &loader->workers));
    for (unsigned i = 0; i < threads; i++) {
        struct worker *worker = &loader->workers[i];
        worker->loader = loader;
        TRY(sampler_open(loader->index, &loader->options, &worker->sampler));
        sampler_bound(worker->sampler, &loader->large, loader->memory.thread_bytes);
        sampler_read_through(worker->sampler, loader->prefetch);
        int error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (error) {
            sampler_close(worker->sampler);
            return status_errno(error, "cannot start loader thread %u of %u", i + 1, threads);
        }
        loader->worker_count++;
    }
    return OK;
}

/* ---- the public calls ---- */

static struct status options_check(const struct loader_options *options)
{
    if (options->global_batch == 0 || options->world_size == 0)
        FAIL(STATUS_USAGE, "a batch needs at least one image");
    if (options->global_batch % options->world_size != 0)
        FAIL(STATUS_USAGE, "the global batch of %u cannot be divided evenly over %u ranks",
             options->global_batch, options->world_size);
    if (options->rank >= options->world_size)
        FAIL(STATUS_USAGE, "rank %u is not below the world size of %u", options->rank,
             options->world_size);
    if (options->image_size == 0 || options->val_crop == 0)
        FAIL(STATUS_USAGE, "the image size must be at least 1");
    if (options->mode == LOADER_EVAL && options->val_crop > options->val_resize)
        FAIL(STATUS_USAGE, "the evaluation crop of %u pixels is larger than the resized side of %u",
             options->val_crop, options->val_resize);
    return OK;
}

/* With a label map: every record's class must have a label. */
static struct status label_map_check(const struct loader *loader)
{
    const int32_t *map = loader->options.label_map;
    for (uint64_t i = 0; map && i < loader->order.records; i++)
        if (map[loader->labels[i]] < 0)
            FAIL(STATUS_CORRUPT, "%s: class %s has no counterpart in the model's class table",
                 index_path(loader->index),
                 class_table_at(index_classes(loader->index), (size_t)loader->labels[i])->wnid);
    return OK;
}

static bool has_files(const struct index *index)
{
    bool found = false;
    for (size_t i = 0; !found && i < index_shard_count(index); i++)
        found = !shard_is_folder(index_shard(index, i));
    return found;
}

static struct status prefetch_prepare(struct loader *loader, unsigned threads)
{
    const struct loader_options *options = &loader->options;
    uint32_t count = batch_count(options);
    struct cache *cache = options->cache ? options->cache : loader->own_cache;
    const struct prefetch_options prefetch = {
        .order = &loader->order,
        .steps = loader_steps(loader),
        .first_slot = options->rank * count,
        .slots = count,
        .counts_passes = options->mode == LOADER_EVAL,
        .decoders = options->cache ? threads : 0,
    };
    return prefetch_open(loader->index, cache, &prefetch, &loader->prefetch);
}

static struct status ahead_prepare(struct loader *loader, unsigned threads)
{
    const struct loader_options *options = &loader->options;
    const uint64_t usual_bytes = 256 << 20, least_bytes = 1 << 20;
    uint32_t count = batch_count(options);
    if (!options->cache && index_has_urls(loader->index)) {
        uint64_t bytes = usual_bytes; /* a quarter of a ceiling */
        if (options->memory_bytes && options->memory_bytes / 4 < bytes)
            bytes =
                options->memory_bytes / 4 > least_bytes ? options->memory_bytes / 4 : least_bytes;
        if (options->memory_bytes)
            loader->options.memory_bytes -= bytes < options->memory_bytes ? bytes : 0;
        TRY(cache_open(NULL, bytes, &loader->own_cache));
    }
    if (options->cache || loader->own_cache)
        return prefetch_prepare(loader, threads);
    if (has_files(loader->index))
        return read_ahead_open(loader->index, options->rank * count, count, &loader->read_ahead);
    return OK;
}

static struct status loader_prepare(struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    uint64_t records = index_count(loader->index);
    if (records == 0)
        FAIL(STATUS_NOT_FOUND, "%s: the index holds no record", index_path(loader->index));
    TRY(index_labels(loader->index, &loader->labels));
    bool train = options->mode == LOADER_TRAIN;
    loader->order = order_make(train ? options->order : ORDER_SEQUENTIAL, options->window, records,
                               options->global_batch, train, options->seed);
    TRY(label_map_check(loader));
    TRY(memory_alloc((records + 7) / 8, 1, &loader->bad_records));
    uint32_t size = sampler_output_size(options);
    loader->image_bytes = tensor_image_bytes(&options->format, size, size);
    return sampler_open(loader->index, options, &loader->sampler);
}

static struct status batch_bytes(const struct loader_options *options, uint64_t *ret_bytes)
{
    const uint64_t count = batch_count(options);
    const uint32_t size = sampler_output_size(options);
    const size_t place_bytes = sizeof(int32_t) + sizeof(struct batch_sample);
    if (!size_multiply(count, tensor_image_bytes(&options->format, size, size) + place_bytes,
                       ret_bytes))
        FAIL(STATUS_NO_MEMORY, "a batch of %u images is too large", (unsigned)count);
    return OK;
}

struct status loader_forecast(const struct loader_options *options, uint64_t *ret_bytes)
{
    const unsigned threads = options->threads ? options->threads : cores_available();
    uint64_t slot_bytes;
    TRY(batch_bytes(options, &slot_bytes));
    const struct loader_memory usual = loader_memory_usual(options, slot_bytes, threads);
    *ret_bytes = options->memory_bytes ? options->memory_bytes
                                       : usual.slots * usual.slot_bytes +
                                             threads * usual.thread_bytes + usual.large_bytes;
    return OK;
}

/* Shares out the memory and makes the batches. */
static struct status loader_make_slots(struct loader *loader, unsigned threads)
{
    const struct loader_options *options = &loader->options;
    uint64_t bytes;
    TRY(batch_bytes(options, &bytes));
    TRY(loader_memory_plan(loader->index, options, bytes, threads, &loader->memory));
    loader->large.capacity_bytes = loader->memory.large_bytes;
    loader->slot_cap = loader->memory.most_slots;
    TRY(memory_alloc(loader->slot_cap, sizeof *loader->free, &loader->free));
    TRY(memory_alloc(loader->slot_cap, sizeof *loader->pending, &loader->pending));
    TRY(memory_alloc(loader->slot_cap, sizeof *loader->all, &loader->all));
    for (unsigned i = 0; i < loader->memory.slots; i++)
        TRY(slot_add(loader));
    return OK;
}

struct status loader_open(struct index *index, const struct loader_options *options,
                          struct loader **ret_loader)
{
    TRY(options_check(options));
    CLEANUP(loader_close) struct loader *loader = NULL;
    TRY(memory_alloc(1, sizeof *loader, &loader));
    loader->index = index;
    loader->options = *options;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->work, NULL);
    clock_cond_init(&loader->ready);
    budget_init(&loader->large, 0);
    unsigned threads = options->threads ? options->threads : cores_available();
    TRY(loader_prepare(loader));
    TRY(ahead_prepare(loader, threads));
    TRY(loader_make_slots(loader, threads));
    TRY(workers_start(loader, threads));
    *ret_loader = MOVE(loader);
    return OK;
}

void loader_stop(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader->closing = true;
    pthread_cond_broadcast(&loader->work);
    pthread_cond_broadcast(&loader->ready);
    pthread_mutex_unlock(&loader->mutex);
    for (unsigned i = 0; i < loader->worker_count; i++) {
        pthread_join(loader->workers[i].thread, NULL);
        sampler_close(loader->workers[i].sampler);
    }
    loader->worker_count = 0;
    read_ahead_close(loader->read_ahead);
    loader->read_ahead = NULL;
    prefetch_close(loader->prefetch);
    loader->prefetch = NULL;
    cache_close(loader->own_cache);
    loader->own_cache = NULL;
}

void loader_close(struct loader *loader)
{
    if (!loader)
        return;
    loader_stop(loader);
    for (size_t i = 0; i < loader->slot_count; i++)
        slot_free(loader->all[i]);
    sampler_close(loader->sampler);
    budget_done(&loader->large);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->mutex);
    memory_free(loader->workers);
    memory_free(loader->free);
    memory_free(loader->pending);
    memory_free(loader->all);
    memory_free(loader->bad_records);
    memory_free(loader);
}

uint64_t loader_steps(const struct loader *loader)
{
    return order_steps(&loader->order, loader->options.drop_last);
}

/* With the mutex held: begins nothing new, and waits until what was begun has ended. False where
 * the calling thread is to give that up. */
static bool epoch_end(struct loader *loader)
{
    loader->next_step = loader->end_step;
    for (size_t i = 0; i < loader->pending_count; i++) {
        size_t place = (loader->pending_first + i) % loader->slot_cap;
        loader->pending[place]->claimed = loader->pending[place]->batch.count;
    }
    loader->restarting = true;
    while (loader->busy > 0 && !stop_is_closing()) {
        struct timespec deadline = clock_after_ms(STOP_LOOK_MS);
        pthread_cond_timedwait(&loader->ready, &loader->mutex, &deadline);
    }
    loader->restarting = false;
    return loader->busy == 0;
}

struct status loader_start(struct loader *loader, uint64_t epoch, uint64_t first_step)
{
    uint64_t steps = loader_steps(loader);
    if (first_step > steps)
        FAIL(STATUS_USAGE, "step %llu is past the epoch's %llu steps",
             (unsigned long long)first_step, (unsigned long long)steps);
    if (epoch > UINT32_MAX)
        FAIL(STATUS_USAGE, "epoch %llu is too large", (unsigned long long)epoch);
    pthread_mutex_lock(&loader->mutex);
    if (!epoch_end(loader)) {
        pthread_mutex_unlock(&loader->mutex);
        return stop_fail();
    }
    for (; loader->pending_count > 0; loader->pending_count--) {
        loader->free[loader->free_count++] = loader->pending[loader->pending_first];
        loader->pending_first = (loader->pending_first + 1) % loader->slot_cap;
    }
    order_set_epoch(&loader->order, epoch);
    loader->statistics = (struct loader_statistics){.threads = loader->worker_count};
    loader->started_s = clock_seconds();
    if (loader->read_ahead)
        read_ahead_start(loader->read_ahead, &loader->order, first_step, steps);
    if (loader->prefetch)
        prefetch_start(loader->prefetch, &loader->order, first_step);
    loader->next_step = first_step;
    loader->end_step = steps;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->mutex);
    return OK;
}

/* Whether the oldest pending batch is whole. */
static bool pending_is_done(const struct loader *loader)
{
    if (loader->pending_count == 0)
        return false;
    const struct slot *slot = loader->pending[loader->pending_first];
    return slot->done == slot->batch.count;
}

static struct status fail_stopped(void)
{
    FAIL(STATUS_STOPPED, "the loader was closed while a batch was wanted");
}

/* With the mutex held: sees to it that a batch is on its way; *ret_more is false at the epoch's
 * end. */
static struct status batch_expect(struct loader *loader, bool *ret_more)
{
    if (loader->closing)
        return fail_stopped();
    *ret_more = loader->pending_count > 0 || loader->next_step < loader->end_step;
    if (!*ret_more || loader->pending_count > 0 || loader->free_count > 0)
        return OK;
    if (loader->slot_count == loader->slot_cap)
        FAIL(STATUS_NO_MEMORY,
             "all %zu batches that the loader may make are held; release some before taking the "
             "next, or allow it more memory",
             loader->slot_cap);
    TRY(slot_add(loader));
    pthread_cond_broadcast(&loader->work);
    return OK;
}

/* With the mutex held: waits for the oldest pending batch, until `deadline` unless that is NULL, or
 * until the loader is stopped. Returns whether it is done. */
static bool batch_wait(struct loader *loader, const struct timespec *deadline)
{
    double start = clock_seconds();
    int error = 0;
    while (!pending_is_done(loader) && !loader->closing && error != ETIMEDOUT)
        if (deadline)
            error = pthread_cond_timedwait(&loader->ready, &loader->mutex, deadline);
        else
            pthread_cond_wait(&loader->ready, &loader->mutex);
    double now = clock_seconds();
    loader->statistics.wait_seconds += now - start;
    loader->statistics.seconds = now - loader->started_s;
    return pending_is_done(loader);
}

/* With the mutex held: the oldest pending slot, done; NULL at the epoch's end. */
static struct status slot_wait(struct loader *loader, struct slot **ret_slot)
{
    bool more;
    *ret_slot = NULL;
    TRY(batch_expect(loader, &more));
    if (!more)
        return OK;
    if (!batch_wait(loader, NULL))
        return fail_stopped();
    *ret_slot = loader->pending[loader->pending_first];
    loader->pending_first = (loader->pending_first + 1) % loader->slot_cap;
    loader->pending_count--;
    return OK;
}

struct status loader_wait(struct loader *loader, unsigned wait_ms, bool *ret_ready)
{
    struct timespec deadline = clock_after_ms(wait_ms);
    bool more;
    pthread_mutex_lock(&loader->mutex);
    struct status status = batch_expect(loader, &more);
    if (status.code == STATUS_DONE)
        *ret_ready = !more || batch_wait(loader, &deadline);
    pthread_mutex_unlock(&loader->mutex);
    return status;
}

static void slot_give_back(struct slot *slot)
{
    slot->loader->free[slot->loader->free_count++] = slot;
    pthread_cond_broadcast(&slot->loader->work);
}

struct status loader_next(struct loader *loader, struct batch **ret_batch)
{
    struct slot *slot;
    pthread_mutex_lock(&loader->mutex);
    struct status status = slot_wait(loader, &slot);
    if (slot && slot->failure.code != STATUS_DONE) {
        status = slot->failure;
        slot->failure = OK;
        slot_give_back(slot);
    }
    pthread_mutex_unlock(&loader->mutex);
    TRY(status);
    *ret_batch = slot ? &slot->batch : NULL;
    if (slot) {
        slot->batch.valid = 0;
        for (uint32_t i = 0; i < slot->batch.count; i++)
            slot->batch.valid += slot->batch.labels[i] >= 0;
    }
    return OK;
}

void batch_release(struct batch *batch)
{
    struct slot *slot = (struct slot *)batch;
    pthread_mutex_lock(&slot->loader->mutex);
    slot_give_back(slot);
    pthread_mutex_unlock(&slot->loader->mutex);
}

void loader_statistics(const struct loader *loader, struct loader_statistics *ret_statistics)
{
    struct loader *locked = (struct loader *)loader;
    pthread_mutex_lock(&locked->mutex);
    *ret_statistics = loader->statistics;
    ret_statistics->memory_bytes =
        loader->slot_count * loader->memory.slot_bytes + budget_peak(&locked->large);
    for (unsigned i = 0; i < loader->worker_count; i++)
        ret_statistics->memory_bytes += loader->workers[i].scratch_bytes;
    pthread_mutex_unlock(&locked->mutex);
    if (!loader->prefetch)
        return;
    struct prefetch_statistics fetched = prefetch_statistics(loader->prefetch);
    ret_statistics->has_cache = true;
    ret_statistics->fetched = fetched.fetched;
    ret_statistics->fetched_bytes = fetched.fetched_bytes;
    ret_statistics->converted = fetched.converted;
    ret_statistics->fetch_wait_seconds = fetched.wait_seconds;
    if (loader->own_cache)
        ret_statistics->memory_bytes += cache_statistics(loader->own_cache).bytes;
}

struct status loader_sample(struct loader *loader, uint64_t epoch, uint64_t step, uint32_t slot,
                            struct batch_sample *ret_sample)
{
    struct order order = loader->order;
    order_set_epoch(&order, epoch);
    ret_sample->record = order_record(&order, step, slot);
    if (ret_sample->record == ORDER_NO_RECORD)
        FAIL(STATUS_NOT_FOUND, "slot %u of step %llu is empty", slot, (unsigned long long)step);
    return sampler_crop(loader->sampler, epoch, ret_sample->record, &ret_sample->crop);
}
