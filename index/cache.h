#ifndef HEADRACE_INDEX_CACHE_H
#define HEADRACE_INDEX_CACHE_H

/* A node's cache of records: a folder on a fast disk, or memory, in front of shards that are far
 * away. It keeps to a number of bytes, which its two files have from the start, and is shared by
 * all processes that open the folder. Which of them die, and when, does no harm, nor does a loss of
 * power: every record is proved by its CRC when it is read, and one that does not hold is a record
 * that is not there.
 *
 * What has to go is what is needed last: the cache knows the orders in which its records are read
 * (cache_session_open) and when in them each is next. */

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/option.h"
#include "base/scope.h"
#include "base/status.h"
#include "index/order.h"

struct cache;

/* Opens the cache in `folder`, made where it is missing, or one in memory (NULL) for this process
 * alone. `bytes` bounds the sum of its files; 0: those that are there stay as long as they are. One
 * of another size is cut or lengthened, and keeps what fits. Fails with STATUS_USAGE where that is
 * in use by others or no size is known, STATUS_NO_SPACE where the disk has less, STATUS_CORRUPT for
 * files that are not a cache's; a damaged one, and another version's, is begun anew. */
struct status cache_open(const char *folder, uint64_t bytes, struct cache **ret_cache);
/* Ends this process's sessions. */
void cache_close(struct cache *cache);
CLEANUP_POINTER(cache_close, struct cache)

/* The same as options of a command: rows in its table; `field` is the struct in its arguments. */
struct cache_options {
    const char *folder; /* borrowed until cache_open_options returns; NULL or "": no cache */
    uint64_t bytes;
};
/* What the environment says: HEADRACE_CACHE, and HEADRACE_CACHE_SIZE, which means nothing without a
 * folder. Fails with STATUS_USAGE where the latter is no size. */
struct status cache_options_init(struct cache_options *options);
#define CACHE_OPTIONS(field)                                                                       \
    {"cache",                                                                                      \
     0,                                                                                            \
     OPT_STRING,                                                                                   \
     FIELD(field.folder),                                                                          \
     .value = "DIR",                                                                               \
     .not_stored = true,                                                                           \
     .help = "keep records in this folder of a fast disk, for all processes of this machine; "     \
             "else HEADRACE_CACHE"},                                                               \
    {                                                                                              \
        "cache-size", 0, OPT_SIZE, FIELD(field.bytes),                                             \
            .value = "BYTES", .not_stored = true,                                                  \
            .help = "most that --cache takes of the disk, else HEADRACE_CACHE_SIZE; 0: what it "   \
                    "has already"                                                                  \
    }
/* *ret_cache is NULL where no folder is given; STATUS_USAGE where only a size is, and not by the
 * environment. */
struct status cache_open_options(const struct cache_options *options, struct cache **ret_cache);

/* Fails with STATUS_CORRUPT where the cache was given up, for damage to its table that was done
 * while it was in use. That is warned of once; all calls go on as with a cache that holds nothing
 * and has no room. */
struct status cache_check(const struct cache *cache);

/* What the cache holds. */
struct cache_statistics {
    uint64_t bytes;      /* of its files */
    uint64_t used_bytes; /* of blocks that hold records */
    uint64_t records, raw_records;
    uint64_t most_records; /* however small they are */
};
struct cache_statistics cache_statistics(struct cache *cache);
/* Whether so many records, of so many bytes in all, fit into it when nothing else is there. */
bool cache_holds(const struct cache *cache, uint64_t records, uint64_t bytes);

/* This process reads the records of a data set in an order: the slots `first_slot` …
 * `first_slot + slots - 1` of each batch. Processes that share an order give the same one, whatever
 * its epoch. `length` is how many positions an epoch has. The number of the session is below
 * CACHE_SESSIONS; fails with STATUS_NO_MEMORY when there are too many. */
struct cache_reading {
    uint64_t dataset; /* names the content: of the same number are the same records */
    struct order order;
    uint64_t length;
    uint32_t first_slot, slots;
    bool in_any_order; /* of `length` records: nobody knows when one is needed; order and slots are
                          not used, nor positions and cache_session_start */
};
struct status cache_session_open(struct cache *cache, const struct cache_reading *reading,
                                 uint32_t *ret_session);
/* Goes on, or begins anew, at a position of an epoch. */
void cache_session_start(struct cache *cache, uint32_t session, uint64_t epoch, uint64_t position);
void cache_session_close(struct cache *cache, uint32_t session);

enum cache_answer {
    CACHE_ABSENT = 0,
    CACHE_HELD,
    CACHE_COMING, /* somebody fills it right now */
    CACHE_CLAIMED,
    CACHE_FULL, /* everything that could go is needed sooner */
};

/* Reads a record that the session's process needs at a position, replacing the content of `bytes`;
 * RECORD_PADDING zero bytes follow in memory. CACHE_HELD, and its encoding is set: the record
 * counts as used. CACHE_ABSENT and CACHE_COMING: there is nothing in `bytes`; nor is there with
 * CACHE_FULL: who claimed the record has had its time, and nobody is to wait for it. */
struct status cache_read(struct cache *cache, uint32_t session, uint64_t record, uint64_t position,
                         struct buffer *bytes, uint8_t *ret_encoding,
                         enum cache_answer *ret_answer);

/* A record that this process is to bring. */
struct cache_claim {
    uint32_t entry, generation, length;
};
/* Reserves the place of a record of `length` bytes that is needed at `position` or, where that is
 * over, later. CACHE_CLAIMED: cache_fill or cache_abandon has to follow. Else CACHE_HELD,
 * CACHE_COMING or CACHE_FULL, which it is without `may_evict`, too, where nothing is free. */
enum cache_answer cache_claim(struct cache *cache, uint32_t session, uint64_t record,
                              uint32_t length, uint64_t position, bool may_evict,
                              struct cache_claim *ret_claim);
/* Keeps the bytes, as many as were claimed. `is_final`: there is no better form of them. What fails
 * is abandoned. */
struct status cache_fill(struct cache *cache, const struct cache_claim *claim, const void *bytes,
                         uint8_t encoding, bool is_final);
void cache_abandon(struct cache *cache, const struct cache_claim *claim);
/* cache_fill for whoever has the bytes anyway: that a cache cannot be written is said once. */
void cache_keep(struct cache *cache, const struct cache_claim *claim, const struct buffer *bytes,
                uint8_t encoding);

/* How often to look whether another process has brought a record, and how long after its claim it
 * is as good as dead; one that has died is noticed within a second or two. */
enum { CACHE_LOOK_MS = 2, CACHE_REAP_S = 1, CACHE_PATIENCE_S = 60 };
/* Waits until a claim of this process ended since `*seen` was set by the last call, or for at most
 * `most_ms`; other processes' are not noticed. */
void cache_wait(struct cache *cache, uint64_t *seen, unsigned most_ms);

/* Reads some record that is not final, whichever process brought it. CACHE_ABSENT: there is none,
 * or no room is free for better ones; CACHE_COMING: none was found yet, to be asked again. Every
 * record comes once before one comes again. */
struct cache_raw {
    uint64_t dataset, record;
    uint32_t generation;
    uint8_t encoding;
};
struct status cache_read_raw(struct cache *cache, struct buffer *bytes, struct cache_raw *ret_raw,
                             enum cache_answer *ret_answer);
/* Puts its better form in its place, unless somebody else has changed it or nothing is free for it:
 * nothing is evicted for that. `length` 0: there is no better form. */
struct status cache_replace_raw(struct cache *cache, const struct cache_raw *raw, const void *bytes,
                                uint32_t length, uint8_t encoding, bool *ret_replaced);

#endif
