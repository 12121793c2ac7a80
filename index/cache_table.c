#include "index/cache_table.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "base/progress.h"

static const uint64_t least_bytes = 1 << 20;

/* ---- layout ---- */

static uint64_t pages(uint64_t bytes)
{
    return (bytes + CACHE_PAGE_BYTES - 1) / CACHE_PAGE_BYTES * CACHE_PAGE_BYTES;
}

/* Bytes of the table for an entry: itself, its place in the heap, its bucket. */
static const uint64_t entry_bytes = sizeof(struct cache_entry) + 2 * sizeof(uint32_t);

struct cache_geometry cache_geometry_make(uint32_t blocks, uint32_t entries)
{
    return (struct cache_geometry){
        .blocks = blocks,
        .entries = entries,
        .table_bytes =
            pages(CACHE_HEADER_BYTES + entries * entry_bytes + blocks * sizeof(uint32_t)),
        .data_bytes = CACHE_PAGE_BYTES + (uint64_t)blocks * CACHE_BLOCK_BYTES,
    };
}

struct status cache_geometry_plan(uint64_t bytes, struct cache_geometry *ret_geometry)
{
    /* An entry for two blocks: records of ImageNet fill fourteen. */
    const uint64_t pair_bytes = 2 * (CACHE_BLOCK_BYTES + sizeof(uint32_t)) + entry_bytes;
    if (bytes < least_bytes)
        FAIL(STATUS_USAGE, "a cache of %llu bytes is too small, expected at least %llu",
             (unsigned long long)bytes, (unsigned long long)least_bytes);
    uint64_t pairs = (bytes - CACHE_HEADER_BYTES - 2 * CACHE_PAGE_BYTES) / pair_bytes;
    if (pairs > (CACHE_NONE - 1) / 2)
        pairs = (CACHE_NONE - 1) / 2;
    *ret_geometry = cache_geometry_make((uint32_t)(2 * pairs), (uint32_t)pairs);
    return OK;
}

struct cache_table table_at(void *bytes, const struct cache_geometry *geometry)
{
    struct cache_table table = {.header = bytes,
                                .block_count = geometry->blocks,
                                .entry_count = geometry->entries};
    table.entries = (struct cache_entry *)((uint8_t *)bytes + CACHE_HEADER_BYTES);
    table.buckets = (uint32_t *)(table.entries + geometry->entries);
    table.heap = table.buckets + geometry->entries;
    table.next = table.heap + geometry->entries;
    return table;
}

static uint32_t header_check(const struct cache_header *header)
{
    return crc32c_update(0, header, offsetof(struct cache_header, check));
}

void table_sign(struct cache_header *header, const struct cache_geometry *geometry)
{
    memcpy(header->magic, CACHE_MAGIC, sizeof header->magic);
    header->version = CACHE_VERSION;
    header->block_bytes = CACHE_BLOCK_BYTES;
    header->blocks = geometry->blocks;
    header->entries = geometry->entries;
    header->reserved = 0;
    header->check = header_check(header);
}

bool table_is_signed(const struct cache_header *header)
{
    return header->version == CACHE_VERSION && header->block_bytes == CACHE_BLOCK_BYTES &&
           header->blocks > 0 && header->entries > 0 && header->check == header_check(header);
}

/* ---- what the table says, checked ---- */

/* `at` where it is below `count`; else 0, in a table that is damaged. */
static uint32_t checked(struct cache_table *table, uint32_t at, uint32_t count)
{
    if (at < count)
        return at;
    table->is_damaged = true;
    return 0;
}

/* An end of used places, of which `count` are there; 0 in a table that is damaged. */
static uint32_t checked_end(struct cache_table *table, uint32_t end, uint32_t count)
{
    return end == count ? end : checked(table, end, count);
}

static struct cache_entry *entry_at(struct cache_table *table, uint32_t at)
{
    return &table->entries[checked(table, at, table->entry_count)];
}

static uint32_t *next_at(struct cache_table *table, uint32_t block)
{
    return &table->next[checked(table, block, table->block_count)];
}

static uint32_t *heap_at(struct cache_table *table, uint32_t place)
{
    return &table->heap[checked(table, place, table->entry_count)];
}

uint32_t table_entries_used(struct cache_table *table)
{
    return checked_end(table, table->header->fresh_entry, table->entry_count);
}

/* Of an entry or a copy of one; its blocks go to `blocks` unless that is NULL. */
static uint32_t entry_check(struct cache_table *table, const struct cache_entry *entry,
                            uint32_t *blocks)
{
    struct {
        uint64_t dataset, record;
        uint32_t length, crc32c, head, encoding;
    } told = {entry->dataset, entry->record, entry->length,
              entry->crc32c,  entry->head,   entry->encoding};
    uint32_t crc = crc32c_update(0, &told, sizeof told), block = told.head;
    for (uint32_t i = 0; i < table_blocks_of(told.length); i++) {
        crc = crc32c_update(crc, &block, sizeof block);
        if (blocks)
            blocks[i] = block;
        block = *next_at(table, block);
    }
    return crc;
}

bool table_list_blocks(struct cache_table *table, const struct cache_entry *entry, uint32_t *blocks)
{
    if (entry_check(table, entry, blocks) != entry->check)
        table->is_damaged = true;
    return !table->is_damaged;
}

/* What is stored before stays before what is stored after, for whoever finds the table after a
 * kill. */
static void store_in_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* ---- hash ---- */

static uint32_t *bucket_of(const struct cache_table *table, uint64_t dataset, uint64_t record)
{
    const uint64_t odd_a = 0x9e3779b97f4a7c15, odd_b = 0xd6e8feb86659fd93;
    uint64_t x = (record + dataset) * odd_a;
    x = (x ^ x >> 32) * odd_b;
    return &table->buckets[(uint64_t)(uint32_t)(x >> 32) * table->entry_count >> 32];
}

uint32_t table_find(struct cache_table *table, uint64_t dataset, uint64_t record)
{
    uint32_t at = *bucket_of(table, dataset, record);
    for (uint32_t steps = 0; at != CACHE_NONE; steps++) {
        const struct cache_entry *entry = entry_at(table, at);
        bool is_found = entry->record == record && entry->dataset == dataset;
        if (steps == table->entry_count || (is_found && entry->state == ENTRY_FREE))
            table->is_damaged = true;
        if (table->is_damaged)
            return CACHE_NONE;
        if (is_found)
            return at;
        at = entry->hash_next;
    }
    return CACHE_NONE;
}

static void hash_link(struct cache_table *table, uint32_t at)
{
    struct cache_entry *entry = &table->entries[at];
    uint32_t *bucket = bucket_of(table, entry->dataset, entry->record);
    entry->hash_next = *bucket;
    *bucket = at;
}

static void hash_unlink(struct cache_table *table, uint32_t at)
{
    struct cache_entry *entry = &table->entries[at];
    uint32_t *link = bucket_of(table, entry->dataset, entry->record);
    for (uint32_t steps = 0; *link != at; steps++) {
        link = &entry_at(table, *link)->hash_next;
        if (steps == table->entry_count)
            table->is_damaged = true;
        if (table->is_damaged)
            return;
    }
    *link = entry->hash_next;
}

/* ---- heap: the entry whose key is highest stands first ---- */

static uint32_t heap_count(struct cache_table *table)
{
    return checked_end(table, table->header->heap_count, table->entry_count);
}

static bool heap_above(struct cache_table *table, uint32_t a, uint32_t b)
{
    return entry_at(table, a)->key > entry_at(table, b)->key;
}

static void heap_put(struct cache_table *table, uint32_t place, uint32_t at)
{
    *heap_at(table, place) = at;
    entry_at(table, at)->heap_at = place;
}

static void heap_rise(struct cache_table *table, uint32_t place)
{
    uint32_t at = *heap_at(table, place);
    while (place > 0 && heap_above(table, at, *heap_at(table, (place - 1) / 2))) {
        heap_put(table, place, *heap_at(table, (place - 1) / 2));
        place = (place - 1) / 2;
    }
    heap_put(table, place, at);
}

static void heap_sink(struct cache_table *table, uint32_t place)
{
    uint32_t at = *heap_at(table, place), count = heap_count(table);
    for (;;) {
        uint64_t child = 2 * (uint64_t)place + 1;
        if (child >= count)
            break;
        if (child + 1 < count && heap_above(table, table->heap[child + 1], table->heap[child]))
            child++;
        if (!heap_above(table, table->heap[child], at))
            break;
        heap_put(table, place, table->heap[child]);
        place = (uint32_t)child;
    }
    heap_put(table, place, at);
}

static void heap_add(struct cache_table *table, uint32_t at)
{
    uint32_t place = checked(table, table->header->heap_count, table->entry_count);
    table->header->heap_count = place + 1;
    heap_put(table, place, at);
    heap_rise(table, place);
}

/* Whether an entry stands in the heap where it says. */
static bool heap_holds(struct cache_table *table, uint32_t at)
{
    uint32_t place = entry_at(table, at)->heap_at;
    if (place >= heap_count(table) || table->heap[place] != at)
        table->is_damaged = true;
    return !table->is_damaged;
}

static void heap_remove(struct cache_table *table, uint32_t at)
{
    if (!heap_holds(table, at))
        return;
    uint32_t place = table->entries[at].heap_at;
    uint32_t last = *heap_at(table, --table->header->heap_count);
    if (last == at)
        return;
    heap_put(table, place, last);
    heap_rise(table, place);
    heap_sink(table, entry_at(table, last)->heap_at);
}

void table_set_key(struct cache_table *table, uint32_t at, uint64_t key)
{
    struct cache_entry *entry = &table->entries[at];
    entry->key = key;
    if (entry->state != ENTRY_READY || !heap_holds(table, at))
        return;
    heap_rise(table, entry->heap_at);
    heap_sink(table, entry->heap_at);
}

void table_sort_heap(struct cache_table *table)
{
    for (uint32_t place = heap_count(table) / 2; place-- > 0;)
        heap_sink(table, place);
}

/* ---- blocks and entries ---- */

static uint32_t block_take(struct cache_table *table)
{
    struct cache_header *header = table->header;
    bool is_fresh = header->free_block == CACHE_NONE;
    uint32_t block =
        checked(table, is_fresh ? header->fresh_block : header->free_block, table->block_count);
    header->free_blocks--;
    if (is_fresh)
        header->fresh_block = block + 1;
    else
        header->free_block = table->next[block];
    return block;
}

/* Chains of used blocks do not end in CACHE_NONE: their length does. */
static void chain_free(struct cache_table *table, uint32_t head, uint32_t count)
{
    uint32_t last = head;
    for (uint32_t i = 1; i < count; i++)
        last = *next_at(table, last);
    *next_at(table, last) = table->header->free_block;
    table->header->free_block = head;
    table->header->free_blocks += count;
}

static uint32_t entry_take(struct cache_table *table)
{
    struct cache_header *header = table->header;
    bool is_fresh = header->free_entry == CACHE_NONE;
    uint32_t at =
        checked(table, is_fresh ? header->fresh_entry : header->free_entry, table->entry_count);
    if (!is_fresh && table->entries[at].state != ENTRY_FREE)
        table->is_damaged = true;
    header->free_entries--;
    if (is_fresh)
        header->fresh_entry = at + 1;
    else
        header->free_entry = table->entries[at].hash_next;
    return at;
}

static void entry_free(struct cache_table *table, uint32_t at)
{
    table->entries[at].hash_next = table->header->free_entry;
    table->header->free_entry = at;
    table->header->free_entries++;
}

static bool is_raw(const struct cache_entry *entry)
{
    return entry->state == ENTRY_READY && !entry->is_final;
}

uint32_t table_add(struct cache_table *table, uint64_t dataset, uint64_t record, uint32_t length,
                   uint64_t key, uint32_t owner)
{
    uint32_t at = entry_take(table), count = table_blocks_of(length);
    uint32_t head = block_take(table), last = head;
    for (uint32_t i = 1; i < count; i++) {
        table->next[last] = block_take(table);
        last = table->next[last];
    }
    struct cache_entry *entry = &table->entries[at];
    *entry = (struct cache_entry){
        .dataset = dataset,
        .record = record,
        .key = key,
        .length = length,
        .head = head,
        .owner = owner,
        .generation = ++table->header->generations,
        .claimed_s = (uint32_t)clock_seconds(),
    };
    entry->check = entry_check(table, entry, NULL);
    store_in_order();
    entry->state = ENTRY_FILLING;
    hash_link(table, at);
    return at;
}

void table_publish(struct cache_table *table, uint32_t at, uint8_t encoding, bool is_final,
                   uint32_t crc32c)
{
    struct cache_entry *entry = &table->entries[at];
    entry->encoding = encoding;
    entry->is_final = is_final;
    entry->crc32c = crc32c;
    entry->check = entry_check(table, entry, NULL);
    store_in_order();
    entry->state = ENTRY_READY;
    table->header->raw_count += is_raw(entry);
    heap_add(table, at);
}

void table_set_final(struct cache_table *table, uint32_t at)
{
    table->header->raw_count -= is_raw(&table->entries[at]);
    table->entries[at].is_final = true;
}

void table_drop(struct cache_table *table, uint32_t at)
{
    struct cache_entry *entry = entry_at(table, at);
    bool was_ready = entry->state == ENTRY_READY;
    if (entry->state == ENTRY_FREE || entry_check(table, entry, NULL) != entry->check)
        table->is_damaged = true;
    if (table->is_damaged)
        return;
    table->header->raw_count -= is_raw(entry);
    entry->state = ENTRY_FREE;
    store_in_order();
    if (was_ready)
        heap_remove(table, at);
    hash_unlink(table, at);
    chain_free(table, entry->head, table_blocks_of(entry->length));
    entry_free(table, at);
}

void table_replace(struct cache_table *table, uint32_t at, uint32_t shadow, uint8_t encoding,
                   uint32_t crc32c)
{
    struct cache_entry *entry = &table->entries[shadow];
    uint64_t key = table->entries[at].key;
    table_drop(table, at);
    hash_unlink(table, shadow);
    entry->record &= ~CACHE_SHADOW;
    hash_link(table, shadow);
    entry->key = key;
    table_publish(table, shadow, encoding, true, crc32c);
}

bool table_make_room(struct cache_table *table, uint32_t blocks, uint64_t key)
{
    struct cache_header *header = table->header;
    if (blocks > table->block_count)
        return false;
    while (header->free_blocks < blocks || header->free_entries == 0) {
        if (header->heap_count == 0 || entry_at(table, table->heap[0])->key <= key)
            return false;
        table_drop(table, table->heap[0]);
        if (table->is_damaged)
            return false;
    }
    return true;
}

/* ---- what has a better form ---- */

uint32_t table_next_raw(struct cache_table *table)
{
    struct cache_header *header = table->header;
    uint32_t end = table_entries_used(table);
    for (uint32_t looks = 0; looks < TABLE_RAW_LOOKS && end > 0; looks++) {
        uint32_t at = header->raw_at < end ? header->raw_at : 0;
        header->raw_at = at + 1;
        if (is_raw(&table->entries[at]))
            return at;
    }
    return CACHE_NONE;
}

void table_count_raw(struct cache_table *table)
{
    uint32_t count = 0, end = table_entries_used(table);
    for (uint32_t at = 0; at < end; at++)
        count += is_raw(&table->entries[at]);
    table->header->raw_count = count;
}

/* ---- after a kill ---- */

/* Marks an entry's blocks in `taken`, a bit a block. False, with none marked, if a block is not
 * there or is another's. */
static bool chain_mark(struct cache_table *table, const struct cache_entry *entry, uint8_t *taken)
{
    uint32_t count = table_blocks_of(entry->length), at = entry->head, marked = 0;
    while (marked < count && at < table->block_count && !(taken[at >> 3] >> (at & 7) & 1)) {
        taken[at >> 3] |= (uint8_t)(1u << (at & 7));
        marked++;
        at = table->next[at];
    }
    if (marked == count)
        return true;
    at = entry->head;
    for (; marked > 0; marked--) {
        taken[at >> 3] &= (uint8_t) ~(1u << (at & 7));
        at = table->next[at];
    }
    return false;
}

static bool entry_holds(struct cache_table *table, const struct cache_entry *entry,
                        table_keeps_fn *keeps, void *context)
{
    bool is_kept = entry->state == ENTRY_READY ||
                   (entry->state == ENTRY_FILLING && keeps && keeps(entry->owner, context));
    return is_kept && entry->length > 0 && entry->check == entry_check(table, entry, NULL) &&
           table_find(table, entry->dataset, entry->record) == CACHE_NONE;
}

/* `taken` NULL: none is. */
static void blocks_rebuild(struct cache_table *table, const uint8_t *taken)
{
    struct cache_header *header = table->header;
    uint32_t end = taken ? table->block_count : 0;
    while (end > 0 && !(taken[(end - 1) >> 3] >> ((end - 1) & 7) & 1))
        end--;
    header->fresh_block = end;
    header->free_block = CACHE_NONE;
    header->free_blocks = table->block_count - end;
    for (uint32_t block = end; block-- > 0;) {
        if (taken[block >> 3] >> (block & 7) & 1)
            continue;
        table->next[block] = header->free_block;
        header->free_block = block;
        header->free_blocks++;
    }
}

void table_rebuild(struct cache_table *table, table_keeps_fn *keeps, void *context)
{
    CLEANUP(memory_free) uint8_t *taken = NULL;
    struct cache_header *header = table->header;
    uint32_t end = header->fresh_entry;
    struct status status = memory_alloc((size_t)table->block_count / 8 + 1, 1, &taken);
    if (status.code != STATUS_DONE || end > table->entry_count)
        end = 0;
    memset(table->buckets, 0xff, table->entry_count * sizeof *table->buckets);
    header->free_entry = CACHE_NONE;
    header->fresh_entry = end;
    header->free_entries = table->entry_count - end;
    header->heap_count = header->raw_count = header->raw_at = 0;
    for (uint32_t at = end; at-- > 0;) {
        struct cache_entry *entry = &table->entries[at];
        table->is_damaged = false; /* an entry that does not hold is no more than that */
        if (!entry_holds(table, entry, keeps, context) || !chain_mark(table, entry, taken)) {
            entry->state = ENTRY_FREE;
            entry_free(table, at);
            continue;
        }
        hash_link(table, at);
        header->raw_count += is_raw(entry);
        if (entry->state == ENTRY_READY)
            heap_put(table, header->heap_count++, at);
    }
    table->is_damaged = false;
    table_sort_heap(table);
    blocks_rebuild(table, taken);
    status_ignore(status);
}
