#include "tests/test.h"

#include "train/module.h"

static void test_names(void **state)
{
    (void)state;
    const struct backend_module *module = NULL;
    assert_ok(module_find("reference", &module));
    assert_ptr_equal(module, reference_backend_module());
    assert_fails(module_find("abacus", &module), STATUS_USAGE, "auto, cpu, reference");
}

/* Where no module is, `auto` takes the built-in backend and `cpu` says where it looked. */
static void test_missing(void **state)
{
    (void)state;
    setenv("HEADRACE_MODULES", test_folder(), 1);
    const struct backend_module *module = NULL;
    assert_ok(module_find("auto", &module));
    assert_ptr_equal(module, reference_backend_module());
    assert_fails(module_find("cpu", &module), STATUS_NOT_FOUND, test_folder());
    unsetenv("HEADRACE_MODULES");
}

/* A file that is no module is an error for `auto` too: something is broken, not absent. */
static void test_broken(void **state)
{
    (void)state;
    setenv("HEADRACE_MODULES", test_folder(), 1);
    assert_ok(file_write_atomic(test_path("headrace-cpu.so"), "text", 4));
    const struct backend_module *module = NULL;
    assert_fails(module_find("auto", &module), STATUS_FAILED, "headrace-cpu.so");
    assert_fails(module_find("cpu", &module), STATUS_FAILED, "cannot load");
    unsetenv("HEADRACE_MODULES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
