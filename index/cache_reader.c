#include "index/cache_reader.h"

#include "base/memory.h"
#include "base/stop.h"

struct cache_reader {
    struct index *index;
    struct cache *cache;
    uint32_t session;
};

struct status cache_reader_open(struct index *index, struct cache *cache,
                                struct cache_reader **ret_reader)
{
    CLEANUP(memory_free) struct cache_reader *reader = NULL;
    struct cache_reading reading = {.in_any_order = true, .length = index_count(index)};
    TRY(index_identity(index, &reading.dataset, &(bool){false}));
    TRY(memory_alloc(1, sizeof *reader, &reader));
    reader->index = index;
    reader->cache = cache;
    TRY(cache_session_open(cache, &reading, &reader->session));
    *ret_reader = MOVE(reader);
    return OK;
}

void cache_reader_close(struct cache_reader *reader)
{
    if (!reader)
        return;
    cache_session_close(reader->cache, reader->session);
    memory_free(reader);
}

/* Reads a record that nobody brings, and keeps it where there is room. *ret_again: somebody else
 * brings it by now. */
static struct status record_bring(struct cache_reader *reader, uint64_t i, struct buffer *bytes,
                                  uint8_t *ret_encoding, bool *ret_again)
{
    struct cache_claim claim;
    struct record record;
    TRY(index_record(reader->index, i, &record));
    enum cache_answer answer =
        cache_claim(reader->cache, reader->session, i, record.length, 0, true, &claim);
    *ret_again = answer == CACHE_HELD || answer == CACHE_COMING;
    if (*ret_again)
        return OK;
    struct status status = index_read(reader->index, i, bytes);
    *ret_encoding = record.encoding;
    if (answer == CACHE_CLAIMED && status.code == STATUS_DONE)
        cache_keep(reader->cache, &claim, bytes, record.encoding);
    else if (answer == CACHE_CLAIMED)
        cache_abandon(reader->cache, &claim);
    return status;
}

struct status cache_reader_read(struct cache_reader *reader, uint64_t i, struct buffer *bytes,
                                uint8_t *ret_encoding)
{
    uint64_t seen = 0;
    struct record record;
    enum cache_answer answer;
    for (;;) {
        bool again = true;
        TRY(cache_read(reader->cache, reader->session, i, 0, bytes, ret_encoding, &answer));
        if (answer == CACHE_HELD)
            return OK;
        if (answer == CACHE_FULL)
            break;
        if (answer == CACHE_ABSENT)
            TRY(record_bring(reader, i, bytes, ret_encoding, &again));
        if (!again)
            return OK;
        if (stop_is_closing())
            return stop_fail();
        cache_wait(reader->cache, &seen, CACHE_LOOK_MS);
    }
    TRY(index_record(reader->index, i, &record));
    *ret_encoding = record.encoding;
    return index_read(reader->index, i, bytes);
}
