#include "tests/test.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/initialise.h"
#include "train/module.h"

/* The reference backend as a backend: what train/backend.h promises beyond the numbers of a step
 * (tests/test_parity.c). */

enum { SIDE = 32, BATCH = 8, CLASSES = 8 };

struct session {
    const struct backend_ops *ops;
    struct network *network;
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
    float *images;
    int32_t labels[BATCH];
};

/* resnet18 on random images whose brightness tells the class. */
static void session_open(struct session *s, unsigned threads)
{
    s->ops = reference_backend_module()->ops;
    struct backend_config config = {.dtype = DTYPE_AUTO, .threads = threads};
    assert_ok(s->ops->open(&config, &s->backend));
    assert_ok(network_open("resnet18", CLASSES, &s->network));
    assert_ok(s->ops->store_open(s->backend, s->network, &s->store));
    assert_ok(initialise_store(s->network, s->ops, s->store, 1, true));
    struct plan_config plan = {.mode = PLAN_TRAIN, .batch = BATCH, .height = SIDE, .width = SIDE};
    assert_ok(s->ops->plan_open(s->store, &plan, &s->train));
    plan.mode = PLAN_EVAL;
    assert_ok(s->ops->plan_open(s->store, &plan, &s->eval));

    size_t image = (size_t)SIDE * SIDE * 3;
    assert_ok(memory_alloc(BATCH * image, sizeof *s->images, &s->images));
    struct random_stream stream = random_stream_make(1, RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < BATCH * image; i++)
        s->images[i] = (float)(random_double(&stream) + (double)(i / image) / BATCH);
    for (int32_t n = 0; n < BATCH; n++)
        s->labels[n] = n;
}

static void session_close(struct session *s)
{
    s->ops->plan_close(s->train);
    s->ops->plan_close(s->eval);
    s->ops->store_close(s->store);
    s->ops->close(s->backend);
    network_close(s->network);
    memory_free(s->images);
}

static void session_step(struct session *s, double learning_rate)
{
    struct step_input input = {s->images, s->labels, .completes = true};
    for (int n = 0; n < BATCH; n++)
        input.valid += s->labels[n] >= 0;
    input.divisor = input.valid;
    const struct update_rule rule = {
        .momentum = .9,
        .rates = &learning_rate,
        .rate_count = 1,
        .scale.value = 1,
    };
    assert_ok(s->ops->store_begin(s->store, &rule));
    assert_ok(s->ops->plan_forward_backward(s->train, &input));
    assert_ok(s->ops->store_update(s->store));
}

static struct step_metrics session_metrics(struct session *s, struct plan *plan)
{
    struct step_metrics metrics;
    size_t count;
    assert_ok(s->ops->plan_metrics(plan, &metrics, 1, &count));
    assert_int_equal(count, 1);
    return metrics;
}

/* The session of all tests that need no other; drawing weights takes longer than a step. */
static struct session shared;

static int shared_open(void **state)
{
    (void)state;
    session_open(&shared, 2);
    return 0;
}

static int shared_close(void **state)
{
    (void)state;
    session_close(&shared);
    return 0;
}

/* The shared session with its labels as they were, and no metrics left over. */
static struct session *shared_session(void)
{
    struct session *s = &shared;
    struct step_metrics metrics[8];
    size_t count;
    for (int32_t n = 0; n < BATCH; n++)
        s->labels[n] = n;
    assert_ok(s->ops->plan_metrics(s->train, metrics, ARRAY_LENGTH(metrics), &count));
    assert_ok(s->ops->plan_metrics(s->eval, metrics, ARRAY_LENGTH(metrics), &count));
    return s;
}

/* Eight images are learnt by heart. */
static void test_learns(void **state)
{
    (void)state;
    struct session *s = shared_session();
    session_step(s, .02);
    struct step_metrics first = session_metrics(s, s->train);
    for (int i = 0; i < 8; i++) {
        session_step(s, .02);
        session_metrics(s, s->train);
    }
    session_step(s, .02);
    struct step_metrics last = session_metrics(s, s->train);
    assert_int_equal(last.count, BATCH);
    assert_true(last.loss_sum < .5 * first.loss_sum);
    assert_true(last.top1 > first.top1);
    assert_in_range(last.top5, last.top1, BATCH);
}

/* The number of threads changes nothing, down to the last bit. */
static void test_threads_do_not_matter(void **state)
{
    (void)state;
    struct session one, three;
    session_open(&one, 1);
    session_open(&three, 3);
    for (int i = 0; i < 2; i++) {
        session_step(&one, .01);
        session_step(&three, .01);
    }
    CLEANUP(memory_free) double *a = NULL, *b = NULL;
    for (size_t p = 0; p < one.network->param_count; p++) {
        const struct param *param = &one.network->params[p];
        if (param->kind == PARAM_COUNTER)
            continue;
        assert_ok(memory_resize(param->count, sizeof *a, &a));
        assert_ok(memory_resize(param->count, sizeof *b, &b));
        assert_ok(one.ops->store_read(one.store, ROLE_VALUE, p, a));
        assert_ok(three.ops->store_read(three.store, ROLE_VALUE, p, b));
        assert_memory_equal(a, b, sizeof *a * param->count);
    }
    session_close(&one);
    session_close(&three);
}

/* A slot with label −1 has no part in loss and counts; the others' loss is what it was. */
static void test_ignored_label(void **state)
{
    (void)state;
    struct session *s = shared_session();
    struct step_input input = {.images = s->images, .labels = s->labels, .valid = BATCH};
    assert_ok(s->ops->plan_forward(s->eval, &input));
    struct step_metrics all = session_metrics(s, s->eval);
    float logits[BATCH * CLASSES];
    assert_ok(s->ops->plan_logits(s->eval, logits));
    double sum = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += exp(logits[3 * CLASSES + c]);
    double loss = log(sum) - logits[3 * CLASSES + s->labels[3]];

    s->labels[3] = -1;
    input.valid = BATCH - 1;
    assert_ok(s->ops->plan_forward(s->eval, &input));
    struct step_metrics rest = session_metrics(s, s->eval);
    assert_int_equal(rest.count, BATCH - 1);
    assert_true(fabs(all.loss_sum - loss - rest.loss_sum) < 1e-5);
}

/* With no valid image at all the gradients are 0, not 0/0. */
static void test_no_valid_label(void **state)
{
    (void)state;
    struct session *s = shared_session();
    for (int n = 0; n < BATCH; n++)
        s->labels[n] = -1;
    session_step(s, .01);
    assert_int_equal(session_metrics(s, s->train).count, 0);
    int param = network_find_param(s->network, "fc.weight");
    double gradient[CLASSES * 512];
    assert_ok(s->ops->store_read(s->store, ROLE_GRADIENT, (size_t)param, gradient));
    for (size_t i = 0; i < ARRAY_LENGTH(gradient); i++)
        assert_true(gradient[i] == 0);
}

/* Metrics come out oldest first, in as many calls as it takes. */
static void test_metrics_queue(void **state)
{
    (void)state;
    struct session *s = shared_session();
    for (int valid = 1; valid <= 3; valid++) {
        for (int n = 0; n < BATCH; n++)
            s->labels[n] = n < valid ? n : -1;
        struct step_input input = {.images = s->images,
                                   .labels = s->labels,
                                   .valid = (uint32_t)valid};
        assert_ok(s->ops->plan_forward(s->eval, &input));
    }
    struct step_metrics metrics[4];
    size_t count;
    assert_ok(s->ops->plan_metrics(s->eval, metrics, 2, &count));
    assert_int_equal(count, 2);
    assert_int_equal(metrics[0].count, 1);
    assert_int_equal(metrics[1].count, 2);
    assert_ok(s->ops->plan_metrics(s->eval, metrics, 4, &count));
    assert_int_equal(count, 1);
    assert_int_equal(metrics[0].count, 3);
    assert_ok(s->ops->plan_metrics(s->eval, metrics, 4, &count));
    assert_int_equal(count, 0);
}

static void test_refusals(void **state)
{
    (void)state;
    struct session *s = shared_session();
    s->labels[0] = CLASSES;
    struct step_input input = {.images = s->images, .labels = s->labels, .valid = BATCH};
    assert_fails(s->ops->plan_forward(s->eval, &input), STATUS_USAGE, "label of image 0");
    struct plan_config one_value = {.mode = PLAN_TRAIN, .batch = 1, .height = SIDE, .width = SIDE};
    struct plan *plan = NULL;
    assert_fails(s->ops->plan_open(s->store, &one_value, &plan), STATUS_USAGE,
                 "one value a channel");
    assert_null(plan);
    struct backend_config bf16 = {.dtype = DTYPE_BF16};
    struct backend *backend = NULL;
    assert_fails(s->ops->open(&bf16, &backend), STATUS_UNSUPPORTED, "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_ignored_label), cmocka_unit_test(test_no_valid_label),
        cmocka_unit_test(test_metrics_queue), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, shared_open, shared_close);
}
