#include "tests/support/cache_set.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "index/cache_table.h"
#include "index/index.h"
#include "tests/test.h"

struct random_stream stream_of(uint64_t a, uint64_t b)
{
    return random_stream_make(20, RANDOM_TEST, a, b);
}

uint32_t content_length(uint64_t record)
{
    struct random_stream stream = stream_of(1, record);
    return CACHE_BLOCK_BYTES / 2 + (uint32_t)random_below(&stream, 4 * CACHE_BLOCK_BYTES);
}

static void content_make(uint64_t record, uint32_t length, uint8_t *bytes)
{
    struct random_stream stream = stream_of(2, record);
    uint32_t word = random_u32(&stream);
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(word >> (i & 3) * 8 ^ i);
}

static void assert_content(uint64_t record, uint32_t length, const struct buffer *bytes)
{
    static const uint8_t padding[RECORD_PADDING];
    CLEANUP(memory_free) uint8_t *expected = NULL;
    assert_ok(memory_alloc(length, 1, &expected));
    content_make(record, length, expected);
    assert_int_equal(bytes->length, length);
    assert_memory_equal(bytes->data, expected, length);
    assert_memory_equal(bytes->data + length, padding, RECORD_PADDING);
}

struct cache_reading reading_make(uint64_t dataset, uint64_t records, bool wraps, uint64_t seed)
{
    struct cache_reading reading = {
        .dataset = dataset,
        .order = order_make(ORDER_SHUFFLE, 0, records, BATCH, wraps, seed),
        .slots = BATCH,
    };
    reading.length = order_steps(&reading.order, false) * BATCH;
    return reading;
}

uint32_t order_session_open(struct cache *cache, const struct cache_reading *reading)
{
    uint32_t session = 0;
    assert_ok(cache_session_open(cache, reading, &session));
    return session;
}

struct cache *folder_open(uint64_t bytes)
{
    struct cache *cache = NULL;
    assert_ok(cache_open(test_path("cache"), bytes, &cache));
    return cache;
}

uint32_t filled_open(struct cache **ret_cache, uint64_t bytes)
{
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, 1);
    *ret_cache = folder_open(bytes);
    uint32_t session = order_session_open(*ret_cache, &reading);
    cache_session_start(*ret_cache, session, 0, 0);
    return session;
}

enum cache_answer record_offer(struct cache *cache, uint32_t session, uint64_t record,
                               uint32_t length, uint64_t position, struct status *ret_status)
{
    CLEANUP(memory_free) uint8_t *bytes = NULL;
    struct cache_claim claim;
    *ret_status = OK;
    enum cache_answer answer = cache_claim(cache, session, record, length, position, true, &claim);
    if (answer != CACHE_CLAIMED)
        return answer;
    assert_ok(memory_alloc(length, 1, &bytes));
    content_make(record, length, bytes);
    *ret_status = cache_fill(cache, &claim, bytes, ENCODING_JPEG, false);
    return answer;
}

enum cache_answer record_insert(struct cache *cache, uint32_t session, uint64_t record,
                                uint32_t length, uint64_t position)
{
    struct status status;
    enum cache_answer answer = record_offer(cache, session, record, length, position, &status);
    assert_ok(status);
    return answer;
}

bool record_check(struct cache *cache, uint32_t session, uint64_t record, uint32_t length,
                  uint64_t position)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    enum cache_answer answer;
    uint8_t encoding = 99;
    assert_ok(cache_read(cache, session, record, position, &bytes, &encoding, &answer));
    if (answer != CACHE_HELD)
        return false;
    assert_int_equal(encoding, ENCODING_JPEG);
    assert_content(record, length, &bytes);
    return true;
}

unsigned records_count(struct cache *cache, uint32_t session)
{
    unsigned count = 0;
    for (uint64_t record = 0; record < RECORDS; record++)
        count += record_check(cache, session, record, content_length(record), 0);
    return count;
}

void child_end(pid_t pid, bool may_be_killed)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
                (may_be_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}
