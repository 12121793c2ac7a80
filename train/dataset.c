#include "train/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "index/folder_index.h"
#include "index/url.h"
#include "train/evaluate.h"

/* Validation images of synthetic data: as many for a training image as ImageNet has. */
static const uint64_t synthetic_train_per_val = 25;

/* Whether the index beside a folder says no more than the folder: one that was made for it, to be
 * checked for changes, or one that cannot be read. */
static bool index_adds_nothing(const char *path)
{
    CLEANUP(index_close) struct index *index = NULL;
    struct status status = index_open(path, &index);
    bool nothing = status.code != STATUS_DONE || folder_index_is_own(index);
    status_ignore(status);
    return nothing;
}

/* What --data DIR means for a part: DIR/train.idx, else the folder DIR/train. On the heap. */
static struct status part_find(const char *data, const char *part, char **ret_path)
{
    CLEANUP(memory_free) char *index = NULL;
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *shown = NULL;
    TRY(url_refuse_kind(data));
    if (url_is(data) && strpbrk(data, "?#")) {
        TRY(url_shown(data, &shown));
        FAIL(STATUS_USAGE,
             "'%s' has a query, which names one file: name the sets with --train and --val", shown);
    }
    if (url_is(data))
        return string_format(ret_path, "%s/%s.idx", data, part);
    TRY(string_format(&index, "%s/%s.idx", data, part));
    TRY(string_format(&folder, "%s/%s", data, part));
    bool has_folder = path_is_folder(folder), has_index = path_exists(index);
    if (!has_folder && !has_index)
        FAIL(STATUS_NOT_FOUND,
             "'%s' has neither %s.idx nor a folder %s/: expected what 'headrace pack' or 'headrace "
             "prep' makes, or name the sets with --train and --val",
             data, part, part);
    bool by_folder = has_folder && (!has_index || index_adds_nothing(index));
    *ret_path = by_folder ? MOVE(folder) : MOVE(index);
    return OK;
}

/* Whether a folder has sets, one of them this part, and not the classes of one set. */
static struct status has_part(const char *folder, const char *part, bool *ret_has)
{
    CLEANUP(memory_free) char *index = NULL;
    CLEANUP(memory_free) char *train = NULL;
    CLEANUP(memory_free) char *val = NULL;
    TRY(string_format(&index, "%s/%s.idx", folder, part));
    TRY(path_join(folder, "train", &train));
    TRY(path_join(folder, "val", &val));
    *ret_has = path_exists(index) || (path_is_folder(train) && path_is_folder(val));
    return OK;
}

struct status dataset_open_part(const char *path, const char *part,
                                const struct class_table *classes, unsigned threads,
                                struct access *access, struct index **ret_index)
{
    CLEANUP(memory_free) char *found = NULL;
    bool has = false;
    if (path_is_folder(path))
        TRY(has_part(path, part, &has));
    if (has) {
        TRY(part_find(path, part, &found));
        path = found;
    }
    if (path_is_folder(path))
        return folder_index_open(path, classes, threads ? threads : cores_available(), ret_index);
    return index_open_with(path, access, ret_index);
}

/* Refuses a URL that a checkpoint or a log has kept without its query. */
static struct status refuse_without_query(const char *url, const char *part)
{
    const char *others = strcmp(part, "train") == 0 ? ", or --data URL of 'headrace replay'" : "";
    if (url_lacks_query(url))
        FAIL(STATUS_USAGE,
             "the run read %s, but no checkpoint keeps a URL's query, which may hold a signature: "
             "name it again with --%s URL%s",
             url, part, others);
    return OK;
}

/* The path of a part, on the heap; NULL when it was not given. */
static struct status part_path(const char *given, const char *data, const char *part,
                               char **ret_path)
{
    if (given) {
        TRY(refuse_without_query(given, part));
        return string_copy(given, ret_path);
    }
    *ret_path = NULL;
    return data ? part_find(data, part, ret_path) : OK;
}

/* Class names for random labels: "class-0007". */
static struct status synthetic_classes(uint32_t count, struct class_table **ret_classes)
{
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    CLEANUP(memory_free) char(*names)[32] = NULL;
    TRY(memory_alloc(count, sizeof *entries, &entries));
    TRY(memory_alloc(count, sizeof *names, &names));
    for (uint32_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "class-%07" PRIu32, i);
        entries[i] = (struct class_entry){.wnid = names[i], .words = ""};
    }
    return class_table_make(entries, count, ret_classes);
}

static struct status train_open(struct dataset *dataset, const struct train_options *options,
                                const char *path, const struct class_table *model_classes)
{
    if (!path)
        FAIL(STATUS_USAGE, "no training set: name a folder (headrace train DIR), an index (--train "
                           "train.idx), or --synthetic");
    TRY(dataset_open_part(path, "train", model_classes, (unsigned)options->workers, dataset->access,
                          &dataset->train_index));
    const struct class_table *classes = index_classes(dataset->train_index);
    if (model_classes && class_table_hash(classes) != class_table_hash(model_classes))
        FAIL(STATUS_FAILED,
             "'%s' has other classes (%zu, hash %016" PRIx64 ") than the checkpoint (%zu, hash "
             "%016" PRIx64 ")",
             path, class_table_count(classes), class_table_hash(classes),
             class_table_count(model_classes), class_table_hash(model_classes));
    return OK;
}

static struct status val_open(struct dataset *dataset, const struct train_options *options,
                              const char *path, const struct class_table *model_classes)
{
    TRY(dataset_open_part(path, "val", model_classes, (unsigned)options->workers, dataset->access,
                          &dataset->val_index));
    if (!model_classes)
        return OK;
    return status_context(evaluate_label_map(index_classes(dataset->val_index), model_classes,
                                             &dataset->val_label_map),
                          "'%s'", path);
}

static struct status sets_open(struct dataset *dataset, const struct train_options *options,
                               const struct class_table *model_classes, bool with_train)
{
    CLEANUP(memory_free) char *train = NULL;
    CLEANUP(memory_free) char *val = NULL;
    TRY(access_open(&options->access, &dataset->access));
    TRY(cache_open_options(&options->cache, &dataset->cache));
    if (with_train) {
        TRY(part_path(options->train, options->data, "train", &train));
        TRY(train_open(dataset, options, train, model_classes));
        model_classes = index_classes(dataset->train_index);
    }
    TRY(part_path(options->val, options->data, "val", &val));
    if (val)
        TRY(val_open(dataset, options, val, model_classes));
    else if (!with_train)
        FAIL(STATUS_USAGE, "no validation set: name a folder (headrace train -e DIR) or an index "
                           "(--val val.idx)");
    if (!model_classes)
        model_classes = index_classes(dataset->val_index);
    return class_table_copy(model_classes, &dataset->classes);
}

struct status dataset_open(const struct train_options *options,
                           const struct class_table *model_classes, bool with_train,
                           struct dataset **ret_dataset)
{
    CLEANUP(dataset_close) struct dataset *dataset = NULL;
    TRY(memory_alloc(1, sizeof *dataset, &dataset));
    if (options->synthetic)
        TRY(synthetic_classes((uint32_t)options->synthetic_classes, &dataset->classes));
    else
        TRY(sets_open(dataset, options, model_classes, with_train));
    *ret_dataset = MOVE(dataset);
    return OK;
}

struct status dataset_open_train(const struct train_options *options, struct dataset **ret_dataset)
{
    CLEANUP(dataset_close) struct dataset *dataset = NULL;
    CLEANUP(memory_free) char *path = NULL;
    TRY(memory_alloc(1, sizeof *dataset, &dataset));
    TRY(access_open(&options->access, &dataset->access));
    TRY(part_path(options->train, options->data, "train", &path));
    TRY(train_open(dataset, options, path, NULL));
    TRY(class_table_copy(index_classes(dataset->train_index), &dataset->classes));
    *ret_dataset = MOVE(dataset);
    return OK;
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    feed_close(dataset->train);
    feed_close(dataset->val);
    index_close(dataset->train_index);
    index_close(dataset->val_index);
    access_close(dataset->access);
    cache_close(dataset->cache);
    class_table_free(dataset->classes);
    memory_free(dataset->val_label_map);
    memory_free(dataset);
}

static uint64_t val_images(const struct dataset *dataset, const struct train_options *options)
{
    if (dataset->val_index)
        return index_count(dataset->val_index);
    return ((uint64_t)options->synthetic_images + synthetic_train_per_val - 1) /
           synthetic_train_per_val;
}

uint32_t dataset_val_batch(const struct dataset *dataset, const struct train_options *options,
                           const struct division *division)
{
    uint32_t parts = division->processes * division->replicas;
    uint64_t images = division_round_up(val_images(dataset, options), parts);
    uint64_t batch = division_micro_batch(division);
    return (uint32_t)(images < batch ? images : batch);
}

uint64_t dataset_train_steps(const struct dataset *dataset, const struct train_options *options)
{
    uint64_t batch = (uint64_t)options->batch_size;
    uint64_t images = dataset->train_index ? index_count(dataset->train_index)
                                           : (uint64_t)options->synthetic_images;
    return (images + (options->drop_last ? 0 : batch - 1)) / batch;
}

static struct synthetic_options synthetic_options(const struct dataset *dataset,
                                                  const struct train_options *options,
                                                  const struct division *division,
                                                  const struct tensor_format *format)
{
    return (struct synthetic_options){
        .classes = (uint32_t)class_table_count(dataset->classes),
        .rank = division->rank,
        .world_size = division->processes,
        .format = *format,
        .seed = (uint64_t)options->seed,
    };
}

static struct synthetic_options synthetic_train(const struct dataset *dataset,
                                                const struct train_options *options,
                                                const struct division *division,
                                                const struct tensor_format *format,
                                                uint32_t image_size)
{
    struct synthetic_options synthetic = synthetic_options(dataset, options, division, format);
    synthetic.images = (uint64_t)options->synthetic_images;
    synthetic.batch = division_micro_batch(division);
    synthetic.size = image_size;
    synthetic.drop_last = options->drop_last;
    return synthetic;
}

static struct synthetic_options synthetic_val(const struct dataset *dataset,
                                              const struct train_options *options,
                                              const struct division *division,
                                              const struct tensor_format *format)
{
    struct synthetic_options synthetic = synthetic_options(dataset, options, division, format);
    uint32_t resize;
    train_options_geometry(options, &resize, &synthetic.size);
    synthetic.images = val_images(dataset, options);
    synthetic.batch = dataset_val_batch(dataset, options, division);
    synthetic.last_partial = true;
    return synthetic;
}

struct loader_options dataset_loader_options(const struct train_options *options,
                                             const struct tensor_format *format,
                                             uint32_t image_size)
{
    struct loader_options loader;
    loader_options_init(&loader);
    loader.global_batch = (uint32_t)options->batch_size;
    loader.image_size = image_size;
    loader.crop.scale_min = options->crop_scale;
    loader.format = *format;
    loader.pixels = (enum pixels)options->pixels;
    loader.order = (enum order_kind)options->order;
    loader.window = (uint64_t)options->window;
    loader.seed = (uint64_t)options->seed;
    loader.threads = (unsigned)options->workers;
    loader.memory_bytes = options->memory;
    /* A CPU backend's threads wait for each other actively: one that a loader thread displaced
     * would hold up all of them. */
    loader.background = true;
    loader.drop_last = options->drop_last;
    loader.on_error = (enum loader_on_error)options->on_error;
    return loader;
}

static struct loader_options loader_train(const struct dataset *dataset,
                                          const struct train_options *options,
                                          const struct division *division,
                                          const struct tensor_format *format, uint32_t image_size)
{
    struct loader_options loader = dataset_loader_options(options, format, image_size);
    loader.cache = dataset->cache;
    loader.global_batch = division_micro_batch(division);
    loader.rank = division->rank;
    loader.world_size = division->processes;
    /* The trainer counts a step's readable images before it begins it. */
    if (loader.on_error == LOADER_SKIP && division->accumulate > 1)
        loader.slots = division->accumulate + 1;
    return loader;
}

static struct loader_options loader_val(const struct dataset *dataset,
                                        const struct train_options *options,
                                        const struct division *division,
                                        const struct tensor_format *format)
{
    uint32_t resize, crop;
    train_options_geometry(options, &resize, &crop);
    struct loader_options loader = dataset_loader_options(options, format, crop);
    loader.cache = dataset->cache;
    loader.mode = LOADER_EVAL;
    loader.global_batch = dataset_val_batch(dataset, options, division);
    loader.rank = division->rank;
    loader.world_size = division->processes;
    loader.val_resize = resize;
    loader.val_crop = crop;
    loader.label_map = dataset->val_label_map;
    return loader;
}

struct status dataset_start_train(struct dataset *dataset, const struct train_options *options,
                                  const struct division *division,
                                  const struct tensor_format *format, uint32_t image_size)
{
    feed_close(MOVE(dataset->train));
    if (options->synthetic) {
        const struct synthetic_options synthetic =
            synthetic_train(dataset, options, division, format, image_size);
        return feed_open_synthetic(&synthetic, &dataset->train);
    }
    const struct loader_options loader =
        loader_train(dataset, options, division, format, image_size);
    return dataset->train_index ? feed_open_index(dataset->train_index, &loader, &dataset->train)
                                : OK;
}

struct status dataset_start_val(struct dataset *dataset, const struct train_options *options,
                                const struct division *division, const struct tensor_format *format)
{
    feed_close(MOVE(dataset->val));
    if (options->synthetic) {
        const struct synthetic_options synthetic =
            synthetic_val(dataset, options, division, format);
        return feed_open_synthetic(&synthetic, &dataset->val);
    }
    if (!dataset->val_index)
        return OK;
    const struct loader_options loader = loader_val(dataset, options, division, format);
    return feed_open_index(dataset->val_index, &loader, &dataset->val);
}

struct status dataset_bytes(const struct dataset *dataset, const struct train_options *options,
                            const struct division *division, const struct tensor_format *format,
                            uint32_t image_size, bool evaluates, uint64_t *ret_bytes)
{
    const struct synthetic_options noise[] = {
        synthetic_train(dataset, options, division, format, image_size),
        synthetic_val(dataset, options, division, format),
    };
    const struct loader_options loaders[] = {
        loader_train(dataset, options, division, format, image_size),
        loader_val(dataset, options, division, format),
    };
    *ret_bytes = 0;
    for (unsigned i = 0; i < (evaluates ? 2 : 1); i++) {
        uint64_t bytes;
        TRY(options->synthetic ? feed_synthetic_bytes(&noise[i], &bytes)
                               : loader_forecast(&loaders[i], &bytes));
        *ret_bytes += bytes;
    }
    return OK;
}
