#include "tests/test.h"

#include <signal.h>

#include "tests/cuda/cudart_standin.h"
#include "tests/cuda/cudnn_standin.h"
#include "tests/cuda/nccl_standin.h"
#include "tests/support/mini_network.h"
#include "tests/support/ranks.h"
#include "tests/support/rig.h"

/* The CUDA backend on the devices of one process and of several: the same training, and its end
 * where a device or a process is lost. */

const struct backend_module *headrace_backend_module(void);

enum { WHOLE = 8, STEPS = 3 };
static const struct mini mini = {false, true, 2, WHOLE, 24, 24, 5};
static const struct plan_config shape = {.batch = WHOLE, .height = 24, .width = 24};
static const struct comm_options patient = {.silence_timeout_s = 60};

/* Devices of this process, which sees as many others before them as the ranks before it drive. */
static unsigned devices;
static bool joins_bn;                             /* normalisation is over all devices */
static bool in_turn;                              /* rank 0 makes its plans first */
static enum train_dtype spread_dtype = DTYPE_F32; /* of check_spreads */
static uint64_t seed; /* of the order in which streams come to their work; 0: that of the calls */

static void standin_start(struct comm *comm)
{
    const struct standin_options options = {
        .devices = (int)devices,
        .first_device = (int)(comm_rank(comm) * devices),
        .order = seed ? STANDIN_DEFERRED : STANDIN_IMMEDIATE,
        .seed = seed,
    };
    standin_reset(&options);
}

static void rig_start(struct rig *rig, struct comm *comm, enum train_dtype dtype)
{
    const struct backend_config config = {
        .dtype = dtype,
        .devices = devices,
        .comm = comm,
        .sync_bn = joins_bn,
        .in_turn = in_turn,
    };
    struct plan_config part = shape;
    part.batch = WHOLE / comm_size(comm);
    standin_start(comm);
    rig_open(rig, headrace_backend_module(), mini_open(&mini), &part, &config);
}

/* This process's part of a batch of all. */
static struct step_input part_of(const struct pixel_batch *whole, struct comm *comm)
{
    const uint32_t count = WHOLE / comm_size(comm), first = comm_rank(comm) * count;
    struct step_input input = rig_input(whole);
    input.images = whole->pixels + (size_t)first * whole->height * whole->width * 3;
    input.labels = whole->labels + first;
    input.valid = 0;
    for (uint32_t i = 0; i < count; i++)
        input.valid += input.labels[i] >= 0;
    return input;
}

static struct status metrics_sum(struct rig *rig, struct plan *plan, struct comm *comm,
                                 double *ret_sums)
{
    struct step_metrics metrics;
    size_t count;
    TRY(rig->ops->plan_metrics(plan, &metrics, 1, &count));
    assert_int_equal(count, 1);
    ret_sums[0] = metrics.loss_sum;
    ret_sums[1] = metrics.top1;
    ret_sums[2] = metrics.count;
    return comm_sum_f64(comm, ret_sums, 3);
}

/* A step of one micro-batch, or of two on the same images. */
static struct status step_run(struct rig *rig, struct comm *comm, const struct pixel_batch *batch,
                              bool twice)
{
    struct step_input input = part_of(batch, comm);
    double sums[3];
    if (twice) {
        input.divisor *= 2;
        input.completes = false;
        TRY(rig->ops->plan_forward_backward(rig->train, &input));
        TRY(metrics_sum(rig, rig->train, comm, sums));
        input.adds = input.completes = true;
    }
    TRY(rig->ops->plan_forward_backward(rig->train, &input));
    TRY(rig->ops->store_update(rig->store));
    TRY(metrics_sum(rig, rig->train, comm, sums));
    assert_int_equal(sums[2], batch->valid);
    return OK;
}

static void begin(struct rig *rig, double scale, bool dynamic)
{
    static const double rates[] = {.1, .05, .02};
    const struct update_rule rule = {
        .momentum = .9,
        .weight_decay = 1e-3,
        .rates = rates,
        .rate_count = ARRAY_LENGTH(rates),
        .scale = {.value = scale, .dynamic = dynamic, .grow_after = 2},
    };
    assert_ok(rig->ops->store_begin(rig->store, &rule));
}

/* All values of the network, statistics too, and what an evaluation counts. */
static struct status outcome_write(struct rig *rig, struct comm *comm, const char *path)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    struct pixel_batch batch;
    double sums[3];
    for (size_t p = 0; p < rig->network->param_count; p++) {
        const struct param *param = &rig->network->params[p];
        CLEANUP(memory_free) double *values = NULL;
        if (param->kind == PARAM_COUNTER)
            continue;
        TRY(memory_alloc(param->count, sizeof *values, &values));
        TRY(rig->ops->store_read(rig->store, ROLE_VALUE, p, values));
        TRY(buffer_append(&buffer, values, param->count * sizeof *values));
    }
    pixel_batch_make(&batch, &shape, mini.classes, DTYPE_F32, true, 9);
    const struct step_input input = part_of(&batch, comm);
    TRY(rig->ops->plan_forward(rig->eval, &input));
    TRY(metrics_sum(rig, rig->eval, comm, sums));
    assert_int_equal(sums[2], WHOLE - 1);
    pixel_batch_done(&batch);
    TRY(buffer_append(&buffer, &sums[1], sizeof sums[1]));
    return comm_rank(comm) == 0 ? file_write_atomic(path, buffer.data, buffer.length) : OK;
}

static const char *outcome_path; /* file that rank 0 writes */

static struct status train_rank(struct comm *comm)
{
    struct rig rig;
    struct pixel_batch batch;
    rig_start(&rig, comm, spread_dtype);
    begin(&rig, spread_dtype == DTYPE_FP16 ? 256 : 1, false);
    for (uint64_t step = 0; step < STEPS; step++) {
        pixel_batch_make(&batch, &shape, mini.classes, spread_dtype, step == 2, step);
        TRY(step_run(&rig, comm, &batch, step > 0));
        pixel_batch_done(&batch);
    }
    TRY(outcome_write(&rig, comm, outcome_path));
    rig_close(&rig);
    assert_int_equal(standin_leaks(), 0);
    return OK;
}

static void run_well(unsigned size, unsigned of_each, rank_fn *fn)
{
    struct ranks ranks;
    devices = of_each;
    ranks_begin(&ranks, size, patient);
    ranks_start_all(&ranks, fn);
    for (unsigned rank = 0; rank < size; rank++) {
        struct rank_end end = ranks_wait(&ranks, rank);
        if (end.status)
            fail_msg("rank %u of %u ended with %d: %s", rank, size, end.status, end.message);
    }
}

/* Four devices: of one process, of two, of four; and two of one and of two. Bit for bit, running
 * statistics and accumulated gradients too, whatever is done first. */
static void check_spreads(void)
{
    static const struct {
        unsigned size, devices;
        uint64_t seed;
        const char *name;
    } runs[] = {
        {1, 4, 0, "1x4"}, {2, 2, 0, "2x2"},   {2, 2, 1, "2x2 1"}, {2, 2, 2, "2x2 2"},
        {4, 1, 0, "4x1"}, {4, 1, 3, "4x1 3"}, {1, 2, 0, "1x2"},   {2, 1, 0, "2x1"},
    };
    const char *expected = NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(runs); i++) {
        outcome_path = test_path(runs[i].name);
        seed = runs[i].seed;
        run_well(runs[i].size, runs[i].devices, train_rank);
        if (runs[i].size == 1)
            expected = runs[i].name;
        assert_same_file(test_path(expected), test_path(runs[i].name));
    }
    seed = 0;
}

static void test_devices_of_processes(void **state)
{
    (void)state;
    check_spreads();
}

/* Each micro-batch of a step is normalised over all devices, whosever they are. */
static void test_joined_bn_of_processes(void **state)
{
    (void)state;
    joins_bn = true;
    check_spreads();
    spread_dtype = DTYPE_FP16; /* fused */
    check_spreads();
    spread_dtype = DTYPE_F32;
    joins_bn = false;
}

/* One process lacks what the others could fuse: their sums would not meet, nor their turns. */
static unsigned unlike;

static struct status unlike_rank(struct comm *comm)
{
    struct rig rig;
    struct pixel_batch batch;
    if (comm_rank(comm) == unlike)
        cudnn_standin_refuse(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    rig_start(&rig, comm, DTYPE_FP16);
    const char *reason = rig.ops->plan_slow_reason(rig.train);
    assert_non_null(reason);
    assert_non_null(strstr(reason, comm_rank(comm) == unlike ? "no engine" : "another process"));
    begin(&rig, 256, false);
    for (uint64_t step = 0; step < STEPS; step++) {
        pixel_batch_make(&batch, &shape, mini.classes, DTYPE_FP16, false, step);
        TRY(step_run(&rig, comm, &batch, step > 0));
        pixel_batch_done(&batch);
    }
    rig_close(&rig);
    assert_int_equal(standin_leaks(), 0);
    return OK;
}

static void test_unlike_processes(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        unlike = (unsigned)i / 3;
        joins_bn = i % 3 != 1;
        in_turn = i % 3 != 0;
        run_well(2, 1, unlike_rank);
    }
    joins_bn = in_turn = false;
}

/* Only the last device's gradients overflow: no device updates, on all the scale halves. */
static struct status overflow_rank(struct comm *comm)
{
    const bool is_last = comm_rank(comm) + 1 == comm_size(comm);
    const uint32_t share = WHOLE / (comm_size(comm) * devices);
    const double scales[] = {0x1p20, 0x1p19, 0x1p19, 0x1p20};
    struct rig rig;
    struct pixel_batch batch;
    uint64_t applied;
    struct loss_scale scale;
    rig_start(&rig, comm, DTYPE_FP16);
    begin(&rig, 0x1p20, true);
    for (uint64_t step = 0; step < 3; step++) {
        pixel_batch_make(&batch, &shape, mini.classes, DTYPE_FP16, false, step);
        for (uint32_t i = 0; i < WHOLE; i++)
            batch.labels[i] = step == 0 && i >= WHOLE - share ? 1 : -1;
        batch.valid = step == 0 ? share : 0;
        assert_int_equal(part_of(&batch, comm).valid, is_last ? batch.valid : 0);
        TRY(step_run(&rig, comm, &batch, false));
        TRY(rig.ops->store_progress(rig.store, &applied, &scale));
        assert_int_equal(applied, step);
        assert_true(scale.value == scales[step + 1]);
        pixel_batch_done(&batch);
    }
    rig_close(&rig);
    return OK;
}

static void test_all_skip_together(void **state)
{
    (void)state;
    run_well(1, 2, overflow_rank);
    run_well(2, 1, overflow_rank);
    run_well(2, 2, overflow_rank);
}

/* Rank 1 leaves in the middle of a step, for which the others wait. */
static int leaves_by; /* the signal */

static struct status lost_rank(struct comm *comm)
{
    struct rig rig;
    struct pixel_batch batch;
    struct step_metrics metrics;
    size_t count;
    rig_start(&rig, comm, DTYPE_F32);
    begin(&rig, 1, false);
    pixel_batch_make(&batch, &shape, mini.classes, DTYPE_F32, false, 1);
    TRY(step_run(&rig, comm, &batch, false));
    if (comm_rank(comm) == 1)
        raise(leaves_by);
    const struct step_input input = part_of(&batch, comm);
    assert_ok(rig.ops->plan_forward_backward(rig.train, &input));
    struct status status = rig.ops->plan_metrics(rig.train, &metrics, 1, &count);
    pixel_batch_done(&batch);
    rig_close(&rig);
    assert_int_equal(standin_leaks(), 0);
    return status;
}

static void check_lost(int signal_number, unsigned of_each, const char *reason)
{
    struct ranks ranks;
    devices = of_each;
    leaves_by = signal_number;
    ranks_begin(&ranks, 2, (struct comm_options){.silence_timeout_s = 1});
    ranks_start_all(&ranks, lost_rank);
    struct rank_end end = ranks_wait(&ranks, 0);
    kill(ranks.pids[1], SIGKILL);
    ranks_wait(&ranks, 1);
    if (end.status != 1 || !strstr(end.message, "rank 1 on ") || !strstr(end.message, reason))
        fail_msg("rank 0 ended with %d: %s", end.status, end.message);
}

static void test_a_lost_process_is_named(void **state)
{
    (void)state;
    check_lost(SIGKILL, 1, "its connection closed without a word");
    check_lost(SIGKILL, 2, "its connection closed without a word");
    check_lost(SIGSTOP, 2, "nothing was heard of it");
}

/* One process, two devices; a step that does not come to its end, and no wait without one. */
static void check_break(void (*break_it)(void), void (*mend)(void), const char *call_fails,
                        const char *wait_fails)
{
    CLEANUP(comm_close) struct comm *comm = NULL;
    struct rig rig;
    struct pixel_batch batch;
    struct step_metrics metrics;
    size_t count;
    assert_ok(comm_open(&(struct comm_options){.launcher = LAUNCHER_ALONE}, &comm));
    devices = 2;
    rig_start(&rig, comm, DTYPE_F32);
    pixel_batch_make(&batch, &shape, mini.classes, DTYPE_F32, false, 1);
    const struct step_input input = rig_input(&batch);
    rig_train(&rig, &batch);
    break_it();
    if (call_fails)
        assert_fails(rig.ops->plan_forward_backward(rig.train, &input), STATUS_FAILED, call_fails);
    else
        assert_ok(rig.ops->plan_forward_backward(rig.train, &input));
    mend();
    struct status status = rig.ops->plan_metrics(rig.train, &metrics, 1, &count);
    pixel_batch_done(&batch);
    rig_close(&rig);
    assert_int_equal(standin_leaks(), 0);
    if (wait_fails)
        assert_fails(status, STATUS_FAILED, wait_fails);
    else
        status_ignore(status);
}

static void launches_fail(void)
{
    standin_fail_launches(1);
}

static void launches_are_mended(void)
{
    standin_fail_launches(-1);
}

static void test_a_failed_device_lets_the_others_go(void **state)
{
    (void)state;
    check_break(launches_fail, launches_are_mended, "device 1 (CPU stand-in): ", NULL);
}

static void nothing_is_mended(void)
{
}

static void test_an_error_of_nccl_ends_the_wait(void **state)
{
    (void)state;
    check_break(standin_nccl_break, nothing_is_mended, NULL, "remote process exited");
    standin_nccl_mend();
}

/* Processes that see the same devices and no others. */
static struct status crowded_rank(struct comm *comm)
{
    const struct standin_options options = {.devices = 1};
    const struct backend_config config = {.comm = comm};
    struct backend *backend = NULL;
    standin_reset(&options);
    assert_fails(headrace_backend_module()->ops->open(&config, &backend), STATUS_USAGE,
                 "GPU 0 of rank 1 is GPU 0 of rank 0 too");
    assert_int_equal(standin_leaks(), 0);
    return OK;
}

static void test_shared_devices_are_refused(void **state)
{
    (void)state;
    run_well(2, 1, crowded_rank);
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_of_processes),
        cmocka_unit_test(test_joined_bn_of_processes),
        cmocka_unit_test(test_unlike_processes),
        cmocka_unit_test(test_all_skip_together),
        cmocka_unit_test(test_a_lost_process_is_named),
        cmocka_unit_test(test_a_failed_device_lets_the_others_go),
        cmocka_unit_test(test_an_error_of_nccl_ends_the_wait),
        cmocka_unit_test(test_shared_devices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
