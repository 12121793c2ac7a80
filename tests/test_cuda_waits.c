#include "tests/cuda/stream_waits.h"

static void test_waits(void **state)
{
    (void)state;
    check_waits(1, DTYPE_F32, false);
    check_waits(2, DTYPE_F32, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
