#include "train/trainer_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/forecast.h"
#include "train/initialise.h"
#include "train/module.h"
#include "train/safetensors.h"

/* Whether a folder holds what a run leaves. */
static struct status run_folder_is_occupied(const char *folder, bool *ret_occupied)
{
    const char *const names[] = {run_log_name, "checkpoint.state", "checkpoint.safetensors"};
    *ret_occupied = false;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        CLEANUP(memory_free) char *path = NULL;
        TRY(path_join(folder, names[i], &path));
        *ret_occupied = *ret_occupied || path_exists(path);
    }
    return OK;
}

/* Whether the checkpoint that is resumed came from this folder. */
static struct status checkpoint_is_in(const struct checkpoint *checkpoint, const char *folder,
                                      bool *ret_inside)
{
    CLEANUP(memory_free) char *its_real_folder = NULL;
    CLEANUP(memory_free) char *real_folder = NULL;
    *ret_inside = false;
    if (!checkpoint || !path_exists(folder))
        return OK;
    TRY(path_real(checkpoint->folder, &its_real_folder));
    TRY(path_real(folder, &real_folder));
    *ret_inside = strcmp(its_real_folder, real_folder) == 0;
    return OK;
}

/* Takes RUN_DIR for this run, until it ends: two that write one folder would mix their checkpoints.
 */
static struct status run_folder_hold(struct trainer *trainer)
{
    CLEANUP(memory_free) char *path = NULL;
    if (trainer->held_fd >= 0)
        return OK;
    TRY(path_join(trainer->options->out, run_log_name, &path));
    TRY(file_hold(path, &trainer->held_fd));
    if (trainer->held_fd < 0)
        FAIL(STATUS_FAILED,
             "another headrace is training in '%s': stop it or wait for its end, or choose another "
             "folder with --out",
             trainer->options->out);
    return OK;
}

/* Refuses to write over another run. "--resume auto" may find a run that did not come to its first
 * checkpoint. */
static struct status run_folder_check(struct trainer *trainer)
{
    const char *out = trainer->options->out, *resume = trainer->options->resume;
    bool occupied;
    TRY(run_folder_is_occupied(out, &occupied));
    TRY(checkpoint_is_in(trainer->checkpoint, out, &trainer->resumed_in_place));
    if (!occupied)
        return OK;
    if (trainer->resumed_in_place || (resume && strcmp(resume, "auto") == 0))
        return run_folder_hold(trainer);
    FAIL(STATUS_USAGE,
         "'%s' holds a run already: continue it with --resume auto --out %s, or choose another "
         "folder with --out",
         out, out);
}

static struct status run_folder_make(struct trainer *trainer)
{
    const char *out = trainer->options->out;
    TRY(path_join(out, "checkpoint", &trainer->checkpoint_stem));
    TRY(path_join(out, "model_best", &trainer->best_stem));
    TRY(path_join(out, "ema", &trainer->average_stem));
    if (!trainer_writes(trainer))
        return OK;
    TRY(folder_create(out));
    TRY(run_folder_hold(trainer));
    TRY(checkpoint_recover(trainer->checkpoint_stem));
    TRY(checkpoint_recover(trainer->average_stem));
    return checkpoint_recover(trainer->best_stem);
}

static struct status network_make(struct trainer *trainer)
{
    if (trainer->checkpoint) {
        trainer->network = MOVE(trainer->checkpoint->network);
        trainer->weights = MOVE(trainer->checkpoint->weights);
        if (trainer->options->ema == 0)
            weights_close_average(trainer->weights);
        return OK;
    }
    TRY(network_open(train_options_arch(trainer->options),
                     (uint32_t)class_table_count(trainer->data->classes), &trainer->network));
    return weights_open(trainer->network, &trainer->weights);
}

/* Whether RUN_DIR keeps the algorithms that were chosen: what goes on from there computes the same
 * bits, whatever was timed or is known elsewhere by then. */
static bool keeps_plans(const struct trainer *trainer)
{
    return trainer->options->deterministic && !trainer->options->evaluate;
}

static struct status plan_open(struct trainer *trainer, const struct plan_config *config,
                               struct plan **ret_plan)
{
    const struct model *model = trainer->model;
    TRY(model->ops->plan_open(model->store, config, ret_plan));
    const char *slow_reason = backend_slow_reason(model->ops, *ret_plan);
    if (slow_reason && comm_rank(trainer->comm) == 0)
        log_note("training takes slower operations than usual: %s", slow_reason);
    return OK;
}

static struct status device_open(struct trainer *trainer)
{
    const struct train_options *options = trainer->options;
    CLEANUP(memory_free) char *plans = NULL;
    if (keeps_plans(trainer))
        TRY(path_join(options->out, "plans", &plans));
    struct backend_config config = train_options_backend(options, trainer->comm);
    config.tune = options->tune;
    config.plan_cache = plans;
    config.in_turn = plans != NULL;
    TRY(model_open(trainer->network, device_names[options->device], &config, &trainer->model));
    enum train_dtype dtype = trainer->model->ops->dtype(trainer->model->backend);
    const struct checkpoint *checkpoint = trainer->checkpoint;
    if (checkpoint && !options->evaluate && dtype != checkpoint->state.dtype &&
        !options->force_dtype)
        FAIL(STATUS_USAGE,
             "the checkpoint was trained in %s, this run would go on in %s: give --dtype %s, or "
             "--force-dtype if you mean it",
             train_dtype_names[checkpoint->state.dtype], train_dtype_names[dtype],
             train_dtype_names[checkpoint->state.dtype]);
    return OK;
}

static struct status batch_divide(struct trainer *trainer)
{
    const struct model *model = trainer->model;
    trainer->division = (struct division){
        .processes = comm_size(trainer->comm),
        .rank = comm_rank(trainer->comm),
        .replicas = model->ops->replicas(model->backend),
        .accumulate = (uint32_t)trainer->options->accumulate,
    };
    uint32_t batch = (uint32_t)trainer->options->batch_size;
    if (trainer->options->evaluate) { /* any batch is as good, and its rest counts for nothing */
        uint32_t parts = trainer->division.processes * trainer->division.replicas;
        trainer->division.accumulate = 1;
        batch = (uint32_t)division_round_up(batch, parts);
    }
    TRY(division_make(batch, &trainer->division));
    if (trainer->options->mixup > 0 && trainer->division.device_batch % 2)
        FAIL(STATUS_USAGE,
             "--mixup mixes neighbours, so that a device's part of the batch must be even, not "
             "%" PRIu32 ": take another --batch-size or leave out --mixup",
             trainer->division.device_batch);
    return memory_alloc(trainer->division.accumulate, sizeof *trainer->inputs, &trainer->inputs);
}

static struct status weights_file_load(struct trainer *trainer, const char *path)
{
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    bool stripped;
    TRY(safetensors_open(path, &file));
    TRY(weights_from_safetensors(trainer->weights, file, path, &stripped));
    if (stripped)
        log_note("'%s': the prefix \"module.\" was dropped from all names", path);
    return model_write(trainer->model, trainer->weights, false);
}

static struct status weights_start(struct trainer *trainer)
{
    const struct train_options *options = trainer->options;
    if (trainer->checkpoint)
        return model_write(trainer->model, trainer->weights, true);
    if (options->weights)
        return weights_file_load(trainer, options->weights);
    return initialise_store(trainer->network, trainer->model->ops, trainer->model->store,
                            (uint64_t)options->seed, options->zero_gamma);
}

static struct status eval_plan_open(struct trainer *trainer)
{
    const struct train_options *options = trainer->options;
    const struct model *model = trainer->model;
    struct tensor_format format = tensor_format_imagenet;
    uint32_t resize, crop;
    train_options_geometry(options, &resize, &crop);
    const struct plan_config plan = {
        .mode = PLAN_EVAL,
        .batch = dataset_val_batch(trainer->data, options, &trainer->division) /
                 trainer->division.processes,
        .height = crop,
        .width = crop,
    };
    TRY(plan_open(trainer, &plan, &trainer->eval_plan));
    if (!options->val_flip)
        return OK;
    model->ops->input_format(model->backend, &format);
    return mirrored_open(model, &plan, &format, &trainer->mirrored);
}

static struct status train_plan_open(struct trainer *trainer)
{
    const struct model *model = trainer->model;
    const struct plan_config plan = {
        .mode = PLAN_TRAIN,
        .batch = division_local_batch(&trainer->division),
        .height = trainer->image_size,
        .width = trainer->image_size,
        .label_smoothing = (float)trainer->options->label_smoothing,
        .adds = trainer->division.accumulate > 1,
        .mixes = trainer->options->mixup > 0,
    };
    if (trainer->train_plan)
        model->ops->plan_close(MOVE(trainer->train_plan));
    return plan_open(trainer, &plan, &trainer->train_plan);
}

static struct status train_feed_open(struct trainer *trainer)
{
    struct tensor_format format = tensor_format_imagenet;
    trainer->model->ops->input_format(trainer->model->backend, &format);
    return dataset_start_train(trainer->data, trainer->options, &trainer->division, &format,
                               trainer->image_size);
}

struct status trainer_size_images(struct trainer *trainer)
{
    uint32_t size = ramp_size(&trainer->ramp, trainer->state.epoch);
    if (size == trainer->image_size)
        return OK;
    trainer->image_size = size;
    TRY(train_feed_open(trainer));
    TRY(train_plan_open(trainer));
    struct json *record = json_object_new();
    json_set_integer(record, "epoch", (int64_t)trainer->state.epoch);
    json_set_integer(record, "image_size", size);
    run_log_record(trainer->log, "image_size", record);
    return run_log_print(trainer->log,
                         "epoch %" PRIu64 ": crops of %" PRIu32 " pixels from here on",
                         trainer->state.epoch, size);
}

/* Where tensors stand in the memory of this machine, the kernel ends who takes more than it has. */
static struct status host_check(struct trainer *trainer)
{
    const struct model *model = trainer->model;
    struct memory_use use = {0};
    if (model->ops->memory)
        model->ops->memory(model->backend, &use);
    if (!use.on_host || trainer->options->evaluate)
        return OK;
    return forecast_check_host(trainer->options, trainer->comm, trainer->data, trainer->network);
}

static struct status plans_open(struct trainer *trainer)
{
    if (!trainer->options->evaluate)
        TRY(train_plan_open(trainer));
    return trainer->data->val ? eval_plan_open(trainer) : OK;
}

/* Both feeds; the training images have the size of the epoch that the run begins in. */
static struct status feeds_open(struct trainer *trainer)
{
    const struct train_options *options = trainer->options;
    const struct checkpoint *checkpoint = trainer->checkpoint;
    uint64_t epoch = checkpoint ? checkpoint->state.epoch : (uint64_t)options->start_epoch;
    struct tensor_format format = tensor_format_imagenet;
    trainer->model->ops->input_format(trainer->model->backend, &format);
    trainer->ramp = train_options_ramp(options);
    trainer->image_size = ramp_size(&trainer->ramp, epoch);
    TRY(train_feed_open(trainer));
    const struct index *index = trainer->data->train_index;
    bool waits = index && index_has_urls(index) && options->accumulate > 1 &&
                 options->on_error != LOADER_SKIP; /* which loads the whole step first */
    TRY(ranks_vote(trainer->comm, waits, &trainer->reads_statistics));
    return dataset_start_val(trainer->data, options, &trainer->division, &format);
}

/* In the middle of an epoch another order would show some images twice and others not at all. */
static struct status order_check(const struct train_options *options,
                                 const struct train_options *old)
{
    if (old->order == options->order &&
        (old->order != ORDER_WINDOW || old->window == options->window))
        return OK;
    FAIL(STATUS_USAGE,
         "the checkpoint stands in the middle of an epoch with --order %s --window %" PRId64
         ": go on with the same until the epoch ends",
         order_kind_names[old->order], old->window);
}

/* How many images are normalised together. */
static int64_t images_together(const struct train_options *options, uint32_t device_batch)
{
    return options->sync_bn ? options->batch_size / options->accumulate : device_batch;
}

/* What may differ from the resumed run and still end well, said; what may not, refused. */
static struct status position_check(const struct trainer *trainer)
{
    const struct train_options *options = trainer->options;
    const struct option_parse none = {0};
    const struct run_state *old = &trainer->checkpoint->state, *state = &trainer->state;
    struct train_options old_options;
    train_options_init(&old_options);
    TRY(option_restore(train_option_table, checkpoint_options(trainer->checkpoint), &old_options,
                       &none));
    if (old->step && (old->steps_per_epoch != state->steps_per_epoch ||
                      old->train_images != state->train_images))
        FAIL(STATUS_USAGE,
             "the checkpoint stands in the middle of an epoch of %" PRIu64 " steps over %" PRIu64
             " images, this one has %" PRIu64 " over %" PRIu64
             ": go on with the same --batch-size and data",
             old->steps_per_epoch, old->train_images, state->steps_per_epoch, state->train_images);
    if (old->pixels != state->pixels)
        FAIL(STATUS_USAGE,
             "the checkpoint was trained with --pixels %s, this run would go on with %s: leave out "
             "--pixels",
             pixels_names[old->pixels], pixels_names[state->pixels]);
    if (old->step)
        TRY(order_check(options, &old_options));
    const int64_t together_before = images_together(&old_options, old->device_batch);
    const int64_t together = images_together(options, state->device_batch);
    if (together_before && together_before != together)
        log_note("the run normalised %" PRId64 " images at a time, now it is %" PRId64
                 ": batches and their order are the same, but the numbers will differ (--sync-bn "
                 "normalises over all devices of all processes)",
                 together_before, together);
    if (strcmp(old->backend, state->backend) != 0 || old->threads != state->threads)
        log_note("the run was made with backend %s and %u threads, now %s and %u: the results may "
                 "differ in the last bits",
                 old->backend, old->threads, state->backend, state->threads);
    return OK;
}

static struct status state_start(struct trainer *trainer)
{
    struct run_state *state = &trainer->state;
    const struct train_options *options = trainer->options;
    *state = (struct run_state){
        .classes = trainer->network->classes,
        .epoch = (uint64_t)options->start_epoch,
        .best_top1 = -1,
        .dtype = trainer->model->ops->dtype(trainer->model->backend),
        .threads = trainer->model->threads,
        .pixels = (enum pixels)options->pixels,
        .device_batch = trainer->division.device_batch,
    };
    snprintf(state->arch, sizeof state->arch, "%s", trainer->network->arch);
    snprintf(state->backend, sizeof state->backend, "%s", trainer->model->backend_name);
    train_options_geometry(options, &state->val_resize, &state->val_crop);
    state->val_flip = options->val_flip;
    if (trainer->data->train) {
        state->steps_per_epoch = dataset_train_steps(trainer->data, options);
        state->train_images = feed_images(trainer->data->train);
        if (!state->steps_per_epoch)
            FAIL(STATUS_USAGE,
                 "an epoch has no step: %" PRIu64 " images are less than one batch "
                 "of %" PRId64 ", and --drop-last leaves it out",
                 state->train_images, options->batch_size);
        trainer->schedule = train_options_schedule(options, state->steps_per_epoch);
    }
    TRY(train_options_loss_scale(options, state->dtype, &state->scale));
    if (!trainer->checkpoint)
        return OK;
    const struct run_state *old = &trainer->checkpoint->state;
    state->epoch = old->epoch;
    state->step = old->step;
    state->epoch_sums = old->epoch_sums;
    state->skipped = old->skipped;
    if (state->scale.dynamic && old->scale.value != 0) {
        state->scale.value = old->scale.value;
        state->scale.clean_steps = old->scale.clean_steps;
    }
    if (trainer->resumed_in_place) { /* elsewhere there is no model_best and no checkpoint yet */
        state->best_top1 = old->best_top1;
        state->best_epoch = old->best_epoch;
        trainer->saved = true;
    }
    return options->evaluate ? OK : position_check(trainer);
}

static struct status start_record(struct trainer *trainer, const char *device)
{
    const struct run_state *state = &trainer->state;
    struct json *record = json_object_new();
    json_set_integer(record, "version", 1);
    json_set_integer(record, "epoch", (int64_t)state->epoch);
    json_set_integer(record, "step", (int64_t)state->step);
    json_set_integer(record, "steps_per_epoch", (int64_t)state->steps_per_epoch);
    json_set_integer(record, "train_images", (int64_t)state->train_images);
    json_set_integer(record, "val_images",
                     trainer->data->val ? (int64_t)feed_images(trainer->data->val) : 0);
    json_set_integer(record, "classes", state->classes);
    json_set_string(record, "device", device);
    json_set_string(record, "dtype", train_dtype_names[state->dtype]);
    json_set_integer(record, "threads", state->threads);
    json_set_integer(record, "processes", comm_size(trainer->comm));
    json_set_integer(record, "device_batch", state->device_batch);
    json_set_integer(record, "image_size", trainer->image_size);
    json_set_copy(record, "options", trainer->stored_options);
    run_log_record(trainer->log, "start", record);
    return OK;
}

static uint64_t trained_values(const struct network *network)
{
    uint64_t count = 0;
    for (size_t i = 0; i < network->param_count; i++)
        if (param_is_trained(&network->params[i]))
            count += network->params[i].count;
    return count;
}

/* What is about to happen, in two lines. */
static struct status start_print(struct trainer *trainer)
{
    CLEANUP(buffer_done) struct buffer device = {0};
    const struct run_state *state = &trainer->state;
    const struct train_options *options = trainer->options;
    const char *device_text;
    TRY(trainer->model->ops->describe(trainer->model->backend, &device));
    TRY(buffer_text(&device, &device_text));
    TRY(run_log_print(trainer->log, "%s: %.1f million parameters, %u classes; %s", state->arch,
                      (double)trained_values(trainer->network) / 1e6, state->classes, device_text));
    if (options->evaluate)
        return OK;
    TRY(start_record(trainer, device_text));
    if (trainer->checkpoint)
        TRY(run_log_print(trainer->log, "resumed at epoch %" PRIu64 ", step %" PRIu64, state->epoch,
                          state->step));
    if (!trainer->data->val)
        log_note("there is no validation set (--val): nothing is evaluated, and no best weights "
                 "are kept, only the last");
    if (comm_size(trainer->comm) > 1)
        TRY(run_log_print(trainer->log, "%u processes on %u machine%s, joined by %s",
                          comm_size(trainer->comm), comm_nodes(trainer->comm),
                          comm_nodes(trainer->comm) == 1 ? "" : "s",
                          comm_description(trainer->comm)));
    CLEANUP(buffer_done) struct buffer division = {0};
    const char *division_text;
    TRY(division_append(&trainer->division, &division));
    TRY(buffer_text(&division, &division_text));
    TRY(run_log_print(trainer->log,
                      "batch %" PRId64 " = %s, lr %g, not scaled; %" PRIu64 " images, %" PRIu64
                      " steps an epoch",
                      options->batch_size, division_text, options->lr, state->train_images,
                      state->steps_per_epoch));
    const struct ramp *ramp = &trainer->ramp;
    if (ramp->first_size == ramp->last_size)
        return OK;
    return run_log_print(trainer->log,
                         "crops of %" PRIu32 " pixels; %" PRIu32 " to epoch %" PRIu64
                         ", growing to %" PRIu32 " in epoch %" PRIu64,
                         trainer->image_size, ramp->first_size, ramp->first_epoch, ramp->last_size,
                         ramp->last_epoch);
}

/* Rank 0 opens the data first: it may list a folder, and the others then find its index. */
static struct status data_open(struct trainer *trainer)
{
    const struct class_table *classes = trainer->checkpoint ? trainer->checkpoint->classes : NULL;
    if (!trainer_writes(trainer))
        TRY(comm_barrier(trainer->comm));
    TRY(dataset_open(trainer->options, classes, !trainer->options->evaluate, &trainer->data));
    return trainer_writes(trainer) ? comm_barrier(trainer->comm) : OK;
}

static struct status trainer_fill(struct trainer *trainer, FILE *lines)
{
    const struct train_options *options = trainer->options;
    bool train = !options->evaluate, writes = trainer_writes(trainer);
    trainer->stored_options = json_object_new();
    TRY(train_options_store(options, trainer->stored_options));
    if (train && writes)
        TRY(run_folder_check(trainer));
    TRY(ranks_agree_options(trainer->comm, options));
    TRY(ranks_vote(trainer->comm, trainer->resumed_in_place, &trainer->resumed_in_place));
    TRY(data_open(trainer));
    TRY(trainer_agree_data(trainer));
    TRY(network_make(trainer));
    TRY(device_open(trainer));
    TRY(trainer_agree_device(trainer));
    TRY(batch_divide(trainer));
    TRY(host_check(trainer));
    TRY(feeds_open(trainer));
    TRY(state_start(trainer));
    TRY(weights_start(trainer));
    TRY(trainer_agree_weights(trainer));
    TRY(plans_open(trainer));
    if (train)
        TRY(run_folder_make(trainer));
    TRY(run_log_open(writes ? lines : NULL, train && writes ? options->out : NULL, &trainer->log));
    return start_print(trainer);
}

struct status trainer_open(const struct train_options *options, struct comm *comm,
                           struct checkpoint *checkpoint, FILE *lines, struct trainer **ret_trainer)
{
    CLEANUP(trainer_close) struct trainer *trainer = NULL;
    struct status status = memory_alloc(1, sizeof *trainer, &trainer);
    if (status.code != STATUS_DONE) {
        checkpoint_free(checkpoint);
        return status;
    }
    trainer->options = options;
    trainer->held_fd = -1;
    trainer->comm = comm;
    trainer->checkpoint = checkpoint;
    TRY(trainer_fill(trainer, lines));
    comm_start_ends(comm);
    *ret_trainer = MOVE(trainer);
    return OK;
}

void trainer_close(struct trainer *trainer)
{
    if (!trainer)
        return;
    if (trainer->train_plan)
        trainer->model->ops->plan_close(trainer->train_plan);
    mirrored_close(trainer->mirrored);
    if (trainer->eval_plan)
        trainer->model->ops->plan_close(trainer->eval_plan);
    model_close(trainer->model);
    run_log_close(trainer->log);
    fd_close(trainer->held_fd);
    dataset_close(trainer->data);
    weights_close(trainer->weights);
    network_close(trainer->network);
    checkpoint_free(trainer->checkpoint);
    json_free(trainer->stored_options);
    memory_free(trainer->inputs);
    memory_free(trainer->checkpoint_stem);
    memory_free(trainer->average_stem);
    memory_free(trainer->best_stem);
    memory_free(trainer);
}
