#ifndef HEADRACE_TESTS_CUDA_STREAM_TRAINING_H
#define HEADRACE_TESTS_CUDA_STREAM_TRAINING_H

/* A training on the CUDA backend whose end tells whether its work ran in an order that it allows.
 * Included once by a test program. */

#include "tests/test.h"

#include "tests/cuda/cudart_standin.h"
#include "tests/support/mini_network.h"
#include "tests/support/replicas.h"

const struct backend_module *headrace_backend_module(void);

/* More than the slots of a plan, twice a variant's first run and its capture. */
enum { STEPS = 7 };

static const struct mini mini = {false, true, 2, 4, 12, 12, 5};

/* All that a training ends with. */
struct outcome {
    double losses[STEPS + 1]; /* the last is an evaluation's */
    double *values;           /* every parameter, one after the other */
    size_t count;
    bool failed; /* a call did */
};

/* Takes the status of a call; what follows a failure is not called. */
TEST_HELPER bool went_well(struct outcome *outcome, struct status status)
{
    if (status.code == STATUS_DONE)
        return true;
    outcome->failed = true;
    status_ignore(status);
    return false;
}

/* Steps without a pause. Two of three calls are micro-batches of one step; the first call is of
 * that kind too, since memory for adding is made then, which waits for everything. */
TEST_HELPER bool steps_run(const struct backend_ops *ops, struct store *store, struct plan *plan,
                           const struct pixel_batch *batches, struct outcome *outcome)
{
    for (int i = 0; i < STEPS; i++) {
        const bool first_half = i % 3 == 2, second_half = i % 3 == 0;
        const struct step_input input = {
            .images = batches[i].pixels,
            .labels = batches[i].labels,
            .valid = batches[i].valid,
            .divisor = (1 + (first_half || second_half)) * (uint64_t)batches[i].valid,
            .adds = second_half,
            .completes = !first_half,
        };
        if (!went_well(outcome, ops->plan_forward_backward(plan, &input)))
            return false;
        if (input.completes && !went_well(outcome, ops->store_update(store)))
            return false;
    }
    return true;
}

TEST_HELPER bool outcome_read(const struct backend_ops *ops, const struct network *network,
                              struct store *store, struct plan *train, struct outcome *outcome)
{
    struct step_metrics metrics[STEPS];
    size_t count;
    if (!went_well(outcome, ops->plan_metrics(train, metrics, STEPS, &count)))
        return false;
    assert_int_equal(count, STEPS);
    for (size_t i = 0; i < count; i++)
        outcome->losses[i] = metrics[i].loss_sum;
    for (size_t i = 0; i < network->param_count; i++) {
        if (network->params[i].kind == PARAM_COUNTER)
            continue;
        assert_ok(memory_resize(outcome->count + network->params[i].count, sizeof *outcome->values,
                                &outcome->values));
        if (!went_well(outcome,
                       ops->store_read(store, ROLE_VALUE, i, outcome->values + outcome->count)))
            return false;
        outcome->count += network->params[i].count;
    }
    return true;
}

/* A whole training under the stand-ins' options. */
TEST_HELPER struct outcome training_run(const struct standin_options *options,
                                        enum train_dtype dtype, bool joins_bn)
{
    static const double rates[] = {.1, .05, .02};
    static const struct update_rule rule = {
        .momentum = .9, .weight_decay = 1e-3, .rates = rates, .rate_count = 3, .scale.value = 1};
    const struct backend_ops *ops = headrace_backend_module()->ops;
    const struct backend_config config = {.dtype = dtype, .sync_bn = joins_bn};
    struct plan_config shape = {.batch = 4, .height = mini.height, .width = mini.width};
    struct outcome outcome = {0};
    struct pixel_batch batches[STEPS];
    struct network *network = mini_open(&mini);
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
    standin_reset(options);
    assert_ok(ops->open(&config, &backend));
    assert_ok(ops->store_open(backend, network, &store));
    assert_ok(ops->plan_open(store, &shape, &train));
    shape.mode = PLAN_EVAL;
    assert_ok(ops->plan_open(store, &shape, &eval));
    initialise_parameters(network, ops, store, 1);
    assert_ok(ops->store_begin(store, &rule));
    for (int i = 0; i < STEPS; i++)
        pixel_batch_make(&batches[i], &shape, mini.classes, dtype, false, (uint64_t)i);

    const struct step_input input = {.images = batches[0].pixels,
                                     .labels = batches[0].labels,
                                     .valid = 4};
    struct step_metrics metrics;
    size_t count;
    if (steps_run(ops, store, train, batches, &outcome) &&
        outcome_read(ops, network, store, train, &outcome) &&
        went_well(&outcome, ops->plan_forward(eval, &input)) &&
        went_well(&outcome, ops->plan_metrics(eval, &metrics, 1, &count)))
        outcome.losses[STEPS] = metrics.loss_sum;
    for (int i = 0; i < STEPS; i++)
        pixel_batch_done(&batches[i]);
    ops->plan_close(train);
    ops->plan_close(eval);
    ops->store_close(store);
    ops->close(backend);
    network_close(network);
    return outcome;
}

/* Bit for bit. */
TEST_HELPER bool outcomes_are_same(const struct outcome *a, const struct outcome *b)
{
    return !a->failed && !b->failed && a->count == b->count &&
           memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->values, b->values, a->count * sizeof *a->values) == 0;
}

#endif
