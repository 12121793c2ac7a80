#include "tests/support/session.h"

#include "base/cpu.h"
#include "base/random.h"
#include "tests/test.h"
#include "train/initialise.h"

const struct backend_module *cpu_module(void)
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

const struct backend_module *cpu_module_for(enum train_dtype dtype)
{
    if (dtype == DTYPE_BF16 && !cpu_has_avx512_bf16()) {
        print_message("no bf16 on this processor: skipped\n");
        skip();
    }
    return cpu_module();
}

void session_open_with(struct session *s, const struct backend_module *module,
                       const struct backend_config *backend, const struct network *network,
                       const struct plan_config *config)
{
    *s = (struct session){.ops = module->ops, .network = network, .config = *config};
    assert_ok(s->ops->open(backend, &s->backend));
    assert_ok(s->ops->store_open(s->backend, network, &s->store));
    s->config.mode = PLAN_TRAIN;
    assert_ok(s->ops->plan_open(s->store, &s->config, &s->train));
    s->config.mode = PLAN_EVAL;
    assert_ok(s->ops->plan_open(s->store, &s->config, &s->eval));
}

void session_open(struct session *s, const struct backend_module *module, enum train_dtype dtype,
                  const struct network *network, const struct plan_config *config)
{
    const struct backend_config backend = {.dtype = dtype};
    session_open_with(s, module, &backend, network, config);
}

void session_close(struct session *s)
{
    s->ops->plan_close(s->train);
    s->ops->plan_close(s->eval);
    s->ops->store_close(s->store);
    s->ops->close(s->backend);
}

void norms_draw(const struct network *network, const struct backend_ops *ops, struct store *store,
                uint64_t seed, uint64_t purpose)
{
    for (size_t i = 0; i < network->param_count; i++) {
        const struct param *param = &network->params[i];
        if (param->kind != PARAM_BN_WEIGHT && param->kind != PARAM_BN_BIAS)
            continue;
        double *values;
        assert_ok(memory_alloc(param->count, sizeof *values, &values));
        struct random_stream stream = random_stream_make(seed, RANDOM_TEST, purpose, i);
        for (size_t c = 0; c < param->count; c++)
            values[c] = (float)((param->kind == PARAM_BN_WEIGHT) + .3 * random_normal(&stream));
        assert_ok(ops->store_write(store, ROLE_VALUE, i, values));
        memory_free(values);
    }
}

void session_initialise(struct session *s, uint64_t seed, bool zero_gamma)
{
    assert_ok(initialise_store(s->network, s->ops, s->store, seed, zero_gamma));
    if (!zero_gamma)
        norms_draw(s->network, s->ops, s->store, seed, 1);
}

void batch_make(struct batch *batch, const struct plan_config *config, uint32_t classes,
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

void batch_done(struct batch *batch)
{
    memory_free(batch->f32);
    memory_free(batch->bf16);
}

struct step_input session_input(const struct session *s, const struct batch *batch)
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

struct step_metrics session_metrics(const struct session *s, struct plan *plan)
{
    struct step_metrics metrics;
    size_t count;
    assert_ok(s->ops->plan_metrics(plan, &metrics, 1, &count));
    assert_int_equal(count, 1);
    return metrics;
}

struct step_metrics session_train(const struct session *s, const struct batch *batch)
{
    struct step_input input = session_input(s, batch);
    assert_ok(s->ops->plan_forward_backward(s->train, &input));
    return session_metrics(s, s->train);
}

struct step_metrics session_evaluate(const struct session *s, const struct batch *batch)
{
    struct step_input input = session_input(s, batch);
    assert_ok(s->ops->plan_forward(s->eval, &input));
    return session_metrics(s, s->eval);
}

void session_update(const struct session *s, double learning_rate, bool nesterov)
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

double *session_read(const struct session *s, enum param_role role, size_t param)
{
    double *values;
    assert_ok(memory_alloc(s->network->params[param].count, sizeof *values, &values));
    assert_ok(s->ops->store_read(s->store, role, param, values));
    return values;
}
