#include "tests/test.h"

#include <sys/wait.h>

#include "base/cpu.h"

/* What this process finds with HEADRACE_CPU set to `wish`, in bits; features are read once, so each
 * question is put in a child. */
static int features_with(const char *wish)
{
    pid_t child = fork();
    if (child == 0) {
        if (wish)
            setenv("HEADRACE_CPU", wish, 1);
        else
            unsetenv("HEADRACE_CPU");
        _exit((int)cpu_level() | cpu_has_sse42() << 2 | cpu_has_avx512_bf16() << 3 |
              cpu_has_amx_bf16() << 4);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    return WEXITSTATUS(result);
}

static void environment_lowers_the_level(void **state)
{
    (void)state;
    int native = features_with(NULL), avx2 = features_with("avx2");
    assert_int_equal(features_with("plain"), 0);
    assert_int_equal(features_with("avx512"), native);
    assert_true((avx2 & 3) <= CPU_AVX2 && (avx2 & 3) <= (native & 3));
    assert_int_equal(avx2 >> 3, 0); /* no bf16 without AVX-512 */
    assert_int_equal(features_with("nonsense"), native);
}

static void features_agree_with_the_compilers_view(void **state)
{
    (void)state;
#ifndef __aarch64__
    int native = features_with(NULL);
    if (native & 3)
        assert_true(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    if ((native & 3) == CPU_AVX512)
        assert_true(__builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vl"));
    assert_int_equal(native >> 2 & 1,
                     __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"));
#else
    assert_int_equal(features_with(NULL), CPU_NEON);
#endif
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(cpu_level_name(CPU_PLAIN), "plain");
#ifdef __aarch64__
    assert_string_equal(cpu_level_name(CPU_NEON), "neon");
#else
    assert_string_equal(cpu_level_name(CPU_AVX512), "avx512");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_lowers_the_level),
        cmocka_unit_test(features_agree_with_the_compilers_view),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
