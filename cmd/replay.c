/* headrace replay: the very batch that a step trained on, or where two runs part. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "image/sheet.h"
#include "train/module.h"
#include "train/predict.h"
#include "train/replay.h"

struct replay_arguments {
    int64_t step; /* -1: not given */
    const char *out, *checkpoint, *data;
    int device, dtype;
    bool json;
    struct access_options access;
};

#define FIELD(name) offsetof(struct replay_arguments, name)
static const struct option replay_options[] = {
    {"step", 0, OPT_INT, FIELD(step), .min = 0, .max = 9e15, .value = "N",
     .help = "which step, counted from 0 over all epochs (required, but with two runs)"},
    {"out", 'o', OPT_STRING, FIELD(out), .value = "FILE",
     .help = "the contact sheet, .png or .jpg (default RUN/step-N.png)"},
    {"checkpoint", 0, OPT_STRING, FIELD(checkpoint), .value = "PATH",
     .help = "also compute the loss of each image with these weights"},
    {"data", 0, OPT_STRING, FIELD(data), .value = "DIR",
     .help = "where the training set is now, if it was moved"},
    {"device", 0, OPT_ENUM, FIELD(device), .names = device_names,
     .help = "where to compute the losses (default %d)"},
    {"dtype", 0, OPT_ENUM, FIELD(dtype), .names = train_dtype_names,
     .help = "arithmetic (default %d)"},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print JSON, one object"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage replay_usage = {
    .command = "replay",
    .positionals = "RUN [RUN_B]",
    .min_positionals = 1,
    .max_positionals = 2,
    .summary = "Shows the images that a step trained on, as they were cropped and turned.",
    .details = "Losses are of the images before --mixup. With two runs: names the first image in "
               "which they differ, and ends with status 3 if "
               "there is one.",
    .example = "headrace replay run --step 100 --checkpoint run/checkpoint.safetensors",
};

/* One step, ready to be printed. */
struct shown {
    struct replay *replay;
    struct trained *trained;
    struct predictor *predictor;
    struct prediction *predictions; /* by slot; NULL: no checkpoint */
    uint64_t step;
};

static void shown_done(struct shown *shown)
{
    predictor_close(shown->predictor);
    trained_close(shown->trained);
    memory_free(shown->predictions);
    replay_close(shown->replay);
}
CLEANUP_VALUE(shown_done, struct shown)

static struct status losses_compute(const struct replay_arguments *arguments, struct shown *shown)
{
    const struct backend_config config = {.dtype = (enum train_dtype)arguments->dtype,
                                          .devices = 1};
    const struct class_table *classes = replay_classes(shown->replay);
    const struct batch *batch;
    TRY(trained_open(arguments->checkpoint, NULL, classes, &shown->trained));
    if (class_table_hash(shown->trained->classes) != class_table_hash(classes))
        FAIL(STATUS_FAILED, "'%s' has other classes than the run's training set",
             shown->trained->path);
    TRY(predictor_open(shown->trained, device_names[arguments->device], &config,
                       replay_image_size(shown->replay, shown->step), &shown->predictor));
    struct tensor_format format = predictor_format(shown->predictor);
    TRY(replay_batch(shown->replay, shown->step, &format, &batch));
    TRY(memory_alloc(batch->count, sizeof *shown->predictions, &shown->predictions));
    return predictor_run(shown->predictor, batch->images, batch->labels, batch->count,
                         shown->predictions);
}

static struct json *record_store(const struct replay_record *record, uint32_t slot,
                                 const struct prediction *prediction)
{
    struct json *object = json_object_new(), *box = json_array_new();
    json_set_integer(object, "slot", slot);
    json_set_integer(object, "label", record->label);
    json_set_string(object, "wnid", record->wnid);
    json_set_string(object, "name", record->name);
    json_append_integer(box, record->crop.box.x);
    json_append_integer(box, record->crop.box.y);
    json_append_integer(box, record->crop.box.width);
    json_append_integer(box, record->crop.box.height);
    json_set(object, "crop", box);
    json_set_boolean(object, "flip", record->crop.flip);
    if (prediction) {
        json_set_real(object, "loss", prediction->loss);
        json_set_integer(object, "predicted", prediction->top[0]);
    }
    return object;
}

static void record_print(const struct replay_record *record, uint32_t slot,
                         const struct prediction *prediction)
{
    const struct rectangle *box = &record->crop.box;
    printf("%4" PRIu32 "  %4" PRIu32 "  %s/%s  %" PRIu32 "x%" PRIu32 "+%" PRIu32 "+%" PRIu32 "%s",
           slot, record->label, record->wnid, record->name, box->width, box->height, box->x, box->y,
           record->crop.flip ? "  flipped" : "");
    if (prediction)
        printf("  loss %.5g", prediction->loss);
    putchar('\n');
}

static struct status list_print(const struct shown *shown, bool json)
{
    CLEANUP(json_free) struct json *result = json_object_new();
    struct replay_position position = replay_position_of(shown->replay, shown->step);
    struct json *images = json_array_new();
    json_set_integer(result, "version", 1);
    json_set_integer(result, "step", (int64_t)shown->step);
    json_set_integer(result, "epoch", (int64_t)position.epoch);
    json_set_integer(result, "step_in_epoch", (int64_t)position.step);
    const float mixed_in = replay_mixed_in(shown->replay, shown->step);
    json_set_real(result, "mixed_in", mixed_in);
    json_set(result, "images", images);
    if (!json) {
        printf("step %" PRIu64 ": epoch %" PRIu64 ", step %" PRIu64 " in it\n", shown->step,
               position.epoch, position.step);
        if (mixed_in > 0)
            printf("each image mixed with %.4g of its neighbour: 0 and 1, 2 and 3, ...\n",
                   (double)mixed_in);
    }
    for (uint32_t slot = 0; slot < replay_step_images(shown->replay, shown->step); slot++) {
        const struct prediction *prediction = shown->predictions ? &shown->predictions[slot] : NULL;
        struct replay_record record;
        TRY(replay_record_at(shown->replay, shown->step, slot, &record));
        if (json)
            json_append(images, record_store(&record, slot, prediction));
        else
            record_print(&record, slot, prediction);
    }
    return json ? command_print_json(result) : OK;
}

/* One image of a batch of bytes as a picture, mixed as it was for the network. */
static struct status picture_take(const struct batch *batch, uint32_t slot, uint32_t size,
                                  float mixed_in, struct picture *picture)
{
    const size_t row_bytes = (size_t)size * 3, image_bytes = row_bytes * size;
    const uint32_t partner = step_partner(batch->labels, mixed_in, slot);
    const uint8_t *pixels = (const uint8_t *)batch->images + slot * image_bytes;
    const uint8_t *others = (const uint8_t *)batch->images + partner * image_bytes;
    TRY(picture_resize(picture, size, size));
    for (uint32_t y = 0; y < size; y++)
        for (size_t i = 0; i < row_bytes; i++) {
            size_t at = y * row_bytes + i;
            float mixed = (1 - mixed_in) * pixels[at] + mixed_in * others[at];
            picture->pixels[y * picture->stride_bytes + i] = (uint8_t)lrintf(mixed);
        }
    return OK;
}

static struct status sheet_make(const struct shown *shown, const char *path)
{
    const struct tensor_format bytes = {.type = TENSOR_U8, .layout = TENSOR_NHWC};
    CLEANUP(sheet_close) struct sheet *sheet = NULL;
    CLEANUP(picture_done) struct picture picture = {0};
    const struct batch *batch;
    uint32_t size = replay_image_size(shown->replay, shown->step);
    TRY(replay_batch(shown->replay, shown->step, &bytes, &batch));
    const uint32_t images = replay_step_images(shown->replay, shown->step);
    unsigned columns = (unsigned)ceil(sqrt((double)images));
    TRY(sheet_open(columns, size < 96 ? 96 : size > 224 ? 224 : size, &sheet));
    for (uint32_t slot = 0; slot < images; slot++) {
        struct replay_record record;
        char caption[256], loss[32] = "";
        TRY(replay_record_at(shown->replay, shown->step, slot, &record));
        if (shown->predictions)
            snprintf(loss, sizeof loss, "\nloss %.5g", shown->predictions[slot].loss);
        const struct class_entry *entry =
            class_table_at(replay_classes(shown->replay), record.label);
        snprintf(caption, sizeof caption, "%.100s\n%" PRIu32 " %.60s%s", record.name, record.label,
                 entry->words[0] ? entry->words : entry->wnid, loss);
        TRY(picture_take(batch, slot, size, replay_mixed_in(shown->replay, shown->step), &picture));
        TRY(sheet_add(sheet, &picture, caption));
    }
    return sheet_write(sheet, path);
}

static struct status step_show(const struct replay_arguments *arguments, const char *run)
{
    CLEANUP(shown_done) struct shown shown = {.step = (uint64_t)arguments->step};
    CLEANUP(memory_free) char *path = NULL;
    if (arguments->step < 0)
        FAIL(STATUS_USAGE, "--step N is missing: which step, counted from 0 over all epochs");
    if (arguments->out) {
        TRY(command_check_output(arguments->out));
        TRY(sheet_check_name(arguments->out));
    }
    TRY(replay_open(run, arguments->data, &arguments->access, &shown.replay));
    const uint64_t steps = replay_steps(shown.replay);
    if (shown.step >= steps)
        FAIL(STATUS_USAGE,
             "--step %" PRIu64 " is past the end of the run '%s', whose %" PRIu64 " steps are 0 to "
             "%" PRIu64 ", counted over all epochs",
             shown.step, run, steps, steps - 1);
    if (arguments->checkpoint)
        TRY(losses_compute(arguments, &shown));
    TRY(list_print(&shown, arguments->json));
    TRY(arguments->out ? string_copy(arguments->out, &path)
                       : string_format(&path, "%s/step-%" PRIu64 ".png", run, shown.step));
    TRY(sheet_make(&shown, path));
    if (!arguments->json)
        printf("the images: %s\n", path);
    return OK;
}

static void difference_print(const char *run, const struct replay_record *record)
{
    printf("%s: ", run);
    record_print(record, 0, NULL);
}

/* Compares one step; *ret_same is false, and the difference printed, where they part. */
static struct status step_compare(struct replay *const runs[2], const char *const names[2],
                                  uint64_t step, bool *ret_same)
{
    uint32_t batch = replay_batch_size(runs[0]);
    float mixed_in[] = {replay_mixed_in(runs[0], step), replay_mixed_in(runs[1], step)};
    *ret_same = mixed_in[0] == mixed_in[1];
    if (!*ret_same)
        printf("the runs differ first in step %" PRIu64 ": images mixed with %.4g and %.4g of "
               "their neighbours\n",
               step, (double)mixed_in[0], (double)mixed_in[1]);
    for (uint32_t slot = 0; slot < batch && *ret_same; slot++) {
        struct replay_record records[2];
        TRY(replay_record_at(runs[0], step, slot, &records[0]));
        TRY(replay_record_at(runs[1], step, slot, &records[1]));
        *ret_same = replay_record_is_same(&records[0], &records[1]);
        if (*ret_same)
            continue;
        printf("the runs differ first in step %" PRIu64 ", slot %" PRIu32 ":\n", step, slot);
        difference_print(names[0], &records[0]);
        difference_print(names[1], &records[1]);
    }
    return OK;
}

static struct status runs_compare(const struct replay_arguments *arguments,
                                  const char *const names[2])
{
    CLEANUP(replay_close) struct replay *first = NULL;
    CLEANUP(replay_close) struct replay *second = NULL;
    CLEANUP(progress_close) struct progress *progress = NULL;
    TRY(replay_open(names[0], arguments->data, &arguments->access, &first));
    TRY(replay_open(names[1], arguments->data, &arguments->access, &second));
    if (replay_batch_size(first) != replay_batch_size(second))
        FAIL(STATUS_FOUND, "'%s' has batches of %" PRIu32 ", '%s' of %" PRIu32, names[0],
             replay_batch_size(first), names[1], replay_batch_size(second));
    uint64_t steps =
        replay_steps(first) < replay_steps(second) ? replay_steps(first) : replay_steps(second);
    TRY(progress_open("replay", "steps", steps, 0, &progress));
    struct replay *const runs[2] = {first, second};
    for (uint64_t step = 0; step < steps; step++) {
        bool same;
        TRY(stop_check());
        TRY(step_compare(runs, names, step, &same));
        if (!same)
            FAIL(STATUS_FOUND, "'%s' and '%s' differ from step %" PRIu64 " on", names[0], names[1],
                 step);
        progress_add(progress, 1, 0);
    }
    printf("the same images, crops and flips in all %" PRIu64 " steps\n", steps);
    return OK;
}

struct status cmd_replay(int argc, char **argv)
{
    struct replay_arguments arguments = {.step = -1};
    struct option_parse parse = {0};
    access_options_init(&arguments.access);
    TRY(command_parse(&replay_usage, replay_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    if (parse.positional_count == 2)
        return runs_compare(&arguments, parse.positionals);
    return step_show(&arguments, parse.positionals[0]);
}
