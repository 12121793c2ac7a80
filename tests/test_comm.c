#include "tests/test.h"

#include "train/comm.h"

static void alone(void **state)
{
    (void)state;
    CLEANUP(comm_close) struct comm *comm = NULL;
    assert_ok(comm_open(&(struct comm_options){.launcher = LAUNCHER_ALONE}, &comm));
    assert_int_equal(comm_rank(comm), 0);
    assert_int_equal(comm_size(comm), 1);
    assert_int_equal(comm_local_rank(comm), 0);
    assert_int_equal(comm_local_size(comm), 1);
    assert_int_equal(comm_nodes(comm), 1);
    float single = 1.5F;
    double twofold = 2.5;
    uint64_t vote = 3, all = 0;
    assert_ok(comm_sum_f32(comm, &single, 1));
    assert_ok(comm_sum_f64(comm, &twofold, 1));
    assert_ok(comm_max_u64(comm, &vote, 1));
    assert_ok(comm_broadcast(comm, &vote, sizeof vote, 0));
    assert_ok(comm_gather(comm, &vote, sizeof vote, &all));
    assert_ok(comm_barrier(comm));
    assert_ok(comm_check(comm));
    assert_true(single == 1.5F && twofold == 2.5 && vote == 3 && all == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
