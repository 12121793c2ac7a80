#include "tests/cuda/stream_training.h"

/* The order of work on the CUDA backend's streams: whatever it is, the results are the same, and
 * sums run while backward does. */

/* Whatever the order in which streams come to their work, the result is the same bits. */
static void check_orders(int devices, enum train_dtype dtype, bool joins_bn)
{
    struct standin_options options = {.devices = devices};
    struct outcome expected = training_run(&options, dtype, joins_bn);
    assert_false(expected.failed);
    options.order = STANDIN_DEFERRED;
    for (options.seed = 1; options.seed <= 8; options.seed++) {
        struct outcome outcome = training_run(&options, dtype, joins_bn);
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
        check_orders(devices, DTYPE_F32, false);
}

static void test_orders_with_joined_bn(void **state)
{
    (void)state;
    check_orders(2, DTYPE_F32, true);
    check_orders(4, DTYPE_F32, true);
    check_orders(2, DTYPE_FP16, true);
    check_orders(4, DTYPE_FP16, true);
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
        cmocka_unit_test(test_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
