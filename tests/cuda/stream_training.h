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

/* All that was read of a training. */
struct outcome {
    double *values;
    size_t count;
    bool failed; /* a call did */
};

/* Room for so many more values, for the caller to fill. */
TEST_HELPER double *outcome_extend(struct outcome *outcome, size_t count)
{
    assert_ok(memory_resize(outcome->count + count, sizeof *outcome->values, &outcome->values));
    outcome->count += count;
    return outcome->values + outcome->count - count;
}

/* Bit for bit. */
TEST_HELPER bool outcomes_are_same(const struct outcome *a, const struct outcome *b)
{
    return !a->failed && !b->failed && a->count == b->count &&
           (a->count == 0 || memcmp(a->values, b->values, a->count * sizeof *a->values) == 0);
}

struct training {
    const struct backend_ops *ops;
    struct network *network;
    struct backend *backend;
    struct store *store;
    struct plan_config shape; /* of the training plan */
    struct plan *train, *eval;
    struct pixel_batch batches[STEPS];
    struct outcome outcome;
};

static const double training_rates[] = {.1, .05, .02};
static const struct update_rule training_rule = {.momentum = .9,
                                                 .weight_decay = 1e-3,
                                                 .rates = training_rates,
                                                 .rate_count = 3,
                                                 .scale.value = 1};

/* Starts the stand-ins anew with the options, and a training on them. */
TEST_HELPER void training_open(const struct standin_options *options, enum train_dtype dtype,
                               bool joins_bn, struct training *training)
{
    const struct backend_ops *ops = headrace_backend_module()->ops;
    const struct backend_config config = {.dtype = dtype, .sync_bn = joins_bn};
    struct plan_config shape = {.batch = 4, .height = mini.height, .width = mini.width};
    *training = (struct training){.ops = ops, .network = mini_open(&mini), .shape = shape};
    standin_reset(options);
    assert_ok(ops->open(&config, &training->backend));
    assert_ok(ops->store_open(training->backend, training->network, &training->store));
    assert_ok(ops->plan_open(training->store, &shape, &training->train));
    shape.mode = PLAN_EVAL;
    assert_ok(ops->plan_open(training->store, &shape, &training->eval));
    initialise_parameters(training->network, ops, training->store, 1);
    assert_ok(ops->store_begin(training->store, &training_rule));
    for (int i = 0; i < STEPS; i++)
        pixel_batch_make(&training->batches[i], &shape, mini.classes, dtype, false, (uint64_t)i);
}

/* What was read; the caller frees its values. */
TEST_HELPER struct outcome training_close(struct training *training, struct status status)
{
    for (int i = 0; i < STEPS; i++)
        pixel_batch_done(&training->batches[i]);
    training->ops->plan_close(training->train);
    training->ops->plan_close(training->eval);
    training->ops->store_close(training->store);
    training->ops->close(training->backend);
    network_close(training->network);
    training->outcome.failed = status.code != STATUS_DONE;
    status_ignore(status);
    return training->outcome;
}

enum part { WHOLE_STEP, FIRST_HALF, SECOND_HALF };

/* Puts a step or a micro-batch of one on its way. */
TEST_HELPER struct status training_call(struct training *training, struct plan *plan, int batch,
                                        enum part part)
{
    const struct pixel_batch *images = &training->batches[batch];
    const struct step_input input = {
        .images = images->pixels,
        .labels = images->labels,
        .valid = images->valid,
        .divisor = (part == WHOLE_STEP ? 1 : 2) * (uint64_t)images->valid,
        .adds = part == SECOND_HALF,
        .completes = part != FIRST_HALF,
    };
    TRY(training->ops->plan_forward_backward(plan, &input));
    return input.completes ? training->ops->store_update(training->store) : OK;
}

/* Steps without a pause. Two of three calls are micro-batches of one step. */
TEST_HELPER struct status training_steps(struct training *training)
{
    static const enum part parts[] = {WHOLE_STEP, FIRST_HALF, SECOND_HALF};
    for (int i = 0; i < STEPS; i++)
        TRY(training_call(training, training->train, i, parts[i % 3]));
    return OK;
}

TEST_HELPER struct status training_evaluate(struct training *training)
{
    const struct pixel_batch *images = &training->batches[0];
    const struct step_input input = {.images = images->pixels,
                                     .labels = images->labels,
                                     .valid = images->valid};
    return training->ops->plan_forward(training->eval, &input);
}

/* The losses of the calls since the last reading, and whether updates were made. */
TEST_HELPER struct status training_read_losses(struct training *training, struct plan *plan)
{
    struct step_metrics metrics[32];
    size_t count;
    TRY(training->ops->plan_metrics(plan, metrics, ARRAY_LENGTH(metrics), &count));
    assert_true(count < ARRAY_LENGTH(metrics));
    double *values = outcome_extend(&training->outcome, 2 * count);
    for (size_t i = 0; i < count; i++) {
        values[2 * i] = metrics[i].loss_sum;
        values[2 * i + 1] = metrics[i].applied;
    }
    return OK;
}

TEST_HELPER struct status training_read(struct training *training, enum param_role role,
                                        size_t param)
{
    double *values = outcome_extend(&training->outcome, training->network->params[param].count);
    return training->ops->store_read(training->store, role, param, values);
}

TEST_HELPER struct status training_read_values(struct training *training)
{
    for (size_t i = 0; i < training->network->param_count; i++)
        if (training->network->params[i].kind != PARAM_COUNTER)
            TRY(training_read(training, ROLE_VALUE, i));
    return OK;
}

TEST_HELPER struct status training_train(struct training *training)
{
    TRY(training_steps(training));
    TRY(training_read_losses(training, training->train));
    TRY(training_read_values(training));
    TRY(training_evaluate(training));
    return training_read_losses(training, training->eval);
}

/* A whole training under the stand-ins' options. */
TEST_HELPER struct outcome training_run(const struct standin_options *options,
                                        enum train_dtype dtype, bool joins_bn)
{
    struct training training;
    training_open(options, dtype, joins_bn, &training);
    return training_close(&training, training_train(&training));
}

#endif
