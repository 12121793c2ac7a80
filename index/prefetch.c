#include "index/prefetch.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"
#include "index/cache_convert.h"
#include "index/summary.h"

static const unsigned usual_threads = 48;
/* A thread reads into the heap and calls nothing that needs more. */
static const size_t stack_bytes = 256 << 10;
/* A thread keeps no more than this from record to record. */
static const size_t kept_bytes = 1 << 20;
/* Of the smallest records that a cache may hold: a tenth of ImageNet's. */
static const uint64_t near_share = 64, least_near = 4;
/* Of the records that it does hold, where reads take long. */
static const uint64_t most_near_share = 2;

/* What a read ahead ended in, for whoever needs the record. */
struct failure {
    uint64_t place;
    struct status status;
};

struct prefetch {
    struct index *index;
    struct cache *cache;
    uint32_t session;
    bool has_session, counts_passes;
    uint32_t first_slot, slots;
    uint64_t steps;
    struct cache_convert *convert; /* NULL: not asked for */

    pthread_mutex_t mutex;   /* guards all below */
    pthread_cond_t turn;     /* threads: nobody claims, or closing */
    pthread_cond_t progress; /* who claims: another place was asked for, a start, closing */
    struct order order;
    uint64_t first;          /* place: of prefetch_start */
    uint64_t next, end;      /* places: to be claimed next; of the epoch */
    uint64_t asked;          /* one more than the last that was asked for */
    uint64_t near;           /* places ahead for which something may be evicted */
    uint64_t starts, passes; /* of prefetch_start */
    bool claiming;
    atomic_bool closing;      /* reads under way end, too */
    struct failure *failures; /* at most one for each place ahead */
    size_t failure_count, failure_capacity;
    struct prefetch_statistics statistics;

    pthread_t *threads;
    unsigned thread_count;
};

/* A record that a thread has claimed. */
struct job {
    uint64_t place, record, starts;
    struct cache_claim claim;
};

static uint64_t place_slot(const struct prefetch *prefetch, uint64_t place)
{
    return prefetch->first_slot + place % prefetch->slots;
}

/* Where a place stands in the epoch of all processes. */
static uint64_t place_position(const struct prefetch *prefetch, uint64_t place)
{
    return place / prefetch->slots * prefetch->order.global_batch + place_slot(prefetch, place);
}

/* ---- reading into the cache ---- */

static struct status record_fetch(struct prefetch *prefetch, uint64_t number, struct buffer *bytes,
                                  uint8_t *ret_encoding)
{
    struct record record;
    TRY(index_record(prefetch->index, number, &record));
    TRY(index_read(prefetch->index, number, bytes));
    *ret_encoding = record.encoding;
    pthread_mutex_lock(&prefetch->mutex);
    prefetch->statistics.fetched++;
    prefetch->statistics.fetched_bytes += record.length;
    pthread_mutex_unlock(&prefetch->mutex);
    return OK;
}

/* Notes why a read ahead failed, before others find that nobody brings the record. Without memory
 * for that they find out by themselves. */
static void failure_note(struct prefetch *prefetch, const struct job *job, struct status status)
{
    pthread_mutex_lock(&prefetch->mutex);
    bool is_awaited = job->starts == prefetch->starts;
    struct status grown = memory_grow(prefetch->failure_count + 1, sizeof *prefetch->failures,
                                      &prefetch->failures, &prefetch->failure_capacity);
    if (is_awaited && grown.code == STATUS_DONE)
        prefetch->failures[prefetch->failure_count++] = (struct failure){job->place, status};
    else
        status_clear(&status);
    status_ignore(grown);
    pthread_mutex_unlock(&prefetch->mutex);
}

/* The failure that was noted for a place; a success if there is none. */
static struct status failure_take(struct prefetch *prefetch, uint64_t place)
{
    struct status status = OK;
    pthread_mutex_lock(&prefetch->mutex);
    for (size_t i = 0; i < prefetch->failure_count; i++)
        if (prefetch->failures[i].place == place) {
            status = prefetch->failures[i].status;
            prefetch->failures[i] = prefetch->failures[--prefetch->failure_count];
            break;
        }
    pthread_mutex_unlock(&prefetch->mutex);
    return status;
}

/* With the mutex held. */
static void failures_clear(struct prefetch *prefetch)
{
    while (prefetch->failure_count > 0)
        status_clear(&prefetch->failures[--prefetch->failure_count].status);
}

/* ---- threads ---- */

/* Waits for a moment or for progress; with the mutex held. */
static void progress_wait(struct prefetch *prefetch, unsigned most_ms)
{
    struct timespec until = clock_after_ms(most_ms);
    pthread_cond_timedwait(&prefetch->progress, &prefetch->mutex, &until);
}

/* Tries to claim the record at a place; no lock is held. */
static enum cache_answer place_claim(struct prefetch *prefetch, const struct order *order,
                                     bool may_evict, struct job *job)
{
    struct record record;
    uint64_t step = job->place / prefetch->slots;
    job->record = order_record(order, step, (uint32_t)place_slot(prefetch, job->place));
    if (job->record == ORDER_NO_RECORD)
        return CACHE_ABSENT;
    struct status status = index_record(prefetch->index, job->record, &record);
    bool is_known = status.code == STATUS_DONE;
    status_ignore(status); /* told by who reads the record */
    if (!is_known || record.length == 0)
        return CACHE_ABSENT;
    return cache_claim(prefetch->cache, prefetch->session, job->record, record.length,
                       place_position(prefetch, job->place), may_evict, &job->claim);
}

/* One step of the thread whose turn it is; with the mutex held. Whether *job was claimed. */
static bool claim_next(struct prefetch *prefetch, struct job *job)
{
    const unsigned full_ms = 5, idle_ms = 1000; /* other processes make room unseen */
    if (prefetch->next < prefetch->asked)
        prefetch->next = prefetch->asked; /* these are read by who asked for them */
    if (prefetch->next >= prefetch->end || prefetch->next >= prefetch->asked + PREFETCH_AHEAD) {
        progress_wait(prefetch, idle_ms);
        return false;
    }
    struct order order = prefetch->order;
    bool may_evict = prefetch->next < prefetch->asked + prefetch->near;
    *job = (struct job){.place = prefetch->next, .starts = prefetch->starts};
    pthread_mutex_unlock(&prefetch->mutex);
    enum cache_answer answer = place_claim(prefetch, &order, may_evict, job);
    pthread_mutex_lock(&prefetch->mutex);
    /* Who asked for the place meanwhile may have found nothing there, and reads it by itself. */
    bool is_late = job->place < prefetch->asked && answer == CACHE_CLAIMED;
    if (job->starts != prefetch->starts || prefetch->closing || is_late) {
        pthread_mutex_unlock(&prefetch->mutex);
        if (answer == CACHE_CLAIMED)
            cache_abandon(prefetch->cache, &job->claim);
        pthread_mutex_lock(&prefetch->mutex);
        return false;
    }
    if (answer == CACHE_FULL) {
        if (prefetch->asked <= job->place)
            progress_wait(prefetch, full_ms);
        return false;
    }
    prefetch->next = job->place + 1;
    return answer == CACHE_CLAIMED;
}

/* The next job, in turn with the other threads; false when there will be none. */
static bool job_take(struct prefetch *prefetch, struct job *job)
{
    pthread_mutex_lock(&prefetch->mutex);
    while (prefetch->claiming && !prefetch->closing)
        pthread_cond_wait(&prefetch->turn, &prefetch->mutex);
    bool taken = false;
    prefetch->claiming = true;
    while (!prefetch->closing && !taken)
        taken = claim_next(prefetch, job);
    prefetch->claiming = false;
    pthread_cond_signal(&prefetch->turn);
    pthread_mutex_unlock(&prefetch->mutex);
    return taken;
}

static void *thread_main(void *context)
{
    struct prefetch *prefetch = context;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    struct job job;
    stop_follow(&prefetch->closing);
    while (job_take(prefetch, &job)) {
        uint8_t encoding;
        struct status status = record_fetch(prefetch, job.record, &bytes, &encoding);
        if (status.code == STATUS_DONE) {
            cache_keep(prefetch->cache, &job.claim, &bytes, encoding);
        } else {
            failure_note(prefetch, &job, status);
            cache_abandon(prefetch->cache, &job.claim);
        }
        if (bytes.capacity > kept_bytes)
            buffer_done(&bytes);
    }
    return NULL;
}

static struct status threads_start(struct prefetch *prefetch, unsigned threads)
{
    pthread_attr_t attributes;
    TRY(memory_alloc(threads, sizeof *prefetch->threads, &prefetch->threads));
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    int error = 0;
    for (unsigned i = 0; i < threads && !error; i++) {
        error = pthread_create(&prefetch->threads[i], &attributes, thread_main, prefetch);
        prefetch->thread_count += !error;
    }
    pthread_attr_destroy(&attributes);
    if (error && prefetch->thread_count == 0)
        return status_errno(error, "cannot start a thread that fetches records");
    return OK; /* fewer fetch, too */
}

/* Records that stay in the cache are read in their better form in all epochs to come, which is
 * worth more than the time of those that wait for it in the first one: then converting, which
 * takes a quarter longer than decoding, gets the share of the processors that lets it keep up. Of
 * a set that does not fit many would go again before they are read. Evaluation may be a single
 * pass. */
static struct status convert_start(struct prefetch *prefetch, unsigned decoders)
{
    const double dct_share = 1.25; /* of a JPEG file's bytes, at most */
    unsigned half = (decoders + 1) / 2;
    bool stays = false;
    if (!prefetch->counts_passes) {
        struct index_summary summary;
        TRY(index_summarise(prefetch->index, &summary));
        stays = cache_holds(prefetch->cache, summary.records,
                            (uint64_t)(dct_share * (double)summary.record_bytes));
    }
    return cache_convert_open(prefetch->cache, stays ? decoders + half : half,
                              stays ? CONVERT_SOON : CONVERT_IDLY, &prefetch->convert);
}

/* ---- the public calls ---- */

struct status prefetch_open(struct index *index, struct cache *cache,
                            const struct prefetch_options *options, struct prefetch **ret_prefetch)
{
    CLEANUP(prefetch_close) struct prefetch *prefetch = NULL;
    struct cache_reading reading = {
        .order = *options->order,
        .length = options->steps * options->order->global_batch,
        .first_slot = options->first_slot,
        .slots = options->slots,
    };
    TRY(index_identity(index, &reading.dataset, &(bool){false}));
    TRY(memory_alloc(1, sizeof *prefetch, &prefetch));
    prefetch->index = index;
    prefetch->cache = cache;
    prefetch->order = *options->order;
    prefetch->steps = options->steps;
    prefetch->first_slot = options->first_slot;
    prefetch->slots = options->slots;
    prefetch->counts_passes = options->counts_passes;
    prefetch->near = cache_statistics(cache).most_records / near_share;
    prefetch->near = prefetch->near > least_near ? prefetch->near : least_near;
    pthread_mutex_init(&prefetch->mutex, NULL);
    pthread_cond_init(&prefetch->turn, NULL);
    clock_cond_init(&prefetch->progress);
    TRY(cache_session_open(cache, &reading, &prefetch->session));
    prefetch->has_session = true;
    if (options->decoders)
        TRY(convert_start(prefetch, options->decoders));
    TRY(threads_start(prefetch, options->threads ? options->threads : usual_threads));
    *ret_prefetch = MOVE(prefetch);
    return OK;
}

void prefetch_close(struct prefetch *prefetch)
{
    if (!prefetch)
        return;
    pthread_mutex_lock(&prefetch->mutex);
    prefetch->closing = true;
    pthread_cond_broadcast(&prefetch->turn);
    pthread_cond_broadcast(&prefetch->progress);
    pthread_mutex_unlock(&prefetch->mutex);
    for (unsigned i = 0; i < prefetch->thread_count; i++)
        pthread_join(prefetch->threads[i], NULL);
    cache_convert_close(prefetch->convert);
    if (prefetch->has_session)
        cache_session_close(prefetch->cache, prefetch->session);
    failures_clear(prefetch);
    pthread_cond_destroy(&prefetch->progress);
    pthread_cond_destroy(&prefetch->turn);
    pthread_mutex_destroy(&prefetch->mutex);
    memory_free(prefetch->failures);
    memory_free(prefetch->threads);
    memory_free(prefetch);
}

void prefetch_start(struct prefetch *prefetch, const struct order *order, uint64_t first)
{
    pthread_mutex_lock(&prefetch->mutex);
    uint64_t epoch = prefetch->counts_passes ? prefetch->passes++ : order->epoch;
    prefetch->starts++;
    prefetch->next = prefetch->end = prefetch->asked = 0; /* nothing is begun … */
    failures_clear(prefetch);
    prefetch->statistics = (struct prefetch_statistics){0};
    pthread_mutex_unlock(&prefetch->mutex);
    cache_session_start(prefetch->cache, prefetch->session, epoch, first * order->global_batch);
    pthread_mutex_lock(&prefetch->mutex);
    prefetch->order = *order; /* … until the cache knows when what is needed */
    prefetch->first = prefetch->next = prefetch->asked = first * prefetch->slots;
    prefetch->end = prefetch->steps * prefetch->slots;
    pthread_cond_signal(&prefetch->progress);
    pthread_mutex_unlock(&prefetch->mutex);
}

/* Tells the threads how far the batches are. */
static void place_ask(struct prefetch *prefetch, uint64_t place)
{
    pthread_mutex_lock(&prefetch->mutex);
    if (place >= prefetch->asked) {
        prefetch->asked = place + 1;
        pthread_cond_signal(&prefetch->progress);
    }
    pthread_mutex_unlock(&prefetch->mutex);
}

/* Reads a record that nobody brings, and keeps it where that is worth it. *ret_again: somebody
 * else does bring it by now. */
static struct status record_bring(struct prefetch *prefetch, uint64_t place, uint64_t number,
                                  struct buffer *bytes, uint8_t *ret_encoding, bool *ret_again)
{
    struct cache_claim claim;
    struct record record;
    TRY(failure_take(prefetch, place));
    TRY(index_record(prefetch->index, number, &record));
    enum cache_answer answer =
        cache_claim(prefetch->cache, prefetch->session, number, record.length,
                    place_position(prefetch, place) + 1, true, &claim);
    *ret_again = answer == CACHE_HELD || answer == CACHE_COMING;
    if (*ret_again)
        return OK;
    struct status status = record_fetch(prefetch, number, bytes, ret_encoding);
    if (answer == CACHE_CLAIMED && status.code == STATUS_DONE)
        cache_keep(prefetch->cache, &claim, bytes, *ret_encoding);
    else if (answer == CACHE_CLAIMED)
        cache_abandon(prefetch->cache, &claim);
    return status;
}

/* A record was waited for. Unless it is one of the first, it was claimed as early as a full cache
 * allows, which is too late for reads that take as long as these, or for one that had to be tried
 * again: those to come begin earlier. */
static void wait_note(struct prefetch *prefetch, uint64_t place, double seconds)
{
    uint64_t most = cache_statistics(prefetch->cache).records / most_near_share;
    pthread_mutex_lock(&prefetch->mutex);
    prefetch->statistics.wait_seconds += seconds;
    uint64_t wider = prefetch->near + prefetch->near / 2;
    wider = wider < most ? wider : most;
    if (place >= prefetch->first + prefetch->near && wider > prefetch->near) {
        prefetch->near = wider;
        pthread_cond_signal(&prefetch->progress);
    }
    pthread_mutex_unlock(&prefetch->mutex);
}

struct status prefetch_read(struct prefetch *prefetch, uint64_t place, uint64_t record,
                            struct buffer *bytes, uint8_t *ret_encoding)
{
    uint64_t seen = 0;
    double begin = clock_seconds(), waited = 0;
    place_ask(prefetch, place);
    for (;;) {
        enum cache_answer answer;
        bool again = true;
        TRY(cache_read(prefetch->cache, prefetch->session, record, place_position(prefetch, place),
                       bytes, ret_encoding, &answer));
        if (answer == CACHE_HELD)
            break;
        if (answer == CACHE_FULL)
            return record_fetch(prefetch, record, bytes, ret_encoding);
        if (answer == CACHE_ABSENT)
            TRY(record_bring(prefetch, place, record, bytes, ret_encoding, &again));
        if (!again)
            return OK;
        if (stop_is_closing())
            return stop_fail();
        cache_wait(prefetch->cache, &seen, CACHE_LOOK_MS);
        waited = clock_seconds() - begin;
    }
    if (waited > 0)
        wait_note(prefetch, place, waited);
    return OK;
}

struct prefetch_statistics prefetch_statistics(struct prefetch *prefetch)
{
    pthread_mutex_lock(&prefetch->mutex);
    struct prefetch_statistics statistics = prefetch->statistics;
    pthread_mutex_unlock(&prefetch->mutex);
    statistics.converted = prefetch->convert ? cache_convert_count(prefetch->convert) : 0;
    return statistics;
}
