/* The recipes that come with the program: each parses, says in a comment what its options are, and
 * follows the rates of the code that it comes from. */

#include "tests/test.h"

#include <dirent.h>
#include <math.h>

#include "base/file.h"
#include "train/dataset.h"
#include "train/options.h"

/* Published rates by position in epochs; `steps` of an epoch. */
typedef double rate_fn(double lr, double epochs, double position, double steps);

/* adjust_learning_rate of PyTorch's ImageNet example; torchvision's StepLR. */
static double step_rate(double lr, double epochs, double position, double steps)
{
    (void)epochs;
    (void)steps;
    return lr * pow(.1, floor(floor(position) / 30));
}

/* lr_cosine_policy of DeepLearningExamples with --warmup 8. */
static double dle_rate(double lr, double epochs, double position, double steps)
{
    (void)steps;
    double epoch = floor(position);
    if (epoch < 8)
        return lr * (epoch + 1) / 8;
    return lr * (1 + cos(M_PI * (epoch - 8) / (epochs - 8))) / 2;
}

/* get_cyclic_lr of FFCV: between (0, 1e-4 lr), (2, lr) and (epochs, 0). */
static double ffcv_rate(double lr, double epochs, double position, double steps)
{
    (void)steps;
    if (position < 2)
        return 1e-4 * lr + (lr - 1e-4 * lr) * position / 2;
    return lr * (epochs - position) / (epochs - 2);
}

/* PolynomialDecayWithWarmup of MLPerf's reference with 5 epochs of warm-up. */
static double mlperf_rate(double lr, double epochs, double position, double steps)
{
    double step = position * steps, warmup = 5 * steps, decay = epochs * steps - warmup + 1;
    if (step <= warmup)
        return lr * step / warmup;
    return 1e-4 + (lr - 1e-4) * pow(1 - fmin((step - warmup) / decay, 1), 2);
}

struct expected {
    const char *name, *summary; /* the summary is a comment of the recipe */
    rate_fn *rate;
    double steps; /* of an epoch over ImageNet's 1,281,167 images */
};

#define DLE                                                                                        \
    ", batch 2048, lr 2.048, momentum 0.875, weight decay 3.0517578125e-05, label smoothing 0.1"
#define FFCV50 ", batch 4096, lr 1.7, momentum 0.9, weight decay 0.0001, label smoothing 0.1"
#define FFCV18 ", batch 1024, lr 0.5, momentum 0.9, weight decay 5e-05, label smoothing 0.1"
#define PLAIN ", batch 256, lr 0.1, momentum 0.9, weight decay 0.0001, label smoothing 0"

static const struct expected recipes[] = {
    {"tencentos-resnet101", "resnet101, 120 epochs" PLAIN, step_rate, 5005},
    {"torchvision-resnet50-v1", "resnet50, 90 epochs" PLAIN, step_rate, 5005},
    {"dle-resnet50-50", "resnet50, 50 epochs" DLE, dle_rate, 626},
    {"dle-resnet50-90", "resnet50, 90 epochs" DLE, dle_rate, 626},
    {"dle-resnet50-250", "resnet50, 250 epochs" DLE, dle_rate, 626},
    {"ffcv-resnet50-16", "resnet50-blur, 16 epochs" FFCV50, ffcv_rate, 312},
    {"ffcv-resnet50-24", "resnet50-blur, 24 epochs" FFCV50, ffcv_rate, 312},
    {"ffcv-resnet50-32", "resnet50-blur, 32 epochs" FFCV50, ffcv_rate, 312},
    {"ffcv-resnet50-40", "resnet50-blur, 40 epochs" FFCV50, ffcv_rate, 312},
    {"ffcv-resnet50-56", "resnet50-blur, 56 epochs" FFCV50, ffcv_rate, 312},
    {"ffcv-resnet50-88", "resnet50-blur, 88 epochs" FFCV50, ffcv_rate, 312},
    {"ffcv-resnet18-16", "resnet18-blur, 16 epochs" FFCV18, ffcv_rate, 1251},
    {"ffcv-resnet18-24", "resnet18-blur, 24 epochs" FFCV18, ffcv_rate, 1251},
    {"ffcv-resnet18-32", "resnet18-blur, 32 epochs" FFCV18, ffcv_rate, 1251},
    {"ffcv-resnet18-40", "resnet18-blur, 40 epochs" FFCV18, ffcv_rate, 1251},
    {"ffcv-resnet18-56", "resnet18-blur, 56 epochs" FFCV18, ffcv_rate, 1251},
    {"ffcv-resnet18-88", "resnet18-blur, 88 epochs" FFCV18, ffcv_rate, 1251},
    {"mlperf-resnet50-lars",
     "resnet50, 42 epochs, batch 4096, lr 10, momentum 0.9, weight decay 0.0002, label smoothing "
     "0.1",
     mlperf_rate, 313},
};

/* Parses train/recipes/NAME.recipe; options borrow from `text`. *ret_comment says whether the text
 * has the comment `line` (NULL: not asked). */
static void recipe_parse(const char *name, struct buffer *text, const char *line,
                         struct train_options *options, bool *ret_comment)
{
    struct option_parse *parse = NULL;
    char path[128];
    const char *content;
    snprintf(path, sizeof path, "train/recipes/%s", name);
    assert_ok(memory_alloc(1, sizeof *parse, &parse));
    assert_ok(file_read_all(path, 1 << 16, text));
    assert_ok(buffer_text(text, &content));
    if (line)
        *ret_comment = strstr(content, line) != NULL;
    train_options_init(options);
    assert_ok(option_parse_text(train_option_table, (char *)text->data, path, options, parse));
    assert_ok(train_options_check(options));
    memory_free(parse);
}

static void test_each_is_accepted(void **state)
{
    (void)state;
    size_t known = 0;
    DIR *folder = opendir("train/recipes");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        CLEANUP(buffer_done) struct buffer text = {0};
        struct train_options options;
        if (entry->d_name[0] == '.')
            continue;
        recipe_parse(entry->d_name, &text, NULL, &options, NULL);
        known++;
    }
    closedir(folder);
    assert_int_equal(known, ARRAY_LENGTH(recipes) + 2); /* cifar10 and demo */
}

static void recipe_check(const struct expected *expected)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    struct train_options options;
    char file[64], comment[256];
    bool has_comment;
    snprintf(file, sizeof file, "%s.recipe", expected->name);
    snprintf(comment, sizeof comment, "\n# %s\n", expected->summary);
    recipe_parse(file, &text, comment, &options, &has_comment);
    assert_true(has_comment);
    char summary[256];
    snprintf(
        summary, sizeof summary,
        "%s, %lld epochs, batch %lld, lr %g, momentum %g, weight decay %.12g, label smoothing %g",
        train_options_arch(&options), (long long)options.epochs, (long long)options.batch_size,
        options.lr, options.momentum, options.weight_decay, options.label_smoothing);
    assert_string_equal(summary, expected->summary);

    uint64_t images = 1281167, batch = (uint64_t)options.batch_size;
    uint64_t steps = (images + (options.drop_last ? 0 : batch - 1)) / batch;
    assert_true((double)steps == expected->steps);
    struct schedule schedule = train_options_schedule(&options, steps);
    for (uint64_t step = 0; step < (uint64_t)options.epochs * steps; step += 97) {
        double position = (double)(step / steps) + (double)(step % steps) / expected->steps;
        double rate = expected->rate(options.lr, (double)options.epochs, position, expected->steps);
        if (fabs(schedule_lr(&schedule, step) - rate) > 1e-9 * options.lr)
            fail_msg("%s: the rate of step %llu is %g, expected %g", expected->name,
                     (unsigned long long)step, schedule_lr(&schedule, step), rate);
    }
}

static void test_rates_and_comments(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(recipes); i++)
        recipe_check(&recipes[i]);
}

/* What the comments promise beyond the summary. */
static void test_ffcv(void **state)
{
    (void)state;
    static const struct {
        uint64_t epochs, ramp_start, ramp_end;
    } ramps[] = {{16, 11, 13}, {24, 17, 20}, {32, 23, 27},
                 {40, 29, 34}, {56, 41, 48}, {88, 65, 76}};
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(ramps); i++) {
        CLEANUP(buffer_done) struct buffer text = {0};
        struct train_options options;
        char file[64];
        uint64_t epochs = ramps[i / 2].epochs, end = ramps[i / 2].ramp_end;
        uint32_t resize, crop;
        snprintf(file, sizeof file, "ffcv-resnet%d-%d.recipe", i % 2 ? 18 : 50, (int)epochs);
        recipe_parse(file, &text, NULL, &options, NULL);
        train_options_geometry(&options, &resize, &crop);
        const struct ramp ramp = train_options_ramp(&options);
        assert_int_equal(crop, 256);
        assert_int_equal(resize, 293); /* 256 of the central 7/8 */
        assert_int_equal(ramp_size(&ramp, ramps[i / 2].ramp_start), 160);
        assert_int_equal(ramp_size(&ramp, end - 1), 192);
        assert_int_equal(ramp_size(&ramp, end), 192);
        assert_true(options.val_flip && options.drop_last && !options.decay_norm);
        assert_null(options.loss_scale);
    }
}

static void test_the_others(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer text = {0};
    struct train_options options;
    for (size_t i = 0; i < ARRAY_LENGTH(recipes); i++) {
        CLEANUP(buffer_done) struct buffer own_text = {0};
        char file[64];
        struct loss_scale scale;
        uint32_t resize, crop;
        if (strncmp(recipes[i].name, "ffcv", 4) == 0)
            continue;
        snprintf(file, sizeof file, "%s.recipe", recipes[i].name);
        recipe_parse(file, &own_text, NULL, &options, NULL);
        train_options_geometry(&options, &resize, &crop);
        assert_true(resize == 256 && crop == 224 && options.image_size == 224);
        assert_true(options.image_size_start == 0 && !options.val_flip);
        assert_int_equal(options.decay_norm, recipes[i].rate == step_rate);
        assert_ok(train_options_loss_scale(&options, DTYPE_FP16, &scale));
        bool is_dle = recipes[i].rate == dle_rate;
        assert_int_equal(scale.dynamic, !is_dle);
        assert_true(!is_dle || scale.value == 128);
        assert_true(options.mixup == (options.epochs == 250 ? .2 : 0));
        assert_int_equal(options.optimizer,
                         recipes[i].rate == mlperf_rate ? OPTIMIZER_LARS : OPTIMIZER_SGD);
    }
    recipe_parse("mlperf-resnet50-lars.recipe", &text, NULL, &options, NULL);
    assert_true(options.lars_eta == .001 && options.lars_epsilon == 0);
    struct loader_options loader = dataset_loader_options(&options, &tensor_format_imagenet, 224);
    assert_true(loader.crop.scale_min == .05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_accepted),
        cmocka_unit_test(test_rates_and_comments),
        cmocka_unit_test(test_ffcv),
        cmocka_unit_test(test_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
