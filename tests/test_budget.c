/* A shared budget: never more taken than there is, but by one thread alone. */

#include <stdatomic.h>

#include "base/budget.h"
#include "base/pool.h"
#include "tests/test.h"

enum { CAPACITY = 100 };

struct shared {
    struct budget budget;
    atomic_int taken;
    atomic_bool exceeded;
};

/* 7 to 61 bytes, held for a moment. */
static struct status take_some(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    struct shared *shared = context;
    int bytes = 7 + (int)(item * 37 % 55);
    budget_take(&shared->budget, (uint64_t)bytes);
    if (atomic_fetch_add(&shared->taken, bytes) + bytes > CAPACITY)
        atomic_store(&shared->exceeded, true);
    sched_yield();
    atomic_fetch_sub(&shared->taken, bytes);
    budget_give_back(&shared->budget, (uint64_t)bytes);
    return OK;
}

static void test_threads_stay_within(void **state)
{
    (void)state;
    CLEANUP(pool_close) struct pool *pool = NULL;
    struct shared shared = {0};
    budget_init(&shared.budget, CAPACITY);
    assert_ok(pool_open(8, &pool));
    assert_ok(pool_run(pool, 3000, take_some, &shared));
    assert_false(atomic_load(&shared.exceeded));
    assert_in_range(budget_peak(&shared.budget), 61, CAPACITY);
    budget_done(&shared.budget);
}

static void test_more_than_all_is_granted_alone(void **state)
{
    (void)state;
    struct budget budget;
    budget_init(&budget, CAPACITY);
    budget_take(&budget, 3 * CAPACITY);
    assert_int_equal(budget_peak(&budget), 3 * CAPACITY);
    budget_give_back(&budget, 3 * CAPACITY);
    budget_take(&budget, CAPACITY);
    budget_give_back(&budget, CAPACITY);
    budget_done(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_stay_within),
        cmocka_unit_test(test_more_than_all_is_granted_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
