/* A cache whose files are damaged, and whose processes die or stop, while others use it: these go
 * on, with the right bytes or without the cache. */

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "index/cache_table.h"
#include "index/index.h"
#include "tests/support/cache_set.h"
#include "tests/test.h"

static const char *table_path(void)
{
    return test_join(test_path("cache"), "headrace-cache.table");
}

static int table_open(void)
{
    int fd = open(table_path(), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static struct cache_geometry geometry_of(uint64_t bytes)
{
    struct cache_geometry geometry;
    assert_ok(cache_geometry_plan(bytes, &geometry));
    return geometry;
}

/* Everything that a process does with its cache. */
static void cache_use(struct cache *cache, uint32_t session)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    struct cache_raw raw;
    enum cache_answer answer = CACHE_COMING;
    bool replaced;
    records_count(cache, session);
    for (uint64_t record = 0; record < RECORDS; record++) {
        struct status status;
        record_offer(cache, session, record, content_length(record), record, &status);
        if (status.code != STATUS_DONE)
            assert_fails(status, STATUS_CORRUPT, "damaged");
    }
    while (answer == CACHE_COMING)
        assert_ok(cache_read_raw(cache, &bytes, &raw, &answer));
    if (answer == CACHE_HELD)
        status_ignore(cache_replace_raw(cache, &raw, NULL, 0, ENCODING_DCT, &replaced));
    cache_session_start(cache, session, 1, 0);
    records_count(cache, session);
    cache_statistics(cache);
}

/* A cache with some records; they are read and the table damaged, and all is tried with it. */
static void damage_try(void (*damage)(int fd, struct random_stream *stream),
                       struct random_stream *stream, bool *ret_lost)
{
    struct cache *cache = NULL, *other = NULL;
    struct cache_reading reading = reading_make(DATASET, RECORDS, true, 2);
    CLEANUP(fd_close) int fd = -1;
    assert_ok(folder_remove(test_path("cache")));
    uint32_t session = filled_open(&cache, BUDGET);
    for (uint64_t record = 0; record < 50; record++)
        record_insert(cache, session, record, content_length(record), record);
    fd = table_open();
    damage(fd, stream);
    cache_use(cache, session);
    uint32_t second = order_session_open(cache, &reading);
    cache_session_start(cache, second, 0, 0);
    cache_use(cache, second);
    cache_session_close(cache, second);
    struct status status = cache_check(cache);
    *ret_lost = status.code != STATUS_DONE;
    if (*ret_lost) {
        assert_fails(status, STATUS_CORRUPT, "damaged while it was in use");
        status = cache_open(test_path("cache"), BUDGET, &other);
        assert_true(status.code == STATUS_CORRUPT || status.code == STATUS_UNSUPPORTED);
        status_clear(&status);
    }
    cache_close(cache);

    /* Whoever comes next, alone, makes it whole, or is told to remove what is not a cache's. */
    status = cache_open(test_path("cache"), BUDGET, &cache);
    if (status.code != STATUS_DONE) {
        assert_fails(status, STATUS_CORRUPT, "not the table of a cache");
        return;
    }
    session = order_session_open(cache, &reading);
    cache_session_start(cache, session, 0, 0);
    cache_use(cache, session);
    assert_true(records_count(cache, session) > 20);
    assert_ok(cache_check(cache));
    cache_close(cache);
}

static void cut(int fd, struct random_stream *stream)
{
    uint64_t bytes = random_below(stream, geometry_of(BUDGET).table_bytes);
    assert_int_equal(ftruncate(fd, random_below(stream, 2) ? (off_t)bytes : 0), 0);
}

static void fill(int fd, struct random_stream *stream)
{
    static uint8_t bytes[1 << 20];
    uint64_t kind = random_below(stream, 3), length = geometry_of(BUDGET).table_bytes;
    assert_true(length <= sizeof bytes);
    for (uint64_t i = 0; i < length; i++)
        bytes[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)random_u32(stream);
    assert_int_equal(pwrite(fd, bytes, length, 0), length);
}

/* Flips up to a hundred bits in a part of the table. */
static void flip(int fd, struct random_stream *stream, uint64_t begin, uint64_t end)
{
    for (uint64_t left = 1 + random_below(stream, 100); left > 0; left--) {
        uint64_t at = begin + random_below(stream, end - begin);
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte ^= (uint8_t)(1u << random_below(stream, 8));
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
}

static void flip_anywhere(int fd, struct random_stream *stream)
{
    flip(fd, stream, 0, geometry_of(BUDGET).table_bytes);
}

static void flip_counts(int fd, struct random_stream *stream)
{
    flip(fd, stream, offsetof(struct cache_header, is_damaged) + sizeof(uint32_t),
         offsetof(struct cache_header, processes));
}

static void flip_sessions(int fd, struct random_stream *stream)
{
    /* A process, its sessions and their orders stand first. */
    flip(fd, stream, offsetof(struct cache_header, processes),
         offsetof(struct cache_header, processes) + 2 * sizeof(struct cache_process));
    flip(fd, stream, offsetof(struct cache_header, sessions),
         offsetof(struct cache_header, sessions) + 2 * sizeof(struct cache_session));
    flip(fd, stream, offsetof(struct cache_header, streams),
         offsetof(struct cache_header, streams) + 2 * sizeof(struct cache_stream));
}

static void flip_entries(int fd, struct random_stream *stream)
{
    flip(fd, stream, CACHE_HEADER_BYTES, CACHE_HEADER_BYTES + 50 * sizeof(struct cache_entry));
}

static void flip_links(int fd, struct random_stream *stream)
{
    struct cache_geometry geometry = geometry_of(BUDGET);
    uint64_t begin = CACHE_HEADER_BYTES + geometry.entries * sizeof(struct cache_entry);
    uint64_t links = 2 * (uint64_t)geometry.entries + geometry.blocks;
    flip(fd, stream, begin, begin + links * sizeof(uint32_t));
}

static void test_damage_in_use(void **state)
{
    (void)state;
    static const struct {
        void (*damage)(int fd, struct random_stream *stream);
        bool is_certain; /* to be noticed */
        unsigned rounds;
    } cases[] = {
        {cut, true, 12},
        {fill, true, 9},
        {flip_anywhere, false, 40},
        {flip_counts, false, 100},
        {flip_sessions, false, 60},
        {flip_entries, false, 60},
        {flip_links, false, 60},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct random_stream stream = stream_of(6, i);
        unsigned lost = 0;
        for (unsigned round = 0; round < cases[i].rounds; round++) {
            bool is_lost;
            damage_try(cases[i].damage, &stream, &is_lost);
            lost += is_lost;
        }
        print_message("case %zu: given up %u of %u times\n", i, lost, cases[i].rounds);
        assert_true(lost == cases[i].rounds || !cases[i].is_certain);
    }
}

/* Data that is cut in use is brought again; only who comes meanwhile is told. */
static void test_data_is_cut(void **state)
{
    (void)state;
    CLEANUP(cache_close) struct cache *cache = NULL;
    struct cache *other = NULL;
    assert_ok(folder_remove(test_path("cache")));
    uint32_t session = filled_open(&cache, BUDGET);
    for (uint64_t record = 0; record < 20; record++)
        record_insert(cache, session, record, content_length(record), 0);
    assert_int_equal(truncate(test_join(test_path("cache"), "headrace-cache.data"), 0), 0);
    assert_fails(cache_open(test_path("cache"), BUDGET, &other), STATUS_CORRUPT,
                 "was cut while others use it");
    assert_int_equal(records_count(cache, session), 0);
    for (uint64_t record = 0; record < 20; record++)
        assert_int_equal(record_insert(cache, session, record, content_length(record), 0),
                         CACHE_CLAIMED);
    assert_int_equal(records_count(cache, session), 20);
}

/* What stands at the places of a cache's files and is not its: it is refused by name and stays as
 * it is. */
static void test_files_of_others(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    static uint8_t zeros[100000];
    CLEANUP(buffer_done) struct buffer content = {0};
    const char *folder = test_path("cache"), *mine = test_path("mine");
    const char *const names[] = {"headrace-cache.table", "headrace-cache.data"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *path = test_join(folder, names[i]);
        const char *refusal = i ? "not the data of a cache" : "not the table of a cache";
        assert_ok(folder_remove(folder));
        assert_ok(folder_create(folder));
        assert_ok(file_write_plain(mine, "my thesis", 9));
        assert_int_equal(symlink("../mine", path), 0);
        assert_fails(cache_open(folder, BUDGET, &cache), STATUS_IO, "is a symbolic link");
        assert_ok(file_remove(path));
        assert_int_equal(symlink("../nothing", path), 0);
        assert_fails(cache_open(folder, BUDGET, &cache), STATUS_IO, "is a symbolic link");
        assert_false(path_exists(test_path("nothing")));
        assert_ok(file_remove(path));
        assert_int_equal(link(mine, path), 0);
        assert_fails(cache_open(folder, BUDGET, &cache), STATUS_CORRUPT, refusal);
        assert_ok(file_read_all(mine, 100, &content));
        assert_int_equal(content.length, 9);
        assert_memory_equal(content.data, "my thesis", 9);
        assert_ok(file_remove(path));
        assert_ok(file_write_plain(path, zeros, sizeof zeros));
        assert_fails(cache_open(folder, BUDGET, &cache), STATUS_CORRUPT, refusal);
        assert_ok(file_remove(path));
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_fails(cache_open(folder, BUDGET, &cache), STATUS_FAILED, "not a regular file");
    }
    assert_ok(folder_remove(folder));
    assert_ok(folder_create(folder));
    assert_ok(file_write_plain(test_join(folder, names[0]), "", 0));
    assert_ok(file_link(test_join(folder, names[0]), test_join(folder, names[1])));
    assert_fails(cache_open(folder, BUDGET, &cache), STATUS_CORRUPT, "are one file");
    assert_ok(folder_remove(folder));
}

/* A cache as versions before 4 left it is begun anew; its data does not say whose it is. */
static void test_old_versions(void **state)
{
    (void)state;
    struct cache *cache = NULL;
    CLEANUP(fd_close) int fd = -1;
    const uint32_t version = 2;
    static const char magic[8];
    assert_ok(folder_remove(test_path("cache")));
    filled_open(&cache, BUDGET);
    cache_close(cache);
    struct cache_geometry geometry = geometry_of(BUDGET);
    const char *data = test_join(test_path("cache"), "headrace-cache.data");
    fd = table_open();
    assert_int_equal(pwrite(fd, &version, sizeof version, offsetof(struct cache_header, version)),
                     sizeof version);
    assert_int_equal(truncate(data, (off_t)(geometry.data_bytes - CACHE_PAGE_BYTES)), 0);
    CLEANUP(fd_close) int data_fd = open(data, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(data_fd, magic, sizeof magic, 0), sizeof magic);
    uint32_t session = filled_open(&cache, BUDGET);
    assert_int_equal(record_insert(cache, session, 5, 100, 0), CACHE_CLAIMED);
    assert_true(record_check(cache, session, 5, 100, 0));
    cache_close(cache);
    filled_open(&cache, 0);
    cache_close(cache);
}

/* A number of records to convert that is wrong: nobody looks for them for ever. */
static void test_nothing_to_convert(void **state)
{
    (void)state;
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(fd_close) int fd = -1;
    const uint32_t count = 9;
    struct cache_raw raw;
    enum cache_answer answer = CACHE_COMING;
    assert_ok(folder_remove(test_path("cache")));
    filled_open(&cache, BUDGET);
    fd = table_open();
    assert_int_equal(pwrite(fd, &count, sizeof count, offsetof(struct cache_header, raw_count)),
                     sizeof count);
    while (answer == CACHE_COMING)
        assert_ok(cache_read_raw(cache, &bytes, &raw, &answer));
    assert_int_equal(answer, CACHE_ABSENT);
}

/* A process that has claimed record 5 and, where that is asked for, has a child that does nothing.
 */
struct claimer {
    pid_t process, child; /* 0: none */
};

static void claimer_run(int answer, bool has_child)
{
    struct cache *cache = NULL;
    struct cache_claim claim;
    struct claimer claimer = {.process = getpid()};
    uint32_t session = filled_open(&cache, BUDGET);
    if (cache_claim(cache, session, 5, 100, 0, true, &claim) != CACHE_CLAIMED)
        _exit(1);
    if (has_child && (claimer.child = fork()) == 0)
        for (;;)
            pause();
    if (write(answer, &claimer, sizeof claimer) == sizeof claimer)
        pause();
    _exit(1);
}

static struct claimer claimer_start(bool has_child)
{
    struct claimer claimer;
    int answer[2];
    assert_int_equal(pipe(answer), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        claimer_run(answer[1], has_child);
    assert_int_equal(read(answer[0], &claimer, sizeof claimer), sizeof claimer);
    assert_int_equal(claimer.process, pid);
    close(answer[0]);
    close(answer[1]);
    return claimer;
}

static enum cache_answer record_look(struct cache *cache, uint32_t session)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    enum cache_answer answer;
    uint8_t encoding;
    assert_ok(cache_read(cache, session, 5, 0, &bytes, &encoding, &answer));
    return answer;
}

/* A process dies in the middle of bringing a record, and a child of its, which inherited its files
 * and their locks, lives on: who waits for the record notices. */
static void test_claims_of_an_orphan(void **state)
{
    (void)state;
    for (int has_child = 0; has_child < 2; has_child++) {
        CLEANUP(cache_close) struct cache *cache = NULL;
        assert_ok(folder_remove(test_path("cache")));
        uint32_t session = filled_open(&cache, BUDGET);
        struct claimer claimer = claimer_start(has_child);
        assert_int_equal(record_look(cache, session), CACHE_COMING);
        kill(claimer.process, SIGKILL);
        enum cache_answer answer;
        while ((answer = record_look(cache, session)) == CACHE_COMING)
            usleep(CACHE_LOOK_MS * 1000);
        assert_int_equal(answer, CACHE_ABSENT); /* before anybody's patience ended */
        assert_int_equal(record_insert(cache, session, 5, 100, 0), CACHE_CLAIMED);
        if (has_child)
            kill(claimer.child, SIGKILL);
        child_end(claimer.process, true);
    }
}

/* One that lives and does nothing is waited for once: a minute after its claim nobody waits. */
static void test_claims_of_the_stopped(void **state)
{
    (void)state;
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(fd_close) int fd = -1;
    const off_t at = CACHE_HEADER_BYTES + offsetof(struct cache_entry, claimed_s);
    uint32_t claimed_s;
    assert_ok(folder_remove(test_path("cache")));
    uint32_t session = filled_open(&cache, BUDGET);
    struct claimer claimer = claimer_start(false);
    kill(claimer.process, SIGSTOP);
    assert_int_equal(record_look(cache, session), CACHE_COMING);
    fd = table_open();
    assert_int_equal(pread(fd, &claimed_s, sizeof claimed_s, at), sizeof claimed_s);
    claimed_s -= CACHE_PATIENCE_S + 1;
    assert_int_equal(pwrite(fd, &claimed_s, sizeof claimed_s, at), sizeof claimed_s);
    assert_int_equal(record_look(cache, session), CACHE_FULL);
    assert_int_equal(record_look(cache, session), CACHE_FULL);
    kill(claimer.process, SIGKILL);
    child_end(claimer.process, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_in_use),         cmocka_unit_test(test_data_is_cut),
        cmocka_unit_test(test_files_of_others),       cmocka_unit_test(test_old_versions),
        cmocka_unit_test(test_nothing_to_convert),    cmocka_unit_test(test_claims_of_an_orphan),
        cmocka_unit_test(test_claims_of_the_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
