/* When records are needed next: the keys that the cache evicts by.
 *
 * The cache's clock counts positions of epochs. A stream (an order of a data set) that is in epoch
 * e began it at `origin` of that clock; position p of it is at origin + p, and position p of epoch
 * e + n is expected at origin + n * period + p, where the period is the time between the last two
 * epochs' beginnings, at first the length of one. So the order within a stream is exact, and that
 * between streams (training and validation in turn) is as the last time.
 *
 * A stream in any order has no such times: its records come after all that have one, and before
 * those that nobody needs, the first ones of the index before the others. So a full cache of them
 * stays as it is, which is the best that is to be had of records that come once in each pass. */

#include "base/crc32c.h"
#include "index/cache_internal.h"

/* A node that is one of many may not need a record for several epochs. */
enum { EPOCHS_AHEAD = 64 };

static uint32_t stream_check(const struct cache_stream *stream)
{
    struct {
        uint64_t dataset, window, records, seed, length;
        uint32_t global_batch, kind, wraps, reserved;
    } told = {stream->dataset, stream->window, stream->records,
              stream->seed,    stream->length, stream->global_batch,
              stream->kind,    stream->wraps,  0};
    return crc32c_update(0, &told, sizeof told);
}

/* A stream that is used; NULL where there is none, or not the one that was begun. */
static struct cache_stream *stream_at(struct cache *cache, uint32_t number)
{
    struct cache_table *table = &cache->table;
    struct cache_stream *stream = number < CACHE_STREAMS ? &table->header->streams[number] : NULL;
    if (stream && !stream->is_used)
        return NULL;
    if (!stream || stream->check != stream_check(stream))
        table->is_damaged = true;
    return table->is_damaged ? NULL : stream;
}

static uint32_t sessions_end(struct cache *cache)
{
    uint32_t end = cache->table.header->sessions_end;
    if (end <= CACHE_SESSIONS)
        return end;
    cache->table.is_damaged = true;
    return 0;
}

static bool order_matches(const struct order *order, const struct cache_stream *stream)
{
    return order->kind == stream->kind && order->chunk * order->window_chunks == stream->window &&
           order->records == stream->records && order->global_batch == stream->global_batch &&
           order->wraps == stream->wraps && order->seed == stream->seed;
}

/* A stream's order in an epoch, valid until that of another epoch is asked for. */
static const struct order *stream_order(struct cache *cache, uint32_t number,
                                        const struct cache_stream *stream, uint64_t epoch)
{
    struct order *order = &cache->orders[number][epoch & 1];
    bool is_known = order->records && order_matches(order, stream);
    if (!is_known)
        *order = order_make((enum order_kind)stream->kind, stream->window, stream->records,
                            stream->global_batch, stream->wraps, stream->seed);
    if (order->epoch != epoch)
        order_set_epoch(order, epoch);
    return order;
}

static bool slot_is_read(struct cache *cache, uint32_t stream, uint32_t slot)
{
    const struct cache_header *header = cache->table.header;
    uint32_t end = sessions_end(cache);
    for (uint32_t i = 0; i < end; i++) {
        const struct cache_session *session = &header->sessions[i];
        if (session->owner && session->stream == stream &&
            slot - session->first_slot < session->slots)
            return true;
    }
    return false;
}

/* The first position of an epoch, from `from` on, at which this node reads a record. */
static bool epoch_use(struct cache *cache, uint32_t number, const struct cache_stream *stream,
                      uint64_t record, uint64_t epoch, uint64_t from, uint64_t *ret_position)
{
    uint64_t at = order_position(stream_order(cache, number, stream, epoch), record);
    /* An order that wraps shows its first records once more at the epoch's end. */
    for (; at < stream->length; at += stream->wraps ? stream->records : stream->length)
        if (at >= from && slot_is_read(cache, number, (uint32_t)(at % stream->global_batch))) {
            *ret_position = at;
            return true;
        }
    return false;
}

static uint64_t stream_key(struct cache *cache, uint32_t number, uint64_t record, uint64_t epoch,
                           uint64_t from)
{
    const struct cache_stream *stream = stream_at(cache, number);
    if (!stream || stream->kind == CACHE_ANY_ORDER || record >= stream->records)
        return CACHE_SOMETIME | record;
    uint64_t begin = stream->origin + (epoch - stream->epoch) * stream->period, at;
    for (uint64_t ahead = 0; ahead < EPOCHS_AHEAD; ahead++, begin += stream->period, from = 0)
        if (epoch_use(cache, number, stream, record, epoch + ahead, from, &at))
            return (begin + at) & ~CACHE_UNNEEDED;
    return begin & ~CACHE_UNNEEDED;
}

/* The soonest need of all streams of the data set, but for `except`. */
static uint64_t other_key(struct cache *cache, uint64_t dataset, uint64_t record, uint32_t except)
{
    uint64_t soonest = UINT64_MAX;
    for (uint32_t i = 0; i < CACHE_STREAMS; i++) {
        const struct cache_stream *stream = stream_at(cache, i);
        if (i == except || !stream || !stream->has_begun || stream->dataset != dataset ||
            record >= stream->records)
            continue;
        uint64_t key = stream_key(cache, i, record, stream->epoch, stream->position);
        soonest = key < soonest ? key : soonest;
    }
    return soonest;
}

uint64_t cache_key(struct cache *cache, uint32_t session, uint64_t record, uint64_t position)
{
    const struct own_session *own = &cache->own[session];
    uint64_t key = stream_key(cache, own->stream, record, own->epoch, position);
    uint64_t others = other_key(cache, own->dataset, record, own->stream);
    return key < others ? key : others;
}

/* Computes the keys of a data set's entries anew. */
static void dataset_rekey(struct cache *cache, uint64_t dataset)
{
    struct cache_table *table = &cache->table;
    uint32_t end = table_entries_used(table);
    for (uint32_t at = 0; at < end; at++) {
        struct cache_entry *entry = &table->entries[at];
        if (entry->state == ENTRY_FREE || entry->dataset != dataset)
            continue;
        uint64_t key = other_key(cache, dataset, entry->record, CACHE_NONE);
        entry->key = key == UINT64_MAX ? entry->key | CACHE_UNNEEDED : key;
    }
    table_sort_heap(table);
}

void cache_advance(struct cache *cache, uint32_t session, uint64_t position)
{
    struct cache_header *header = cache->table.header;
    const struct own_session *own = &cache->own[session];
    struct cache_stream *stream = stream_at(cache, own->stream);
    if (!stream || stream->kind == CACHE_ANY_ORDER || own->epoch != stream->epoch ||
        position < stream->position)
        return;
    stream->position = position;
    uint64_t now = stream->origin + position;
    if (now > header->clock)
        header->clock = now;
}

/* ---- sessions ---- */

static bool stream_matches(const struct cache_stream *stream, const struct cache_reading *reading)
{
    if (!stream->is_used || stream->dataset != reading->dataset ||
        stream->length != reading->length)
        return false;
    return reading->in_any_order ? stream->kind == CACHE_ANY_ORDER
                                 : order_matches(&reading->order, stream);
}

/* The stream of a reading, or a free place for it; CACHE_NONE if there is neither. */
static uint32_t stream_find(const struct cache_header *header, const struct cache_reading *reading)
{
    uint32_t place = CACHE_NONE;
    for (uint32_t i = CACHE_STREAMS; i-- > 0;) {
        if (stream_matches(&header->streams[i], reading))
            return i;
        if (!header->streams[i].is_used)
            place = i;
    }
    return place;
}

static void stream_begin(struct cache *cache, uint32_t number, const struct cache_reading *reading)
{
    const struct order *order = &reading->order;
    struct cache_stream *stream = &cache->table.header->streams[number];
    if (stream_matches(stream, reading))
        return;
    if (reading->in_any_order) {
        *stream = (struct cache_stream){
            .dataset = reading->dataset,
            .records = reading->length,
            .length = reading->length,
            .kind = CACHE_ANY_ORDER,
            .is_used = true,
            .has_begun = true,
        };
        stream->check = stream_check(stream);
        dataset_rekey(cache, stream->dataset);
        return;
    }
    *stream = (struct cache_stream){
        .dataset = reading->dataset,
        .window = order->chunk * order->window_chunks,
        .records = order->records,
        .seed = order->seed,
        .length = reading->length,
        .global_batch = order->global_batch,
        .kind = (uint8_t)order->kind,
        .wraps = order->wraps,
        .is_used = true,
    };
    stream->check = stream_check(stream);
}

struct status cache_session_open(struct cache *cache, const struct cache_reading *reading,
                                 uint32_t *ret_session)
{
    struct cache_header *header = cache->table.header;
    *ret_session = 0;
    if (!cache_lock(cache))
        return OK;
    uint32_t session = 0, stream = stream_find(header, reading);
    while (session < CACHE_SESSIONS && header->sessions[session].owner)
        session++;
    bool has_place = session < CACHE_SESSIONS && stream != CACHE_NONE;
    if (has_place) {
        stream_begin(cache, stream, reading);
        header->sessions[session] = (struct cache_session){
            .owner = cache->number,
            .stream = stream,
            .first_slot = reading->first_slot,
            .slots = reading->slots,
        };
        cache->own[session] = (struct own_session){
            .dataset = reading->dataset,
            .epoch = UINT64_MAX,
            .stream = stream,
        };
        if (session >= header->sessions_end)
            header->sessions_end = session + 1;
    }
    cache_unlock(cache);
    if (!has_place)
        FAIL(STATUS_NO_MEMORY, "the cache '%s' is read by too many loaders at once",
             cache->folder ? cache->folder : "in memory");
    *ret_session = session;
    return OK;
}

void cache_session_start(struct cache *cache, uint32_t session, uint64_t epoch, uint64_t position)
{
    struct cache_header *header = cache->table.header;
    struct own_session *own = &cache->own[session];
    if (!cache_lock(cache))
        return;
    struct cache_stream *stream = stream_at(cache, own->stream);
    bool goes_back = stream && own->epoch == epoch && position < stream->position;
    own->epoch = epoch;
    if (!stream) {
        /* It was damaged, and keys are what they are. */
    } else if (stream->has_begun && epoch == stream->epoch + 1) {
        uint64_t origin = stream->origin + stream->period;
        if (origin < header->clock)
            origin = header->clock;
        stream->period = origin - stream->origin;
        stream->origin = origin;
        stream->epoch = epoch;
        stream->position = position;
    } else if (!stream->has_begun || epoch != stream->epoch || goes_back) {
        stream->has_begun = true;
        stream->origin = header->clock;
        stream->period = stream->length;
        stream->epoch = epoch;
        stream->position = position;
        dataset_rekey(cache, stream->dataset);
    }
    cache_unlock(cache);
}

static void session_end(struct cache *cache, uint32_t session)
{
    struct cache_header *header = cache->table.header;
    uint32_t number = header->sessions[session].stream, end = sessions_end(cache);
    header->sessions[session].owner = 0;
    for (uint32_t i = 0; i < end; i++)
        if (header->sessions[i].owner && header->sessions[i].stream == number)
            return;
    struct cache_stream *stream = stream_at(cache, number);
    if (!stream)
        return;
    stream->is_used = false;
    dataset_rekey(cache, stream->dataset);
}

void cache_session_close(struct cache *cache, uint32_t session)
{
    if (!cache_lock(cache))
        return;
    session_end(cache, session);
    cache_unlock(cache);
}

void cache_sessions_end(struct cache *cache, table_keeps_fn *keeps)
{
    for (uint32_t i = 0; i < CACHE_SESSIONS; i++) {
        uint32_t owner = cache->table.header->sessions[i].owner;
        if (owner && (keeps ? !keeps(owner, cache) : owner == cache->number))
            session_end(cache, i);
    }
}

void cache_sessions_reset(struct cache *cache)
{
    struct cache_table *table = &cache->table;
    for (uint32_t i = 0; i < CACHE_SESSIONS; i++)
        table->header->sessions[i].owner = 0;
    table->header->sessions_end = 0;
    for (uint32_t i = 0; i < CACHE_STREAMS; i++)
        table->header->streams[i].is_used = false;
    uint32_t end = table_entries_used(table);
    for (uint32_t at = 0; at < end; at++)
        table->entries[at].key |= CACHE_UNNEEDED;
    table_sort_heap(table);
}
