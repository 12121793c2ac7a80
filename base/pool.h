#ifndef HEADRACE_BASE_POOL_H
#define HEADRACE_BASE_POOL_H

/* A fixed set of threads that run loops. */

#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

struct pool;

/* `threads` >= 1 in all: the caller of pool_run is one of them. */
struct status pool_open(unsigned threads, struct pool **ret_pool);
void pool_close(struct pool *pool);
CLEANUP_POINTER(pool_close, struct pool)
unsigned pool_threads(const struct pool *pool);

/* One item of a loop; `thread` is below pool_threads and names the thread's own scratch. */
typedef struct status pool_fn(uint64_t item, unsigned thread, void *context);

/* Runs fn for each item in [0, count), in increasing order of start. After a failure no new item is
 * begun; of several failures that of the lowest item is returned. */
struct status pool_run(struct pool *pool, uint64_t count, pool_fn *fn, void *context);

/* Cores this process may use: affinity mask, cgroup quota and cores_limit, at least 1. */
unsigned cores_available(void);
/* From now on at most so many: the others are another process's. Called before threads are made. */
void cores_limit(unsigned most);

#endif
