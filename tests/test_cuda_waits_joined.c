#include "tests/cuda/stream_waits.h"

/* With --sync-bn. */

static void test_f32(void **state)
{
    (void)state;
    check_waits(2, DTYPE_F32, true);
}

/* fp16 sums what its fused patterns leave. */
static void test_fp16(void **state)
{
    (void)state;
    check_waits(2, DTYPE_FP16, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_fp16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
