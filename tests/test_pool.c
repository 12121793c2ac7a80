#include "tests/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/pool.h"

enum { ITEMS = 5000 };

struct tally {
    atomic_int runs[ITEMS];
    atomic_uint threads_seen; /* a bit per thread */
    atomic_uint_fast64_t begun;
    uint64_t fails_from;
};

static struct status count_item(uint64_t item, unsigned thread, void *context)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->runs[item], 1);
    atomic_fetch_or(&tally->threads_seen, 1u << thread);
    return OK;
}

static void each_item_runs_once(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 8; threads++) {
        CLEANUP(pool_close) struct pool *pool = NULL;
        CLEANUP(memory_free) struct tally *tally = NULL;
        assert_ok(memory_alloc(1, sizeof *tally, &tally));
        assert_ok(pool_open(threads, &pool));
        assert_int_equal(pool_threads(pool), threads);
        for (int loop = 1; loop <= 3; loop++) {
            assert_ok(pool_run(pool, ITEMS, count_item, tally));
            for (int i = 0; i < ITEMS; i++)
                assert_int_equal(tally->runs[i], loop);
        }
        assert_true(tally->threads_seen < 1u << threads);
        assert_ok(pool_run(pool, 0, count_item, tally));
        assert_ok(pool_run(pool, 1, count_item, tally));
        assert_int_equal(tally->runs[0], 4);
    }
}

static struct status fail_late(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    struct tally *tally = context;
    atomic_fetch_add(&tally->begun, 1);
    if (item >= tally->fails_from) {
        if (item == tally->fails_from)
            usleep(2000); /* so that later items fail earlier */
        FAIL(STATUS_CORRUPT, "item %d", (int)item);
    }
    return OK;
}

static void lowest_failure_comes_out(void **state)
{
    (void)state;
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(memory_free) struct tally *tally = NULL;
    assert_ok(memory_alloc(1, sizeof *tally, &tally));
    assert_ok(pool_open(4, &pool));
    for (int loop = 0; loop < 20; loop++) {
        tally->begun = 0;
        tally->fails_from = 100;
        struct status status = pool_run(pool, ITEMS, fail_late, tally);
        assert_string_equal(status_message(&status), "item 100");
        status_clear(&status);
        assert_true(tally->begun <= 104); /* nothing is begun after the first failure */
        tally->fails_from = ITEMS;
        assert_ok(pool_run(pool, ITEMS, fail_late, tally)); /* and the pool still works */
    }
}

struct caller {
    struct pool *pool;
    struct tally *tally;
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    for (int i = 0; i < 50; i++)
        status_ignore(pool_run(caller->pool, 100, count_item, caller->tally));
    return NULL;
}

static void callers_take_turns(void **state)
{
    (void)state;
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(memory_free) struct tally *tally = NULL;
    assert_ok(memory_alloc(1, sizeof *tally, &tally));
    assert_ok(pool_open(3, &pool));
    struct caller caller = {pool, tally};
    pthread_t threads[4];
    for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &caller), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 100; i++)
        assert_int_equal(tally->runs[i], 4 * 50);
}

static struct status run_inner(uint64_t item, unsigned thread, void *context)
{
    (void)item;
    (void)thread;
    struct caller *inner = context;
    return pool_run(inner->pool, 10, count_item, inner->tally);
}

static void pools_nest(void **state)
{
    (void)state;
    CLEANUP(pool_close) struct pool *outer = NULL;
    CLEANUP(pool_close) struct pool *inner = NULL;
    CLEANUP(memory_free) struct tally *tally = NULL;
    assert_ok(memory_alloc(1, sizeof *tally, &tally));
    assert_ok(pool_open(2, &outer));
    assert_ok(pool_open(2, &inner));
    struct caller caller = {inner, tally};
    assert_ok(pool_run(outer, 20, run_inner, &caller));
    assert_int_equal(tally->runs[9], 20);
}

static void affinity_limits_the_cores(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    unsigned cores = cores_available();
    assert_true(cores >= 1 && cores <= (unsigned)CPU_COUNT(&before));

    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cores_available(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_runs_once),       cmocka_unit_test(lowest_failure_comes_out),
        cmocka_unit_test(callers_take_turns),        cmocka_unit_test(pools_nest),
        cmocka_unit_test(affinity_limits_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
