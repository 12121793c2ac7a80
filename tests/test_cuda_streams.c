#include "tests/test.h"

#include <sys/wait.h>

#include "tests/cuda/cudart_standin.h"
#include "tests/support/mini_network.h"
#include "tests/support/replicas.h"

/* The order of work on the CUDA backend's streams. Stand-ins run what may run at the same time in a
 * random order, so that a wait that is missing gives other numbers; the backend's own waits are
 * taken away one by one, and each must be missed. */

const struct backend_module *headrace_backend_module(void);

/* More than the slots of a plan, twice a variant's first run and its capture. */
enum { STEPS = 7 };

static const struct mini mini = {false, true, 2, 4, 24, 24, 5};

/* All that a training ends with. */
struct outcome {
    double losses[STEPS + 1]; /* the last is an evaluation's */
    double *values;           /* every parameter, one after the other */
    size_t count;
    bool failed; /* a call did */
};

/* Takes the status of a call; what follows a failure is not called. */
static bool went_well(struct outcome *outcome, struct status status)
{
    if (status.code == STATUS_DONE)
        return true;
    outcome->failed = true;
    status_ignore(status);
    return false;
}

/* Steps without a pause. Two of three calls are micro-batches of one step; the first call is of
 * that kind too, since memory for adding is made then, which waits for everything. */
static bool steps_run(const struct backend_ops *ops, struct store *store, struct plan *plan,
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

static bool outcome_read(const struct backend_ops *ops, const struct network *network,
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
static struct outcome training_run(const struct standin_options *options, bool joins_bn)
{
    static const double rates[] = {.1, .05, .02};
    static const struct update_rule rule = {
        .momentum = .9, .weight_decay = 1e-3, .rates = rates, .rate_count = 3, .scale.value = 1};
    const struct backend_ops *ops = headrace_backend_module()->ops;
    const struct backend_config config = {.dtype = DTYPE_F32, .sync_bn = joins_bn};
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
        pixel_batch_make(&batches[i], &shape, mini.classes, DTYPE_F32, false, (uint64_t)i);

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
static bool outcomes_are_same(const struct outcome *a, const struct outcome *b)
{
    return !a->failed && !b->failed && a->count == b->count &&
           memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->values, b->values, a->count * sizeof *a->values) == 0;
}

/* Whatever the order in which streams come to their work, the result is the same bits. */
static void check_orders(int devices, bool joins_bn)
{
    struct standin_options options = {.devices = devices};
    struct outcome expected = training_run(&options, joins_bn);
    assert_false(expected.failed);
    options.order = STANDIN_DEFERRED;
    for (options.seed = 1; options.seed <= 8; options.seed++) {
        struct outcome outcome = training_run(&options, joins_bn);
        if (!outcomes_are_same(&outcome, &expected))
            print_error("%d devices, seed %d\n", devices, (int)options.seed);
        assert_true(outcomes_are_same(&outcome, &expected));
        memory_free(outcome.values);
    }
    memory_free(expected.values);
}

static void test_orders(void **state)
{
    (void)state;
    for (int devices = 1; devices <= 4; devices *= 2)
        check_orders(devices, false);
}

static void test_orders_with_joined_bn(void **state)
{
    (void)state;
    check_orders(2, true);
    check_orders(4, true);
}

/* Whether a training ends with something else, or does not come to its end: sums that wait for each
 * other for ever end the process, so it is one of its own. */
static bool training_differs(const struct standin_options *options, const struct outcome *expected)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        struct outcome outcome = training_run(options, false);
        _exit(outcomes_are_same(&outcome, expected) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* Whether some order of work misses a wait. */
static bool wait_is_missed(struct standin_options *options, const struct outcome *expected)
{
    enum { MOST_SEEDS = 100 };
    bool missed = false;
    for (options->seed = 1; options->seed <= MOST_SEEDS && !missed; options->seed++)
        missed = training_differs(options, expected);
    return missed;
}

/* No wait is there for nothing: without any one of them some order gives something else. Devices
 * run the same code, so of several each wait is taken from one, in turn. */
static void test_waits(void **state)
{
    (void)state;
    for (int devices = 1; devices <= 2; devices++) {
        struct standin_options options = {.devices = devices};
        struct outcome expected = training_run(&options, false);
        const unsigned waits = standin_waits(0);
        assert_true(waits > STEPS);
        options.order = STANDIN_DEFERRED;
        options.standstill_s = 1;
        for (unsigned wait = 1; wait <= waits; wait++) {
            options.ignored_device = (int)wait % devices;
            options.ignored_wait = wait;
            bool missed = wait_is_missed(&options, &expected);
            if (!missed)
                print_error("%d devices: nothing misses wait %u of %u\n", devices, wait, waits);
            assert_true(missed);
        }
        memory_free(expected.values);
    }
}

/* Work on the stream on which most work of a device runs. */
static unsigned compute_stream(const struct standin_event *events, size_t count, int device)
{
    unsigned best = 0;
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;
        for (size_t j = 0; j < count; j++)
            same += events[j].device == device && events[j].stream == events[i].stream;
        if (events[i].device == device && same > most) {
            most = same;
            best = events[i].stream;
        }
    }
    return best;
}

/* Sums run while backward does: at least half of the bytes are summed before its last operation.
 * Each piece of work takes one turn there, whatever its size. */
static void test_overlap(void **state)
{
    (void)state;
    const struct backend_ops *ops = headrace_backend_module()->ops;
    const struct standin_options options = {.devices = 2, .order = STANDIN_PARALLEL};
    const struct backend_config config = {.dtype = DTYPE_FP16};
    const struct plan_config shape = {.batch = 4, .height = 32, .width = 32};
    struct network *network;
    struct backend *backend;
    struct store *store;
    struct plan *plan;
    struct pixel_batch batch;
    standin_reset(&options);
    assert_ok(network_open("resnet18", 10, &network));
    assert_ok(ops->open(&config, &backend));
    assert_ok(ops->store_open(backend, network, &store));
    assert_ok(ops->plan_open(store, &shape, &plan));
    initialise_parameters(network, ops, store, 1);
    pixel_batch_make(&batch, &shape, 10, DTYPE_FP16, false, 1);
    const struct step_input input = {.images = batch.pixels,
                                     .labels = batch.labels,
                                     .valid = 4,
                                     .divisor = 4,
                                     .completes = true};
    struct step_metrics metrics;
    size_t steps, count;
    for (int i = 0; i < 3; i++) { /* the last one from a graph */
        standin_trace_clear();
        assert_ok(ops->plan_forward_backward(plan, &input));
        assert_ok(ops->plan_metrics(plan, &metrics, 1, &steps));
    }
    const struct standin_event *events;
    count = standin_trace(&events);
    const unsigned compute = compute_stream(events, count, 0);
    unsigned last_turn = 0;
    uint64_t before = 0, all = 0;
    for (size_t i = 0; i < count; i++)
        if (events[i].device == 0 && events[i].stream == compute)
            last_turn = events[i].turn;
    for (size_t i = 0; i < count; i++)
        if (events[i].device == 0 && strcmp(events[i].label, "sum over the devices") == 0) {
            all += events[i].bytes;
            before += events[i].turn < last_turn ? events[i].bytes : 0;
        }
    print_message("%.1f%% of %.1f MB were summed before the last operation\n",
                  100 * (double)before / (double)all, (double)all / 1e6);
    assert_true(all >= 11e6 * sizeof(float));
    assert_true(2 * before >= all);
    pixel_batch_done(&batch);
    ops->plan_close(plan);
    ops->store_close(store);
    ops->close(backend);
    network_close(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_orders_with_joined_bn),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
