#include "tests/test.h"

#include "tests/cuda/cudart_standin.h"
#include "tests/support/ranks.h"
#include "train/module.h"

/* What the CUDA backend forecasts is what it allocates: the stand-in for the runtime counts. */

const struct backend_module *headrace_backend_module(void);

static const struct {
    const char *arch;
    enum train_dtype dtype;
    unsigned devices;
    bool adds, averages, joins_bn;
} cases[] = {
    {"resnet18", DTYPE_FP16, 1, false, false, false},
    {"resnet18", DTYPE_F32, 1, true, true, true}, /* of one device there is nothing to join */
    {"resnet50-blur", DTYPE_BF16, 2, false, true, false},
    {"resnet50", DTYPE_FP16, 2, true, false, true},
    {"resnet18", DTYPE_F32, 4, false, true, true},
};

struct opened {
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
};

static const struct plan_config train_config = {.mode = PLAN_TRAIN,
                                                .batch = 8,
                                                .height = 64,
                                                .width = 64};
static const struct plan_config eval_config = {.mode = PLAN_EVAL,
                                               .batch = 6,
                                               .height = 96,
                                               .width = 96};

static void open_all(size_t i, const struct network *network, const struct backend_config *config,
                     struct opened *opened)
{
    static const double rates[] = {.1, .05, .02};
    const struct backend_ops *ops = headrace_backend_module()->ops;
    const struct update_rule rule = {.rates = rates,
                                     .rate_count = ARRAY_LENGTH(rates),
                                     .scale.value = 1};
    struct plan_config train = train_config;
    train.adds = cases[i].adds;
    assert_ok(ops->open(config, &opened->backend));
    assert_ok(ops->store_open(opened->backend, network, &opened->store));
    assert_ok(ops->store_begin(opened->store, &rule));
    if (cases[i].averages)
        assert_ok(ops->store_average(opened->store, 0));
    assert_ok(ops->plan_open(opened->store, &train, &opened->train));
    assert_ok(ops->plan_open(opened->store, &eval_config, &opened->eval));
}

static void close_all(const struct opened *opened)
{
    const struct backend_ops *ops = headrace_backend_module()->ops;
    ops->plan_close(opened->eval);
    ops->plan_close(opened->train);
    ops->store_close(opened->store);
    ops->close(opened->backend);
}

static uint64_t sum_of(const struct memory_use *use)
{
    uint64_t bytes = 0;
    for (int kind = 0; kind < MEMORY_KIND_COUNT; kind++)
        bytes += use->bytes[kind];
    return bytes;
}

static struct backend_config config_of(size_t i)
{
    return (struct backend_config){
        .dtype = cases[i].dtype,
        .devices = cases[i].devices,
        .sync_bn = cases[i].joins_bn,
    };
}

/* What is forecast for a device; nothing is allocated meanwhile. */
static struct memory_use forecast(size_t i, const struct network *network,
                                  struct backend_config config, const char *device)
{
    const struct backend_ops *ops = headrace_backend_module()->ops;
    struct opened opened;
    struct memory_use use;
    config.forecast = true;
    config.forecast_device = device;
    open_all(i, network, &config, &opened);
    ops->memory(opened.backend, &use);
    assert_int_equal(ops->replicas(opened.backend), config.devices ? config.devices : 1);
    assert_int_equal(standin_leaks(), 0);
    close_all(&opened);
    return use;
}

static void test_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct standin_options options = {.devices = (int)cases[i].devices};
        const struct backend_config config = config_of(i);
        CLEANUP(network_close) struct network *network = NULL;
        struct opened opened;
        standin_reset(&options);
        assert_ok(network_open(cases[i].arch, 10, &network));
        const struct memory_use here = forecast(i, network, config, NULL);
        const struct memory_use h200 = forecast(i, network, config, "h200");
        assert_int_equal(h200.capacity_bytes, (uint64_t)143156 << 20);
        assert_int_equal(sum_of(&h200), sum_of(&here));
        open_all(i, network, &config, &opened);
        for (unsigned device = 0; device < cases[i].devices; device++)
            assert_int_equal(standin_memory_bytes((int)device), sum_of(&here));
        close_all(&opened);
    }
}

/* Of two processes on a machine with two devices each drives one, and --sync-bn joins theirs. */
static struct status forecast_rank(struct comm *comm)
{
    const size_t i = 4;
    const struct standin_options options = {.devices = 2};
    struct backend_config config = config_of(i);
    CLEANUP(network_close) struct network *network = NULL;
    struct opened opened;
    config.devices = 0;
    config.comm = comm;
    standin_reset(&options);
    assert_ok(network_open(cases[i].arch, 10, &network));
    const struct memory_use use = forecast(i, network, config, NULL);
    config.comm = NULL;
    config.devices = 1;
    const struct memory_use alone = forecast(i, network, config, NULL);
    assert_int_not_equal(sum_of(&use), sum_of(&alone));
    config.comm = comm;
    config.devices = 0;
    open_all(i, network, &config, &opened);
    assert_int_equal(standin_memory_bytes((int)comm_rank(comm)), sum_of(&use));
    close_all(&opened);
    return OK;
}

static void test_processes(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 2, (struct comm_options){.silence_timeout_s = 60});
    ranks_start_all(&ranks, forecast_rank);
    for (unsigned rank = 0; rank < 2; rank++) {
        struct rank_end end = ranks_wait(&ranks, rank);
        if (end.status)
            fail_msg("rank %u ended with %d: %s", rank, end.status, end.message);
    }
}

/* A batch whose tensors no engine takes is no question of memory. */
static void test_too_large(void **state)
{
    (void)state;
    const struct backend_config config = {.dtype = DTYPE_BF16,
                                          .forecast = true,
                                          .forecast_device = "b200"};
    const struct backend_ops *ops = headrace_backend_module()->ops;
    const struct plan_config large = {.mode = PLAN_TRAIN,
                                      .batch = 2675,
                                      .height = 224,
                                      .width = 224};
    CLEANUP(network_close) struct network *network = NULL;
    struct backend *backend;
    struct store *store;
    struct plan *plan = NULL;
    standin_reset(NULL);
    assert_ok(network_open("resnet50", 1000, &network));
    assert_ok(ops->open(&config, &backend));
    assert_ok(ops->store_open(backend, network, &store));
    assert_fails(ops->plan_open(store, &large, &plan), STATUS_UNSUPPORTED,
                 "a tensor of 2147532800 elements, of 2^31 or more");
    ops->store_close(store);
    ops->close(backend);
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
