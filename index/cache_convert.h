#ifndef HEADRACE_INDEX_CACHE_CONVERT_H
#define HEADRACE_INDEX_CACHE_CONVERT_H

/* Makes `dct` records of the `jpeg` ones that a cache holds, with threads that touch neither the
 * cache nor its locks, where others would wait for them: one more thread hands them records and
 * puts the results, each of which was proved to give its file back, into their place. */

#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "index/cache.h"

struct cache_convert;

enum convert_pace {
    CONVERT_IDLY = 0, /* with what the processors have left: threads of the lowest priority */
    CONVERT_SOON,     /* as anything else: whoever waits meanwhile gains more by the records' better
                         form */
};

/* `cache` is borrowed. */
struct status cache_convert_open(struct cache *cache, unsigned threads, enum convert_pace pace,
                                 struct cache_convert **ret_convert);
void cache_convert_close(struct cache_convert *convert);
CLEANUP_POINTER(cache_convert_close, struct cache_convert)

/* Waits until nothing is left to convert, or no room for it; of CONVERT_SOON, since threads of the
 * lowest priority get nowhere on a busy machine. Fails when it is asked to stop. */
struct status cache_convert_finish(struct cache_convert *convert);
/* Records that were replaced. */
uint64_t cache_convert_count(struct cache_convert *convert);

#endif
