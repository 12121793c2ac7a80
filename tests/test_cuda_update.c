#include "tests/test.h"

#include "base/random.h"
#include "tests/cuda/gpu_memory.h"

/* The CUDA backend's optimiser (kernel_update) against the formulas of kernels.h in double: some
 * steps over a small arena, with skipped ones among them. */

enum { SEGMENTS = 3, BLOCKS = 5, TRAINED = BLOCKS * KERNEL_BLOCK, STEPS = 7 };

static const struct arena_segment segments[SEGMENTS] = {{0, 1, 0, 0}, {1, 3, 1, 1}, {4, 1, 1, 0}};
static const uint32_t block_segments[BLOCKS] = {0, 1, 1, 1, 2};
/* Elements in use; the rest of a segment is its gap. */
static const size_t segment_counts[SEGMENTS] = {10, 2 * KERNEL_BLOCK + 5, KERNEL_BLOCK};
static const float rates[] = {.5f, .25f, .125f};

struct update_case {
    struct update_config config;
    enum kernel_type io_type;
    float scale;
    /* Steps whose gradients are not finite, by bit, in this segment. */
    unsigned bad_steps;
    uint32_t bad_segment;
};

/* What the update should make of it. */
struct model {
    double w[TRAINED], v[TRAINED];
    uint64_t applied, skipped;
    uint32_t in_a_row, since_growth;
    double scale;
};

struct bed {
    struct update_arena arena;
    float *gradients;
    struct kernel_metrics *metrics; /* device */
    float host[TRAINED];
};

static bool in_use(size_t i)
{
    const uint32_t segment = block_segments[i / KERNEL_BLOCK];
    return i - segments[segment].first_block * KERNEL_BLOCK < segment_counts[segment];
}

static void values_make(float *values)
{
    struct random_stream random = random_stream_make(1, RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < TRAINED; i++)
        values[i] = in_use(i) ? (float)random_normal(&random) : 0;
}

static void gradients_make(float *gradients, unsigned step, const struct update_case *it,
                           double scale)
{
    struct random_stream random = random_stream_make(2 + step, RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < TRAINED; i++)
        gradients[i] = in_use(i) ? (float)(random_normal(&random) * scale) : 0;
    if (!(it->bad_steps >> step & 1))
        return;
    const struct arena_segment *segment = &segments[it->bad_segment];
    gradients[segment->first_block * KERNEL_BLOCK + segment_counts[it->bad_segment] - 1] =
        step % 2 ? INFINITY : NAN;
    gradients[TRAINED - 1] = -INFINITY; /* the first one is named */
}

/* --- The model
 * ------------------------------------------------------------------------------------- */

static double segment_norm(const double *w, const float *g, double unscale, uint32_t segment)
{
    double sum = 0;
    for (size_t i = 0; i < segments[segment].block_count * (size_t)KERNEL_BLOCK; i++) {
        size_t at = segments[segment].first_block * (size_t)KERNEL_BLOCK + i;
        sum += w ? w[at] * w[at] : pow((double)g[at] * unscale, 2);
    }
    return sqrt(sum);
}

static void model_move(struct model *model, const struct update_config *config, const float *g,
                       double rate, uint32_t segment)
{
    const double decay = segments[segment].decays ? (double)config->weight_decay : 0;
    double inner = 1, outer = rate;
    if (config->kind == KERNEL_LARS) {
        double of_w = segment_norm(model->w, NULL, 0, segment);
        double of_g = segment_norm(NULL, g, 1 / model->scale, segment);
        outer = 1;
        inner = rate;
        if (segments[segment].adapts)
            inner *= (double)config->trust * of_w / (of_g + decay * of_w + (double)config->epsilon);
    }
    for (size_t i = 0; i < segments[segment].block_count * (size_t)KERNEL_BLOCK; i++) {
        size_t at = segments[segment].first_block * (size_t)KERNEL_BLOCK + i;
        double step = inner * ((double)g[at] / model->scale + decay * model->w[at]);
        double momentum = (double)config->momentum;
        model->v[at] = momentum * model->v[at] + step;
        model->w[at] -= outer * (config->nesterov ? step + momentum * model->v[at] : model->v[at]);
    }
}

static void model_step(struct model *model, const struct update_case *it, const float *g,
                       bool finite)
{
    const struct update_config *config = &it->config;
    const size_t last = ARRAY_LENGTH(rates) - 1;
    const double rate = (double)rates[model->applied < last ? model->applied : last];
    for (uint32_t segment = 0; finite && segment < SEGMENTS; segment++)
        model_move(model, config, g, rate, segment);
    model->applied += finite;
    model->skipped += !finite;
    model->in_a_row = finite ? 0 : model->in_a_row + 1;
    if (!config->dynamic_scale)
        return;
    model->since_growth = finite ? model->since_growth + 1 : 0;
    if (!finite)
        model->scale /= 2;
    if (model->since_growth == config->grown_after) {
        model->since_growth = 0;
        model->scale *= 2;
    }
}

/* --- The device
 * ------------------------------------------------------------------------------------ */

static struct bed *bed_make(const struct update_case *it)
{
    static struct bed bed;
    const struct kernel_metrics metrics = {.loss_sum = 42, .completes = 1};
    const struct update_state state = {.bad_segment = KERNEL_NO_SEGMENT,
                                       .found = KERNEL_NO_SEGMENT,
                                       .loss_scale = it->scale};
    static const float zeros[TRAINED];
    values_make(bed.host);
    bed.metrics = gpu_copy(&metrics, sizeof metrics);
    bed.gradients = gpu_alloc(TRAINED * sizeof(float));
    bed.arena = (struct update_arena){
        .block_count = BLOCKS,
        .segment_count = SEGMENTS,
        .values = gpu_copy(bed.host, sizeof bed.host),
        .gradients = bed.gradients,
        .momenta = gpu_copy(zeros, sizeof zeros),
        .io_type = it->io_type,
        .io = it->io_type == KERNEL_F32 ? NULL : gpu_copy(zeros, TRAINED * type_bytes(it->io_type)),
        .block_segments = gpu_copy(block_segments, sizeof block_segments),
        .segments = gpu_copy(segments, sizeof segments),
        .rates = gpu_copy(rates, sizeof rates),
        .rate_count = ARRAY_LENGTH(rates),
        .state = gpu_copy(&state, sizeof state),
    };
    bed.arena.workspace = gpu_alloc(kernel_update_workspace_bytes(BLOCKS, SEGMENTS));
    return &bed;
}

static void check_values(const float *device, const double *wanted)
{
    static float host[TRAINED];
    gpu_read(device, host, sizeof host);
    for (size_t i = 0; i < TRAINED; i++)
        assert_near((double)host[i], wanted[i], 1e-5, 1e-5);
    for (size_t i = 0; i < TRAINED; i++)
        assert_true(in_use(i) || host[i] == 0);
}

/* The copy is the values rounded, bit for bit. */
static void check_copy(const struct bed *bed)
{
    static float host[TRAINED], copy[TRAINED];
    const enum kernel_type type = bed->arena.io_type;
    gpu_read(bed->arena.values, host, sizeof host);
    gpu_read(bed->arena.io, copy, TRAINED * type_bytes(type));
    for (size_t i = 0; i < TRAINED; i++)
        assert_true(element_get(type, copy, i) == rounded(type, host[i]));
}

static void check_state(const struct bed *bed, const struct update_case *it,
                        const struct model *model)
{
    struct update_state state;
    gpu_read(bed->arena.state, &state, sizeof state);
    assert_int_equal(state.applied, model->applied);
    assert_int_equal(state.skipped, model->skipped);
    assert_int_equal(state.in_a_row, model->in_a_row);
    assert_int_equal(state.since_growth, model->since_growth);
    assert_int_equal(state.found, KERNEL_NO_SEGMENT);
    assert_int_equal(state.bad_segment, model->skipped ? it->bad_segment : KERNEL_NO_SEGMENT);
    assert_true((double)state.loss_scale == model->scale);
    assert_null(state.last);
    const size_t last = ARRAY_LENGTH(rates) - 1;
    assert_true(state.learning_rate == rates[state.applied < last ? state.applied : last]);
}

/* The metrics that the loss left to the update. */
static void metrics_offer(const struct bed *bed)
{
    struct update_state state;
    gpu_read(bed->arena.state, &state, sizeof state);
    state.last = bed->metrics;
    assert_cuda(cudaMemcpy(bed->arena.state, &state, sizeof state, cudaMemcpyHostToDevice));
}

static void check_metrics(const struct bed *bed, bool applied, double rate, double scale)
{
    struct kernel_metrics metrics;
    gpu_read(bed->metrics, &metrics, sizeof metrics);
    assert_true(metrics.loss_sum == 42);
    assert_int_equal(metrics.applied, applied);
    assert_true((double)metrics.learning_rate == rate && (double)metrics.loss_scale == scale);
}

static void check_update(const struct update_case *it)
{
    static struct model model;
    static float gradients[TRAINED];
    struct bed *bed = bed_make(it);
    model = (struct model){.scale = (double)it->scale};
    for (size_t i = 0; i < TRAINED; i++)
        model.w[i] = (double)bed->host[i];
    for (unsigned step = 0; step < STEPS; step++) {
        const bool finite = !(it->bad_steps >> step & 1);
        const uint64_t before = model.applied < 2 ? model.applied : 2;
        const double scale = model.scale;
        gradients_make(gradients, step, it, scale);
        assert_cuda(
            cudaMemcpy(bed->gradients, gradients, sizeof gradients, cudaMemcpyHostToDevice));
        if (step % 2 == 0)
            metrics_offer(bed);
        assert_cuda(kernel_update(&it->config, &bed->arena, gpu_stream()));
        model_step(&model, it, gradients, finite);
        check_state(bed, it, &model);
        if (step % 2 == 0)
            check_metrics(bed, finite, (double)rates[before], scale);
        check_values(bed->arena.values, model.w);
        check_values(bed->arena.momenta, model.v);
        if (bed->arena.io && model.applied > 0)
            check_copy(bed);
    }
    gpu_free_all();
}

static void test_sgd(void **state)
{
    (void)state;
    static const struct update_case cases[] = {
        {{.momentum = .9f, .weight_decay = .01f}, KERNEL_F32, 1, 0, 0},
        {{.momentum = .9f, .weight_decay = .01f, .nesterov = true},
         KERNEL_F16,
         128,
         1 << 2 | 1 << 3,
         1},
        {{.momentum = 0}, KERNEL_BF16, 1024, 1 << 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        check_update(&cases[i]);
}

static void test_loss_scale(void **state)
{
    (void)state;
    static const struct update_case cases[] = {
        {{.momentum = .5f, .dynamic_scale = true, .grown_after = 2}, KERNEL_F16, 65536, 1 << 3, 2},
        {{.momentum = .5f, .dynamic_scale = true, .grown_after = 3}, KERNEL_F16, 8, 0x7f, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        check_update(&cases[i]);
}

static void test_lars(void **state)
{
    (void)state;
    static const struct update_case cases[] = {
        {{.kind = KERNEL_LARS, .momentum = .9f, .weight_decay = .1f, .trust = .01f},
         KERNEL_F16,
         128,
         1 << 4,
         1},
        {{.kind = KERNEL_LARS,
          .momentum = .9f,
          .weight_decay = .1f,
          .trust = .01f,
          .epsilon = 2,
          .nesterov = true},
         KERNEL_F32,
         1,
         0,
         0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        check_update(&cases[i]);
}

/* The largest scale does not grow into infinity. */
static void test_largest_scale(void **state)
{
    (void)state;
    const struct update_case it = {
        {.dynamic_scale = true, .grown_after = 1}, KERNEL_F32, 0x1p127f, 0, 0};
    struct bed *bed = bed_make(&it);
    assert_cuda(cudaMemset(bed->gradients, 0, TRAINED * sizeof(float)));
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(kernel_update(&it.config, &bed->arena, gpu_stream()));
    struct update_state after;
    gpu_read(bed->arena.state, &after, sizeof after);
    assert_int_equal(after.applied, 1);
    assert_true(after.loss_scale == 0x1p127f);
    gpu_free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_loss_scale),
        cmocka_unit_test(test_lars),
        cmocka_unit_test(test_largest_scale),
    };
    if (!gpu_is_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
