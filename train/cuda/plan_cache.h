#ifndef HEADRACE_TRAIN_CUDA_PLAN_CACHE_H
#define HEADRACE_TRAIN_CUDA_PLAN_CACHE_H

/* Plans on disk, so that a second run neither asks the heuristics nor compiles nor tunes. One file
 * a plan in a folder for each device and version of cuDNN; files appear whole, so several processes
 * may share a folder. Losing it costs time only. */

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"

struct plan_cache;
/* Creates `folder` where it is missing. `version` is cudnnGetVersion's. */
struct status plan_cache_open(const char *folder, const char *device_name, size_t version,
                              struct plan_cache **ret_cache);
void plan_cache_close(struct plan_cache *cache);
CLEANUP_POINTER(plan_cache_close, struct plan_cache)

/* Fails with STATUS_NOT_FOUND where there is none for this device, version and key, with
 * STATUS_CORRUPT where a file is not as it was written. */
struct status plan_cache_read(const struct plan_cache *cache, const char *key, bool *ret_tuned,
                              struct buffer *ret_plan);
struct status plan_cache_write(const struct plan_cache *cache, const char *key, bool tuned,
                               const struct buffer *plan);

#endif
