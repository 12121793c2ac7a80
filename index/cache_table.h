#ifndef HEADRACE_INDEX_CACHE_TABLE_H
#define HEADRACE_INDEX_CACHE_TABLE_H

/* Private to index/cache*.c: the table of a cache, which all its processes map.
 *
 * A header, then arrays: hash buckets, a heap, the `next` of every block of data, and one entry for
 * each record. A record's bytes stand in a chain of blocks of the data, the last one partly filled,
 * so that no byte is lost to fragments. Everything here is changed under the header's lock
 * (cache_lock.c); a process may be killed at any store, and table_rebuild makes the table whole
 * again from its entries alone. What is ordered for that: an entry is complete before its state
 * says so, and free before its blocks are.
 *
 * Nothing in it is trusted, since anybody who may write to the file can damage it while it is in
 * use: what is an index, a bound or the end of a chain is checked each time that it is used, and a
 * table in which one does not hold is marked as damaged, upon which its cache is given up. What a
 * call does with it until then touches nothing but the table. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    CACHE_VERSION = 4,
    CACHE_HEADER_BYTES = 64 << 10,
    CACHE_BLOCK_BYTES = 8 << 10,
    CACHE_PAGE_BYTES = 4096, /* sizes of files are whole pages */
    CACHE_PROCESSES = 512,   /* at once */
    CACHE_STREAMS = 128,
    CACHE_SESSIONS = 512,
};
#define CACHE_MAGIC "HRCACHE" /* 8 bytes with the zero */
/* The data's: at its beginning, the first block stands behind a page. Files without are not a
 * cache's, and never written to. */
#define CACHE_DATA_MAGIC "HRCDATA"
#define CACHE_NONE UINT32_MAX
#define CACHE_AWAITED ((uint32_t)1 << 31)
/* Added to the key of what nobody is known to need again, and of what somebody needs who does not
 * say when. */
#define CACHE_UNNEEDED ((uint64_t)1 << 63)
#define CACHE_SOMETIME ((uint64_t)1 << 62)

enum entry_state { ENTRY_FREE = 0, ENTRY_FILLING, ENTRY_READY };

struct cache_entry {
    uint64_t dataset, record;
    uint64_t key; /* when it is needed next (cache_session.c): the highest is evicted first */
    uint32_t length;
    uint32_t crc32c;     /* of its bytes */
    uint32_t head;       /* its first block */
    uint32_t hash_next;  /* in its bucket, or among the free */
    uint32_t heap_at;    /* its place in the heap, while READY */
    uint32_t owner;      /* who fills it: a number of cache_process */
    uint32_t generation; /* another one each time that the entry is taken */
    uint32_t check;      /* CRC of what tells the record: dataset … head, encoding, its blocks */
    uint32_t claimed_s;  /* FILLING: since when, of clock_seconds */
    uint8_t encoding;
    uint8_t state;
    uint8_t is_final; /* there is no better form of it */
    uint8_t reserved[1];
};
_Static_assert(sizeof(struct cache_entry) == 64, "entries fill cache lines");

/* One open cache of a process. It holds a lock on its place in the table's file as long as it or a
 * process that was forked from it lives; the rest tells these two apart, where 0 is not known. */
struct cache_process {
    _Atomic uint32_t number; /* from 1, never used again; 0: none */
    _Atomic uint32_t pid;
    _Atomic uint64_t pid_namespace, started; /* its inode; in ticks of the machine's clock */
};

enum { CACHE_ANY_ORDER = UINT8_MAX };

/* An order in which records are read, whichever processes share it (cache_session.c). */
struct cache_stream {
    uint64_t dataset;
    uint64_t window, records, seed;
    uint64_t length; /* positions of an epoch */
    uint32_t global_batch;
    uint8_t kind, wraps; /* the first: enum order_kind or CACHE_ANY_ORDER */
    uint32_t check;      /* CRC of the above */
    uint8_t is_used, has_begun;
    uint64_t epoch, origin, period, position;
};

/* A process's part of a stream. */
struct cache_session {
    uint32_t owner; /* 0: none */
    uint32_t stream;
    uint32_t first_slot, slots;
};

struct cache_header {
    /* Never changes */
    char magic[8];
    uint32_t version, block_bytes;
    uint32_t blocks, entries;
    uint32_t reserved;
    uint32_t check; /* CRC of the above */

    _Atomic uint32_t holder; /* of the lock: a number of cache_process, CACHE_AWAITED; 0: nobody */
    _Atomic uint32_t is_damaged;                   /* somebody found that */
    uint32_t fresh_block, free_block, free_blocks; /* never used; list; in all */
    uint32_t fresh_entry, free_entry, free_entries;
    uint32_t heap_count;
    uint32_t generations;
    _Atomic uint32_t processes_begun;
    uint32_t raw_count, raw_at; /* entries that are READY, not final; where to look for the next */
    uint32_t sessions_end;      /* one more than the last that was ever in use */
    uint64_t clock;             /* cache_session.c */
    struct cache_process processes[CACHE_PROCESSES];
    struct cache_session sessions[CACHE_SESSIONS];
    struct cache_stream streams[CACHE_STREAMS];
};
_Static_assert(sizeof(struct cache_header) <= CACHE_HEADER_BYTES, "the header is too long");

struct cache_table {
    struct cache_header *header;
    uint32_t *buckets, *heap, *next;
    struct cache_entry *entries;
    uint32_t block_count, entry_count; /* of the header, which only this process cannot change */
    bool is_damaged;                   /* found by this process; under the lock */
};

/* How a budget is shared out. */
struct cache_geometry {
    uint32_t blocks, entries;
    uint64_t table_bytes, data_bytes;
};
/* The most that fits into `bytes`; fails with STATUS_USAGE where that is nothing. */
struct status cache_geometry_plan(uint64_t bytes, struct cache_geometry *ret_geometry);
/* The same of numbers of blocks and entries. */
struct cache_geometry cache_geometry_make(uint32_t blocks, uint32_t entries);

/* The table at the beginning of mapped bytes. */
struct cache_table table_at(void *bytes, const struct cache_geometry *geometry);
/* Writes the part of a new header that never changes, or proves it. */
void table_sign(struct cache_header *header, const struct cache_geometry *geometry);
bool table_is_signed(const struct cache_header *header);
/* Entries that were ever used, all below it. */
uint32_t table_entries_used(struct cache_table *table);

/* Blocks of a record. */
static inline uint32_t table_blocks_of(uint32_t length)
{
    return length / CACHE_BLOCK_BYTES + (length % CACHE_BLOCK_BYTES != 0);
}

/* Makes everything but the entries anew from them. Entries that do not hold are freed, as are those
 * that are being filled, but by owners that `keeps` (NULL: none) says are alive. Without memory for
 * that the table is emptied. */
typedef bool table_keeps_fn(uint32_t owner, void *context);
void table_rebuild(struct cache_table *table, table_keeps_fn *keeps, void *context);

/* The entry of a record, or CACHE_NONE. */
uint32_t table_find(struct cache_table *table, uint64_t dataset, uint64_t record);
/* Lists the blocks of a copy of an entry, table_blocks_of its length; false where that, or anything
 * else that tells the record, is not what it was when it was kept. */
bool table_list_blocks(struct cache_table *table, const struct cache_entry *entry,
                       uint32_t *blocks);
/* The next READY entry that is not final, in turn among all processes, of the TABLE_RAW_LOOKS that
 * are looked at in one call; or CACHE_NONE. */
enum { TABLE_RAW_LOOKS = 4096 };
uint32_t table_next_raw(struct cache_table *table);
/* Counts these entries anew. */
void table_count_raw(struct cache_table *table);
/* Frees entries with keys above `key` until `blocks` blocks and an entry are free; false if that
 * cannot be. */
bool table_make_room(struct cache_table *table, uint32_t blocks, uint64_t key);
/* Takes a free entry and blocks, which there are, for a record that is not there: FILLING. */
uint32_t table_add(struct cache_table *table, uint64_t dataset, uint64_t record, uint32_t length,
                   uint64_t key, uint32_t owner);
/* From FILLING to READY. */
void table_publish(struct cache_table *table, uint32_t entry, uint8_t encoding, bool is_final,
                   uint32_t crc32c);
/* Frees an entry and its blocks. */
void table_drop(struct cache_table *table, uint32_t entry);
/* A FILLING entry of record `record | CACHE_SHADOW` becomes that of the record, with the key of
 * `entry`, which is READY and freed. */
#define CACHE_SHADOW ((uint64_t)1 << 63)
void table_replace(struct cache_table *table, uint32_t entry, uint32_t shadow, uint8_t encoding,
                   uint32_t crc32c);
/* There will be no better form of a READY entry. */
void table_set_final(struct cache_table *table, uint32_t entry);
void table_set_key(struct cache_table *table, uint32_t entry, uint64_t key);
/* Puts the heap in order after keys were changed in place. */
void table_sort_heap(struct cache_table *table);

#endif
