#include "index/cache_fetch.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/stop.h"
#include "index/cache_convert.h"

static const unsigned usual_threads = 48;

struct fetch {
    struct index *index;
    struct cache *cache;
    struct progress *progress;
    uint32_t session;
    uint64_t first;         /* record */
    struct buffer *buffers; /* of each thread */
    pthread_mutex_t mutex;  /* guards the report */
    struct cache_fetch_report report;
};

static struct status record_bring(struct fetch *fetch, uint64_t number, const struct record *record,
                                  const struct cache_claim *claim, struct buffer *bytes)
{
    struct status status = index_read(fetch->index, number, bytes);
    if (status.code != STATUS_DONE) {
        cache_abandon(fetch->cache, claim);
        return index_blame(fetch->index, number, status);
    }
    return cache_fill(fetch->cache, claim, bytes->data, record->encoding,
                      record->encoding != ENCODING_JPEG);
}

static struct status record_fetch(uint64_t item, unsigned thread, void *context)
{
    struct fetch *fetch = context;
    struct record record;
    struct cache_claim claim;
    uint64_t number = fetch->first + item;
    TRY(stop_check());
    TRY(index_record(fetch->index, number, &record));
    enum cache_answer answer =
        cache_claim(fetch->cache, fetch->session, number, record.length, number, true, &claim);
    if (answer == CACHE_CLAIMED)
        TRY(record_bring(fetch, number, &record, &claim, &fetch->buffers[thread]));
    pthread_mutex_lock(&fetch->mutex);
    fetch->report.fetched += answer == CACHE_CLAIMED;
    fetch->report.fetched_bytes += answer == CACHE_CLAIMED ? record.length : 0;
    fetch->report.held += answer == CACHE_HELD || answer == CACHE_COMING;
    fetch->report.no_room += answer == CACHE_FULL;
    pthread_mutex_unlock(&fetch->mutex);
    progress_add(fetch->progress, 1, record.length);
    return OK;
}

/* With the session open. */
static struct status fetch_run(struct fetch *fetch, const struct cache_fetch_options *options)
{
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(cache_convert_close) struct cache_convert *convert = NULL;
    CLEANUP(memory_free) struct buffer *buffers = NULL;
    unsigned threads = options->threads ? options->threads : usual_threads;
    TRY(pool_open(threads, &pool));
    TRY(memory_alloc(threads, sizeof *buffers, &buffers));
    if (options->converters)
        TRY(cache_convert_open(fetch->cache, options->converters, CONVERT_SOON, &convert));
    fetch->buffers = buffers;
    cache_session_start(fetch->cache, fetch->session, 0, fetch->first);
    struct status status = pool_run(pool, fetch->report.records, record_fetch, fetch);
    for (unsigned i = 0; i < threads; i++)
        buffer_done(&buffers[i]);
    TRY(status);
    if (convert) {
        TRY(cache_convert_finish(convert));
        fetch->report.converted = cache_convert_count(convert);
    }
    return OK;
}

struct status cache_fetch(struct index *index, struct cache *cache,
                          const struct cache_fetch_options *options, struct progress *progress,
                          struct cache_fetch_report *ret_report)
{
    uint64_t count = index_count(index);
    struct cache_reading reading = {.length = count, .slots = 1};
    struct fetch fetch = {.index = index, .cache = cache, .progress = progress};
    bool lasts;
    if (count == 0)
        FAIL(STATUS_NOT_FOUND, "%s: the index holds no record", index_path(index));
    TRY(index_identity(index, &reading.dataset, &lasts));
    if (!lasts)
        FAIL(STATUS_UNSUPPORTED,
             "'%s': what is fetched now could not be told from another version later; have the "
             "server send ETags, or index the archives with --crc",
             index_path(index));
    reading.order = order_make(ORDER_SEQUENTIAL, 0, count, 1, false, 0);
    uint64_t share = count / options->parts, rest = count % options->parts;
    uint64_t part = options->part;
    fetch.first = part * share + (part < rest ? part : rest);
    fetch.report.records = share + (part < rest);
    TRY(cache_session_open(cache, &reading, &fetch.session));
    pthread_mutex_init(&fetch.mutex, NULL);
    struct status status = fetch_run(&fetch, options);
    pthread_mutex_destroy(&fetch.mutex);
    cache_session_close(cache, fetch.session);
    *ret_report = fetch.report;
    TRY(status);
    return cache_check(cache);
}
