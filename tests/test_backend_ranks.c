#include "tests/test.h"

#include <math.h>

#include "tests/support/mini_network.h"
#include "tests/support/ranks.h"
#include "tests/support/reference_f64.h"
#include "tests/support/session.h"

/* Backends in several processes: a step on a batch that is divided among them, against one process
 * that has the whole batch, or each part of it. Everything is computed in the ranks, since OpenMP
 * does not survive a fork. */

static const struct mini mini = {true, true, 2, 8, 32, 36, 10};
enum { WHOLE = 8 };

struct device {
    const char *name;
    enum train_dtype dtype;
    double tolerance; /* of a tensor's norm */
};
static const struct device devices[] = {
    {"reference", DTYPE_F32, 1e-5},
    {"reference f64", DTYPE_F32, 1e-12},
    {"cpu", DTYPE_F32, 1e-5},
    {"cpu", DTYPE_BF16, .03},
};
static const struct device *device;

static const struct backend_module *module_of(const struct device *d)
{
    if (strcmp(d->name, "cpu") == 0)
        return cpu_module_for(d->dtype);
    return strcmp(d->name, "reference") == 0 ? reference_backend_module()
                                             : reference_f64_backend_module();
}

/* A batch of `count` images, with those of the whole batch from `first` on. */
static void part_make(struct batch *part, const struct batch *whole, uint32_t first, uint32_t count)
{
    size_t image = whole->count / WHOLE;
    *part = *whole;
    part->count = count * image;
    part->f32 = whole->f32 + first * image;
    part->bf16 = whole->bf16 + first * image;
    part->valid = 0;
    for (uint32_t i = 0; i < count; i++) {
        part->labels[i] = whole->labels[first + i];
        part->valid += part->labels[i] >= 0;
    }
}

static const struct plan_config whole_config = {.batch = WHOLE, .height = 32, .width = 36};

static void session_of(struct session *s, struct comm *comm, bool sync_bn,
                       const struct network *network, uint32_t images)
{
    const struct backend_config backend = {
        .dtype = device->dtype,
        .threads = 1,
        .comm = comm,
        .sync_bn = sync_bn,
    };
    struct plan_config config = whole_config;
    config.batch = images;
    session_open_with(s, module_of(device), &backend, network, &config);
    session_initialise(s, 1, false);
}

static struct step_metrics step_run(const struct session *s, const struct batch *batch,
                                    uint64_t divisor)
{
    struct step_input input = session_input(s, batch);
    input.divisor = divisor;
    assert_ok(s->ops->plan_forward_backward(s->train, &input));
    return session_metrics(s, s->train);
}

static void expect_near(const char *name, const double *found, const double *wanted, size_t count,
                        double tolerance)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (found[i] - wanted[i]) * (found[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    if (!(sqrt(difference) <= tolerance * (sqrt(norm) + 1e-3 * sqrt((double)count))))
        fail_msg("%s is off by %.3g of %.3g", name, sqrt(difference), sqrt(norm));
}

/* The tensors of a step: gradients, and the running statistics it moved. */
static void expect_tensors(const struct session *found, const struct session *wanted,
                           double tolerance)
{
    for (size_t p = 0; p < found->network->param_count; p++) {
        const struct param *param = &found->network->params[p];
        if (param->kind == PARAM_COUNTER)
            continue;
        enum param_role role = param_is_trained(param) ? ROLE_GRADIENT : ROLE_VALUE;
        double *a = session_read(found, role, p), *b = session_read(wanted, role, p);
        expect_near(param->name, a, b, param->count, tolerance);
        memory_free(a);
        memory_free(b);
    }
}

/* With joint normalisation a step is that of the whole batch, and so are those after it. */
static struct status joint_rank(struct comm *comm)
{
    const uint32_t images = WHOLE / comm_size(comm);
    struct network *network = mini_open(&mini);
    struct session own, alone;
    struct batch whole, part;
    batch_make(&whole, &whole_config, mini.classes, 3);
    part_make(&part, &whole, comm_rank(comm) * images, images);
    session_of(&own, comm, true, network, images);
    session_of(&alone, NULL, false, network, WHOLE);
    for (int step = 0; step < 3; step++) {
        double loss = step_run(&own, &part, whole.valid).loss_sum;
        double wanted = step_run(&alone, &whole, whole.valid).loss_sum;
        assert_ok(comm_sum_f64(comm, &loss, 1));
        assert_true(fabs(loss - wanted) <= device->tolerance * wanted);
        if (step == 0)
            expect_tensors(&own, &alone, device->tolerance);
        session_update(&own, .01, false);
        session_update(&alone, .01, false);
    }
    session_close(&own);
    session_close(&alone);
    network_close(network);
    batch_done(&whole);
    return OK;
}

/* Adds the tensors of a step on a part of the batch, in one process, to those in `sums`. */
static void part_add(const struct network *network, const struct batch *whole, uint32_t first,
                     uint32_t images, double **sums)
{
    struct session s;
    struct batch part;
    part_make(&part, whole, first, images);
    session_of(&s, NULL, false, network, images);
    step_run(&s, &part, whole->valid);
    for (size_t p = 0; p < network->param_count; p++) {
        const struct param *param = &network->params[p];
        if (param->kind == PARAM_COUNTER)
            continue;
        double *values = session_read(&s, param_is_trained(param) ? ROLE_GRADIENT : ROLE_VALUE, p);
        for (uint64_t i = 0; i < param->count; i++)
            sums[p][i] += values[i];
        memory_free(values);
    }
    session_close(&s);
}

/* Without, gradients are the sum of the parts', and running statistics their mean. */
static struct status separate_rank(struct comm *comm)
{
    const uint32_t size = comm_size(comm), images = WHOLE / size;
    struct network *network = mini_open(&mini);
    struct session own;
    struct batch whole, part;
    double **sums;
    batch_make(&whole, &whole_config, mini.classes, 3);
    part_make(&part, &whole, comm_rank(comm) * images, images);
    session_of(&own, comm, false, network, images);
    step_run(&own, &part, whole.valid);
    assert_ok(memory_alloc(network->param_count, sizeof *sums, &sums));
    for (size_t p = 0; p < network->param_count; p++)
        assert_ok(memory_alloc(network->params[p].count + 1, sizeof **sums, &sums[p]));
    for (uint32_t rank = 0; rank < size; rank++)
        part_add(network, &whole, rank * images, images, sums);
    for (size_t p = 0; p < network->param_count; p++) {
        const struct param *param = &network->params[p];
        bool trained = param_is_trained(param);
        for (uint64_t i = 0; i < param->count && !trained; i++)
            sums[p][i] /= size;
        if (param->kind != PARAM_COUNTER) {
            double *found = session_read(&own, trained ? ROLE_GRADIENT : ROLE_VALUE, p);
            expect_near(param->name, found, sums[p], param->count, 1e-6);
            memory_free(found);
        }
        memory_free(sums[p]);
    }
    memory_free(sums);
    session_close(&own);
    network_close(network);
    batch_done(&whole);
    return OK;
}

/* A gradient that only one process finds infinite: none updates, all halve the scale. */
static struct status broken_rank(struct comm *comm)
{
    const double rate = .1;
    const struct update_rule rule = {
        .rates = &rate,
        .rate_count = 1,
        .scale = {.value = 4, .dynamic = true, .grow_after = 9},
    };
    const uint32_t images = WHOLE / comm_size(comm);
    struct network *network = mini_open(&mini);
    struct session s;
    struct batch whole, part;
    uint64_t applied;
    struct loss_scale scale;
    batch_make(&whole, &whole_config, mini.classes, 3);
    part_make(&part, &whole, comm_rank(comm) * images, images);
    session_of(&s, comm, false, network, images);
    assert_ok(s.ops->store_begin(s.store, &rule));
    for (int step = 0; step < 2; step++) {
        if (comm_rank(comm) == 1) {
            part.f32[5] = step ? 1 : INFINITY;
            part.bf16[5] = step ? 0x3f80 : 0x7f80;
        }
        step_run(&s, &part, whole.valid);
        assert_ok(s.ops->store_update(s.store));
    }
    assert_ok(s.ops->store_progress(s.store, &applied, &scale));
    assert_int_equal(applied, 1);
    assert_true(scale.value == 2);
    session_close(&s);
    network_close(network);
    batch_done(&whole);
    return OK;
}

static void ranks_run(void **state, unsigned size, rank_fn *fn)
{
    struct ranks ranks;
    device = *state;
    module_of(device); /* skips where it cannot run */
    ranks_begin(&ranks, size, (struct comm_options){.silence_timeout_s = 60});
    ranks_start_all(&ranks, fn);
    for (unsigned rank = 0; rank < size; rank++) {
        struct rank_end end = ranks_wait(&ranks, rank);
        if (end.status)
            fail_msg("rank %u ended with status %d: %s", rank, end.status, end.message);
    }
}

static void test_two_ranks_with_joint_statistics_are_one(void **state)
{
    ranks_run(state, 2, joint_rank);
}

static void test_four_ranks_with_joint_statistics_are_one(void **state)
{
    ranks_run(state, 4, joint_rank);
}

static void test_separate_statistics_are_averaged(void **state)
{
    ranks_run(state, 2, separate_rank);
}

static void test_all_ranks_skip_together(void **state)
{
    ranks_run(state, 2, broken_rank);
}

#define ON_DEVICE(test, i)                                                                         \
    {                                                                                              \
#test " " #i, test, NULL, NULL, (void *)&devices[i]                                        \
    }
#define ON_EACH(test) ON_DEVICE(test, 0), ON_DEVICE(test, 1), ON_DEVICE(test, 2), ON_DEVICE(test, 3)

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        ON_EACH(test_two_ranks_with_joint_statistics_are_one),
        ON_EACH(test_four_ranks_with_joint_statistics_are_one),
        ON_EACH(test_separate_statistics_are_averaged),
        ON_EACH(test_all_ranks_skip_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
