#include "tests/test.h"

#include <math.h>

#include "base/cpu.h"
#include "base/random.h"
#include "tests/support/parity.h"
#include "tests/support/reference_f64.h"
#include "train/initialise.h"
#include "train/module.h"

/* The oneDNN backend against the reference backend in double precision: small networks that hold
 * one fusion each, whole ResNets, and what backend.h promises beside the numbers. Skipped where the
 * module is not built. */

/* A network of one residual block. */
struct mini {
    bool bottleneck, shortcut; /* shortcut: a convolution, else the block's input itself */
    uint32_t stride;
    uint32_t batch, height, width, classes;
};

static const struct mini minis[] = {
    {false, false, 1, 3, 32, 32, 10}, {false, true, 2, 2, 65, 97, 7},
    {true, false, 1, 1, 40, 33, 10},  {true, true, 1, 4, 32, 36, 1},
    {true, true, 2, 3, 47, 50, 1000}, {false, true, 1, 5, 33, 32, 17},
};

static int node_put(struct network *network, enum node_kind kind, int input, int other, uint32_t in,
                    uint32_t out)
{
    assert_ok(memory_grow(network->node_count + 1, sizeof *network->nodes, &network->nodes,
                          &network->node_capacity));
    network->nodes[network->node_count] = (struct node){
        .kind = kind,
        .inputs = {input, other},
        .first_param = -1,
        .channels_in = in,
        .channels_out = out,
    };
    return (int)network->node_count++;
}

static void param_put(struct network *network, enum param_kind kind, unsigned rank, uint64_t a,
                      uint64_t b, uint64_t c)
{
    assert_ok(memory_grow(network->param_count + 1, sizeof *network->params, &network->params,
                          &network->param_capacity));
    struct param *param = &network->params[network->param_count];
    *param = (struct param){.kind = kind, .rank = rank, .shape = {a, b, c, c}};
    param->count = a * (rank > 1 ? b : 1) * (rank > 2 ? c * c : 1);
    snprintf(param->name, sizeof param->name, "param %zu", network->param_count++);
}

static int conv_bn_put(struct network *network, int input, uint32_t in, uint32_t out,
                       uint32_t kernel, uint32_t stride)
{
    int conv = node_put(network, NODE_CONV, input, -1, in, out);
    network->nodes[conv].kernel = kernel;
    network->nodes[conv].stride = stride;
    network->nodes[conv].padding = kernel / 2;
    network->nodes[conv].first_param = (int)network->param_count;
    param_put(network, PARAM_CONV_WEIGHT, 4, out, in, kernel);
    int bn = node_put(network, NODE_BN, conv, -1, out, out);
    network->nodes[bn].first_param = (int)network->param_count;
    for (int kind = PARAM_BN_WEIGHT; kind <= PARAM_COUNTER; kind++)
        if (kind != PARAM_FC_WEIGHT && kind != PARAM_FC_BIAS)
            param_put(network, (enum param_kind)kind, kind != PARAM_COUNTER, out, 0, 0);
    return bn;
}

static int relu_put(struct network *network, int input, uint32_t channels)
{
    return node_put(network, NODE_RELU, input, -1, channels, channels);
}

static int block_put(struct network *network, const struct mini *mini, int input, uint32_t in,
                     uint32_t out)
{
    int at = input;
    if (mini->bottleneck) {
        at = relu_put(network, conv_bn_put(network, at, in, 16, 1, 1), 16);
        at = relu_put(network, conv_bn_put(network, at, 16, 16, 3, mini->stride), 16);
        at = conv_bn_put(network, at, 16, out, 1, 1);
    } else {
        at = relu_put(network, conv_bn_put(network, at, in, 48, 3, mini->stride), 48);
        at = conv_bn_put(network, at, 48, out, 3, 1);
    }
    int other = mini->shortcut ? conv_bn_put(network, input, in, out, 1, mini->stride) : input;
    return relu_put(network, node_put(network, NODE_ADD, at, other, out, out), out);
}

static struct network *mini_open(const struct mini *mini)
{
    struct network *network;
    assert_ok(memory_alloc(1, sizeof *network, &network));
    snprintf(network->arch, sizeof network->arch, "mini");
    network->classes = mini->classes;
    uint32_t out = mini->shortcut ? 64 : 32;
    int at = node_put(network, NODE_INPUT, -1, -1, 3, 3);
    at = relu_put(network, conv_bn_put(network, at, 3, 32, 7, 2), 32);
    at = node_put(network, NODE_MAX_POOL, at, -1, 32, 32);
    network->nodes[at].kernel = 3;
    network->nodes[at].stride = 2;
    network->nodes[at].padding = 1;
    at = block_put(network, mini, at, 32, out);
    at = node_put(network, NODE_GLOBAL_AVG_POOL, at, -1, out, out);
    at = node_put(network, NODE_FC, at, -1, out, mini->classes);
    network->nodes[at].first_param = (int)network->param_count;
    param_put(network, PARAM_FC_WEIGHT, 2, mini->classes, out, 0);
    param_put(network, PARAM_FC_BIAS, 1, mini->classes, 0, 0);
    node_put(network, NODE_LOSS, at, -1, mini->classes, mini->classes);
    return network;
}

/* A backend at work on a network. */
struct session {
    const struct backend_ops *ops;
    const struct network *network; /* borrowed */
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
    struct plan_config config;
};

static const struct backend_module *cpu_module(void)
{
    const struct backend_module *module = NULL;
    struct status status = module_find("cpu", &module);
    if (status.code == STATUS_NOT_FOUND) {
        print_message("%s: skipped\n", status_message(&status));
        status_clear(&status);
        skip();
    }
    assert_ok(status);
    return module;
}

static void session_open(struct session *s, const struct backend_module *module,
                         enum train_dtype dtype, const struct network *network,
                         const struct plan_config *config)
{
    *s = (struct session){.ops = module->ops, .network = network, .config = *config};
    const struct backend_config backend = {.dtype = dtype};
    assert_ok(s->ops->open(&backend, &s->backend));
    assert_ok(s->ops->store_open(s->backend, network, &s->store));
    s->config.mode = PLAN_TRAIN;
    assert_ok(s->ops->plan_open(s->store, &s->config, &s->train));
    s->config.mode = PLAN_EVAL;
    assert_ok(s->ops->plan_open(s->store, &s->config, &s->eval));
}

static void session_close(struct session *s)
{
    s->ops->plan_close(s->train);
    s->ops->plan_close(s->eval);
    s->ops->store_close(s->store);
    s->ops->close(s->backend);
}

/* γ around 1 and β around 0 rather than at them, so that nothing hides. */
static void session_initialise(struct session *s, uint64_t seed, bool zero_gamma)
{
    assert_ok(initialise_store(s->network, s->ops, s->store, seed, zero_gamma));
    for (size_t i = 0; i < s->network->param_count && !zero_gamma; i++) {
        const struct param *param = &s->network->params[i];
        if (param->kind != PARAM_BN_WEIGHT && param->kind != PARAM_BN_BIAS)
            continue;
        double *values;
        assert_ok(memory_alloc(param->count, sizeof *values, &values));
        struct random_stream stream = random_stream_make(seed, RANDOM_TEST, 1, i);
        for (size_t c = 0; c < param->count; c++)
            values[c] = (float)((param->kind == PARAM_BN_WEIGHT) + .3 * random_normal(&stream));
        assert_ok(s->ops->store_write(s->store, ROLE_VALUE, i, values));
        memory_free(values);
    }
}

/* A batch in f32, bf16 and as it was drawn. */
struct batch {
    size_t count;
    float *f32;
    uint16_t *bf16;
    int32_t labels[16];
    uint32_t valid;
};

/* Images hold bf16 numbers, so that all types see the same. The last label of three or more is −1.
 */
static void batch_make(struct batch *batch, const struct plan_config *config, uint32_t classes,
                       uint64_t seed)
{
    struct random_stream stream = random_stream_make(seed, RANDOM_TEST, 2, 0);
    batch->count = (size_t)config->batch * config->height * config->width * 3;
    assert_ok(memory_alloc(batch->count, sizeof *batch->f32, &batch->f32));
    assert_ok(memory_alloc(batch->count, sizeof *batch->bf16, &batch->bf16));
    for (size_t i = 0; i < batch->count; i++) {
        float value = (float)random_normal(&stream);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits &= 0xffff0000;
        memcpy(&batch->f32[i], &bits, sizeof bits);
        batch->bf16[i] = (uint16_t)(bits >> 16);
    }
    batch->valid = 0;
    for (uint32_t i = 0; i < config->batch; i++) {
        bool missing = i >= 2 && i == config->batch - 1;
        batch->labels[i] = missing ? -1 : (int32_t)random_below(&stream, classes);
        batch->valid += !missing;
    }
}

static void batch_done(struct batch *batch)
{
    memory_free(batch->f32);
    memory_free(batch->bf16);
}

static struct step_input session_input(const struct session *s, const struct batch *batch)
{
    bool bf16 = s->ops->dtype(s->backend) == DTYPE_BF16;
    return (struct step_input){
        .images = bf16 ? (const void *)batch->bf16 : batch->f32,
        .labels = batch->labels,
        .valid = batch->valid,
        .divisor = batch->valid,
        .completes = true,
    };
}

static struct step_metrics session_metrics(const struct session *s, struct plan *plan)
{
    struct step_metrics metrics;
    size_t count;
    assert_ok(s->ops->plan_metrics(plan, &metrics, 1, &count));
    assert_int_equal(count, 1);
    return metrics;
}

static struct step_metrics session_train(const struct session *s, const struct batch *batch)
{
    struct step_input input = session_input(s, batch);
    assert_ok(s->ops->plan_forward_backward(s->train, &input));
    return session_metrics(s, s->train);
}

static struct step_metrics session_evaluate(const struct session *s, const struct batch *batch)
{
    struct step_input input = session_input(s, batch);
    assert_ok(s->ops->plan_forward(s->eval, &input));
    return session_metrics(s, s->eval);
}

static void session_update(const struct session *s, double learning_rate, bool nesterov)
{
    const struct update_rule rule = {
        .momentum = .9,
        .weight_decay = 1e-3,
        .nesterov = nesterov,
        .rates = &learning_rate,
        .rate_count = 1,
        .scale.value = 1,
    };
    assert_ok(s->ops->store_begin(s->store, &rule));
    assert_ok(s->ops->store_update(s->store));
}

static double *session_read(const struct session *s, enum param_role role, size_t param)
{
    double *values;
    assert_ok(memory_alloc(s->network->params[param].count, sizeof *values, &values));
    assert_ok(s->ops->store_read(s->store, role, param, values));
    return values;
}

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
