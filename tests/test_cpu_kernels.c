#include "tests/test.h"

#include <math.h>

#include "base/random.h"
#include "train/cpu/bf16.h"
#include "train/cpu/kernels.h"

/* Every variant of the CPU backend's kernels against the plain one, on random values: channel
 * counts that fill one vector and several, rows that fill a group and do not. */

enum { ROWS_MAX = 37, CHANNELS_MAX = 96, COUNT_MAX = ROWS_MAX * CHANNELS_MAX };

static const uint32_t channel_counts[] = {16, 48, CHANNELS_MAX};
static const struct rows row_ranges[] = {{0, 1, 0}, {0, ROWS_MAX, 0}, {3, 8, 0}, {5, 5, 0}};

struct variant {
    const char *name;
    enum cpu_level level;
    enum train_dtype dtype;
};

static const struct variant variants[] = {
    {"avx2 f32", CPU_AVX2, DTYPE_F32},
    {"avx2 bf16", CPU_AVX2, DTYPE_BF16},
    {"avx512 f32", CPU_AVX512, DTYPE_F32},
    {"avx512 bf16", CPU_AVX512, DTYPE_BF16},
};

/* Room for elements of either type, and vectors of a number a channel. */
struct array {
    float elements[COUNT_MAX];
};
struct inputs {
    struct array y, other, p, q, out;
    float scale[CHANNELS_MAX], shift[CHANNELS_MAX], other_scale[CHANNELS_MAX],
        other_shift[CHANNELS_MAX];
    float mean[CHANNELS_MAX], from_input[CHANNELS_MAX], constant[CHANNELS_MAX];
    float sums[CHANNELS_MAX], products[CHANNELS_MAX];
    uint8_t mask[COUNT_MAX], index[COUNT_MAX];
};

static void floats_fill(struct random_stream *stream, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)random_normal(stream);
}

static void array_fill(struct random_stream *stream, struct array *array, enum train_dtype dtype)
{
    floats_fill(stream, array->elements, COUNT_MAX);
    uint16_t halves[COUNT_MAX];
    for (size_t i = 0; i < COUNT_MAX; i++)
        halves[i] = bf16_from_f32(array->elements[i]);
    if (dtype == DTYPE_BF16)
        memcpy(array->elements, halves, sizeof halves);
}

static void inputs_fill(struct inputs *in, uint64_t seed, enum train_dtype dtype)
{
    struct random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    memset(in, 0, sizeof *in);
    struct array *const arrays[] = {&in->y, &in->other, &in->p, &in->q, &in->out};
    for (size_t i = 0; i < ARRAY_LENGTH(arrays); i++)
        array_fill(&stream, arrays[i], dtype);
    float *const vectors[] = {in->scale,       in->shift, in->other_scale,
                              in->other_shift, in->mean,  in->from_input,
                              in->constant,    in->sums,  in->products};
    for (size_t i = 0; i < ARRAY_LENGTH(vectors); i++)
        floats_fill(&stream, vectors[i], CHANNELS_MAX);
    for (size_t i = 0; i < COUNT_MAX; i++) {
        in->mask[i] = (uint8_t)random_u32(&stream);
        in->index[i] = random_below(&stream, 3) ? (uint8_t)random_below(&stream, 9) : POOL_NONE;
    }
}

static float element(const struct array *array, size_t i, enum train_dtype dtype)
{
    uint16_t half;
    memcpy(&half, (const char *)array + 2 * i, sizeof half);
    return dtype == DTYPE_BF16 ? bf16_to_f32(half) : array->elements[i];
}

static void assert_near(float a, float b, double tolerance, const char *what)
{
    if (!(fabs((double)a - (double)b) <= tolerance * (1 + fabs((double)b))))
        fail_msg("%s: %.9g, plain %.9g", what, (double)a, (double)b);
}

/* Everything that a kernel may have written. A fused multiplication rounds once where plain C
 * rounds twice; bf16 turns that into a whole step at times. */
static void assert_inputs_near(const struct inputs *a, const struct inputs *b,
                               const struct variant *variant)
{
    double tolerance = variant->dtype == DTYPE_BF16 ? 1.0 / 128 : 1e-5;
    for (size_t i = 0; i < COUNT_MAX; i++) {
        assert_near(element(&a->out, i, variant->dtype), element(&b->out, i, variant->dtype),
                    tolerance, variant->name);
        assert_near(element(&a->p, i, variant->dtype), element(&b->p, i, variant->dtype), tolerance,
                    variant->name);
    }
    for (size_t c = 0; c < CHANNELS_MAX; c++) {
        assert_near(a->sums[c], b->sums[c], 1e-4, variant->name);
        assert_near(a->products[c], b->products[c], 1e-4, variant->name);
    }
    assert_memory_equal(a->mask, b->mask, sizeof a->mask);
    assert_memory_equal(a->index, b->index, sizeof a->index);
}

typedef void kernel_call(const struct kernels *kernels, struct rows rows, struct inputs *in);

/* Runs `call` with the variant and with plain C on the same inputs. */
static void variant_check(const struct variant *variant, struct rows rows, uint64_t seed,
                          kernel_call *call)
{
    static struct inputs a, b;
    inputs_fill(&a, seed, variant->dtype);
    b = a;
    call(kernels_find(variant->level, variant->dtype), rows, &a);
    call(kernels_find(CPU_PLAIN, variant->dtype), rows, &b);
    assert_inputs_near(&a, &b, variant);
}

static bool variant_runs(const struct variant *variant)
{
    if (variant->level == CPU_AVX512 && variant->dtype == DTYPE_BF16 && !cpu_has_avx512_bf16())
        return false;
    return variant->level <= cpu_level();
}

static void kernel_check(kernel_call *call)
{
    for (size_t v = 0; v < ARRAY_LENGTH(variants); v++)
        for (size_t c = 0; variant_runs(&variants[v]) && c < ARRAY_LENGTH(channel_counts); c++)
            for (size_t r = 0; r < ARRAY_LENGTH(row_ranges); r++) {
                struct rows rows = {row_ranges[r].begin, row_ranges[r].end, channel_counts[c]};
                variant_check(&variants[v], rows, 1 + c * 10 + r, call);
            }
}

static struct bn_forward bn_of(const struct inputs *in)
{
    return (struct bn_forward){in->scale, in->shift};
}

static struct bn_backward bn_backward_of(const struct inputs *in)
{
    return (struct bn_backward){in->scale, in->from_input, in->constant, in->mean};
}

static const struct bn_forward none;

static void call_statistics(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->bn_statistics(rows, &in->y, in->mean, in->sums, in->products);
}

static void call_relu(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->bn_relu(rows, &in->y, bn_of(in), &in->out);
}

static void call_add_relu(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->bn_add_relu(rows, &in->y, bn_of(in), &in->other, none, &in->out, in->mask);
}

static void call_add_bn_relu(const struct kernels *k, struct rows rows, struct inputs *in)
{
    const struct bn_forward other = {in->other_scale, in->other_shift};
    k->bn_add_relu(rows, &in->y, bn_of(in), &in->other, other, &in->out, in->mask);
}

static void call_mask_one(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->mask_gradient(rows, &in->p, NULL, in->mask);
}

static void call_mask_two(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->mask_gradient(rows, &in->p, &in->q, in->mask);
}

static void call_reduce(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->bn_reduce(rows, &in->y, &in->p, none, in->mean, in->sums, in->products);
}

static void call_reduce_relu(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->bn_reduce(rows, &in->y, &in->p, bn_of(in), in->mean, in->sums, in->products);
}

static void call_propagate(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->bn_propagate(rows, &in->y, &in->p, none, bn_backward_of(in), &in->out);
}

static void call_propagate_in_place(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->bn_propagate(rows, &in->y, &in->p, bn_of(in), bn_backward_of(in), &in->p);
}

static void call_average(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->average(rows, &in->y, .25f, &in->out, 2);
}

static void call_spread(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->spread(rows, &in->y, 2, .25f, &in->out);
}

static void call_sgd(const struct kernels *k, struct rows rows, struct inputs *in)
{
    struct sgd_step step = {.1f, .9f, .01f, .3f, rows.channels == CHANNELS_MAX};
    k->sgd(KERNEL_LANES * rows.begin % rows.channels, rows.channels, in->sums, in->products,
           in->mean, &step);
}

static void call_add(const struct kernels *k, struct rows rows, struct inputs *in)
{
    k->add(KERNEL_LANES * rows.begin % rows.channels, rows.channels, in->sums, in->products);
}

static void call_are_finite(const struct kernels *k, struct rows rows, struct inputs *in)
{
    const float values[] = {NAN, INFINITY, -INFINITY};
    size_t last = rows.channels - KERNEL_LANES;
    in->out.elements[0] = k->are_finite(0, rows.channels, in->sums);
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        in->sums[last + 5 * i] = values[i];
        in->out.elements[1 + 3 * i] = k->are_finite(0, last, in->sums);
        in->out.elements[2 + 3 * i] = k->are_finite(last, rows.channels, in->sums);
        in->out.elements[3 + 3 * i] = k->are_finite(last, last, in->sums);
        in->sums[last + 5 * i] = 0;
    }
}

static void test_bn_forward(void **state)
{
    (void)state;
    kernel_check(call_statistics);
    kernel_check(call_relu);
    kernel_check(call_add_relu);
    kernel_check(call_add_bn_relu);
}

static void test_bn_backward(void **state)
{
    (void)state;
    kernel_check(call_mask_one);
    kernel_check(call_mask_two);
    kernel_check(call_reduce);
    kernel_check(call_reduce_relu);
    kernel_check(call_propagate);
    kernel_check(call_propagate_in_place);
}

static void test_average_and_update(void **state)
{
    (void)state;
    kernel_check(call_average);
    kernel_check(call_spread);
    kernel_check(call_sgd);
    kernel_check(call_add);
    kernel_check(call_are_finite);
}

/* Two images of odd and even sizes; windows that hang over every edge. */
static struct pool_shape pool_of(uint32_t channels)
{
    if (channels == 16)
        return (struct pool_shape){5, 7, 3, 4, 16, 3, 2, 1};
    if (channels == 48)
        return (struct pool_shape){4, 4, 2, 2, 48, 2, 2, 0};
    return (struct pool_shape){4, 3, 4, 3, 96, 3, 1, 1};
}

static void call_pool_forward(const struct kernels *k, struct rows rows, struct inputs *in)
{
    struct pool_shape pool = pool_of(rows.channels);
    for (size_t row = 0; row < 2 * pool.out_height; row++)
        k->pool_forward(&pool, row, &in->y, bn_of(in), &in->out, rows.end % 2 ? in->index : NULL);
}

static void call_pool_backward(const struct kernels *k, struct rows rows, struct inputs *in)
{
    struct pool_shape pool = pool_of(rows.channels);
    for (size_t row = 0; row < 2 * pool.height; row++)
        k->pool_backward(&pool, row, &in->p, rows.end % 2 ? &in->q : NULL, in->index, &in->out);
}

/* Two images; in the second size each row has no neighbour. */
static void call_blur(const struct kernels *k, struct rows rows, struct inputs *in)
{
    struct image_shape shape = {rows.end % 2 ? 4 : 1, rows.begin ? 1 : 3, rows.channels};
    for (size_t row = 0; row < 2 * (size_t)shape.height; row++)
        k->blur(&shape, row, &in->y, &in->out);
}

static void test_pool(void **state)
{
    (void)state;
    kernel_check(call_blur);
    kernel_check(call_pool_forward);
    kernel_check(call_pool_backward);
}

/* Rounding to nearest even, at the ties and for what is not a number. */
static void test_bf16_rounding(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint16_t rounded;
    } cases[] = {
        {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80},
        {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x80000000, 0x8000},
    };
    const struct pool_shape unit = {1, 1, 1, 1, 16, 1, 1, 0};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        float value;
        memcpy(&value, &cases[i].bits, sizeof value);
        assert_int_equal(bf16_from_f32(value), cases[i].rounded);
        for (size_t v = 0; v < ARRAY_LENGTH(variants); v++) {
            if (variants[v].dtype != DTYPE_BF16 || !variant_runs(&variants[v]) || value <= 0)
                continue;
            /* max(1·0 + value, 0) */
            float zeros[16] = {0}, shift[16];
            uint16_t out[16];
            for (size_t c = 0; c < ARRAY_LENGTH(shift); c++)
                shift[c] = value;
            kernels_find(variants[v].level, DTYPE_BF16)
                ->pool_forward(&unit, 0, zeros, (struct bn_forward){zeros, shift}, out, NULL);
            assert_int_equal(out[15], cases[i].rounded);
        }
    }
    assert_true(isnan(bf16_to_f32(bf16_from_f32(NAN))));
}

/* A NaN goes through ReLU, so that it reaches the loss and is seen. */
static void test_nan_passes_relu(void **state)
{
    (void)state;
    static const enum cpu_level levels[] = {CPU_PLAIN, CPU_AVX2, CPU_AVX512};
    const float ones[16] = {1}, y[16] = {NAN, -1};
    for (size_t i = 0; i < ARRAY_LENGTH(levels) && levels[i] <= cpu_level(); i++) {
        float z[16];
        kernels_find(levels[i], DTYPE_F32)
            ->bn_relu((struct rows){0, 1, 16}, y, (struct bn_forward){ones, ones}, z);
        assert_true(isnan(z[0]));
        assert_true(z[1] == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bn_forward),    cmocka_unit_test(test_bn_backward),
        cmocka_unit_test(test_pool),          cmocka_unit_test(test_average_and_update),
        cmocka_unit_test(test_bf16_rounding), cmocka_unit_test(test_nan_passes_relu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
