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
    int64_t batch_size, jobs, threads, gpus, val_resize, val_crop, print_freq;
    bool val_flip, json;
    struct access_options access;
    struct cache_options cache;
};

#define FIELD(name) offsetof(struct eval_arguments, name)
static const struct option eval_options[] = {
    {"arch", 'a', OPT_STRING, FIELD(arch), .value = "NAME",
     .help = "network of bare weights, one of those of train --arch"},
    {"batch-size", 'b', OPT_INT, FIELD(batch_size), .min = 1, .max = 65536, .value = "N",
     .help = "images a step; changes nothing but speed (default %d)"},
    {"val-resize", 0, OPT_INT, FIELD(val_resize), .min = 0, .max = 16384, .value = "PIXELS",
     .help = "short side; 0: as in training, else 8/7 of --val-crop"},
    {"val-crop", 0, OPT_INT, FIELD(val_crop), .min = 0, .max = 16384, .value = "PIXELS",
     .help = "centre crop; 0: as in training, else 224"},
    {"val-flip", 0, OPT_FLAG, FIELD(val_flip),
     .help = "add the logits of the mirrored image; --no-val-flip: do not; not given: as in "
             "training"},
    {"pixels", 0, OPT_ENUM, FIELD(pixels), .names = pixels_names,
     .help = "how images are decoded and resized: pillow, pillow13 or fast; not given: as in "
             "training"},
    {"device", 0, OPT_ENUM, FIELD(device), .names = device_names,
     .help = "where to compute (default %d)"},
    {"dtype", 0, OPT_ENUM, FIELD(dtype), .names = train_dtype_names,
     .help = "arithmetic (default %d)"},
    {"gpus", 0, OPT_INT, FIELD(gpus), .min = 0, .max = 64, .value = "N",
     .help = "GPUs to compute on; 0: all that are seen"},
    {"threads", 0, OPT_INT, FIELD(threads), .min = 0, .max = 1024, .value = "N",
     .help = "threads that compute; 0: as many as there are cores to use"},
    COMMAND_JOBS(jobs),
    {"on-error", 0, OPT_ENUM, FIELD(on_error), .names = loader_on_error_names,
     .help = "what an unreadable image does (default %d)"},
    {"print-freq", 'p', OPT_INT, FIELD(print_freq), .min = 1, .max = 1e9, .value = "N",
     .help = "steps between two lines (default %d)"},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print one JSON object instead of lines"},
    CACHE_OPTIONS(cache),
    ACCESS_OPTIONS(access),
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
        "torchvision state_dict as safetensors, with --arch. SET is an index (file or URL), "
        "class folders, or a folder that holds val.idx or train/ and val/; its classes are matched "
        "by WNID and may be some of the network's only.",
    .example = "headrace eval run/model_best.safetensors val.idx",
};

/* What an evaluation is made of. */
struct eval_parts {
    struct access *access;
    struct cache *cache;
    struct index *index;
    struct trained *trained;
    int32_t *label_map;
    struct model *model;
    struct feed *feed;
    struct plan *plan;
    struct run_log *log;
    struct mirrored *mirrored; /* NULL: --no-val-flip */
    uint32_t resize, crop;
    enum pixels pixels;
};

static void eval_parts_done(struct eval_parts *parts)
{
    mirrored_close(parts->mirrored);
    if (parts->plan)
        parts->model->ops->plan_close(parts->plan);
    feed_close(parts->feed);
    model_close(parts->model);
    trained_close(parts->trained);
    index_close(parts->index);
    access_close(parts->access);
    cache_close(parts->cache);
    run_log_close(parts->log);
    memory_free(parts->label_map);
}
CLEANUP_VALUE(eval_parts_done, struct eval_parts)

static struct status geometry_choose(const struct eval_arguments *arguments,
                                     struct eval_parts *parts)
{
    const struct trained *trained = parts->trained;
    struct train_options options;
    train_options_init(&options);
    bool as_trained = !arguments->val_crop && !arguments->val_resize && trained->val_crop;
    options.val_crop = arguments->val_crop ? arguments->val_crop : trained->val_crop;
    options.val_resize = as_trained ? trained->val_resize : arguments->val_resize;
    train_options_geometry(&options, &parts->resize, &parts->crop);
    if (parts->resize < parts->crop)
        FAIL(STATUS_USAGE, "--val-resize %u is smaller than --val-crop %u", parts->resize,
             parts->crop);
    return OK;
}

static struct status model_make(const struct eval_arguments *arguments, struct eval_parts *parts)
{
    const struct backend_config config = {
        .dtype = (enum train_dtype)arguments->dtype,
        .threads = (unsigned)arguments->threads,
        .devices = (unsigned)arguments->gpus,
    };
    TRY(model_open(parts->trained->network, device_names[arguments->device], &config,
                   &parts->model));
    return model_write(parts->model, parts->trained->weights, false);
}

/* Images of a step: no more than there are, and as many for each device. */
static uint32_t batch_choose(uint64_t asked, uint64_t images, uint32_t replicas)
{
    return (uint32_t)division_round_up(images < asked ? images : asked, replicas);
}

static struct status feed_make(const struct eval_arguments *arguments, struct eval_parts *parts)
{
    const struct backend_ops *ops = parts->model->ops;
    struct loader_options options;
    loader_options_init(&options);
    options.mode = LOADER_EVAL;
    options.global_batch = batch_choose((uint64_t)arguments->batch_size, index_count(parts->index),
                                        ops->replicas(parts->model->backend));
    options.val_resize = parts->resize;
    options.val_crop = parts->crop;
    options.pixels = parts->pixels;
    options.threads = (unsigned)arguments->jobs;
    options.on_error = (enum loader_on_error)arguments->on_error;
    options.label_map = parts->label_map;
    options.cache = parts->cache;
    options.format = tensor_format_imagenet;
    ops->input_format(parts->model->backend, &options.format);
    const struct plan_config plan = {
        .mode = PLAN_EVAL,
        .batch = options.global_batch,
        .height = parts->crop,
        .width = parts->crop,
    };
    TRY(feed_open_index(parts->index, &options, &parts->feed));
    TRY(ops->plan_open(parts->model->store, &plan, &parts->plan));
    if (!arguments->val_flip)
        return OK;
    return mirrored_open(parts->model, &plan, &options.format, &parts->mirrored);
}

static struct status eval_parts_open(struct eval_arguments *arguments,
                                     const struct option_parse *parse, struct eval_parts *parts)
{
    const char *checkpoint = parse->positionals[0], *set = parse->positionals[1];
    TRY(access_open(&arguments->access, &parts->access));
    TRY(cache_open_options(&arguments->cache, &parts->cache));
    TRY(dataset_open_part(set, "val", NULL, (unsigned)arguments->jobs, parts->access,
                          &parts->index));
    const struct class_table *classes = index_classes(parts->index);
    TRY(trained_open(checkpoint, arguments->arch, classes, &parts->trained));
    TRY(status_context(evaluate_label_map(classes, parts->trained->classes, &parts->label_map),
                       "'%s'", set));
    TRY(geometry_choose(arguments, parts));
    parts->pixels = option_given(parse, eval_options, "pixels") ? (enum pixels)arguments->pixels
                                                                : parts->trained->pixels;
    if (!option_given(parse, eval_options, "val-flip"))
        arguments->val_flip = parts->trained->val_flip;
    TRY(model_make(arguments, parts));
    TRY(feed_make(arguments, parts));
    return run_log_open(arguments->json ? NULL : stdout, NULL, &parts->log);
}

static struct status result_print(const struct eval_parts *parts, const struct option_parse *parse,
                                  const struct metric_sums *sums, double seconds)
{
    CLEANUP(json_free) struct json *result = json_object_new();
    enum train_dtype dtype = parts->model->ops->dtype(parts->model->backend);
    json_set_integer(result, "version", 1);
    json_set_string(result, "weights", parts->trained->path);
    json_set_string(result, "set", parse->positionals[1]);
    json_set_string(result, "arch", parts->trained->network->arch);
    json_set_integer(result, "images", (int64_t)sums->count);
    json_set_integer(result, "unreadable", (int64_t)feed_statistics(parts->feed).bad_records);
    json_set_integer(result, "top1_count", (int64_t)sums->top1);
    json_set_integer(result, "top5_count", (int64_t)sums->top5);
    json_set_real(result, "top1", sums_top1(sums));
    json_set_real(result, "top5", sums_top5(sums));
    json_set_real(result, "loss", sums_loss(sums));
    json_set_integer(result, "val_resize", parts->resize);
    json_set_integer(result, "val_crop", parts->crop);
    json_set_boolean(result, "val_flip", parts->mirrored != NULL);
    json_set_string(result, "pixels", pixels_names[parts->pixels]);
    json_set_string(result, "dtype", train_dtype_names[dtype]);
    json_set_real(result, "seconds", seconds);
    return command_print_json(result);
}

struct status cmd_eval(int argc, char **argv)
{
    struct eval_arguments arguments = {.batch_size = 64, .print_freq = 10};
    struct option_parse parse = {0};
    CLEANUP(eval_parts_done) struct eval_parts parts = {0};
    struct metric_sums sums;
    access_options_init(&arguments.access);
    TRY(cache_options_init(&arguments.cache));
    TRY(command_parse(&eval_usage, eval_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    TRY(eval_parts_open(&arguments, &parse, &parts));
    double started_s = clock_seconds();
    const struct evaluation evaluation = {
        .model = parts.model,
        .plan = parts.plan,
        .mirrored = parts.mirrored,
        .feed = parts.feed,
    };
    TRY(evaluate_run(&evaluation, parts.log, (uint64_t)arguments.print_freq, &sums));
    double seconds = clock_seconds() - started_s;
    if (arguments.json)
        return result_print(&parts, &parse, &sums, seconds);
    return run_log_eval(parts.log, 0, &sums, seconds);
}
