/* The node's cache: it gives back what was put in or nothing, keeps to its bytes, evicts what is
 * needed last, and outlives whoever uses it. */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/disk.h"
#include "index/cache.h"
#include "index/cache_internal.h"
#include "index/index.h"
#include "tests/support/cache_set.h"
#include "tests/test.h"

static void assert_budget(uint64_t bytes)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    uint64_t sum = 0, disk = 0;
    assert_ok(folder_list_read(test_path("cache"), &list));
    for (size_t i = 0; i < list.count; i++) {
        struct stat stat_of;
        assert_int_equal(stat(test_join(test_path("cache"), list.entries[i].name), &stat_of), 0);
        sum += (uint64_t)stat_of.st_size;
        disk += (uint64_t)stat_of.st_blocks * 512;
    }
    assert_true(sum <= bytes);
    assert_true(disk <= bytes);
    assert_true(sum + 3 * CACHE_BLOCK_BYTES > bytes);
}

/* ---- one process ---- */

static void test_records_come_back(void **state)
{
    (void)state;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        CLEANUP(cache_close) struct cache *cache = NULL;
        assert_ok(cache_open(in_memory ? NULL : test_path("cache"), BUDGET, &cache));
        struct cache_reading reading = reading_make(DATASET, RECORDS, true, 1);
        uint32_t session = order_session_open(cache, &reading);
        cache_session_start(cache, session, 0, 0);
        assert_int_equal(records_count(cache, session), 0);
        for (uint64_t record = 0; record < 20; record++) {
            uint32_t length = content_length(record);
            assert_int_equal(record_insert(cache, session, record, length, 0), CACHE_CLAIMED);
            assert_int_equal(record_insert(cache, session, record, length, 0), CACHE_HELD);
        }
        assert_int_equal(records_count(cache, session), 20);
        assert_int_equal(cache_statistics(cache).records, 20);
        assert_int_equal(cache_statistics(cache).raw_records, 20);
        /* Another data set has records of its own. */
        reading.dataset++;
        uint32_t other = order_session_open(cache, &reading);
        cache_session_start(cache, other, 0, 0);
        assert_int_equal(records_count(cache, other), 0);
    }
    assert_budget(BUDGET);
    CLEANUP(cache_close) struct cache *cache = folder_open(0);
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, 1);
    uint32_t session = order_session_open(cache, &reading);
    cache_session_start(cache, session, 0, 0);
    assert_int_equal(records_count(cache, session), 20);
    assert_ok(folder_remove(test_path("cache")));
}

static void test_claims_end(void **state)
{
    (void)state;
    CLEANUP(cache_close) struct cache *cache = NULL;
    struct cache_claim claim, none;
    assert_ok(cache_open(NULL, BUDGET, &cache));
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, 1);
    uint32_t session = order_session_open(cache, &reading);
    cache_session_start(cache, session, 0, 0);
    assert_int_equal(cache_claim(cache, session, 3, 100, 0, true, &claim), CACHE_CLAIMED);
    assert_int_equal(cache_claim(cache, session, 3, 100, 0, true, &none), CACHE_COMING);
    assert_false(record_check(cache, session, 3, 100, 0));
    cache_abandon(cache, &claim);
    assert_int_equal(cache_statistics(cache).used_bytes, 0);
    /* What does not fit in any way is said so, and an empty record is not kept. */
    assert_int_equal(cache_claim(cache, session, 3, BUDGET, 0, true, &claim), CACHE_FULL);
    assert_int_equal(cache_claim(cache, session, 3, UINT32_MAX, 0, true, &claim), CACHE_FULL);
    assert_int_equal(cache_claim(cache, session, 3, 0, 0, true, &claim), CACHE_FULL);
}

static void test_better_forms(void **state)
{
    (void)state;
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    struct cache_raw raw, again;
    enum cache_answer answer;
    uint8_t encoding, better[3 * CACHE_BLOCK_BYTES];
    bool replaced;
    memset(better, 0x5a, sizeof better);
    assert_ok(cache_open(NULL, BUDGET, &cache));
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, 1);
    uint32_t session = order_session_open(cache, &reading);
    cache_session_start(cache, session, 0, 0);
    assert_ok(cache_read_raw(cache, &bytes, &raw, &answer));
    assert_int_equal(answer, CACHE_ABSENT);
    record_insert(cache, session, 3, 100, 0);
    record_insert(cache, session, 4, 200, 0);
    assert_ok(cache_read_raw(cache, &bytes, &raw, &answer));
    assert_int_equal(answer, CACHE_HELD);
    assert_ok(cache_read_raw(cache, &bytes, &again, &answer));
    assert_true(raw.record != again.record);
    assert_ok(cache_replace_raw(cache, &raw, better, sizeof better, ENCODING_DCT, &replaced));
    assert_true(replaced);
    assert_ok(cache_replace_raw(cache, &raw, better, 10, ENCODING_DCT, &replaced)); /* is final */
    assert_false(replaced);
    assert_ok(cache_replace_raw(cache, &again, NULL, 0, ENCODING_DCT, &replaced));
    assert_int_equal(cache_statistics(cache).raw_records, 0);
    assert_int_equal(cache_statistics(cache).records, 2);
    assert_int_equal(cache_statistics(cache).used_bytes, 4 * CACHE_BLOCK_BYTES);
    assert_ok(cache_read(cache, session, raw.record, 0, &bytes, &encoding, &answer));
    assert_int_equal(answer, CACHE_HELD);
    assert_int_equal(encoding, ENCODING_DCT);
    assert_int_equal(bytes.length, sizeof better);
    assert_memory_equal(bytes.data, better, sizeof better);
    assert_true(record_check(cache, session, again.record, again.record == 3 ? 100 : 200, 0));
}

/* ---- eviction ---- */

/* All positions of `epochs` epochs that the slots [first, first + slots) read, one after another.
 */
static size_t uses_list(const struct cache_reading *reading, uint64_t epochs, uint64_t *records)
{
    struct order order = reading->order;
    size_t count = 0;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        order_set_epoch(&order, epoch);
        for (uint64_t at = 0; at < reading->length; at++) {
            uint32_t slot = (uint32_t)(at % BATCH);
            if (slot >= reading->first_slot && slot < reading->first_slot + reading->slots)
                records[count++] = order_record(&order, at / BATCH, slot);
        }
    }
    return count;
}

static size_t next_use(const uint64_t *records, size_t count, size_t from, uint64_t record)
{
    while (from < count && records[from] != record)
        from++;
    return from;
}

/* Misses of the optimal policy (Belady, with bypassing) in the first `counted` uses. */
static unsigned optimal_misses(const uint64_t *records, size_t count, size_t counted,
                               size_t capacity)
{
    uint64_t held[BUDGET / CACHE_BLOCK_BYTES];
    size_t held_count = 0;
    unsigned misses = 0;
    for (size_t i = 0; i < counted; i++) {
        bool hit = false;
        for (size_t j = 0; j < held_count; j++)
            hit = hit || held[j] == records[i];
        if (hit)
            continue;
        misses++;
        held[held_count++] = records[i];
        if (held_count <= capacity)
            continue;
        size_t worst = 0, worst_use = 0;
        for (size_t j = 0; j < held_count; j++) {
            size_t use = next_use(records, count, i + 1, held[j]);
            if (use > worst_use) {
                worst = j;
                worst_use = use;
            }
        }
        held[worst] = held[--held_count];
    }
    return misses;
}

static unsigned cache_misses(struct cache *cache, const struct cache_reading *reading,
                             uint64_t epochs)
{
    struct order order = reading->order;
    uint32_t session = order_session_open(cache, reading);
    unsigned misses = 0;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        order_set_epoch(&order, epoch);
        cache_session_start(cache, session, epoch, 0);
        for (uint64_t at = 0; at < reading->length; at++) {
            uint32_t slot = (uint32_t)(at % BATCH);
            if (slot < reading->first_slot || slot >= reading->first_slot + reading->slots)
                continue;
            uint64_t record = order_record(&order, at / BATCH, slot);
            if (record_check(cache, session, record, 2 * CACHE_BLOCK_BYTES, at))
                continue;
            misses++;
            record_insert(cache, session, record, 2 * CACHE_BLOCK_BYTES, at + 1);
        }
    }
    cache_session_close(cache, session);
    return misses;
}

static void test_eviction_is_optimal(void **state)
{
    (void)state;
    enum { EPOCHS = 5, AHEAD = 4 };
    static const uint64_t counts[] = {40, 62, 64, 90, 101, 160, 250};
    struct cache_geometry geometry;
    assert_ok(cache_geometry_plan(BUDGET, &geometry));
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            CLEANUP(cache_close) struct cache *cache = NULL;
            CLEANUP(memory_free) uint64_t *records = NULL;
            struct cache_reading reading = reading_make(DATASET, counts[i], true, seed);
            if (seed == 3) /* one of two ranks, alone on its node */
                reading.slots = BATCH / 2;
            assert_ok(memory_alloc((EPOCHS + AHEAD) * reading.length, sizeof *records, &records));
            size_t all = uses_list(&reading, EPOCHS + AHEAD, records);
            size_t counted = uses_list(&reading, EPOCHS, records);
            all = uses_list(&reading, EPOCHS + AHEAD, records);
            assert_ok(cache_open(NULL, BUDGET, &cache));
            assert_int_equal(cache_misses(cache, &reading, EPOCHS),
                             optimal_misses(records, all, counted, geometry.entries));
        }
}

/* Nothing that is needed sooner goes for something that is needed later. */
static void test_sooner_stays(void **state)
{
    (void)state;
    CLEANUP(cache_close) struct cache *cache = NULL;
    assert_ok(cache_open(NULL, BUDGET, &cache));
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, 1);
    struct order order = reading.order;
    uint32_t session = order_session_open(cache, &reading);
    cache_session_start(cache, session, 0, 0);
    uint64_t at = 0;
    for (; at < RECORDS; at++) {
        uint64_t record = order_record(&order, at / BATCH, (uint32_t)(at % BATCH));
        if (record_insert(cache, session, record, 2 * CACHE_BLOCK_BYTES, at) == CACHE_FULL)
            break;
    }
    uint64_t kept = at;
    assert_true(kept > 10 && kept < RECORDS);
    /* From behind, all that is needed sooner fits. */
    cache_session_start(cache, session, 0, 0);
    for (at = 0; at < kept; at++) {
        uint64_t record = order_record(&order, at / BATCH, (uint32_t)(at % BATCH));
        assert_true(record_check(cache, session, record, 2 * CACHE_BLOCK_BYTES, at));
        record = order_record(&order, (at + kept) / BATCH, (uint32_t)((at + kept) % BATCH));
        assert_int_equal(record_insert(cache, session, record, 2 * CACHE_BLOCK_BYTES, at + kept),
                         CACHE_CLAIMED);
    }
}

/* One pass over a data set; the records are appended to `uses`, those of one set `offset` away from
 * the other's. Returns the misses. */
static unsigned pass_run(struct cache *cache, uint32_t session, const struct cache_reading *reading,
                         uint64_t epoch, uint64_t offset, uint64_t *uses, size_t *use_count)
{
    struct order order = reading->order;
    unsigned misses = 0;
    order_set_epoch(&order, epoch);
    cache_session_start(cache, session, epoch, 0);
    for (uint64_t at = 0; at < reading->length; at++) {
        uint64_t record = order_record(&order, at / BATCH, (uint32_t)(at % BATCH));
        uses[(*use_count)++] = record + offset;
        if (record_check(cache, session, record, 2 * CACHE_BLOCK_BYTES, at))
            continue;
        misses++;
        record_insert(cache, session, record, 2 * CACHE_BLOCK_BYTES, at + 1);
    }
    return misses;
}

/* Validation after each epoch of training: when it comes is learned from the first time. What
 * nobody reads any more goes first. */
static void test_two_sets_share(void **state)
{
    (void)state;
    enum { TRAIN = 200, VAL = 24, EPOCHS = 6, CAPACITY = 61 };
    CLEANUP(cache_close) struct cache *cache = NULL;
    uint64_t uses[EPOCHS * (TRAIN + VAL)];
    size_t count = 0;
    unsigned misses = 0;
    assert_ok(cache_open(NULL, BUDGET, &cache));
    struct cache_reading train = reading_make(1, TRAIN, true, 1);
    struct cache_reading val = reading_make(2, VAL, false, 1);
    val.order.kind = ORDER_SEQUENTIAL;
    uint32_t train_session = order_session_open(cache, &train),
             val_session = order_session_open(cache, &val);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        misses += pass_run(cache, train_session, &train, epoch, 0, uses, &count);
        misses += pass_run(cache, val_session, &val, epoch, TRAIN, uses, &count);
    }
    assert_true(misses <= optimal_misses(uses, count, count, CAPACITY) + VAL);
    cache_session_close(cache, val_session);
    cache_session_start(cache, train_session, 9, 0);
    for (uint64_t record = 0; record < TRAIN; record++)
        record_insert(cache, train_session, record, 2 * CACHE_BLOCK_BYTES, 0);
    val_session = order_session_open(cache, &val);
    cache_session_start(cache, val_session, 0, 0);
    for (uint64_t at = 0; at < VAL; at++)
        assert_false(record_check(cache, val_session, at, 2 * CACHE_BLOCK_BYTES, at));
}

/* ---- files ---- */

static void test_sizes_change(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {BUDGET, 3 * BUDGET, BUDGET + 5000, 2 * BUDGET + 1, BUDGET};
    assert_ok(folder_remove(test_path("cache")));
    unsigned before = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        CLEANUP(cache_close) struct cache *cache = NULL;
        uint32_t session = filled_open(&cache, sizes[i]);
        assert_budget(sizes[i]);
        unsigned kept = records_count(cache, session);
        if (i > 0 && sizes[i] >= sizes[i - 1])
            assert_int_equal(kept, before);
        assert_true(i == 0 || kept > 0);
        for (uint64_t record = 0; record < RECORDS; record++)
            record_insert(cache, session, record, content_length(record), 0);
        before = records_count(cache, session);
        struct cache *other = NULL;
        assert_fails(cache_open(test_path("cache"), 2 * sizes[i], &other), STATUS_USAGE, "in use");
    }
    assert_ok(folder_remove(test_path("cache")));
}

static void test_refusals(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    const char *folder = test_path("none");
    assert_fails(cache_open(folder, 0, &cache), STATUS_USAGE, "--cache-size");
    assert_fails(cache_open(folder, 1000, &cache), STATUS_USAGE, "too small");
    assert_ok(cache_open(folder, BUDGET, &cache)); /* that left nothing in the way */
    cache_close(cache);
    for (unsigned call = 1;; call++) {
        char fault[32];
        snprintf(fault, sizeof fault, "ENOSPC:%u", call);
        disk_set_fault(fault);
        struct status status = cache_open(folder, call % 2 ? BUDGET : 2 * BUDGET, &cache);
        disk_set_fault(NULL);
        if (status.code == STATUS_DONE)
            break;
        assert_fails(status, STATUS_NO_SPACE, "headrace-cache");
    }
    cache_close(cache);
    assert_ok(cache_open(folder, BUDGET, &cache));
    cache_close(cache);
    assert_ok(file_write_plain(test_join(folder, "headrace-cache.table"), "mine", 4));
    assert_fails(cache_open(folder, BUDGET, &cache), STATUS_CORRUPT, "not the table of a cache");
    assert_ok(file_write_plain(test_path("file"), "mine", 4));
    assert_fails(cache_open(test_path("file"), BUDGET, &cache), STATUS_IO, "file");
}

static void byte_flip(int fd, uint64_t at)
{
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= (uint8_t)(1u << (at % 8));
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

/* After one byte of a file has changed, every record is there or is not; where the cache still
 * knows how it is laid out, at most one record is lost, and those whose entries moved. */
static void corruption_try(const char *name, uint64_t at)
{
    struct cache *cache = NULL;
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, 1);
    int fd = open(test_join(test_path("cache"), name), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    byte_flip(fd, at);
    close(fd);
    struct status status = cache_open(test_path("cache"), BUDGET, &cache);
    if (status.code != STATUS_DONE) {
        assert_int_equal(status.code, STATUS_CORRUPT); /* the magic */
        status_clear(&status);
        return;
    }
    uint32_t session = order_session_open(cache, &reading);
    cache_session_start(cache, session, 0, 0);
    records_count(cache, session);
    for (uint64_t record = 0; record < RECORDS; record++)
        record_insert(cache, session, record, content_length(record), 0);
    assert_true(records_count(cache, session) > 20);
    cache_close(cache);
}

static void test_corruption(void **state)
{
    (void)state;
    struct cache_geometry geometry;
    assert_ok(cache_geometry_plan(BUDGET, &geometry));
    struct random_stream stream = stream_of(3, 0);
    for (int round = 0; round < 400; round++) {
        struct cache *cache = NULL;
        if (round % 100 == 0)
            assert_ok(folder_remove(test_path("cache")));
        assert_ok(file_remove(test_join(test_path("cache"), "headrace-cache.table")));
        uint32_t session = filled_open(&cache, BUDGET);
        for (uint64_t record = 0; record < 60; record++)
            record_insert(cache, session, record, content_length(record), 0);
        cache_close(cache);
        /* The fixed part of the header, all bytes of some entries, anything, the data. */
        uint64_t table_at = CACHE_HEADER_BYTES + random_below(&stream, 20 * 64);
        if (round < 40)
            table_at = (uint64_t)round;
        else if (round % 3 == 0)
            table_at = random_below(&stream, geometry.table_bytes);
        else if (round % 7 == 0)
            table_at = offsetof(struct cache_header, fresh_block) + random_below(&stream, 48);
        if (round % 4 == 3)
            corruption_try("headrace-cache.data", random_below(&stream, geometry.data_bytes));
        else
            corruption_try("headrace-cache.table", table_at);
    }
    assert_ok(folder_remove(test_path("cache")));
}

/* ---- processes ---- */

/* Reads, brings and abandons records at random until it is killed, or `rounds` times. */
static void child_run(uint64_t number, unsigned rounds)
{
    struct cache *cache = NULL;
    struct random_stream stream = stream_of(4, number);
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, number % 3);
    struct status status = cache_open(test_path("cache"), BUDGET, &cache);
    if (status.code != STATUS_DONE)
        _exit(3);
    uint32_t session = order_session_open(cache, &reading);
    for (unsigned round = 0; round < rounds; round++) {
        struct cache_claim claim;
        if (round % 50 == 0)
            cache_session_start(cache, session, round / 50, 0);
        uint64_t record = random_below(&stream, RECORDS), position = round % 50 * 5;
        uint32_t length = content_length(record);
        if (record_check(cache, session, record, length, position))
            continue;
        if (random_below(&stream, 8) > 0)
            record_insert(cache, session, record, length, position);
        else if (cache_claim(cache, session, record, length, position, true, &claim) ==
                 CACHE_CLAIMED)
            cache_abandon(cache, &claim);
    }
    cache_close(cache);
    _exit(0);
}

static pid_t child_start(uint64_t number, unsigned rounds)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_run(number, rounds);
    return pid;
}

/* All bytes are those of records that can be read: nothing that dead processes held is lost. */
static void assert_whole(void)
{
    struct cache *cache = NULL;
    uint32_t session = filled_open(&cache, 0);
    uint64_t used = 0, held = 0;
    for (uint64_t record = 0; record < RECORDS; record++)
        if (record_check(cache, session, record, content_length(record), 0)) {
            held++;
            used += (uint64_t)table_blocks_of(content_length(record)) * CACHE_BLOCK_BYTES;
        }
    assert_int_equal(cache_statistics(cache).used_bytes, used);
    assert_int_equal(cache_statistics(cache).records, held);
    cache_close(cache);
}

static void test_processes_are_killed(void **state)
{
    (void)state;
    struct random_stream stream = stream_of(5, 0);
    assert_ok(folder_remove(test_path("cache")));
    for (uint64_t round = 0; round < 60; round++) {
        pid_t children[4];
        for (uint64_t i = 0; i < ARRAY_LENGTH(children); i++)
            children[i] = child_start(round * 4 + i, round % 2 ? UINT32_MAX : 400);
        for (uint64_t i = 0; i < ARRAY_LENGTH(children); i++) {
            usleep((useconds_t)random_below(&stream, 12000));
            if (round % 2 || i % 2)
                kill(children[i], SIGKILL);
        }
        for (uint64_t i = 0; i < ARRAY_LENGTH(children); i++)
            child_end(children[i], round % 2 || i % 2);
        if (round > 0)
            assert_budget(BUDGET);
        struct cache *cache = folder_open(BUDGET);
        cache_close(cache);
        assert_whole();
    }
    assert_ok(folder_remove(test_path("cache")));
}

/* One process holds the cache open while another one dies in the middle of bringing a record: the
 * place is given out again. */
static void test_claims_of_the_dead(void **state)
{
    (void)state;
    CLEANUP(cache_close) struct cache *cache = NULL;
    struct cache_claim claim;
    int ready[2];
    char byte;
    assert_ok(folder_remove(test_path("cache")));
    uint32_t session = filled_open(&cache, BUDGET);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct cache *own = NULL;
        uint32_t own_session = filled_open(&own, BUDGET);
        bool claimed = cache_claim(own, own_session, 5, 100, 0, true, &claim) == CACHE_CLAIMED;
        if (write(ready[1], claimed ? "y" : "n", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(cache_claim(cache, session, 5, 100, 0, true, &claim), CACHE_COMING);
    kill(pid, SIGKILL);
    child_end(pid, true);
    struct cache *another = folder_open(BUDGET); /* whoever comes clears up */
    cache_close(another);
    assert_int_equal(cache_claim(cache, session, 5, 100, 0, true, &claim), CACHE_CLAIMED);
    cache_abandon(cache, &claim);
    close(ready[0]);
    close(ready[1]);
}

/* Waits until the kernel says that a process sleeps. */
static void process_await_sleep(pid_t pid)
{
    char path[64], line[256], found = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (found != 'S') {
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof line, file));
        fclose(file);
        assert_int_equal(sscanf(strrchr(line, ')'), ") %c", &found), 1);
        usleep(1000);
    }
}

/* A process that waits for the table's lock, which the caller holds. It gives way to the caller,
 * whose processor it shares. */
static pid_t waiter_start(struct cache *cache)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
        alarm(60); /* the end of one that is never woken */
        cache_lock(cache);
        cache_unlock(cache);
        _exit(0);
    }
    process_await_sleep(pid);
    return pid;
}

/* A waiter is killed when it was woken and did not run yet, and the lock is held again: nobody
 * is woken in its place, and the next one has its turn all the same. */
static void test_woken_waiter_is_killed(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_ok(folder_remove(test_path("cache")));
    CLEANUP(cache_close) struct cache *cache = folder_open(BUDGET);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    for (int round = 0; round < 10; round++) {
        cache_lock(cache);
        pid_t first = waiter_start(cache), second = waiter_start(cache);
        cache_unlock(cache);
        cache_lock(cache);
        kill(first, SIGKILL);
        child_end(first, true);
        cache_unlock(cache);
        child_end(second, false);
    }
    sched_setaffinity(0, sizeof all, &all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_come_back),  cmocka_unit_test(test_claims_end),
        cmocka_unit_test(test_better_forms),       cmocka_unit_test(test_eviction_is_optimal),
        cmocka_unit_test(test_sooner_stays),       cmocka_unit_test(test_two_sets_share),
        cmocka_unit_test(test_sizes_change),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_corruption),         cmocka_unit_test(test_processes_are_killed),
        cmocka_unit_test(test_claims_of_the_dead), cmocka_unit_test(test_woken_waiter_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
