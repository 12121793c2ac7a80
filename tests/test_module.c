#include "tests/test.h"

#include "train/module.h"

static void test_names(void **state)
{
    (void)state;
    const struct backend_module *module = NULL;
    assert_ok(module_find("reference", &module));
    assert_ptr_equal(module, reference_backend_module());
    assert_fails(module_find("abacus", &module), STATUS_USAGE, "auto, cpu, cuda, reference");
}

/* Where no module is, `auto` takes the built-in backend and `cpu` says where it looked. */
static void test_missing(void **state)
{
    (void)state;
    setenv("HEADRACE_MODULES", test_folder(), 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    const struct backend_module *module = NULL;
    assert_ok(module_find("auto", &module));
    assert_ptr_equal(module, reference_backend_module());
    assert_fails(module_find("cpu", &module), STATUS_NOT_FOUND, test_folder());
    unsetenv("HEADRACE_MODULES");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* A file that is no module is an error for `auto` too: something is broken, not absent. */
static void test_broken(void **state)
{
    (void)state;
    setenv("HEADRACE_MODULES", test_folder(), 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_ok(file_write_atomic(test_path("headrace-cpu.so"), "text", 4));
    const struct backend_module *module = NULL;
    assert_fails(module_find("auto", &module), STATUS_FAILED, "headrace-cpu.so");
    assert_fails(module_find("cpu", &module), STATUS_FAILED, "cannot load");
    unsetenv("HEADRACE_MODULES");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* What speaks of an NVIDIA device makes a cuda that is missing an error; never the CPU instead. */
static void test_nvidia_signs(void **state)
{
    (void)state;
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS",
                                            "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE"};
    setenv("HEADRACE_MODULES", test_folder(), 1);
    const struct backend_module *module = NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++) {
        setenv(variables[i], "1", 1);
        assert_fails(module_find("auto", &module), STATUS_NOT_FOUND, "headrace-cuda.so");
        unsetenv(variables[i]);
    }
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    setenv("SLURM_JOB_GPUS", "0", 1);
    assert_ok(module_find("auto", &module));
    assert_ptr_equal(module, reference_backend_module());
    assert_fails(module_find("cuda", &module), STATUS_NOT_FOUND, test_folder());
    unsetenv("SLURM_JOB_GPUS");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("HEADRACE_MODULES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_nvidia_signs),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
