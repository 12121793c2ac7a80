#include "tests/cuda/gpu_memory.h"

#include "tests/support/rig.h"
#include "train/module.h"

/* A whole ResNet on the CUDA backend against the reference in double, on a GPU or on the stand-ins
 * alike: each step from the same weights, since in 16 bits a step's rounding is soon another
 * training. HEADRACE_PARITY="resnet50 64 8 3 fp16" (arch, pixels, batch, steps, case or all) takes
 * other sizes than the small ones that suit the stand-ins; cases are named by main. */

const struct backend_module *headrace_backend_module(void);

enum { CLASSES = 16 };

/* Of the last γ of each residual branch: loud branches multiply rounding. */
static const double residual_gamma = .2;

/* How far all gradients together may be off, relative to their norm. A ReLU whose input is near 0
 * falls to the other side with any rounding, so this is far above a single rounding. */
struct check {
    const char *name;
    enum train_dtype dtype;
    bool joins_bn; /* all devices that are there normalise together; one does so with itself */
    double loss, gradient, statistics;
};

struct case_shape {
    char arch[32];
    unsigned pixels, batch, steps;
    char wanted[16]; /* a case, "joined": those with joined BN, or "all": the others */
};

static struct case_shape shape_read(void)
{
    const char *text = getenv("HEADRACE_PARITY");
    struct case_shape shape;
    if (sscanf(text ? text : "resnet18 32 4 1 fp16", "%31s %u %u %u %15s", shape.arch,
               &shape.pixels, &shape.batch, &shape.steps, shape.wanted) != 5)
        fail_msg("HEADRACE_PARITY is \"%s\", \"resnet18 64 8 3 all\" was expected", text);
    return shape;
}

static struct update_rule rule_make(double scale)
{
    static const double rate = .01;
    return (struct update_rule){.momentum = .9,
                                .weight_decay = 1e-4,
                                .rates = &rate,
                                .rate_count = 1,
                                .scale.value = scale};
}

/* |a − b| / |b|; infinite when a is not a number. */
static double loss_apart(const struct step_metrics *a, const struct step_metrics *b)
{
    double apart = fabs(a->loss_sum / b->loss_sum - 1);
    assert_int_equal(a->count, b->count);
    return isnan(apart) ? INFINITY : apart;
}

/* Mixes the images of every other step. Says all distances, then fails on the first that is too
 * large. */
static void check_step(const struct check *check, const struct rig *rig, struct replicas *reference,
                       uint64_t step, double scale)
{
    struct pixel_batch batch;
    pixel_batch_make(&batch, &rig->config, CLASSES, check->dtype, step == 1, step);
    batch.mixed_in = step % 2 == 1 && batch.batch % 2 == 0 ? .3f : 0;
    struct step_metrics ours = rig_train(rig, &batch), theirs = replicas_train(reference, &batch);
    struct rig_distance gradient = rig_distance(rig, reference, ROLE_GRADIENT, scale);
    assert_ok(rig->ops->store_update(rig->store));
    replicas_update(reference);
    struct rig_distance value = rig_distance(rig, reference, ROLE_VALUE, 1);
    double loss = loss_apart(&ours, &theirs);
    print_message("%s step %d: loss %.4f, off by %.2g; gradients off by %.2g (furthest tensor "
                  "%.2g), values and statistics by %.2g\n",
                  check->name, (int)step, theirs.loss_sum / theirs.count, loss, gradient.whole,
                  gradient.furthest, value.whole);
    pixel_batch_done(&batch);
    assert_true(loss <= check->loss);
    assert_true(gradient.whole <= check->gradient);
    assert_true(value.whole <= check->statistics);
    rig_lead(rig, reference);
}

static void check_evaluation(const struct check *check, const struct rig *rig,
                             struct replicas *reference, uint64_t seed)
{
    struct pixel_batch batch;
    pixel_batch_make(&batch, &rig->config, CLASSES, check->dtype, true, seed);
    struct step_metrics ours = rig_evaluate(rig, &batch);
    struct step_metrics theirs = replicas_evaluate(reference, &batch);
    double loss = loss_apart(&ours, &theirs);
    print_message("%s evaluation: loss %.4f, off by %.2g\n", check->name,
                  theirs.loss_sum / theirs.count, loss);
    pixel_batch_done(&batch);
    assert_true(loss <= check->loss);
}

static void branches_quieten(const struct rig *rig)
{
    for (size_t i = 0; i < rig->network->param_count; i++) {
        const struct param *param = &rig->network->params[i];
        if (!param->zero_init)
            continue;
        double *values;
        assert_ok(memory_alloc(param->count, sizeof *values, &values));
        for (size_t c = 0; c < param->count; c++)
            values[c] = residual_gamma;
        assert_ok(rig->ops->store_write(rig->store, ROLE_VALUE, i, values));
        memory_free(values);
    }
}

/* The most of them that divide the batch where they normalise together, else one. */
static unsigned devices_of(const struct check *check, uint32_t batch)
{
    int devices = 1;
    if (check->joins_bn)
        assert_cuda(cudaGetDeviceCount(&devices));
    while (batch % (unsigned)devices)
        devices--;
    return (unsigned)devices;
}

static void test_parity(void **state)
{
    const struct check *check = *state;
    const struct case_shape shape = shape_read();
    bool wanted = strcmp(shape.wanted, check->joins_bn ? "joined" : "all") == 0 ||
                  strcmp(shape.wanted, check->name) == 0;
    if (!wanted || !gpu_is_there())
        skip();
    const double scale = check->dtype == DTYPE_FP16 ? 1024 : 1;
    const struct update_rule scaled = rule_make(scale), plain = rule_make(1);
    const struct backend_config config = {.dtype = check->dtype,
                                          .devices = devices_of(check, shape.batch),
                                          .sync_bn = check->joins_bn};
    const struct plan_config plan = {.batch = shape.batch,
                                     .height = shape.pixels,
                                     .width = shape.pixels,
                                     .label_smoothing = .1f};
    struct rig rig;
    struct replicas reference;
    struct network *network;
    assert_ok(network_open(shape.arch, CLASSES, &network));
    rig_open(&rig, headrace_backend_module(), network, &plan, &config);
    replicas_open(&reference, rig.network, &rig.config, 1, 1);
    branches_quieten(&rig);
    rig_lead(&rig, &reference);
    assert_ok(rig.ops->store_begin(rig.store, &scaled));
    replicas_begin(&reference, &plain);
    for (uint64_t step = 0; step < shape.steps; step++)
        check_step(check, &rig, &reference, step, scale);
    check_evaluation(check, &rig, &reference, shape.steps);
    replicas_close(&reference);
    rig_close(&rig);
}

int main(void)
{
    static struct check checks[] = {
        {"f32", DTYPE_F32, false, 1e-4, 1e-2, 1e-4},
        {"tf32", DTYPE_TF32, false, 1e-2, 1e-1, 1e-2},
        {"fp16", DTYPE_FP16, false, 1e-2, 1e-1, 1e-2},
        {"bf16", DTYPE_BF16, false, 5e-2, 5e-1, 5e-2},
        {"f32-joined", DTYPE_F32, true, 1e-4, 1e-2, 1e-4},
        {"fp16-joined", DTYPE_FP16, true, 1e-2, 1e-1, 1e-2},
        {"bf16-joined", DTYPE_BF16, true, 5e-2, 5e-1, 5e-2},
    };
    struct CMUnitTest tests[ARRAY_LENGTH(checks)];
    setenv("HEADRACE_CUDA_JOIN", "1", 1);
    for (size_t i = 0; i < ARRAY_LENGTH(checks); i++)
        tests[i] = (struct CMUnitTest){checks[i].name, test_parity, NULL, NULL, &checks[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
