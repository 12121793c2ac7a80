#include "tests/support/replicas.h"

#include "base/random.h"
#include "tests/support/reference_f64.h"
#include "tests/support/session.h"
#include "tests/test.h"
#include "train/initialise.h"

static float rounded(enum train_dtype dtype, float value)
{
    if (dtype == DTYPE_FP16)
        return (float)(_Float16)value;
    if (dtype != DTYPE_BF16)
        return value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

void pixel_batch_make(struct pixel_batch *batch, const struct plan_config *config, uint32_t classes,
                      enum train_dtype dtype, bool missing, uint64_t seed)
{
    struct random_stream stream = random_stream_make(seed, RANDOM_TEST, 3, 0);
    const struct tensor_format *format = &tensor_format_imagenet;
    const size_t count = (size_t)config->batch * config->height * config->width * 3;
    *batch = (struct pixel_batch){.batch = config->batch,
                                  .height = config->height,
                                  .width = config->width};
    assert_ok(memory_alloc(count, 1, &batch->pixels));
    assert_ok(memory_alloc(count, sizeof *batch->images, &batch->images));
    assert_ok(memory_alloc(config->batch, sizeof *batch->labels, &batch->labels));
    for (size_t i = 0; i < count; i++) {
        batch->pixels[i] = (uint8_t)random_below(&stream, 256);
        float value = (float)batch->pixels[i] / 255;
        batch->images[i] = rounded(dtype, (value - format->mean[i % 3]) / format->std[i % 3]);
    }
    for (uint32_t i = 0; i < config->batch; i++) {
        bool valid = !missing || i + 1 < config->batch;
        batch->labels[i] = valid ? (int32_t)random_below(&stream, classes) : -1;
        batch->valid += valid;
    }
}

void pixel_batch_done(struct pixel_batch *batch)
{
    memory_free(batch->pixels);
    memory_free(batch->images);
    memory_free(batch->labels);
}

void initialise_parameters(const struct network *network, const struct backend_ops *ops,
                           struct store *store, uint64_t seed)
{
    assert_ok(initialise_store(network, ops, store, seed, false));
    norms_draw(network, ops, store, seed, 4);
}

void replicas_open(struct replicas *replicas, const struct network *network,
                   const struct plan_config *config, unsigned count, uint64_t seed)
{
    const struct backend_module *module = reference_f64_backend_module();
    const struct backend_config backend = {.threads = 1};
    struct plan_config part = *config, whole = *config;
    *replicas = (struct replicas){.network = network, .ops = module->ops, .config = *config};
    replicas->count = count;
    part.mode = PLAN_TRAIN;
    part.batch = config->batch / count;
    whole.mode = PLAN_EVAL;
    assert_ok(module->ops->open(&backend, &replicas->backend));
    for (unsigned r = 0; r < count; r++) {
        assert_ok(module->ops->store_open(replicas->backend, network, &replicas->stores[r]));
        assert_ok(module->ops->plan_open(replicas->stores[r], &part, &replicas->plans[r]));
        initialise_parameters(network, module->ops, replicas->stores[r], seed);
    }
    assert_ok(module->ops->plan_open(replicas->stores[0], &whole, &replicas->eval));
}

void replicas_close(struct replicas *replicas)
{
    replicas->ops->plan_close(replicas->eval);
    for (unsigned r = 0; r < replicas->count; r++) {
        replicas->ops->plan_close(replicas->plans[r]);
        replicas->ops->store_close(replicas->stores[r]);
    }
    replicas->ops->close(replicas->backend);
}

void replicas_begin(struct replicas *replicas, const struct update_rule *rule)
{
    for (unsigned r = 0; r < replicas->count; r++)
        assert_ok(replicas->ops->store_begin(replicas->stores[r], rule));
}

/* What the stores hold of a parameter, combined: the sum, or with `mean` the mean. On the heap. */
static double *stores_sum(struct replicas *replicas, enum param_role role, size_t param, bool mean)
{
    const size_t count = replicas->network->params[param].count;
    double *sum, *one;
    assert_ok(memory_alloc(count, sizeof *sum, &sum));
    assert_ok(memory_alloc(count, sizeof *one, &one));
    for (unsigned r = 0; r < replicas->count; r++) {
        assert_ok(replicas->ops->store_read(replicas->stores[r], role, param, one));
        for (size_t i = 0; i < count; i++)
            sum[i] += mean ? one[i] / replicas->count : one[i];
    }
    memory_free(one);
    return sum;
}

void replicas_write(struct replicas *replicas, enum param_role role, size_t param, double *values)
{
    for (unsigned r = 0; r < replicas->count; r++)
        assert_ok(replicas->ops->store_write(replicas->stores[r], role, param, values));
    memory_free(values);
}

static struct step_metrics metrics_of(struct replicas *replicas, struct plan *plan)
{
    struct step_metrics metrics;
    size_t count;
    assert_ok(replicas->ops->plan_metrics(plan, &metrics, 1, &count));
    assert_int_equal(count, 1);
    return metrics;
}

struct step_metrics replicas_train(struct replicas *replicas, const struct pixel_batch *batch)
{
    const uint32_t part = batch->batch / replicas->count;
    struct step_metrics sum = {0};
    for (unsigned r = 0; r < replicas->count; r++) {
        struct step_input input = {
            .images = batch->images + (size_t)r * part * batch->height * batch->width * 3,
            .labels = batch->labels + (size_t)r * part,
            .divisor = batch->valid,
            .completes = true,
            .mixed_in = batch->mixed_in,
        };
        for (uint32_t i = 0; i < part; i++)
            input.valid += input.labels[i] >= 0;
        assert_ok(replicas->ops->plan_forward_backward(replicas->plans[r], &input));
        struct step_metrics one = metrics_of(replicas, replicas->plans[r]);
        sum.loss_sum += one.loss_sum;
        sum.top1 += one.top1;
        sum.top5 += one.top5;
        sum.count += one.count;
    }
    for (size_t i = 0; i < replicas->network->param_count; i++)
        if (param_is_trained(&replicas->network->params[i]))
            replicas_write(replicas, ROLE_GRADIENT, i,
                           stores_sum(replicas, ROLE_GRADIENT, i, false));
    return sum;
}

void replicas_update(struct replicas *replicas)
{
    for (unsigned r = 0; r < replicas->count; r++)
        assert_ok(replicas->ops->store_update(replicas->stores[r]));
}

static bool is_statistic(const struct param *param)
{
    return param->kind == PARAM_RUNNING_MEAN || param->kind == PARAM_RUNNING_VAR;
}

struct step_metrics replicas_evaluate(struct replicas *replicas, const struct pixel_batch *batch)
{
    const struct step_input input = {
        .images = batch->images,
        .labels = batch->labels,
        .valid = batch->valid,
    };
    for (size_t i = 0; i < replicas->network->param_count; i++)
        if (is_statistic(&replicas->network->params[i]))
            replicas_write(replicas, ROLE_VALUE, i, stores_sum(replicas, ROLE_VALUE, i, true));
    assert_ok(replicas->ops->plan_forward(replicas->eval, &input));
    return metrics_of(replicas, replicas->eval);
}

double *replicas_read(struct replicas *replicas, enum param_role role, size_t param)
{
    if (is_statistic(&replicas->network->params[param]))
        return stores_sum(replicas, ROLE_VALUE, param, true);
    double *values;
    assert_ok(memory_alloc(replicas->network->params[param].count, sizeof *values, &values));
    assert_ok(replicas->ops->store_read(replicas->stores[0], role, param, values));
    return values;
}
