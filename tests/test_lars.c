#include "tests/test.h"

#include <math.h>

#include "base/random.h"
#include "tests/support/golden.h"
#include "tests/support/mini_network.h"
#include "tests/support/reference_f64.h"
#include "tests/support/session.h"

/* Updates by LARS against tests/oracle/lars_golden.py: the same streams, with a loss scale. */

static const struct mini mini = {true, true, 2, 3, 32, 32, 10};
static const struct plan_config config = {.batch = 3, .height = 32, .width = 32};
enum { ZERO_VALUE = 12, ZERO_GRADIENT = 18, STEPS = 3 };
static const double loss_scale = 64;

struct device {
    const struct backend_module *module; /* NULL: cpu's */
    double bound;                        /* of norms and projections, relative to the norm */
};

static void write_drawn(const struct session *s, enum param_role role, size_t p, uint64_t stream,
                        double factor)
{
    CLEANUP(memory_free) double *values = NULL;
    const uint64_t count = s->network->params[p].count;
    struct random_stream numbers = random_stream_make(1, RANDOM_TEST, p, stream);
    assert_ok(memory_alloc(count, sizeof *values, &values));
    for (uint64_t i = 0; i < count; i++)
        values[i] = factor * (float)random_normal(&numbers);
    assert_ok(s->ops->store_write(s->store, role, p, values));
}

static void steps_make(const struct session *s, bool nesterov, bool decay_all, double epsilon)
{
    static const double rates[STEPS] = {.5, 1, 2};
    const struct network *network = s->network;
    const struct update_rule rule = {
        .kind = OPTIMIZER_LARS,
        .lars_eta = 1e-3,
        .lars_epsilon = epsilon,
        .momentum = .9,
        .weight_decay = 1e-3,
        .decay_norm_and_bias = decay_all,
        .nesterov = nesterov,
        .rates = rates,
        .rate_count = STEPS,
        .scale = {.value = loss_scale},
    };
    assert_ok(s->ops->store_begin(s->store, &rule));
    for (size_t p = 0; p < network->param_count; p++)
        if (param_is_trained(&network->params[p]))
            write_drawn(s, ROLE_VALUE, p, 0, p == ZERO_VALUE ? 0 : 1);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (size_t p = 0; p < network->param_count; p++)
            if (param_is_trained(&network->params[p]))
                write_drawn(s, ROLE_GRADIENT, p, step + 1,
                            p == ZERO_GRADIENT && step == 0 ? 0 : loss_scale);
        assert_ok(s->ops->store_update(s->store));
    }
}

static void tensor_check(const struct session *s, enum param_role role, size_t p, double bound,
                         struct golden *golden)
{
    const double norm = golden_real(golden), projection = golden_real(golden);
    double *values = session_read(s, role, p), squares = 0, sum = 0;
    for (uint64_t i = 0; i < s->network->params[p].count; i++) {
        squares += values[i] * values[i];
        sum += values[i] * ((double)(i % 7) - 3);
    }
    memory_free(values);
    double distance = fmax(fabs(sqrt(squares) - norm), fabs(sum - projection)) / norm;
    if (distance > bound)
        fail_msg("role %d of parameter %zu is %g off", role, p, distance);
}

static void test_updates_are_mlperfs(void **state)
{
    const struct device *device = *state;
    const struct backend_module *module = device->module ? device->module : cpu_module();
    struct network *network = mini_open(&mini);
    CLEANUP(golden_done) struct golden golden = {0};
    struct session s = {0};
    bool last_nesterov = false;
    size_t lines = 0;
    assert_ok(golden_open("lars.txt", &golden));
    for (; golden_line(&golden); lines++) {
        bool nesterov = golden_number(&golden), decay_all = golden_number(&golden);
        double epsilon = golden_real(&golden);
        size_t p = golden_number(&golden);
        assert_int_equal(golden_number(&golden), network->params[p].count);
        if (lines == 0 || nesterov != last_nesterov) {
            if (lines)
                session_close(&s);
            session_open(&s, module, DTYPE_F32, network, &config);
            steps_make(&s, nesterov, decay_all, epsilon);
        }
        last_nesterov = nesterov;
        tensor_check(&s, ROLE_VALUE, p, device->bound, &golden);
        tensor_check(&s, ROLE_MOMENTUM, p, device->bound, &golden);
        assert_false(golden.failed);
    }
    assert_int_equal(lines, 2 * 17);
    session_close(&s);
    network_close(network);
}

int main(void)
{
    struct device f64 = {reference_f64_backend_module(), 1e-13};
    struct device f32 = {reference_backend_module(), 1e-6}, cpu = {NULL, 1e-6};
    const struct CMUnitTest tests[] = {
        {"f64", test_updates_are_mlperfs, NULL, NULL, &f64},
        {"f32", test_updates_are_mlperfs, NULL, NULL, &f32},
        {"cpu", test_updates_are_mlperfs, NULL, NULL, &cpu},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
