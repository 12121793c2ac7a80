#include "tests/test.h"

#include <math.h>

#include "base/cpu.h"
#include "base/random.h"
#include "tests/support/mini_network.h"
#include "tests/support/parity.h"
#include "tests/support/reference_f64.h"
#include "tests/support/session.h"
#include "train/module.h"

/* The oneDNN backend against the reference backend in double precision: small networks that hold
 * one fusion each, whole ResNets, and what backend.h promises beside the numbers. Skipped where the
 * module is not built. */

static const struct mini minis[] = {
    {false, false, 1, 3, 32, 32, 10}, {false, true, 2, 2, 65, 97, 7},
    {true, false, 1, 1, 40, 33, 10},  {true, true, 1, 4, 32, 36, 1},
    {true, true, 2, 3, 47, 50, 1000}, {false, true, 1, 5, 33, 32, 17},
};

/* ‖a − b‖ / ‖b‖, where norms below `floor` a number count as that. */
static double distance(const double *a, const double *b, size_t count, double floor)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    double least = floor * sqrt((double)count);
    norm = sqrt(norm);
    return sqrt(difference) / (norm > least ? norm : least);
}

/* The largest distance over all tensors of a role. */
static double sessions_distance(const struct session *a, const struct session *b,
                                enum param_role role, double floor, const char **ret_name)
{
    double largest = 0;
    for (size_t i = 0; i < a->network->param_count; i++) {
        const struct param *param = &a->network->params[i];
        if (param->kind == PARAM_COUNTER || (role != ROLE_VALUE && !param_is_trained(param)))
            continue;
        double *values = session_read(a, role, i), *wanted = session_read(b, role, i);
        double found = distance(values, wanted, param->count, floor);
        if (!(found <= largest)) {
            largest = found;
            *ret_name = param->name;
        }
        memory_free(values);
        memory_free(wanted);
    }
    return largest;
}

static void assert_roles_near(const struct session *a, const struct session *b,
                              enum param_role role, double floor, double tolerance)
{
    const char *name = "";
    double found = sessions_distance(a, b, role, floor, &name);
    if (!(found <= tolerance))
        fail_msg("role %d of '%s' is off by %.3g of its norm", (int)role, name, found);
}

static double logits_distance(const struct session *a, struct plan *plan_a, const struct session *b,
                              struct plan *plan_b)
{
    size_t count = (size_t)a->config.batch * a->network->classes;
    float *logits;
    double *doubles;
    assert_ok(memory_alloc(2 * count, sizeof *logits, &logits));
    assert_ok(memory_alloc(2 * count, sizeof *doubles, &doubles));
    assert_ok(a->ops->plan_logits(plan_a, logits));
    assert_ok(b->ops->plan_logits(plan_b, logits + count));
    for (size_t i = 0; i < 2 * count; i++)
        doubles[i] = (double)logits[i];
    double found = distance(doubles, doubles + count, count, 1e-3);
    memory_free(logits);
    memory_free(doubles);
    return found;
}

static void assert_metrics_near(struct step_metrics a, struct step_metrics b, double tolerance)
{
    assert_int_equal(a.count, b.count);
    if (!(fabs(a.loss_sum - b.loss_sum) <= tolerance * (1 + fabs(b.loss_sum))))
        fail_msg("loss %.9g, reference %.9g", a.loss_sum, b.loss_sum);
}

struct tolerances {
    double gradient, value, logits, loss;
};

/* Three training steps, then evaluation with the running statistics. */
static void sessions_compare(const struct session *cpu, const struct session *reference,
                             const struct batch *batch, const struct tolerances *tolerances)
{
    for (int step = 0; step < 3; step++) {
        struct step_metrics found = session_train(cpu, batch);
        struct step_metrics wanted = session_train(reference, batch);
        assert_metrics_near(found, wanted, tolerances->loss);
        assert_true(logits_distance(cpu, cpu->train, reference, reference->train) <
                    tolerances->logits);
        assert_roles_near(cpu, reference, ROLE_GRADIENT, 1e-4, tolerances->gradient);
        session_update(cpu, .002, step == 2);
        session_update(reference, .002, step == 2);
    }
    assert_roles_near(cpu, reference, ROLE_MOMENTUM, 1e-4, tolerances->gradient);
    assert_roles_near(cpu, reference, ROLE_VALUE, 1e-4, tolerances->value);
    struct step_metrics found = session_evaluate(cpu, batch);
    assert_metrics_near(found, session_evaluate(reference, batch), tolerances->loss);
    assert_true(logits_distance(cpu, cpu->eval, reference, reference->eval) < tolerances->logits);
}

static void mini_compare(const struct mini *mini, enum train_dtype dtype,
                         const struct tolerances *tolerances)
{
    const struct plan_config config = {
        .batch = mini->batch,
        .height = mini->height,
        .width = mini->width,
        .label_smoothing = mini->shortcut ? .1f : 0,
    };
    struct network *network = mini_open(mini);
    struct session cpu, reference;
    struct batch batch;
    session_open(&cpu, cpu_module(), dtype, network, &config);
    session_open(&reference, reference_f64_backend_module(), DTYPE_F32, network, &config);
    session_initialise(&cpu, 1, false);
    session_initialise(&reference, 1, false);
    batch_make(&batch, &config, mini->classes, 2);
    sessions_compare(&cpu, &reference, &batch, tolerances);
    batch_done(&batch);
    session_close(&cpu);
    session_close(&reference);
    network_close(network);
}

static void test_fusions_f32(void **state)
{
    (void)state;
    const struct tolerances tolerances = {1e-4, 1e-5, 1e-4, 1e-5};
    for (size_t i = 0; i < ARRAY_LENGTH(minis); i++)
        mini_compare(&minis[i], DTYPE_F32, &tolerances);
}

static bool bf16_runs(void)
{
    if (!cpu_has_avx512_bf16())
        print_message("bf16: skipped on this processor\n");
    return cpu_has_avx512_bf16();
}

static void test_fusions_bf16(void **state)
{
    (void)state;
    const struct tolerances tolerances = {.3, .02, .05, .02};
    for (size_t i = 0; bf16_runs() && i < ARRAY_LENGTH(minis); i++)
        mini_compare(&minis[i], DTYPE_BF16, &tolerances);
}

/* Whole networks against PyTorch, as tests/test_parity.c holds the reference backend. */
static void check_parity(void **state)
{
    const struct backend_config config = {.dtype = DTYPE_F32};
    const char *name = *state;
    const struct parity_bounds bounds = {
        .gradient = 1e-4,
        .running = 1e-5,
        .logits = 1e-5,
        .loss = 1e-3,
        .steps = strstr(name, "zero") ? 10 : 1,
    };
    assert_ok(parity_check(cpu_module(), &config, name, &bounds));
}

/* Single elements of gradients say little in bf16: those of PyTorch's own are off by up to half of
 * the largest. The small networks above bound whole tensors. */
static void check_parity_bf16(void **state)
{
    const struct backend_config config = {.dtype = DTYPE_BF16};
    const struct parity_bounds bounds = {
        .gradient = 1, .running = .05, .logits = .03, .loss = .1, .steps = 10};
    if (bf16_runs())
        assert_ok(parity_check(cpu_module(), &config, *state, &bounds));
}

static const struct mini ordinary = {true, true, 2, 3, 40, 48, 10};
static const struct plan_config ordinary_config = {.batch = 3, .height = 40, .width = 48};

/* The same network, weights and steps twice: every bit is the same. */
static void test_repeats_exactly(void **state)
{
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype += DTYPE_BF16 - DTYPE_F32) {
        if (dtype == DTYPE_BF16 && !bf16_runs())
            continue;
        struct network *network = mini_open(&ordinary);
        struct session sessions[2];
        struct batch batch;
        batch_make(&batch, &ordinary_config, 10, 2);
        for (int i = 0; i < 2; i++) {
            session_open(&sessions[i], cpu_module(), (enum train_dtype)dtype, network,
                         &ordinary_config);
            session_initialise(&sessions[i], 1, false);
            for (int step = 0; step < 5; step++) {
                session_train(&sessions[i], &batch);
                session_update(&sessions[i], .05, false);
            }
        }
        const char *name;
        for (int role = ROLE_VALUE; role <= ROLE_MOMENTUM; role++)
            assert_true(sessions_distance(&sessions[0], &sessions[1], (enum param_role)role, 1e-9,
                                          &name) == 0);
        session_close(&sessions[0]);
        session_close(&sessions[1]);
        batch_done(&batch);
        network_close(network);
    }
}

static void tensor_check(const struct session *s, enum param_role role, size_t i, bool write)
{
    const struct param *param = &s->network->params[i];
    if (param->kind == PARAM_COUNTER || (role != ROLE_VALUE && !param_is_trained(param)))
        return;
    double *wanted;
    assert_ok(memory_alloc(param->count, sizeof *wanted, &wanted));
    struct random_stream stream = random_stream_make(3, RANDOM_TEST, role, i);
    for (size_t c = 0; c < param->count; c++)
        wanted[c] = (float)random_normal(&stream);
    if (write)
        assert_ok(s->ops->store_write(s->store, role, i, wanted));
    double *values = session_read(s, role, i);
    assert_memory_equal(values, wanted, param->count * sizeof *values);
    memory_free(values);
    memory_free(wanted);
}

static void store_check(const struct session *s, bool write)
{
    for (int role = ROLE_VALUE; role <= ROLE_MOMENTUM; role++)
        for (size_t i = 0; i < s->network->param_count; i++)
            tensor_check(s, (enum param_role)role, i, write);
}

/* What is written comes back bit for bit, also when a training plan has changed the layout in
 * between. */
static void test_store_is_exact(void **state)
{
    (void)state;
    struct network *network = mini_open(&ordinary);
    struct session s = {.ops = cpu_module()->ops, .network = network};
    const struct backend_config config = {.dtype = DTYPE_AUTO};
    assert_ok(s.ops->open(&config, &s.backend));
    assert_ok(s.ops->store_open(s.backend, network, &s.store));
    store_check(&s, true);
    assert_ok(s.ops->plan_open(s.store, &ordinary_config, &s.train));
    store_check(&s, false);
    store_check(&s, true);
    double value;
    assert_fails(s.ops->store_read(s.store, ROLE_GRADIENT, 3, &value), STATUS_USAGE,
                 "no such tensor");
    s.ops->plan_close(s.train);
    s.ops->store_close(s.store);
    s.ops->close(s.backend);
    network_close(network);
}

/* Plans of several shapes share a store, whichever of them chose its layout. */
static void test_plans_share_a_store(void **state)
{
    (void)state;
    const struct plan_config other_config = {.batch = 2, .height = 70, .width = 33};
    struct network *network = mini_open(&ordinary);
    struct session cpu, reference;
    struct batch batch, other_batch;
    session_open(&cpu, cpu_module(), DTYPE_F32, network, &ordinary_config);
    session_open(&reference, reference_f64_backend_module(), DTYPE_F32, network, &ordinary_config);
    session_initialise(&cpu, 1, false);
    session_initialise(&reference, 1, false);
    struct plan *cpu_first = cpu.train, *reference_first = reference.train;
    assert_ok(cpu.ops->plan_open(cpu.store, &other_config, &cpu.train));
    assert_ok(reference.ops->plan_open(reference.store, &other_config, &reference.train));
    batch_make(&batch, &ordinary_config, 10, 2);
    batch_make(&other_batch, &other_config, 10, 3);
    for (int step = 0; step < 4; step++) {
        struct plan *plan = cpu.train, *reference_plan = reference.train;
        session_train(&cpu, step % 2 ? &batch : &other_batch);
        session_train(&reference, step % 2 ? &batch : &other_batch);
        assert_roles_near(&cpu, &reference, ROLE_GRADIENT, 1e-4, 1e-4);
        session_update(&cpu, .01, false);
        session_update(&reference, .01, false);
        cpu.train = cpu_first;
        reference.train = reference_first;
        cpu_first = plan;
        reference_first = reference_plan;
    }
    cpu.ops->plan_close(cpu_first);
    reference.ops->plan_close(reference_first);
    batch_done(&batch);
    batch_done(&other_batch);
    session_close(&cpu);
    session_close(&reference);
    network_close(network);
}

/* An evaluation plan folds anew after an update, and after a value was written. */
static void test_folding_follows_the_store(void **state)
{
    (void)state;
    struct network *network = mini_open(&ordinary);
    struct session cpu, reference;
    struct batch batch;
    session_open(&cpu, cpu_module(), DTYPE_F32, network, &ordinary_config);
    session_open(&reference, reference_f64_backend_module(), DTYPE_F32, network, &ordinary_config);
    batch_make(&batch, &ordinary_config, 10, 2);
    for (uint64_t seed = 1; seed < 3; seed++) {
        session_initialise(&cpu, seed, false);
        session_initialise(&reference, seed, false);
        for (int round = 0; round < 2; round++) {
            assert_metrics_near(session_evaluate(&cpu, &batch),
                                session_evaluate(&reference, &batch), 1e-4);
            assert_true(logits_distance(&cpu, cpu.eval, &reference, reference.eval) < 1e-4);
            session_train(&cpu, &batch);
            session_train(&reference, &batch);
            session_update(&cpu, .01, false);
            session_update(&reference, .01, false);
        }
    }
    batch_done(&batch);
    session_close(&cpu);
    session_close(&reference);
    network_close(network);
}

/* Large activations are evaluated a few images at a time. */
static void test_evaluation_in_parts(void **state)
{
    (void)state;
    static const struct mini large[] = {
        {true, true, 1, 10, 192, 190, 10},
        {true, false, 1, 10, 260, 256, 10},
        {true, false, 1, 11, 60, 64, 10},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(large); i++) {
        const struct plan_config config = {.batch = large[i].batch,
                                           .height = large[i].height,
                                           .width = large[i].width};
        struct network *network = mini_open(&large[i]);
        struct session cpu, reference;
        struct batch batch;
        session_open(&cpu, cpu_module(), DTYPE_F32, network, &config);
        session_open(&reference, reference_backend_module(), DTYPE_F32, network, &config);
        session_initialise(&cpu, 1, false);
        session_initialise(&reference, 1, false);
        batch_make(&batch, &config, 10, 2);
        assert_metrics_near(session_evaluate(&cpu, &batch), session_evaluate(&reference, &batch),
                            1e-4);
        assert_true(logits_distance(&cpu, cpu.eval, &reference, reference.eval) < 1e-4);
        batch_done(&batch);
        session_close(&cpu);
        session_close(&reference);
        network_close(network);
    }
}

/* Metrics come oldest first; of more steps than are kept, the last. */
static void test_metrics_queue(void **state)
{
    (void)state;
    enum { STEPS = 1030, KEPT = 1024 };
    const struct mini tiny = {false, true, 2, 3, 32, 32, 10};
    const struct plan_config config = {.batch = 3, .height = 32, .width = 32};
    struct network *network = mini_open(&tiny);
    struct session s;
    struct batch batch;
    session_open(&s, cpu_module(), DTYPE_F32, network, &config);
    session_initialise(&s, 1, false);
    batch_make(&batch, &config, 10, 2);
    struct step_input input = session_input(&s, &batch);
    for (int step = 0; step < STEPS; step++) {
        batch.labels[1] = step % 4 == 3 ? -1 : 0;
        assert_ok(s.ops->plan_forward(s.eval, &input));
    }
    struct step_metrics metrics[KEPT];
    size_t count;
    assert_ok(s.ops->plan_metrics(s.eval, metrics, 2, &count));
    assert_int_equal(count, 2);
    assert_int_equal(metrics[0].count, 2); /* step 6 */
    assert_int_equal(metrics[1].count, 1); /* step 7 */
    assert_ok(s.ops->plan_metrics(s.eval, metrics, KEPT, &count));
    assert_int_equal(count, KEPT - 2);
    assert_int_equal(metrics[count - 1].count, 2); /* step 1029 */
    assert_ok(s.ops->plan_metrics(s.eval, metrics, KEPT, &count));
    assert_int_equal(count, 0);
    batch_done(&batch);
    session_close(&s);
    network_close(network);
}

static void test_refusals(void **state)
{
    (void)state;
    const struct backend_ops *cpu = cpu_module()->ops;
    struct backend *backend;
    const struct backend_config fp16 = {.dtype = DTYPE_FP16};
    assert_fails(cpu->open(&fp16, &backend), STATUS_UNSUPPORTED, "not in fp16");

    const struct plan_config config = {.batch = 1, .height = 32, .width = 32};
    const struct mini mini = {false, true, 2, 1, 32, 32, 10};
    struct network *network = mini_open(&mini);
    struct session s;
    session_open(&s, cpu_module(), DTYPE_F32, network, &config);
    float *image;
    assert_ok(memory_alloc(32 * 32 * 3, sizeof *image, &image));
    int32_t label = 10;
    const struct step_input input = {
        .images = image,
        .labels = &label,
        .valid = 1,
        .divisor = 1,
        .completes = true,
    };
    assert_fails(cpu->plan_forward_backward(s.train, &input), STATUS_USAGE, "label 10");
    assert_fails(cpu->plan_forward(s.train, &input), STATUS_USAGE, "does not evaluate");
    label = 9;
    assert_ok(cpu->plan_forward_backward(s.train, &input));
    memory_free(image);

    struct plan *plan;
    network->nodes[5].inputs[0] = 3;
    assert_fails(cpu->plan_open(s.store, &config, &plan), STATUS_UNSUPPORTED, "cannot plan node 5");
    network->nodes[5].inputs[0] = 4;
    const struct plan_config small = {.batch = 1, .height = 8, .width = 8};
    assert_fails(cpu->plan_open(s.store, &small, &plan), STATUS_USAGE, "one value a channel");
    session_close(&s);
    network_close(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fusions_f32),
        cmocka_unit_test(test_fusions_bf16),
        {"resnet18 f32", check_parity, NULL, NULL, "resnet18_small"},
        {"resnet18-blur f32", check_parity, NULL, NULL, "resnet18_blur"},
        {"resnet18 f32, ten steps", check_parity, NULL, NULL, "resnet18_zero"},
        {"resnet50 f32, ten steps", check_parity, NULL, NULL, "resnet50_zero"},
        {"resnet18 bf16, ten steps", check_parity_bf16, NULL, NULL, "resnet18_zero"},
        {"resnet50 bf16, ten steps", check_parity_bf16, NULL, NULL, "resnet50_zero"},
        cmocka_unit_test(test_repeats_exactly),
        cmocka_unit_test(test_store_is_exact),
        cmocka_unit_test(test_plans_share_a_store),
        cmocka_unit_test(test_folding_follows_the_store),
        cmocka_unit_test(test_evaluation_in_parts),
        cmocka_unit_test(test_metrics_queue),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
