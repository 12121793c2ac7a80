#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/shell.h"
#include "base/stop.h"
#include "train/evaluate.h"
#include "train/trainer_internal.h"

/* Backends keep the metrics of at least 1024 steps. */
static const uint64_t most_pending_steps = 512;
static const unsigned most_bad_steps = 3;

static uint64_t global_step(const struct trainer *trainer)
{
    return trainer->state.epoch * trainer->state.steps_per_epoch + trainer->state.step;
}

static struct status loss_check(struct trainer *trainer, const struct step_metrics *metrics)
{
    trainer->bad_steps = isfinite(metrics->loss_sum) ? 0 : trainer->bad_steps + 1;
    if (trainer->bad_steps < most_bad_steps)
        return OK;
    FAIL(STATUS_FAILED,
         "the loss was not finite in %u steps in a row (epoch %" PRIu64 ", before step %" PRIu64
         "): try a lower --lr or more --warmup-epochs; the last checkpoint is from before",
         trainer->bad_steps, trainer->state.epoch, trainer->state.step);
}

/* Adds the metrics of the steps since the last call. */
static struct status metrics_take(struct trainer *trainer)
{
    struct step_metrics metrics[64];
    size_t count = ARRAY_LENGTH(metrics);
    trainer->pending_steps = 0;
    while (count == ARRAY_LENGTH(metrics)) {
        TRY(trainer->model->ops->plan_metrics(trainer->train_plan, metrics, ARRAY_LENGTH(metrics),
                                              &count));
        for (size_t i = 0; i < count; i++) {
            TRY(loss_check(trainer, &metrics[i]));
            sums_add(&trainer->state.epoch_sums, &metrics[i]);
            trainer->line.last = (struct metric_sums){0};
            sums_add(&trainer->line.last, &metrics[i]);
        }
    }
    return OK;
}

static struct status checkpoint_write(struct trainer *trainer)
{
    TRY(metrics_take(trainer));
    if (trainer->bad_steps)
        FAIL(STATUS_FAILED,
             "the loss is not finite (epoch %" PRIu64 ", before step %" PRIu64
             "), so nothing was saved: try a lower --lr or more --warmup-epochs",
             trainer->state.epoch, trainer->state.step);
    TRY(model_read(trainer->model, trainer->weights, true));
    TRY(checkpoint_save(trainer->checkpoint_stem, trainer->weights, &trainer->state,
                        trainer->data->classes, trainer->stored_options));
    struct json *record = json_object_new();
    json_set_integer(record, "epoch", (int64_t)trainer->state.epoch);
    json_set_integer(record, "step", (int64_t)trainer->state.step);
    run_log_record(trainer->log, "checkpoint", record);
    trainer->saved = true;
    return OK;
}

/* Saves, also as the best; a disk that refuses is said, and the run goes on. */
static struct status checkpoint_try(struct trainer *trainer, bool is_best)
{
    struct status status = checkpoint_write(trainer);
    if (status.code == STATUS_DONE && is_best)
        status = checkpoint_copy(trainer->checkpoint_stem, trainer->best_stem);
    if (status.code != STATUS_NO_SPACE && status.code != STATUS_IO)
        return status;
    log_warning("no checkpoint at epoch %" PRIu64 ", step %" PRIu64
                ": %s. Training goes on; the one before is intact",
                trainer->state.epoch, trainer->state.step, status_message(&status));
    status_ignore(status);
    return OK;
}

static struct status checkpoint_finish(struct trainer *trainer)
{
    if (trainer->saved)
        return OK;
    return status_context(checkpoint_write(trainer), "the run ended without its last checkpoint");
}

/* Saves and says how to go on. */
static struct status stop_here(struct trainer *trainer)
{
    CLEANUP(memory_free) char *command = NULL;
    TRY(checkpoint_finish(trainer));
    TRY(shell_command(&command, "headrace train --resume auto --out %s", trainer->options->out));
    FAIL(STATUS_STOPPED,
         "stopped as asked at epoch %" PRIu64 ", step %" PRIu64 " of %" PRIu64
         "; continue with: %s",
         trainer->state.epoch, trainer->state.step, trainer->state.steps_per_epoch, command);
}

static struct status line_print(struct trainer *trainer, uint64_t step, double now_s)
{
    struct line *line = &trainer->line;
    line->step = step;
    line->mean = trainer->state.epoch_sums;
    line->images_per_second =
        (double)trainer->window_images / fmax(now_s - trainer->window_started_s, 1e-9);
    trainer->window_images = 0;
    trainer->window_started_s = now_s;
    return run_log_train(trainer->log, line);
}

static struct status weights_update(struct trainer *trainer, const struct step_input *input)
{
    const struct train_options *options = trainer->options;
    const struct backend_ops *ops = trainer->model->ops;
    const struct sgd_update update = {
        .learning_rate = trainer->line.lr,
        .momentum = options->momentum,
        .weight_decay = options->weight_decay,
        .decay_norm_and_bias = options->decay_norm,
        .nesterov = options->nesterov,
        .first_step = global_step(trainer) == 0,
    };
    TRY(ops->plan_forward_backward(trainer->train_plan, input));
    TRY(ops->store_update(trainer->model->store, &update));
    for (size_t i = 0; i < trainer->network->param_count; i++)
        if (trainer->network->params[i].kind == PARAM_COUNTER)
            trainer->weights->counters[i]++;
    trainer->pending_steps++;
    trainer->saved = false;
    return OK;
}

/* One step and what is due after it; `waited_s` is how long its batch took to come. */
static struct status step_run(struct trainer *trainer, const struct step_input *input,
                              double started_s, double waited_s)
{
    struct run_state *state = &trainer->state;
    struct line *line = &trainer->line;
    uint64_t step = state->step;
    line->lr = schedule_lr(&trainer->schedule, global_step(trainer));
    TRY(weights_update(trainer, input));
    state->step++;
    trainer->window_images += input->valid;
    bool print = step % (uint64_t)trainer->options->print_freq == 0;
    if (print || trainer->pending_steps >= most_pending_steps)
        TRY(metrics_take(trainer));
    double now_s = clock_seconds();
    meter_add(&line->time, now_s - started_s);
    meter_add(&line->data, waited_s);
    if (print)
        TRY(line_print(trainer, step, now_s));
    char what[32];
    snprintf(what, sizeof what, "epoch %" PRIu64, state->epoch);
    run_log_bar(trainer->log, what, state->step, state->steps_per_epoch,
                (double)trainer->options->batch_size / meter_mean(&line->time));
    uint64_t every = (uint64_t)trainer->options->checkpoint_steps;
    if (every && global_step(trainer) % every == 0 && state->step < state->steps_per_epoch)
        TRY(checkpoint_try(trainer, false));
    return OK;
}

static bool steps_are_done(const struct trainer *trainer)
{
    uint64_t limit = (uint64_t)trainer->options->steps;
    return limit && global_step(trainer) >= limit;
}

/* Trains to the end of the epoch, or until a stop or the limit of steps. */
static struct status epoch_train(struct trainer *trainer)
{
    struct run_state *state = &trainer->state;
    struct feed *feed = trainer->data->train;
    double started_s = clock_seconds();
    trainer->line = (struct line){.epoch = state->epoch, .steps = state->steps_per_epoch};
    trainer->window_started_s = started_s;
    trainer->window_images = 0;
    TRY(feed_start(feed, state->epoch, state->step));
    while (state->step < state->steps_per_epoch && !steps_are_done(trainer) && !stop_requested()) {
        struct step_input input;
        bool done;
        TRY(feed_next(feed, &input, &done));
        if (done)
            FAIL(STATUS_FAILED, "epoch %" PRIu64 " ended after %" PRIu64 " of %" PRIu64 " steps",
                 state->epoch, state->step, state->steps_per_epoch);
        double now_s = clock_seconds();
        TRY(step_run(trainer, &input, started_s, now_s - started_s));
        started_s = clock_seconds();
    }
    TRY(metrics_take(trainer));
    struct loader_statistics loading = feed_statistics(feed);
    if (loading.bad_records)
        log_warning("epoch %" PRIu64 ": %" PRIu64
                    " images could not be read and counted for nothing",
                    state->epoch, loading.bad_records);
    return loading.images ? run_log_loader(trainer->log, state->epoch, &loading) : OK;
}

struct status trainer_evaluate(struct trainer *trainer, struct metric_sums *ret_sums)
{
    double started_s = clock_seconds();
    TRY(evaluate_run(trainer->model, trainer->eval_plan, trainer->data->val, trainer->log,
                     (uint64_t)trainer->options->print_freq, ret_sums));
    return run_log_eval(trainer->log, trainer->state.epoch, ret_sums, clock_seconds() - started_s);
}

/* Evaluates, moves to the next epoch and saves. */
static struct status epoch_finish(struct trainer *trainer)
{
    struct run_state *state = &trainer->state;
    bool is_best = false;
    if (trainer->data->val) {
        struct metric_sums sums;
        TRY(trainer_evaluate(trainer, &sums));
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
        if (stop_requested())
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
