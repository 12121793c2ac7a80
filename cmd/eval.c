/* headrace eval: the exact accuracy of a trained network on a set. */

#include <stdio.h>

#include "base/memory.h"
#include "base/progress.h"
#include "cmd/command.h"
#include "train/dataset.h"
#include "train/evaluate.h"
#include "train/module.h"
#include "train/trained.h"

struct eval_arguments {
    const char *arch; /* NULL: as the checkpoint says */
    int device, dtype, pixels, on_error;
    int64_t batch_size, jobs, threads, val_resize, val_crop, print_freq;
    bool json;
};

#define FIELD(name) offsetof(struct eval_arguments, name)
static const struct option eval_options[] = {
    {"arch", 'a', OPT_STRING, FIELD(arch), .value = "NAME",
     .help = "network of bare weights: resnet18, 34, 50, 101, 152"},
    {"batch-size", 'b', OPT_INT, FIELD(batch_size), .min = 1, .max = 65536, .value = "N",
     .help = "images a step; changes nothing but speed (default %d)"},
    {"val-resize", 0, OPT_INT, FIELD(val_resize), .min = 0, .max = 16384, .value = "PIXELS",
     .help = "short side; 0: as in training, else 8/7 of --val-crop"},
    {"val-crop", 0, OPT_INT, FIELD(val_crop), .min = 0, .max = 16384, .value = "PIXELS",
     .help = "centre crop; 0: as in training, else 224"},
    {"pixels", 0, OPT_ENUM, FIELD(pixels), .names = pixels_names,
     .help = "how images are decoded and resized: pillow, pillow13 or fast; not given: as in "
             "training"},
    {"device", 0, OPT_ENUM, FIELD(device), .names = device_names,
     .help = "where to compute (default %d)"},
    {"dtype", 0, OPT_ENUM, FIELD(dtype), .names = train_dtype_names,
     .help = "arithmetic (default %d)"},
    {"threads", 0, OPT_INT, FIELD(threads), .min = 0, .max = 1024, .value = "N",
     .help = "threads that compute; 0: as many as there are cores to use"},
    COMMAND_JOBS(jobs),
    {"on-error", 0, OPT_ENUM, FIELD(on_error), .names = on_error_names,
     .help = "what an unreadable image does (default %d)"},
    {"print-freq", 'p', OPT_INT, FIELD(print_freq), .min = 1, .max = 1e9, .value = "N",
     .help = "steps between two lines (default %d)"},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print one JSON object instead of lines"},
    {0},
};

static const struct option_usage eval_usage = {
    .command = "eval",
    .positionals = "CHECKPOINT SET",
    .min_positionals = 2,
    .max_positionals = 2,
    .summary = "Measures top-1 and top-5 accuracy, each image counted exactly once.",
    .details =
        "CHECKPOINT is a RUN_DIR (its model_best, or its checkpoint where no epoch ended yet), a "
        "file of a checkpoint, or bare weights: a "
        "torchvision state_dict as safetensors, with --arch. SET is an index or class "
        "folders; its classes are matched by WNID and may be some of the network's only.",
    .example = "headrace eval run/model_best.safetensors val.idx",
};

/* What an evaluation is made of. */
struct evaluation {
    struct index *index;
    struct trained *trained;
    int32_t *label_map;
    struct model *model;
    struct feed *feed;
    struct plan *plan;
    struct run_log *log;
    uint32_t resize, crop;
    enum pixels pixels;
};

static void evaluation_done(struct evaluation *evaluation)
{
    if (evaluation->plan)
        evaluation->model->ops->plan_close(evaluation->plan);
    feed_close(evaluation->feed);
    model_close(evaluation->model);
    trained_close(evaluation->trained);
    index_close(evaluation->index);
    run_log_close(evaluation->log);
    memory_free(evaluation->label_map);
}
CLEANUP_VALUE(evaluation_done, struct evaluation)

static struct status geometry_choose(const struct eval_arguments *arguments,
                                     struct evaluation *evaluation)
{
    const struct trained *trained = evaluation->trained;
    struct train_options options;
    train_options_init(&options);
    bool as_trained = !arguments->val_crop && !arguments->val_resize && trained->val_crop;
    options.val_crop = arguments->val_crop ? arguments->val_crop : trained->val_crop;
    options.val_resize = as_trained ? trained->val_resize : arguments->val_resize;
    train_options_geometry(&options, &evaluation->resize, &evaluation->crop);
    if (evaluation->resize < evaluation->crop)
        FAIL(STATUS_USAGE, "--val-resize %u is smaller than --val-crop %u", evaluation->resize,
             evaluation->crop);
    return OK;
}

static struct status model_make(const struct eval_arguments *arguments,
                                struct evaluation *evaluation)
{
    const struct backend_config config = {
        .dtype = (enum train_dtype)arguments->dtype,
        .threads = (unsigned)arguments->threads,
    };
    TRY(model_open(evaluation->trained->network, device_names[arguments->device], &config,
                   &evaluation->model));
    return model_write(evaluation->model, evaluation->trained->weights, false);
}

static struct status feed_make(const struct eval_arguments *arguments,
                               struct evaluation *evaluation)
{
    const struct backend_ops *ops = evaluation->model->ops;
    uint64_t images = index_count(evaluation->index);
    struct loader_options options;
    loader_options_init(&options);
    options.mode = LOADER_EVAL;
    options.global_batch = (uint32_t)arguments->batch_size;
    if (images < options.global_batch)
        options.global_batch = (uint32_t)images;
    options.val_resize = evaluation->resize;
    options.val_crop = evaluation->crop;
    options.pixels = evaluation->pixels;
    options.threads = (unsigned)arguments->jobs;
    options.on_error = (enum loader_on_error)arguments->on_error;
    options.label_map = evaluation->label_map;
    options.format = tensor_format_imagenet;
    ops->input_format(evaluation->model->backend, &options.format);
    const struct plan_config plan = {
        .mode = PLAN_EVAL,
        .batch = options.global_batch,
        .height = evaluation->crop,
        .width = evaluation->crop,
    };
    TRY(feed_open_index(evaluation->index, &options, &evaluation->feed));
    return ops->plan_open(evaluation->model->store, &plan, &evaluation->plan);
}

static struct status evaluation_open(const struct eval_arguments *arguments,
                                     const struct option_parse *parse,
                                     struct evaluation *evaluation)
{
    const char *checkpoint = parse->positionals[0], *set = parse->positionals[1];
    TRY(dataset_open_index(set, NULL, (unsigned)arguments->jobs, &evaluation->index));
    const struct class_table *classes = index_classes(evaluation->index);
    TRY(trained_open(checkpoint, arguments->arch, classes, &evaluation->trained));
    TRY(status_context(evaluate_label_map(classes, evaluation->trained->classes,
                                          &evaluation->label_map),
                       "'%s'", set));
    TRY(geometry_choose(arguments, evaluation));
    evaluation->pixels = option_given(parse, eval_options, "pixels")
                             ? (enum pixels)arguments->pixels
                             : evaluation->trained->pixels;
    TRY(model_make(arguments, evaluation));
    TRY(feed_make(arguments, evaluation));
    return run_log_open(arguments->json ? NULL : stdout, NULL, &evaluation->log);
}

static struct status result_print(const struct evaluation *evaluation,
                                  const struct option_parse *parse, const struct metric_sums *sums,
                                  double seconds)
{
    CLEANUP(json_free) struct json *result = json_object_new();
    enum train_dtype dtype = evaluation->model->ops->dtype(evaluation->model->backend);
    json_set_integer(result, "version", 1);
    json_set_string(result, "weights", evaluation->trained->path);
    json_set_string(result, "set", parse->positionals[1]);
    json_set_string(result, "arch", evaluation->trained->network->arch);
    json_set_integer(result, "images", (int64_t)sums->count);
    json_set_integer(result, "unreadable", (int64_t)feed_statistics(evaluation->feed).bad_records);
    json_set_integer(result, "top1_count", (int64_t)sums->top1);
    json_set_integer(result, "top5_count", (int64_t)sums->top5);
    json_set_real(result, "top1", sums_top1(sums));
    json_set_real(result, "top5", sums_top5(sums));
    json_set_real(result, "loss", sums_loss(sums));
    json_set_integer(result, "val_resize", evaluation->resize);
    json_set_integer(result, "val_crop", evaluation->crop);
    json_set_string(result, "pixels", pixels_names[evaluation->pixels]);
    json_set_string(result, "dtype", train_dtype_names[dtype]);
    json_set_real(result, "seconds", seconds);
    return command_print_json(result);
}

struct status cmd_eval(int argc, char **argv)
{
    struct eval_arguments arguments = {.batch_size = 64, .print_freq = 10};
    struct option_parse parse = {0};
    CLEANUP(evaluation_done) struct evaluation evaluation = {0};
    struct metric_sums sums;
    TRY(command_parse(&eval_usage, eval_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    TRY(evaluation_open(&arguments, &parse, &evaluation));
    double started_s = clock_seconds();
    TRY(evaluate_run(evaluation.model, evaluation.plan, evaluation.feed, NULL, evaluation.log,
                     (uint64_t)arguments.print_freq, &sums));
    double seconds = clock_seconds() - started_s;
    if (arguments.json)
        return result_print(&evaluation, &parse, &sums, seconds);
    return run_log_eval(evaluation.log, 0, &sums, seconds);
}
