#include "tests/support/rig.h"

#include <math.h>

#include "tests/test.h"

void rig_open(struct rig *rig, const struct backend_module *module, struct network *network,
              const struct plan_config *plan, const struct backend_config *config)
{
    *rig = (struct rig){.ops = module->ops, .network = network, .config = *plan};
    assert_ok(rig->ops->open(config, &rig->backend));
    assert_ok(rig->ops->store_open(rig->backend, network, &rig->store));
    rig->config.mode = PLAN_TRAIN;
    assert_ok(rig->ops->plan_open(rig->store, &rig->config, &rig->train));
    rig->config.mode = PLAN_EVAL;
    assert_ok(rig->ops->plan_open(rig->store, &rig->config, &rig->eval));
    initialise_parameters(network, rig->ops, rig->store, 1);
}

void rig_close(struct rig *rig)
{
    rig->ops->plan_close(rig->train);
    rig->ops->plan_close(rig->eval);
    rig->ops->store_close(rig->store);
    rig->ops->close(rig->backend);
    network_close(rig->network);
}

static struct step_metrics metrics_of(const struct rig *rig, struct plan *plan)
{
    struct step_metrics metrics;
    size_t count;
    assert_ok(rig->ops->plan_metrics(plan, &metrics, 1, &count));
    assert_int_equal(count, 1);
    return metrics;
}

struct step_input rig_input(const struct pixel_batch *batch)
{
    return (struct step_input){
        .images = batch->pixels,
        .labels = batch->labels,
        .valid = batch->valid,
        .divisor = batch->valid,
        .completes = true,
        .mixed_in = batch->mixed_in,
    };
}

struct step_metrics rig_train(const struct rig *rig, const struct pixel_batch *batch)
{
    const struct step_input input = rig_input(batch);
    assert_ok(rig->ops->plan_forward_backward(rig->train, &input));
    return metrics_of(rig, rig->train);
}

struct step_metrics rig_evaluate(const struct rig *rig, const struct pixel_batch *batch)
{
    const struct step_input input = rig_input(batch);
    assert_ok(rig->ops->plan_forward(rig->eval, &input));
    return metrics_of(rig, rig->eval);
}

static double *tensor_read(const struct rig *rig, enum param_role role, size_t param)
{
    double *values;
    assert_ok(memory_alloc(rig->network->params[param].count, sizeof *values, &values));
    assert_ok(rig->ops->store_read(rig->store, role, param, values));
    return values;
}

/* Squares of |a / scale − b| and |b|. */
struct squares {
    double apart, norm;
};

static struct squares squares_of(const double *a, double scale, const double *b, size_t count)
{
    struct squares squares = {0};
    for (size_t i = 0; i < count; i++) {
        squares.apart += (a[i] / scale - b[i]) * (a[i] / scale - b[i]);
        squares.norm += b[i] * b[i];
    }
    return squares;
}

static double relative(struct squares squares)
{
    double apart = squares.norm > 0 ? sqrt(squares.apart / squares.norm) : sqrt(squares.apart);
    return isnan(apart) ? INFINITY : apart;
}

struct rig_distance rig_distance(const struct rig *rig, struct replicas *reference,
                                 enum param_role role, double scale)
{
    struct rig_distance distance = {0};
    struct squares sum = {0};
    for (size_t i = 0; i < rig->network->param_count; i++) {
        const struct param *param = &rig->network->params[i];
        if (param->kind == PARAM_COUNTER || (role != ROLE_VALUE && !param_is_trained(param)))
            continue;
        double *ours = tensor_read(rig, role, i), *theirs = replicas_read(reference, role, i);
        struct squares one = squares_of(ours, scale, theirs, param->count);
        memory_free(ours);
        memory_free(theirs);
        distance.furthest = fmax(distance.furthest, relative(one));
        sum.apart += one.apart;
        sum.norm += one.norm;
    }
    distance.whole = relative(sum);
    return distance;
}

void rig_lead(const struct rig *rig, struct replicas *reference)
{
    for (size_t i = 0; i < rig->network->param_count; i++) {
        const struct param *param = &rig->network->params[i];
        if (param->kind == PARAM_COUNTER)
            continue;
        replicas_write(reference, ROLE_VALUE, i, tensor_read(rig, ROLE_VALUE, i));
        if (param_is_trained(param))
            replicas_write(reference, ROLE_MOMENTUM, i, tensor_read(rig, ROLE_MOMENTUM, i));
    }
}
