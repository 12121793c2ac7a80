#include "tests/test.h"

#include "train/comm.h"
#include "train/forecast.h"
#include "train/module.h"

/* What a forecast says on the CPU, and that the numbers are those of the backend that computes. */

static struct comm *alone;

static int open_comm(void **state)
{
    (void)state;
    const struct comm_options options = {0};
    const struct backend_module *module = NULL;
    struct status found = module_find("cpu", &module);
    if (found.code != STATUS_DONE) {
        status_ignore(found);
        puts("skipped: headrace-cpu.so is not built");
        exit(77);
    }
    assert_ok(comm_open(&options, &alone));
    return 0;
}

static int close_comm(void **state)
{
    (void)state;
    comm_close(alone);
    return 0;
}

static struct train_options small_options(void)
{
    struct train_options options;
    train_options_init(&options);
    options.plan = options.synthetic = true;
    options.synthetic_classes = 10;
    options.synthetic_images = 64;
    options.arch = 0;
    options.device = DEVICE_CPU;
    options.threads = 1;
    options.image_size = 64;
    options.batch_size = 8;
    return options;
}

static struct forecast *make(const struct train_options *options)
{
    struct forecast *forecast = NULL;
    assert_ok(forecast_make(options, alone, NULL, &forecast));
    return forecast;
}

static uint64_t kind_bytes(const struct forecast *forecast, enum memory_kind kind)
{
    uint64_t bytes = 0;
    for (int part = 0; part < FORECAST_PART_COUNT; part++)
        bytes += forecast->memory.bytes[part][kind];
    return bytes;
}

/* The backend at work, opened and fed as the trainer does, has taken what was forecast. */
static void check_numbers(const struct train_options *options)
{
    CLEANUP(forecast_free) struct forecast *forecast = make(options);
    const struct backend_module *module;
    struct memory_use use;
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
    assert_ok(module_find("cpu", &module));
    const struct backend_ops *ops = module->ops;
    const struct backend_config config = {.dtype = (enum train_dtype)options->dtype, .threads = 1};
    const struct plan_config train_config = {
        .mode = PLAN_TRAIN,
        .batch = forecast->division.device_batch,
        .height = forecast->image_size,
        .width = forecast->image_size,
        .adds = options->accumulate > 1,
        .mixes = options->mixup > 0,
    };
    const struct plan_config eval_config = {
        .mode = PLAN_EVAL,
        .batch = forecast->val_batch,
        .height = forecast->val_crop,
        .width = forecast->val_crop,
    };
    assert_ok(ops->open(&config, &backend));
    assert_ok(ops->store_open(backend, forecast->network, &store));
    assert_ok(ops->plan_open(store, &train_config, &train));
    assert_ok(ops->plan_open(store, &eval_config, &eval));
    ops->memory(backend, &use);
    for (int kind = 0; kind < MEMORY_KIND_COUNT; kind++)
        assert_int_equal(use.bytes[kind], kind_bytes(forecast, kind));
    assert_int_equal(ops->plan_bytes(train) > 0, true);
    ops->plan_close(eval);
    ops->plan_close(train);
    ops->store_close(store);
    ops->close(backend);
}

static void test_numbers(void **state)
{
    (void)state;
    struct train_options options = small_options();
    check_numbers(&options);
    options.accumulate = 2;
    options.mixup = .2;
    options.val_crop = 96;
    check_numbers(&options);
}

static struct forecast *make_batch(struct train_options *options, uint64_t batch)
{
    options->batch_size = (int64_t)batch;
    return make(options);
}

/* The largest batch fits, and the next larger one does not or cannot be planned; likewise the
 * largest one that needs no slower operations. Gives the forecast of the batch asked for. */
static struct forecast *check_largest(struct train_options *options)
{
    struct forecast *small = make(options);
    const uint64_t step = small->largest_batch / small->largest_device_batch;
    assert_true(small->largest_device_batch > small->division.device_batch);
    CLEANUP(forecast_free) struct forecast *largest = make_batch(options, small->largest_batch);
    assert_true(largest->memory.device_bytes <= largest->memory.capacity_bytes);
    assert_int_equal(largest->largest_device_batch, small->largest_device_batch);
    assert_int_equal(largest->slow_reason != NULL, small->fast_end_reason != NULL);
    options->batch_size += (int64_t)step;
    if (small->next_refusal) {
        struct forecast *none = NULL;
        assert_fails(forecast_make(options, alone, NULL, &none), STATUS_UNSUPPORTED,
                     "of 2^31 or more");
    } else {
        CLEANUP(forecast_free) struct forecast *larger = make(options);
        assert_true(larger->memory.device_bytes > larger->memory.capacity_bytes);
        assert_int_equal(larger->memory.device_bytes, small->next_bytes);
        assert_int_equal(larger->largest_device_batch, small->largest_device_batch);
    }
    if (small->fast_end_reason) {
        CLEANUP(forecast_free) struct forecast *fast = make_batch(options, small->fast_batch);
        CLEANUP(forecast_free)
        struct forecast *slower = make_batch(options, small->fast_batch + step);
        assert_null(fast->slow_reason);
        assert_non_null(slower->slow_reason);
    }
    return small;
}

static void test_largest(void **state)
{
    (void)state;
    struct train_options options = small_options();
    CLEANUP(forecast_free) struct forecast *small = check_largest(&options);
    assert_null(small->fast_end_reason);
}

/* With cuDNN's plans for GPUs that are only described: memory is the bound, and how many elements
 * cuDNN counts; from some size on there are no fused patterns. */
static void test_largest_gpu(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        int64_t gpus, accumulate;
        bool is_refused;
    } cases[] = {
        {"l4", 2, 2, false},
        {"a100", 1, 1, true},
    };
    const struct backend_module *module = NULL;
    struct status found = module_find("cuda", &module);
    if (found.code != STATUS_DONE) {
        status_ignore(found);
        skip();
    }
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct train_options options = small_options();
        options.device = DEVICE_CUDA;
        options.plan_device = cases[i].device;
        options.gpus = cases[i].gpus;
        options.accumulate = cases[i].accumulate;
        options.image_size = 224;
        CLEANUP(forecast_free) struct forecast *small = check_largest(&options);
        assert_int_equal(small->next_refusal != NULL, cases[i].is_refused);
        assert_non_null(small->fast_end_reason);
    }
}

static void test_options(void **state)
{
    (void)state;
    struct train_options options = small_options();
    struct forecast *none = NULL;
    options.accumulate = 3;
    assert_fails(forecast_make(&options, alone, NULL, &none), STATUS_USAGE,
                 "a batch of 8 cannot be divided evenly");
    options = small_options();
    options.device = DEVICE_REFERENCE;
    assert_fails(forecast_make(&options, alone, NULL, &none), STATUS_UNSUPPORTED,
                 "the reference backend plans nothing ahead");
    options = small_options();
    options.dtype = DTYPE_FP16;
    assert_fails(forecast_make(&options, alone, NULL, &none), STATUS_UNSUPPORTED,
                 "the cpu backend computes in f32 or bf16");
    options = small_options();
    options.ema = .99;
    CLEANUP(forecast_free) struct forecast *averaged = make(&options);
    assert_int_equal(averaged->memory.average_bytes % sizeof(float), 0);
    assert_true(averaged->memory.average_bytes > 11 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_largest_gpu),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, open_comm, close_comm);
}
