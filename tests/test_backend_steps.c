#include "tests/test.h"

#include <math.h>

#include "tests/support/mini_network.h"
#include "tests/support/session.h"
#include "train/stepping.h"

/* What backend.h promises of a step's parts, held against each backend: micro-batches that add up,
 * the loss scale, steps that are skipped. */

static const struct mini mini = {true, true, 2, 3, 32, 32, 10};
static const struct plan_config config = {.batch = 3, .height = 32, .width = 32};

struct device {
    const char *name; /* of --device */
    enum train_dtype dtype;
};
static const struct device reference_f32 = {"reference", DTYPE_F32};
static const struct device cpu_f32 = {"cpu", DTYPE_F32}, cpu_bf16 = {"cpu", DTYPE_BF16};

static const struct backend_module *module_of(const struct device *device)
{
    return strcmp(device->name, "cpu") == 0 ? cpu_module_for(device->dtype)
                                            : reference_backend_module();
}

static void device_open(struct session *s, const struct backend_module *module,
                        const struct device *device, struct network *network)
{
    session_open(s, module, device->dtype, network, &config);
    session_initialise(s, 1, false);
}

/* Learning rates .1, .2, … and what else a test asks for. */
static void updates_begin(const struct session *s, struct loss_scale scale, uint64_t applied)
{
    static const double rates[] = {.1, .2, .3};
    const struct update_rule rule = {
        .momentum = .9,
        .weight_decay = 1e-3,
        .rates = rates,
        .rate_count = ARRAY_LENGTH(rates),
        .applied = applied,
        .scale = scale,
    };
    assert_ok(s->ops->store_begin(s->store, &rule));
}

/* All tensors of a role, one after the other, on the heap. */
static double *role_read(const struct session *s, enum param_role role, size_t *ret_count)
{
    double *all = NULL;
    *ret_count = 0;
    for (size_t p = 0; p < s->network->param_count; p++) {
        const struct param *param = &s->network->params[p];
        if (!param_is_trained(param))
            continue;
        assert_ok(memory_resize(*ret_count + param->count, sizeof *all, &all));
        assert_ok(s->ops->store_read(s->store, role, p, all + *ret_count));
        *ret_count += param->count;
    }
    return all;
}

static void micro_batch_run(const struct session *s, const struct batch *batch, uint64_t divisor,
                            bool adds, bool completes)
{
    struct step_input input = session_input(s, batch);
    input.divisor = divisor;
    input.adds = adds;
    input.completes = completes;
    assert_ok(s->ops->plan_forward_backward(s->train, &input));
}

static double *gradient_of(const struct session *s, const struct batch *batch, uint64_t divisor,
                           size_t *ret_count)
{
    micro_batch_run(s, batch, divisor, false, true);
    return role_read(s, ROLE_GRADIENT, ret_count);
}

/* The gradient of a step is the sum of its micro-batches'. */
static void test_micro_batches_add_up(void **state)
{
    const struct backend_module *module = module_of(*state);
    struct network *network = mini_open(&mini);
    struct session s;
    struct batch batches[3];
    double *gradients[3], *sum;
    size_t count;
    device_open(&s, module, *state, network);
    for (uint64_t i = 0; i < 3; i++) {
        batch_make(&batches[i], &config, mini.classes, i);
        gradients[i] = gradient_of(&s, &batches[i], 6, &count);
    }
    for (unsigned i = 0; i < 3; i++)
        micro_batch_run(&s, &batches[i], 6, i > 0, i == 2);
    sum = role_read(&s, ROLE_GRADIENT, &count);
    for (size_t i = 0; i < count; i++) {
        float first = (float)gradients[0][i] + (float)gradients[1][i];
        assert_true(sum[i] == (double)(first + (float)gradients[2][i]));
    }
    struct step_metrics metrics[8];
    assert_ok(s.ops->plan_metrics(s.train, metrics, ARRAY_LENGTH(metrics), &count));
    assert_int_equal(count, 6);
    assert_true(metrics[2].completes && !metrics[3].completes && !metrics[4].completes);
    assert_true(metrics[5].completes && !metrics[5].applied); /* nothing was updated */
    for (unsigned i = 0; i < 3; i++) {
        memory_free(gradients[i]);
        batch_done(&batches[i]);
    }
    memory_free(sum);
    session_close(&s);
    network_close(network);
}

/* A power of two changes exponents only; what the update makes of the gradients is the same. */
static void test_the_loss_scale_cancels(void **state)
{
    const struct backend_module *module = module_of(*state);
    struct network *network = mini_open(&mini);
    struct session s;
    struct batch batch;
    double *plain, *scaled, *values[2];
    size_t count;
    batch_make(&batch, &config, mini.classes, 1);
    device_open(&s, module, *state, network);
    updates_begin(&s, (struct loss_scale){.value = 1}, 0);
    plain = gradient_of(&s, &batch, batch.valid, &count);
    assert_ok(s.ops->store_update(s.store));
    values[0] = role_read(&s, ROLE_VALUE, &count);
    session_close(&s);

    device_open(&s, module, *state, network);
    updates_begin(&s, (struct loss_scale){.value = 1024}, 0);
    scaled = gradient_of(&s, &batch, batch.valid, &count);
    assert_ok(s.ops->store_update(s.store));
    values[1] = role_read(&s, ROLE_VALUE, &count);
    for (size_t i = 0; i < count; i++)
        assert_true(scaled[i] == 1024 * plain[i]);
    assert_memory_equal(values[0], values[1], count * sizeof *plain);
    for (unsigned i = 0; i < 2; i++)
        memory_free(values[i]);
    memory_free(plain);
    memory_free(scaled);
    batch_done(&batch);
    session_close(&s);
    network_close(network);
}

static void gradient_break(const struct session *s, double value)
{
    double *gradient = session_read(s, ROLE_GRADIENT, 0);
    gradient[7] = value;
    assert_ok(s->ops->store_write(s->store, ROLE_GRADIENT, 0, gradient));
    memory_free(gradient);
}

/* A gradient that is not finite: weights and momentum stay, the schedule waits, the scale falls. */
static void test_a_broken_gradient_skips_the_step(void **state)
{
    const double breaks[] = {0, (double)INFINITY, (double)NAN, 0};
    const struct backend_module *module = module_of(*state);
    struct network *network = mini_open(&mini);
    struct session s;
    struct batch batch;
    size_t count;
    batch_make(&batch, &config, mini.classes, 1);
    device_open(&s, module, *state, network);
    updates_begin(&s, (struct loss_scale){.value = 8, .dynamic = true, .grow_after = 9}, 40);
    for (size_t i = 0; i < ARRAY_LENGTH(breaks); i++) {
        double *roles[2][2];
        micro_batch_run(&s, &batch, batch.valid, false, true);
        if (breaks[i] != 0)
            gradient_break(&s, breaks[i]);
        roles[0][0] = role_read(&s, ROLE_VALUE, &count);
        roles[0][1] = role_read(&s, ROLE_MOMENTUM, &count);
        assert_ok(s.ops->store_update(s.store));
        roles[1][0] = role_read(&s, ROLE_VALUE, &count);
        roles[1][1] = role_read(&s, ROLE_MOMENTUM, &count);
        for (unsigned j = 0; j < 2; j++) {
            bool same = memcmp(roles[0][j], roles[1][j], count * sizeof **roles[j]) == 0;
            assert_int_equal(same, breaks[i] != 0);
            memory_free(roles[0][j]);
            memory_free(roles[1][j]);
        }
    }
    uint64_t applied;
    struct loss_scale scale;
    assert_ok(s.ops->store_progress(s.store, &applied, &scale));
    assert_int_equal(applied, 42);
    assert_true(scale.value == 2 && scale.dynamic);
    assert_int_equal(scale.clean_steps, 1);
    struct step_metrics metrics[4];
    assert_ok(s.ops->plan_metrics(s.train, metrics, ARRAY_LENGTH(metrics), &count));
    const double rates[] = {.1, .2, .2, .2}, scales[] = {8, 8, 4, 2};
    for (size_t i = 0; i < ARRAY_LENGTH(metrics); i++) {
        assert_int_equal(metrics[i].applied, breaks[i] == 0);
        assert_true(metrics[i].learning_rate == rates[i] && metrics[i].loss_scale == scales[i]);
    }
    batch_done(&batch);
    session_close(&s);
    network_close(network);
}

/* Growth after enough clean steps, to what f32 holds; a static scale stays. */
static void test_the_scale_moves_as_pytorchs(void **state)
{
    (void)state;
    const double rate = .1;
    struct update_rule rule = {
        .rates = &rate,
        .rate_count = 1,
        .scale = {.value = 0x1p126, .dynamic = true, .grow_after = 3, .clean_steps = 2},
    };
    CLEANUP(memory_free) struct stepping *stepping = NULL;
    assert_ok(memory_alloc(1, sizeof *stepping, &stepping));
    stepping_init(stepping);
    assert_ok(stepping_begin(stepping, &rule));
    const double values[] = {0x1p127, 0x1p127, 0x1p127, 0x1p127, 0x1p126, 0x1p126};
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        stepping_advance(stepping, i != 4);
        assert_true(stepping->scale.value == values[i]);
    }
    assert_int_equal(stepping->applied, 5);
    assert_true(stepping_loss_weight(stepping, 4) == 0x1p124);
    assert_true(stepping_loss_weight(stepping, 0) == 0);
    rule.scale = (struct loss_scale){.value = 128};
    assert_ok(stepping_begin(stepping, &rule));
    for (size_t i = 0; i < 5000; i++)
        stepping_advance(stepping, i % 3 == 0);
    assert_true(stepping->scale.value == 128 && stepping_rate(stepping) == rate);
    stepping_done(stepping);
}

#define ON_EACH(test)                                                                              \
    {"reference f32: " #test, test, NULL, NULL, (void *)&reference_f32},                           \
        {"cpu f32: " #test, test, NULL, NULL, (void *)&cpu_f32},                                   \
    {                                                                                              \
        "cpu bf16: " #test, test, NULL, NULL, (void *)&cpu_bf16                                    \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(test_micro_batches_add_up),
        ON_EACH(test_the_loss_scale_cancels),
        ON_EACH(test_a_broken_gradient_skips_the_step),
        cmocka_unit_test(test_the_scale_moves_as_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
