#ifndef HEADRACE_TESTS_SUPPORT_CACHE_SET_H
#define HEADRACE_TESTS_SUPPORT_CACHE_SET_H

/* Records of known content, and a cache in test_path("cache") that holds some of them. */

#include <sys/types.h>

#include "base/random.h"
#include "index/cache.h"

enum { BUDGET = 1 << 20, DATASET = 7, RECORDS = 300, BATCH = 8 };

struct random_stream stream_of(uint64_t a, uint64_t b);
/* Half a block to four and a half. */
uint32_t content_length(uint64_t record);
/* A shuffled order of all slots. */
struct cache_reading reading_make(uint64_t dataset, uint64_t records, bool wraps, uint64_t seed);

struct cache *folder_open(uint64_t bytes);
uint32_t order_session_open(struct cache *cache, const struct cache_reading *reading);
/* Both, at the beginning of an epoch of DATASET. */
uint32_t filled_open(struct cache **ret_cache, uint64_t bytes);

/* Claims a record and brings it; *ret_status is cache_fill's. */
enum cache_answer record_offer(struct cache *cache, uint32_t session, uint64_t record,
                               uint32_t length, uint64_t position, struct status *ret_status);
/* The same, of which nothing fails. */
enum cache_answer record_insert(struct cache *cache, uint32_t session, uint64_t record,
                                uint32_t length, uint64_t position);
/* Whether it is there; then it is right. */
bool record_check(struct cache *cache, uint32_t session, uint64_t record, uint32_t length,
                  uint64_t position);
/* How many of RECORDS, of content_length each. */
unsigned records_count(struct cache *cache, uint32_t session);

/* A child process ended well, or was killed if it may have been. */
void child_end(pid_t pid, bool may_be_killed);

#endif
