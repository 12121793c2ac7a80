#include "index/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/progress.h"
#include "index/cache_internal.h"
#include "index/index.h"

/* ---- opening and closing ---- */

struct status cache_open(const char *folder, uint64_t bytes, struct cache **ret_cache)
{
    CLEANUP(cache_close) struct cache *cache = NULL;
    TRY(memory_alloc(1, sizeof *cache, &cache));
    cache->table_fd = cache->data_fd = -1;
    pthread_mutex_init(&cache->mutex, NULL);
    clock_cond_init(&cache->ended);
    if (folder)
        TRY(string_copy(folder, &cache->folder));
    TRY(cache_store_open(cache, bytes));
    *ret_cache = MOVE(cache);
    return OK;
}

static const char folder_variable[] = "HEADRACE_CACHE", size_variable[] = "HEADRACE_CACHE_SIZE";

struct status cache_options_init(struct cache_options *options)
{
    const char *size = getenv(size_variable);
    *options = (struct cache_options){.folder = getenv(folder_variable)};
    if (size && size[0] && !number_parse_size(size, &options->bytes))
        FAIL(STATUS_USAGE, "%s is '%s', expected a size in bytes such as 200G", size_variable,
             size);
    return OK;
}

struct status cache_open_options(const struct cache_options *options, struct cache **ret_cache)
{
    *ret_cache = NULL;
    if (options->folder && options->folder[0])
        return cache_open(options->folder, options->bytes, ret_cache);
    if (options->bytes > 0 && !getenv(size_variable))
        FAIL(STATUS_USAGE, "--cache-size goes with --cache DIR");
    return OK;
}

void cache_close(struct cache *cache)
{
    if (!cache)
        return;
    if (cache->number && cache_lock(cache)) {
        cache_sessions_end(cache, NULL);
        cache->table.header->processes[cache->place].number = 0;
        cache_unlock(cache);
    }
    cache_store_close(cache);
    pthread_cond_destroy(&cache->ended);
    pthread_mutex_destroy(&cache->mutex);
    memory_free(cache->folder);
    memory_free(cache);
}

struct cache_statistics cache_statistics(struct cache *cache)
{
    const struct cache_table *table = &cache->table;
    const struct cache_header *header = table->header;
    struct cache_statistics statistics = {
        .bytes = cache->geometry.table_bytes + cache->geometry.data_bytes,
        .most_records = table->entry_count,
    };
    if (!cache_lock(cache))
        return statistics;
    statistics.used_bytes =
        (uint64_t)(table->block_count - header->free_blocks) * CACHE_BLOCK_BYTES;
    statistics.records = header->heap_count;
    statistics.raw_records = header->raw_count;
    cache_unlock(cache);
    return statistics;
}

bool cache_holds(const struct cache *cache, uint64_t records, uint64_t bytes)
{
    const struct cache_table *table = &cache->table;
    uint64_t most_blocks = bytes / CACHE_BLOCK_BYTES + records; /* none is filled to its end */
    return records <= table->entry_count && most_blocks <= table->block_count;
}

/* ---- waiting ---- */

static void claim_ended(struct cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    cache->ended_count++;
    pthread_cond_broadcast(&cache->ended);
    pthread_mutex_unlock(&cache->mutex);
}

void cache_wait(struct cache *cache, uint64_t *seen, unsigned most_ms)
{
    struct timespec until = clock_after_ms(most_ms);
    pthread_mutex_lock(&cache->mutex);
    int error = 0;
    while (!error && cache->ended_count == *seen)
        error = pthread_cond_timedwait(&cache->ended, &cache->mutex, &until);
    *seen = cache->ended_count;
    pthread_mutex_unlock(&cache->mutex);
}

/* ---- records ---- */

/* The blocks of a copy of an entry, on the heap; with the lock held. NULL: the table is damaged. */
static struct status blocks_list(struct cache *cache, const struct cache_entry *entry,
                                 uint32_t **ret_blocks)
{
    CLEANUP(memory_free) uint32_t *blocks = NULL;
    *ret_blocks = NULL;
    TRY(memory_alloc(table_blocks_of(entry->length), sizeof *blocks, &blocks));
    if (table_list_blocks(&cache->table, entry, blocks))
        *ret_blocks = MOVE(blocks);
    return OK;
}

/* Reads what an entry told while the lock was held; *ret_holds is whether it is what was kept. */
static struct status entry_read(struct cache *cache, const struct cache_entry *entry,
                                const uint32_t *blocks, struct buffer *bytes, bool *ret_holds)
{
    TRY(buffer_reserve(bytes, (size_t)entry->length + RECORD_PADDING));
    struct status status = cache_data_read(cache, blocks, bytes->data, entry->length);
    bytes->length = entry->length;
    memset(bytes->data + bytes->length, 0, RECORD_PADDING);
    *ret_holds =
        status.code == STATUS_DONE && crc32c_update(0, bytes->data, entry->length) == entry->crc32c;
    status_ignore(status); /* what cannot be read is brought again */
    return OK;
}

/* A READY entry whose bytes did not hold goes, unless it is another one by now. */
static void entry_distrust(struct cache *cache, uint32_t at, uint32_t generation)
{
    struct cache_entry *entry = &cache->table.entries[at];
    if (!cache_lock(cache))
        return;
    if (entry->generation == generation && entry->state == ENTRY_READY)
        table_drop(&cache->table, at);
    cache_unlock(cache);
}

/* Takes what is needed to read entry `at` out of the table, and lets go of the lock. In memory
 * the bytes are copied before: nothing else keeps them from being overwritten. */
static struct status entry_take_out(struct cache *cache, uint32_t at, struct buffer *bytes,
                                    struct cache_entry *ret_entry, bool *ret_holds)
{
    CLEANUP(memory_free) uint32_t *blocks = NULL;
    *ret_entry = cache->table.entries[at];
    *ret_holds = false;
    struct status status = blocks_list(cache, ret_entry, &blocks);
    bool is_memory = cache->data != NULL;
    if (is_memory && blocks)
        status = entry_read(cache, ret_entry, blocks, bytes, ret_holds);
    cache_unlock(cache);
    TRY(status);
    if (!is_memory && blocks)
        TRY(entry_read(cache, ret_entry, blocks, bytes, ret_holds));
    return OK;
}

/* What is to be thought of an entry that somebody fills; with the lock held. */
static enum cache_answer entry_await(struct cache *cache, uint32_t at)
{
    uint32_t claimed_s = cache->table.entries[at].claimed_s;
    if (clock_seconds() - cache->reaped_s > CACHE_REAP_S)
        cache_reap(cache, false);
    return (uint32_t)clock_seconds() - claimed_s > CACHE_PATIENCE_S ? CACHE_FULL : CACHE_COMING;
}

struct status cache_read(struct cache *cache, uint32_t session, uint64_t record, uint64_t position,
                         struct buffer *bytes, uint8_t *ret_encoding, enum cache_answer *ret_answer)
{
    struct cache_table *table = &cache->table;
    struct cache_entry entry;
    bool holds;
    uint64_t dataset = cache->own[session].dataset;
    *ret_answer = CACHE_ABSENT;
    if (!cache_lock(cache))
        return OK;
    cache_advance(cache, session, position + 1);
    uint32_t at = table_find(table, dataset, record);
    if (at == CACHE_NONE || table->entries[at].state == ENTRY_FILLING) {
        *ret_answer = at == CACHE_NONE ? CACHE_ABSENT : entry_await(cache, at);
        cache_unlock(cache);
        return OK;
    }
    table_set_key(table, at, cache_key(cache, session, record, position + 1));
    TRY(entry_take_out(cache, at, bytes, &entry, &holds));
    if (holds && entry.dataset == dataset && entry.record == record) {
        *ret_encoding = entry.encoding;
        *ret_answer = CACHE_HELD;
        return OK;
    }
    bytes->length = 0;
    entry_distrust(cache, at, entry.generation);
    return OK;
}

enum cache_answer cache_claim(struct cache *cache, uint32_t session, uint64_t record,
                              uint32_t length, uint64_t position, bool may_evict,
                              struct cache_claim *ret_claim)
{
    struct cache_table *table = &cache->table;
    uint64_t dataset = cache->own[session].dataset;
    enum cache_answer answer = CACHE_FULL;
    if (!cache_lock(cache))
        return answer;
    uint64_t key = cache_key(cache, session, record, position);
    uint64_t evicted = may_evict ? key : UINT64_MAX;
    uint32_t at = table_find(table, dataset, record);
    if (at != CACHE_NONE) {
        answer = table->entries[at].state == ENTRY_READY ? CACHE_HELD : CACHE_COMING;
        if (answer == CACHE_HELD && key < table->entries[at].key)
            table_set_key(table, at, key);
    } else if (length > 0 && table_make_room(table, table_blocks_of(length), evicted)) {
        at = table_add(table, dataset, record, length, key, cache->number);
        *ret_claim = (struct cache_claim){at, table->entries[at].generation, length};
        answer = CACHE_CLAIMED;
    } else if (clock_seconds() - cache->reaped_s > CACHE_REAP_S) {
        cache_reap(cache, false);
    }
    cache_unlock(cache);
    return cache_is_lost(cache) ? CACHE_FULL : answer;
}

/* Whether a claim still stands. */
static bool claim_holds(const struct cache *cache, const struct cache_claim *claim)
{
    const struct cache_entry *entry = &cache->table.entries[claim->entry];
    return entry->state == ENTRY_FILLING && entry->generation == claim->generation &&
           entry->owner == cache->number && entry->length == claim->length;
}

void cache_abandon(struct cache *cache, const struct cache_claim *claim)
{
    if (cache_lock(cache)) {
        if (claim_holds(cache, claim))
            table_drop(&cache->table, claim->entry);
        cache_unlock(cache);
    }
    claim_ended(cache);
}

/* Writes a claimed record's bytes. */
static struct status claim_write(struct cache *cache, const struct cache_claim *claim,
                                 const void *bytes)
{
    CLEANUP(memory_free) uint32_t *blocks = NULL;
    struct status status = OK;
    if (!cache_lock(cache))
        return cache_check(cache);
    struct cache_entry entry = cache->table.entries[claim->entry];
    if (claim_holds(cache, claim))
        status = blocks_list(cache, &entry, &blocks);
    cache_unlock(cache);
    TRY(status);
    TRY(cache_check(cache));
    return blocks ? cache_data_write(cache, blocks, bytes, claim->length) : OK;
}

struct status cache_fill(struct cache *cache, const struct cache_claim *claim, const void *bytes,
                         uint8_t encoding, bool is_final)
{
    struct status status = claim_write(cache, claim, bytes);
    if (status.code != STATUS_DONE) {
        cache_abandon(cache, claim);
        return status;
    }
    uint32_t crc32c = crc32c_update(0, bytes, claim->length);
    if (cache_lock(cache)) {
        if (claim_holds(cache, claim))
            table_publish(&cache->table, claim->entry, encoding, is_final, crc32c);
        cache_unlock(cache);
    }
    claim_ended(cache);
    return cache_check(cache);
}

void cache_keep(struct cache *cache, const struct cache_claim *claim, const struct buffer *bytes,
                uint8_t encoding)
{
    struct status status =
        cache_fill(cache, claim, bytes->data, encoding, encoding != ENCODING_JPEG);
    if (status.code != STATUS_DONE && !atomic_exchange(&cache->warned, true))
        log_warning("%s; records that the cache does not take are read from their shards",
                    status_message(&status));
    status_clear(&status);
}

/* ---- better forms ---- */

/* Better forms take room of what is fetched: none is made when less than this share is free. */
enum { FREE_SHARE = 32 };

/* The next raw entry, or CACHE_NONE. Where all were looked at in vain, they are counted anew: a
 * number that is wrong would have somebody look for ever. With the lock held. */
static uint32_t raw_next(struct cache *cache)
{
    uint32_t at = table_next_raw(&cache->table);
    cache->raw_looks = at == CACHE_NONE ? cache->raw_looks + 1 : 0;
    if (cache->raw_looks > cache->table.entry_count / TABLE_RAW_LOOKS + 1) {
        table_count_raw(&cache->table);
        cache->raw_looks = 0;
    }
    return at;
}

static bool raw_has_room(const struct cache_table *table, uint32_t blocks)
{
    const struct cache_header *header = table->header;
    return header->free_entries > 0 &&
           header->free_blocks >= table->block_count / FREE_SHARE + blocks;
}

struct status cache_read_raw(struct cache *cache, struct buffer *bytes, struct cache_raw *ret_raw,
                             enum cache_answer *ret_answer)
{
    struct cache_entry entry;
    bool holds;
    struct cache_table *table = &cache->table;
    *ret_answer = CACHE_ABSENT;
    if (!cache_lock(cache))
        return OK;
    bool has_work = table->header->raw_count > 0 && raw_has_room(table, 1);
    uint32_t at = has_work ? raw_next(cache) : CACHE_NONE;
    if (at == CACHE_NONE) {
        *ret_answer = has_work ? CACHE_COMING : CACHE_ABSENT;
        cache_unlock(cache);
        return OK;
    }
    TRY(entry_take_out(cache, at, bytes, &entry, &holds));
    if (!holds) {
        entry_distrust(cache, at, entry.generation);
        return OK;
    }
    *ret_raw = (struct cache_raw){entry.dataset, entry.record, entry.generation, entry.encoding};
    *ret_answer = CACHE_HELD;
    return OK;
}

/* The entry that a raw record was read from, or CACHE_NONE if it is another one by now. */
static uint32_t raw_find(struct cache *cache, const struct cache_raw *raw)
{
    uint32_t at = table_find(&cache->table, raw->dataset, raw->record);
    if (at == CACHE_NONE || cache->table.entries[at].generation != raw->generation ||
        cache->table.entries[at].state != ENTRY_READY)
        return CACHE_NONE;
    return at;
}

/* With the lock held: a place for the better form; CACHE_NONE without, and where there is no use
 * for it. */
static uint32_t shadow_add(struct cache *cache, const struct cache_raw *raw, uint32_t length)
{
    struct cache_table *table = &cache->table;
    uint32_t at = raw_find(cache, raw);
    uint64_t shadow = raw->record | CACHE_SHADOW;
    if (at == CACHE_NONE || table_find(table, raw->dataset, shadow) != CACHE_NONE ||
        !raw_has_room(table, table_blocks_of(length)))
        return CACHE_NONE;
    return table_add(table, raw->dataset, shadow, length, table->entries[at].key, cache->number);
}

struct status cache_replace_raw(struct cache *cache, const struct cache_raw *raw, const void *bytes,
                                uint32_t length, uint8_t encoding, bool *ret_replaced)
{
    struct cache_table *table = &cache->table;
    *ret_replaced = false;
    if (!cache_lock(cache))
        return OK;
    uint32_t at = raw_find(cache, raw);
    if (length == 0 && at != CACHE_NONE)
        table_set_final(table, at);
    uint32_t shadow = length > 0 ? shadow_add(cache, raw, length) : CACHE_NONE;
    struct cache_claim claim = {shadow, 0, length};
    if (shadow != CACHE_NONE)
        claim.generation = table->entries[shadow].generation;
    cache_unlock(cache);
    if (shadow == CACHE_NONE)
        return OK;
    struct status status = claim_write(cache, &claim, bytes);
    uint32_t crc32c = crc32c_update(0, bytes, length);
    if (!cache_lock(cache))
        return status;
    at = raw_find(cache, raw);
    *ret_replaced = claim_holds(cache, &claim) && status.code == STATUS_DONE && at != CACHE_NONE;
    if (*ret_replaced)
        table_replace(table, at, shadow, encoding, crc32c);
    else if (claim_holds(cache, &claim))
        table_drop(table, shadow);
    cache_unlock(cache);
    return status;
}
