#ifndef HEADRACE_INDEX_CACHE_READER_H
#define HEADRACE_INDEX_CACHE_READER_H

/* An index's records through a cache, for callers whose order nobody knows: what the cache does not
 * hold is read from its shard and kept. A full cache keeps what it has, the index's first records
 * rather than its last, since one that has just been read is not needed sooner than any other; and
 * it lets them go for records that a loader needs at a time that is known. */

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"
#include "index/cache.h"
#include "index/index.h"

struct cache_reader;

/* Both are borrowed. Fails with STATUS_NO_MEMORY when the cache has too many readers. */
struct status cache_reader_open(struct index *index, struct cache *cache,
                                struct cache_reader **ret_reader);
void cache_reader_close(struct cache_reader *reader);
CLEANUP_POINTER(cache_reader_close, struct cache_reader)

/* A record as index_read gives it, with the same failures; but its encoding is the cache's.
 * Thread-safe. */
struct status cache_reader_read(struct cache_reader *reader, uint64_t i, struct buffer *bytes,
                                uint8_t *ret_encoding);

#endif
