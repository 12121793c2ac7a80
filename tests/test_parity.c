#include "tests/test.h"

#include "tests/support/parity.h"
#include "tests/support/reference_f64.h"
#include "train/module.h"

/* The reference backend against PyTorch's float64. In double every gradient agrees. What a float
 * can show is limited by ReLUs that fall to the other side: with γ = 1 PyTorch's own float32 is off
 * by 1e-3 to 1e-1. So f32 is compared where residual branches begin silent (γ = 0), and quiet (γ =
 * .2), which has a gradient in every tensor. */

struct check {
    const char *golden;
    unsigned steps;
};

static void check_f64(void **state)
{
    const struct check *check = *state;
    const struct backend_config config = {.dtype = DTYPE_F32};
    const struct parity_bounds bounds = {
        .gradient = 1e-9, .running = 1e-12, .logits = 1e-6, .loss = 1e-9, .steps = check->steps};
    assert_ok(parity_check(reference_f64_backend_module(), &config, check->golden, &bounds));
}

static void check_f32(void **state)
{
    const struct check *check = *state;
    const struct backend_config config = {.dtype = DTYPE_F32};
    const struct parity_bounds bounds = {
        .gradient = 1e-4, .running = 1e-5, .logits = 1e-5, .loss = 1e-3, .steps = check->steps};
    assert_ok(parity_check(reference_backend_module(), &config, check->golden, &bounds));
}

int main(void)
{
    struct check resnet18 = {"resnet18", 2}, resnet18_small = {"resnet18_small", 1};
    struct check resnet18_blur = {"resnet18_blur", 2};
    const struct CMUnitTest short_tests[] = {
        {"resnet18 f64", check_f64, NULL, NULL, &resnet18},
        {"resnet18 f32", check_f32, NULL, NULL, &resnet18_small},
        {"resnet18-blur f64", check_f64, NULL, NULL, &resnet18_blur},
    };
    int failed = cmocka_run_group_tests(short_tests, NULL, NULL);
#ifndef __SANITIZE_ADDRESS__ /* ten times slower, and it has seen all loops by now */
    struct check resnet50 = {"resnet50", 2};
    struct check resnet18_zero = {"resnet18_zero", 10}, resnet50_zero = {"resnet50_zero", 10};
    const struct CMUnitTest long_tests[] = {
        {"resnet50 f64", check_f64, NULL, NULL, &resnet50},
        {"resnet18 f32, ten steps", check_f32, NULL, NULL, &resnet18_zero},
        {"resnet50 f32, ten steps", check_f32, NULL, NULL, &resnet50_zero},
    };
    failed += cmocka_run_group_tests(long_tests, NULL, NULL);
#endif
    return failed;
}
