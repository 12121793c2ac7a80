#include "tests/test.h"

#include "tests/support/parity.h"
#include "tests/support/reference_f64.h"
#include "train/module.h"

/* The reference backend against PyTorch's float64. In double every gradient agrees. What a float
 * can show is limited by ReLUs that fall to the other side: with γ = 1 PyTorch's own float32 is off
 * by 1e-3 to 1e-1. So f32 is compared where residual branches begin silent (γ = 0), and quiet (γ =
 * .2), which has a gradient in every tensor. */

static void check_f64(void **state)
{
    const struct backend_config config = {.dtype = DTYPE_F32};
    const struct parity_bounds bounds = {
        .gradient = 1e-9, .running = 1e-12, .logits = 1e-6, .loss = 1e-9, .steps = 2};
    assert_ok(parity_check(reference_f64_backend_module(), &config, *state, &bounds));
}

static void check_f32(const char *name, unsigned steps)
{
    const struct backend_config config = {.dtype = DTYPE_F32};
    const struct parity_bounds bounds = {
        .gradient = 1e-4, .running = 1e-5, .logits = 1e-5, .loss = 1e-3, .steps = steps};
    assert_ok(parity_check(reference_backend_module(), &config, name, &bounds));
}

static void check_f32_one_step(void **state)
{
    check_f32(*state, 1);
}

static void check_f32_ten_steps(void **state)
{
    check_f32(*state, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"resnet18 f64", check_f64, NULL, NULL, "resnet18"},
        {"resnet50 f64", check_f64, NULL, NULL, "resnet50"},
        {"resnet18 f32", check_f32_one_step, NULL, NULL, "resnet18_small"},
        {"resnet18 f32, ten steps", check_f32_ten_steps, NULL, NULL, "resnet18_zero"},
        {"resnet50 f32, ten steps", check_f32_ten_steps, NULL, NULL, "resnet50_zero"},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
