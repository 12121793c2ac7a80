#include "train/replay.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "index/url.h"
#include "train/dataset.h"
#include "train/history.h"
#include "train/mixup.h"
#include "train/options.h"

struct replay {
    struct history *history;
    const struct history_start *start;
    struct train_options options;
    struct dataset *data;
    struct tensor_format format; /* of the loader; set by the first batch */
    struct loader *loader;       /* NULL until then */
    struct batch *held;
    struct loader *places;             /* for crops alone; NULL until the first is asked for */
    uint32_t loader_size, places_size; /* pixels of their crops */
};

static struct status options_restore(struct replay *replay, const char *data)
{
    const struct option_parse none = {0};
    train_options_init(&replay->options);
    TRY(option_restore(train_option_table, replay->start->options, &replay->options, &none));
    if (replay->options.synthetic)
        FAIL(STATUS_UNSUPPORTED,
             "the run was trained on synthetic images: there is nothing to show");
    replay->options.val = NULL;
    if (!data)
        return OK;
    /* A set by itself, or a folder that holds both parts. */
    size_t length = url_is(data) ? strcspn(data, "?#") : strlen(data);
    bool is_set = length > 4 && memcmp(data + length - 4, ".idx", 4) == 0;
    replay->options.data = is_set ? NULL : data;
    replay->options.train = is_set ? data : NULL;
    return OK;
}

static struct status loader_make(struct replay *replay, const struct tensor_format *format,
                                 uint32_t size, struct loader **ret_loader)
{
    const struct loader_options options = dataset_loader_options(&replay->options, format, size);
    return loader_open(replay->data->train_index, &options, ret_loader);
}

static struct status set_check(const struct replay *replay, const char *run_folder)
{
    uint64_t images = index_count(replay->data->train_index);
    if (images != replay->start->train_images)
        FAIL(STATUS_FAILED,
             "'%s' was trained on %" PRIu64 " images, the set now has %" PRIu64
             ": name the one it was trained on with --data",
             run_folder, replay->start->train_images, images);
    return OK;
}

struct status replay_open(const char *run_folder, const char *data,
                          const struct access_options *access, struct replay **ret_replay)
{
    CLEANUP(replay_close) struct replay *replay = NULL;
    TRY(memory_alloc(1, sizeof *replay, &replay));
    TRY(history_read(run_folder, &replay->history));
    /* Options may change at a resumption between epochs; the batches asked for are the last
     * start's. */
    TRY(history_start_at(replay->history, UINT64_MAX, 0, &replay->start));
    TRY(options_restore(replay, data));
    if (access)
        replay->options.access = *access;
    TRY(dataset_open_train(&replay->options, &replay->data));
    TRY(set_check(replay, run_folder));
    *ret_replay = MOVE(replay);
    return OK;
}

void replay_close(struct replay *replay)
{
    if (!replay)
        return;
    if (replay->held)
        batch_release(replay->held);
    loader_close(replay->loader);
    loader_close(replay->places);
    dataset_close(replay->data);
    history_free(replay->history);
    memory_free(replay);
}

struct replay_position replay_position_of(const struct replay *replay, uint64_t global_step)
{
    uint64_t steps = replay->start->steps_per_epoch;
    return (struct replay_position){.epoch = global_step / steps, .step = global_step % steps};
}

uint64_t replay_steps(const struct replay *replay)
{
    uint64_t steps = replay->start->steps_per_epoch * (uint64_t)replay->options.epochs;
    uint64_t limit = (uint64_t)replay->options.steps;
    return limit && limit < steps ? limit : steps;
}

uint32_t replay_batch_size(const struct replay *replay)
{
    return (uint32_t)replay->options.batch_size;
}

uint32_t replay_step_images(const struct replay *replay, uint64_t global_step)
{
    uint64_t batch = replay_batch_size(replay),
             micro = batch / (uint64_t)replay->options.accumulate;
    uint64_t before = replay_position_of(replay, global_step).step * batch;
    uint64_t left = replay->start->train_images - before;
    uint64_t whole = (left + micro - 1) / micro * micro;
    return (uint32_t)(whole < batch ? whole : batch);
}

uint32_t replay_image_size(const struct replay *replay, uint64_t global_step)
{
    const struct ramp ramp = train_options_ramp(&replay->options);
    return ramp_size(&ramp, replay_position_of(replay, global_step).epoch);
}

float replay_mixed_in(const struct replay *replay, uint64_t global_step)
{
    const struct replay_position position = replay_position_of(replay, global_step);
    return mixup_share(replay->options.mixup, (uint64_t)replay->options.seed, position.epoch,
                       position.step);
}

const struct class_table *replay_classes(const struct replay *replay)
{
    return replay->data->classes;
}

static bool formats_are_same(const struct tensor_format *a, const struct tensor_format *b)
{
    return a->type == b->type && a->layout == b->layout &&
           memcmp(a->mean, b->mean, sizeof a->mean) == 0 &&
           memcmp(a->std, b->std, sizeof a->std) == 0;
}

struct status replay_batch(struct replay *replay, uint64_t global_step,
                           const struct tensor_format *format, const struct batch **ret_batch)
{
    struct replay_position position = replay_position_of(replay, global_step);
    if (replay->held)
        batch_release(MOVE(replay->held));
    uint32_t size = replay_image_size(replay, global_step);
    if (replay->loader &&
        (!formats_are_same(&replay->format, format) || replay->loader_size != size))
        loader_close(MOVE(replay->loader));
    if (!replay->loader)
        TRY(loader_make(replay, format, size, &replay->loader));
    replay->format = *format;
    replay->loader_size = size;
    TRY(loader_start(replay->loader, position.epoch, position.step));
    TRY(loader_next(replay->loader, &replay->held));
    if (!replay->held)
        FAIL(STATUS_USAGE, "there is no step %" PRIu64, global_step);
    *ret_batch = replay->held;
    return OK;
}

/* A loader for the crops of a step. */
static struct status places_find(struct replay *replay, uint64_t global_step)
{
    uint32_t size = replay_image_size(replay, global_step);
    if (replay->places && replay->places_size != size)
        loader_close(MOVE(replay->places));
    if (!replay->places)
        TRY(loader_make(replay, &tensor_format_imagenet, size, &replay->places));
    replay->places_size = size;
    return OK;
}

struct status replay_record_at(struct replay *replay, uint64_t global_step, uint32_t slot,
                               struct replay_record *ret_record)
{
    struct replay_position position = replay_position_of(replay, global_step);
    struct batch_sample sample;
    struct record record;
    TRY(places_find(replay, global_step));
    TRY(loader_sample(replay->places, position.epoch, position.step, slot, &sample));
    TRY(index_record(replay->data->train_index, sample.record, &record));
    TRY(index_name(replay->data->train_index, sample.record, &ret_record->name));
    ret_record->label = record.label;
    ret_record->wnid = class_table_at(replay->data->classes, record.label)->wnid;
    ret_record->crop = sample.crop;
    return OK;
}

bool replay_record_is_same(const struct replay_record *a, const struct replay_record *b)
{
    const struct rectangle *left = &a->crop.box, *right = &b->crop.box;
    return strcmp(a->wnid, b->wnid) == 0 && strcmp(a->name, b->name) == 0 && left->x == right->x &&
           left->y == right->y && left->width == right->width && left->height == right->height &&
           a->crop.flip == b->crop.flip && a->crop.out_width == b->crop.out_width &&
           a->crop.out_height == b->crop.out_height;
}
