#include "train/trainer.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/shell.h"
#include "train/evaluate.h"
#include "train/trainer_internal.h"

/* What rank 0 does with the state that all have. */
static struct status checkpoint_put(struct trainer *trainer, bool is_best)
{
    TRY(checkpoint_save(trainer->checkpoint_stem, trainer->weights, &trainer->state,
                        trainer->data->classes, trainer->stored_options));
    if (trainer->weights->average)
        TRY(checkpoint_save_average(trainer->average_stem, trainer->weights));
    struct json *record = json_object_new();
    json_set_integer(record, "epoch", (int64_t)trainer->state.epoch);
    json_set_integer(record, "step", (int64_t)trainer->state.step);
    run_log_record(trainer->log, "checkpoint", record);
    trainer->saved = true;
    return is_best ? checkpoint_copy(trainer->checkpoint_stem, trainer->best_stem) : OK;
}

/* Tells all ranks whether rank 0 saved; its failure is its own to report. */
static struct status saved_share(struct trainer *trainer)
{
    uint8_t saved = trainer->saved;
    TRY(comm_broadcast(trainer->comm, &saved, sizeof saved, 0));
    trainer->saved = saved;
    return OK;
}

static bool is_disk_trouble(const struct status *status)
{
    return status->code == STATUS_NO_SPACE || status->code == STATUS_IO;
}

/* Saves, also as the best. *ret_disk is rank 0's trouble with its disk, which the others only hear
 * of by trainer->saved. */
static struct status checkpoint_write(struct trainer *trainer, bool is_best,
                                      struct status *ret_disk)
{
    *ret_disk = OK;
    TRY(trainer_take_metrics(trainer));
    TRY(trainer_note_updates(trainer));
    if (trainer->bad_losses)
        FAIL(STATUS_FAILED,
             "the loss is not finite (epoch %" PRIu64 ", before step %" PRIu64
             "), so nothing was saved: try a lower --lr or more --warmup-epochs",
             trainer->state.epoch, trainer->state.step);
    TRY(model_read(trainer->model, trainer->weights, true));
    if (trainer_writes(trainer)) {
        struct status status = checkpoint_put(trainer, is_best);
        if (status.code != STATUS_DONE && !is_disk_trouble(&status))
            return status;
        *ret_disk = status;
    }
    return saved_share(trainer);
}

/* Saves; a disk that refuses is said, and the run goes on. */
static struct status checkpoint_try(struct trainer *trainer, bool is_best)
{
    struct status disk;
    TRY(checkpoint_write(trainer, is_best, &disk));
    if (disk.code != STATUS_DONE)
        log_warning("no checkpoint at epoch %" PRIu64 ", step %" PRIu64
                    ": %s. Training goes on; the one before is intact",
                    trainer->state.epoch, trainer->state.step, status_message(&disk));
    status_ignore(disk);
    return OK;
}

static struct status checkpoint_finish(struct trainer *trainer)
{
    struct status disk = OK;
    if (!trainer->saved)
        TRY(status_context(checkpoint_write(trainer, false, &disk),
                           "the run ended without its last checkpoint"));
    if (disk.code != STATUS_DONE)
        return status_context(disk, "the run ended without its last checkpoint");
    if (!trainer->saved)
        FAIL(STATUS_NO_SPACE, "the run ended without its last checkpoint, which rank 0 could not "
                              "write");
    return OK;
}

/* Saves and says how to go on. */
static struct status stop_here(struct trainer *trainer)
{
    CLEANUP(memory_free) char *command = NULL;
    TRY(checkpoint_finish(trainer));
    if (!trainer_writes(trainer)) /* rank 0 says it for all */
        FAIL(STATUS_STOPPED, "%s", "");
    TRY(shell_command(&command, "headrace train --resume auto --out %s", trainer->options->out));
    FAIL(STATUS_STOPPED,
         "stopped as asked at epoch %" PRIu64 ", step %" PRIu64 " of %" PRIu64
         "; continue with: %s",
         trainer->state.epoch, trainer->state.step, trainer->state.steps_per_epoch, command);
}

static bool steps_are_done(const struct trainer *trainer)
{
    uint64_t limit = (uint64_t)trainer->options->steps;
    return limit && trainer_global_step(trainer) >= limit;
}

/* Saves in the middle of an epoch where --checkpoint-steps asks for it. */
static struct status checkpoint_step(struct trainer *trainer)
{
    const struct run_state *state = &trainer->state;
    uint64_t every = (uint64_t)trainer->options->checkpoint_steps;
    if (every && trainer_global_step(trainer) % every == 0 && state->step < state->steps_per_epoch)
        return checkpoint_try(trainer, false);
    return OK;
}

/* What was left out of the epoch: images that could not be read, steps that were skipped. */
static struct status losses_tell(struct trainer *trainer)
{
    const struct run_state *state = &trainer->state;
    struct loader_statistics loading = feed_statistics(trainer->data->train);
    if (loading.bad_records && loading.bad_records == loading.images)
        FAIL(STATUS_CORRUPT,
             "epoch %" PRIu64 ": none of the %" PRIu64
             " images can be read: headrace verify INDEX lists what is wrong with them",
             state->epoch, loading.images);
    if (loading.bad_records)
        log_warning("epoch %" PRIu64 ": %" PRIu64
                    " images could not be read and counted for nothing",
                    state->epoch, loading.bad_records);
    if (trainer->epoch_skips)
        TRY(run_log_print(trainer->log,
                          "epoch %" PRIu64 ": %" PRIu64 " of %" PRIu64
                          " steps were skipped, because gradients were not finite; loss scale %g",
                          state->epoch, trainer->epoch_skips, state->step, state->scale.value));
    return loading.images ? run_log_loader(trainer->log, state->epoch, &loading) : OK;
}

/* Trains to the end of the epoch, or until a stop or the limit of steps. */
static struct status epoch_train(struct trainer *trainer)
{
    struct run_state *state = &trainer->state;
    trainer->line = (struct line){.epoch = state->epoch, .steps = state->steps_per_epoch};
    trainer->window_started_s = clock_seconds();
    trainer->window_images = 0;
    trainer->epoch_skips = 0;
    TRY(trainer_size_images(trainer));
    TRY(feed_start(trainer->data->train, state->epoch, state->step * trainer->division.accumulate));
    TRY(trainer_begin_updates(trainer));
    while (state->step < state->steps_per_epoch && !steps_are_done(trainer)) {
        TRY(trainer_step(trainer));
        if (trainer->stopping)
            break;
        TRY(checkpoint_step(trainer));
    }
    TRY(trainer_take_metrics(trainer));
    TRY(trainer_note_updates(trainer));
    return losses_tell(trainer);
}

/* With the weights that the device has. */
static struct status set_evaluate(struct trainer *trainer, struct metric_sums *ret_sums)
{
    const struct evaluation evaluation = {
        .model = trainer->model,
        .plan = trainer->eval_plan,
        .mirrored = trainer->mirrored,
        .feed = trainer->data->val,
        .comm = trainer->comm,
    };
    return evaluate_run(&evaluation, trainer->log, (uint64_t)trainer->options->print_freq,
                        ret_sums);
}

struct status trainer_evaluate(struct trainer *trainer, struct metric_sums *ret_sums)
{
    double started_s = clock_seconds();
    TRY(set_evaluate(trainer, ret_sums));
    return run_log_eval(trainer->log, trainer->state.epoch, ret_sums, clock_seconds() - started_s);
}

/* The accuracy of the average; the device has the weights again afterwards, whatever happened. */
static struct status average_evaluate(struct trainer *trainer)
{
    double started_s = clock_seconds();
    struct metric_sums sums;
    if (!trainer->weights->average)
        return OK;
    const struct weights average = weights_average_view(trainer->weights);
    TRY(model_read(trainer->model, trainer->weights, true));
    TRY(model_write(trainer->model, &average, false));
    struct status status = set_evaluate(trainer, &sums);
    struct status restored = model_write(trainer->model, trainer->weights, false);
    if (status.code != STATUS_DONE) {
        status_ignore(restored);
        return status;
    }
    TRY(restored);
    return run_log_eval_average(trainer->log, trainer->state.epoch, &sums,
                                clock_seconds() - started_s);
}

/* Evaluates, moves to the next epoch and saves. */
static struct status epoch_finish(struct trainer *trainer)
{
    struct run_state *state = &trainer->state;
    bool is_best = false;
    if (trainer->data->val) {
        struct metric_sums sums;
        TRY(trainer_evaluate(trainer, &sums));
        TRY(average_evaluate(trainer));
        is_best = sums_top1(&sums) > state->best_top1;
        if (is_best) {
            state->best_top1 = sums_top1(&sums);
            state->best_epoch = state->epoch;
        }
    }
    state->epoch++;
    state->step = 0;
    state->epoch_sums = (struct metric_sums){0};
    trainer->saved = false;
    return checkpoint_try(trainer, is_best);
}

struct status trainer_run(struct trainer *trainer)
{
    const struct run_state *state = &trainer->state;
    while (state->epoch < (uint64_t)trainer->options->epochs && !steps_are_done(trainer)) {
        TRY(epoch_train(trainer));
        if (trainer->stopping)
            return stop_here(trainer);
        if (state->step < state->steps_per_epoch)
            break;
        struct status status = epoch_finish(trainer);
        if (status.code == STATUS_STOPPED) {
            status_ignore(status);
            return stop_here(trainer);
        }
        TRY(status);
    }
    TRY(checkpoint_finish(trainer));
    if (state->epoch >= (uint64_t)trainer->options->epochs)
        return OK;
    return run_log_print(trainer->log,
                         "ended at epoch %" PRIu64 ", step %" PRIu64 " of %" PRIu64
                         ", as --steps asks; the weights: %s.safetensors",
                         state->epoch, state->step, state->steps_per_epoch,
                         trainer->checkpoint_stem);
}
