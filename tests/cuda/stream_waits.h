#ifndef HEADRACE_TESTS_CUDA_STREAM_WAITS_H
#define HEADRACE_TESTS_CUDA_STREAM_WAITS_H

#include "tests/cuda/stream_training.h"

#include <sys/wait.h>

/* Stand-ins run what may run at the same time in a random order, and late where the host does not
 * wait, so that a wait that is missing gives other numbers: the backend's own waits are taken away
 * one by one, and each must be missed. */

typedef struct outcome training_fn(const struct standin_options *options, enum train_dtype dtype,
                                   bool joins_bn);

/* Whether a training ends with something else, or does not come to its end: sums that wait for each
 * other for ever end the process, so it is one of its own. */
TEST_HELPER bool training_differs(training_fn *train, const struct standin_options *options,
                                  enum train_dtype dtype, bool joins_bn,
                                  const struct outcome *expected)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        struct outcome outcome = train(options, dtype, joins_bn);
        _exit(outcomes_are_same(&outcome, expected) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) > 1);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

enum { STREAMS = 3 /* of a device */, MOST_ORDERS = 10 * STREAMS };

/* Whether some of so many orders of work gives something else. What a wait is for has to come late
 * to show that it is missing, so each of the device's streams is starved in turn. */
TEST_HELPER bool some_order_differs(struct standin_options *options, unsigned orders,
                                    enum train_dtype dtype, bool joins_bn,
                                    const struct outcome *expected)
{
    bool differs = false;
    for (options->seed = 0; options->seed < orders && !differs; options->seed++) {
        options->starved_stream = 1 + options->seed % STREAMS;
        differs = training_differs(training_run, options, dtype, joins_bn, expected);
    }
    return differs;
}

/* No wait is there for nothing: without any one of them some order gives something else. Devices
 * run the same code, so of several each wait is taken from one, in turn. */
TEST_HELPER void check_waits(int devices, enum train_dtype dtype, bool joins_bn)
{
    struct standin_options options = {.devices = devices};
    struct outcome expected = training_run(&options, dtype, joins_bn);
    const unsigned waits = standin_waits(0);
    assert_true(waits > STEPS);
    options.order = STANDIN_DEFERRED;
    assert_false(some_order_differs(&options, STREAMS, dtype, joins_bn, &expected));
    options.standstill_ms = 250;
    for (unsigned wait = 1; wait <= waits; wait++) {
        options.ignored_device = options.starved_device = (int)wait % devices;
        options.ignored_wait = wait;
        bool missed = some_order_differs(&options, MOST_ORDERS, dtype, joins_bn, &expected);
        if (!missed)
            print_error("%d devices: nothing misses wait %u of %u\n", devices, wait, waits);
        assert_true(missed);
    }
    memory_free(expected.values);
}

#endif
