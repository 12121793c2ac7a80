#include "tests/cuda/stream_waits.h"

#include "train/cuda/patterns.h"
#include "train/cuda/planner.h"

/* The waits of the host for devices. */

static size_t param_of(const struct training *training, enum param_kind kind)
{
    size_t param = 0;
    while (training->network->params[param].kind != kind)
        param++;
    return param;
}

static struct status read_value(struct training *training)
{
    return training_read(training, ROLE_VALUE, 0);
}

static struct status read_momentum(struct training *training)
{
    return training_read(training, ROLE_MOMENTUM, 0);
}

static struct status read_gradient(struct training *training)
{
    return training_read(training, ROLE_GRADIENT, 0);
}

static struct status read_statistics(struct training *training)
{
    return training_read(training, ROLE_VALUE, param_of(training, PARAM_RUNNING_MEAN));
}

static struct status read_average(struct training *training)
{
    TRY(training->ops->store_average(training->store, .5));
    return training_read(training, ROLE_AVERAGE, 0);
}

static struct status read_progress(struct training *training)
{
    uint64_t applied;
    struct loss_scale scale;
    TRY(training->ops->store_progress(training->store, &applied, &scale));
    *outcome_extend(&training->outcome, 1) = (double)applied;
    return OK;
}

static struct status read_losses(struct training *training)
{
    return training_read_losses(training, training->train);
}

static struct status evaluate_losses(struct training *training)
{
    TRY(training_evaluate(training));
    return training_read_losses(training, training->eval);
}

static struct status evaluate_logits(struct training *training)
{
    float logits[4 * 5];
    assert_int_equal(training->shape.batch * mini.classes, ARRAY_LENGTH(logits));
    TRY(training_evaluate(training));
    TRY(training->ops->plan_logits(training->eval, logits));
    double *values = outcome_extend(&training->outcome, ARRAY_LENGTH(logits));
    for (size_t i = 0; i < ARRAY_LENGTH(logits); i++)
        values[i] = logits[i];
    return OK;
}

static struct status write_value(struct training *training)
{
    double *values = outcome_extend(&training->outcome, training->network->params[0].count);
    for (size_t i = 0; i < training->network->params[0].count; i++)
        values[i] = .01 * (double)(i % 7);
    return training->ops->store_write(training->store, ROLE_VALUE, 0, values);
}

static struct status begin_anew(struct training *training)
{
    return training->ops->store_begin(training->store, &training_rule);
}

/* What the host waits for, each after a part of a step that has run on no device yet. */
static const struct reading {
    const char *name;
    enum part after;
    struct status (*read)(struct training *training);
} readings[] = {
    {"a value", WHOLE_STEP, read_value},
    {"momentum", WHOLE_STEP, read_momentum},
    {"a gradient", FIRST_HALF, read_gradient},
    {"running statistics of a part", FIRST_HALF, read_statistics},
    {"an average", WHOLE_STEP, read_average},
    {"progress", WHOLE_STEP, read_progress},
    {"losses", WHOLE_STEP, read_losses},
    {"losses of an evaluation", WHOLE_STEP, evaluate_losses},
    {"logits of an evaluation", WHOLE_STEP, evaluate_logits},
    {"a value to be written", WHOLE_STEP, write_value},
    {"another beginning", WHOLE_STEP, begin_anew},
};

static unsigned waits_before[ARRAY_LENGTH(readings)]; /* each reading, in the last training */

/* A micro-batch of a plan that is closed at once; its gradients are added to others'. */
static struct status half_and_close(struct training *training)
{
    struct plan *plan;
    TRY(training->ops->plan_open(training->store, &training->shape, &plan));
    struct status status = training_call(training, plan, 0, FIRST_HALF);
    training->ops->plan_close(plan);
    TRY(status);
    return training_call(training, training->train, 1, SECOND_HALF);
}

/* A training that reads all there is to read while it goes on. */
static struct status training_read_all(struct training *training, int device)
{
    TRY(training_steps(training));
    for (size_t i = 0; i < ARRAY_LENGTH(readings); i++) {
        TRY(training_call(training, training->train, 0, readings[i].after));
        waits_before[i] = standin_host_waits(device);
        TRY(readings[i].read(training));
        if (readings[i].after == FIRST_HALF)
            TRY(training_call(training, training->train, 1, SECOND_HALF));
    }
    TRY(half_and_close(training));
    TRY(training_read_values(training));
    return evaluate_losses(training);
}

static struct outcome reading_run(const struct standin_options *options, enum train_dtype dtype,
                                  bool joins_bn)
{
    struct training training;
    training_open(options, dtype, joins_bn, &training);
    return training_close(&training, training_read_all(&training, options->ignored_device));
}

/* What a wait of the last training was for. */
static const char *wait_name(unsigned wait)
{
    const char *name = "a slot, or the first weights";
    for (size_t i = 0; i < ARRAY_LENGTH(readings) && waits_before[i] < wait; i++)
        name = readings[i].name;
    return name;
}

/* The host waits for nothing without need: where a device does everything as late as it can, each
 * wait for it is missed. Memory that is freed holds nonsense at once. */
static void check_host_waits(training_fn *train, int devices)
{
    struct standin_options options = {.devices = devices};
    struct outcome expected = train(&options, DTYPE_F32, false);
    options.order = STANDIN_DEFERRED;
    options.starved_stream = STANDIN_EVERY_STREAM;
    options.frees_early = true;
    for (int device = 0; device < devices; device++) {
        options.ignored_device = options.starved_device = device;
        options.ignored_host_wait = 0;
        struct outcome late = train(&options, DTYPE_F32, false);
        const unsigned waits = standin_host_waits(device);
        assert_true(outcomes_are_same(&late, &expected));
        assert_true(waits > 0);
        for (unsigned wait = 1; wait <= waits; wait++) {
            options.ignored_host_wait = wait;
            bool missed = training_differs(train, &options, DTYPE_F32, false, &expected);
            if (!missed)
                print_error("device %d of %d: nothing misses the host's wait %u of %u (%s)\n",
                            device, devices, wait, waits, wait_name(wait));
            assert_true(missed);
        }
        memory_free(late.values);
    }
    memory_free(expected.values);
}

static void test_host_waits(void **state)
{
    (void)state;
    check_host_waits(reading_run, 1);
    check_host_waits(reading_run, 2);
}

/* Times one plan, which fails where its end is not waited for. */
static struct outcome timing_run(const struct standin_options *options, enum train_dtype dtype,
                                 bool joins_bn)
{
    static const struct pattern_shape shape = {
        .batch = 2, .height = 4, .width = 4, .in = 4, .out = 4, .kernel = 1, .stride = 1};
    struct planner_config config = {.device_name = "a stand-in",
                                    .dtype = dtype,
                                    .workspace_limit = 1 << 20};
    struct outcome outcome = {0};
    struct planner *planner;
    struct cudnn_plan *plan;
    cudaStream_t stream;
    size_t fastest;
    (void)joins_bn;
    standin_reset(options);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudnnCreate(&config.handle), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetStream(config.handle, stream), CUDNN_STATUS_SUCCESS);
    assert_ok(planner_open(&config, &planner));
    assert_ok(cudnn_plan_open(planner, PATTERN_CONV_WGRAD, &shape, &plan));
    struct status status = cudnn_plans_time(config.handle, &plan, 1, &fastest);
    outcome.failed = status.code != STATUS_DONE;
    status_ignore(status);
    cudnn_plan_close(plan);
    planner_close(planner);
    cudnnDestroy(config.handle);
    cudaStreamDestroy(stream);
    return outcome;
}

static void test_waits_of_timings(void **state)
{
    (void)state;
    check_host_waits(timing_run, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_waits),
        cmocka_unit_test(test_waits_of_timings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
