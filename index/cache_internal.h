#ifndef HEADRACE_INDEX_CACHE_INTERNAL_H
#define HEADRACE_INDEX_CACHE_INTERNAL_H

/* Private to index/cache*.c: an open cache of one process, and the seam between its files
 * (cache_file.c), its clock (cache_session.c) and the calls of cache.h (cache.c). */

#include <pthread.h>
#include <stdatomic.h>

#include "index/cache.h"
#include "index/cache_table.h"

/* What this process knows of a session of its own, whatever the table says. */
struct own_session {
    uint64_t dataset, epoch;
    uint32_t stream;
};

struct cache {
    char *folder, *table_path, *data_path; /* NULL: in memory */
    int table_fd, data_fd;
    void *map;     /* the table */
    uint8_t *data; /* NULL: in data_fd */
    struct cache_geometry geometry;
    struct cache_table table;
    uint32_t number, place;                 /* of this process, in header->processes */
    uint64_t pid_namespace;                 /* its inode; 0: not known */
    atomic_bool is_lost;                    /* the table is not used any more */
    double reaped_s;                        /* when cache_reap last ran; under the table's lock */
    uint32_t raw_looks;                     /* entries looked at for raw ones in vain; likewise */
    struct own_session own[CACHE_SESSIONS]; /* likewise */
    /* Orders of streams in even and odd epochs, as last computed; likewise */
    struct order orders[CACHE_STREAMS][2];

    pthread_mutex_t mutex; /* of this process, for cache_wait */
    pthread_cond_t ended;
    uint64_t ended_count;
    atomic_bool warned; /* that it cannot be written */
};

/* ---- cache_file.c ---- */

/* Maps the table and opens the data; joins the processes that use them. */
struct status cache_store_open(struct cache *cache, uint64_t bytes);
void cache_store_close(struct cache *cache);
/* Whether the lock of a place among the processes is held, by whoever took it or by a child that
 * was forked from it. */
bool cache_place_is_held(const struct cache *cache, uint32_t place);
/* Reads or writes `length` bytes at the beginning of a chain of blocks. */
struct status cache_data_read(struct cache *cache, const uint32_t *blocks, void *bytes,
                              uint32_t length);
struct status cache_data_write(struct cache *cache, const uint32_t *blocks, const void *bytes,
                               uint32_t length);

/* ---- cache_lock.c ---- */

/* The table's lock. Where a process died with it, the table is made whole first. False: the cache
 * is given up, which is said once, and its table must not be touched. */
bool cache_lock(struct cache *cache);
/* Gives the cache up where the table was found damaged. */
void cache_unlock(struct cache *cache);
bool cache_is_lost(const struct cache *cache);
/* Enters this process at a place that it has locked, and frees what a dead one held there. Fails
 * with STATUS_CORRUPT where the table is damaged. The gate is held. */
struct status cache_join(struct cache *cache, uint32_t place);
/* Whether the process with this number, which opened the cache, still has it open. */
bool cache_is_alive(const struct cache *cache, uint32_t number);
/* Frees what dead processes held: places, sessions, entries that they were to fill; with the lock
 * held. `found`: there is one whose place is another's already. */
void cache_reap(struct cache *cache, bool found);

/* ---- cache_session.c; with the lock held ---- */

/* The key of a record that is needed next at `position` of the session's epoch or later. */
uint64_t cache_key(struct cache *cache, uint32_t session, uint64_t record, uint64_t position);
/* A position of the session's epoch was reached. */
void cache_advance(struct cache *cache, uint32_t session, uint64_t position);
/* Forgets all streams: nobody reads. */
void cache_sessions_reset(struct cache *cache);
/* Ends the sessions of processes that `keeps` does not say are alive; NULL: this one's. */
void cache_sessions_end(struct cache *cache, table_keeps_fn *keeps);

#endif
