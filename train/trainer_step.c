/* One step of training: its micro-batches, the update, and what became of it. */

#include <inttypes.h>
#include <math.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"
#include "train/mixup.h"
#include "train/trainer_internal.h"

/* Backends keep the metrics of at least 1024 micro-batches; a step has at most 512. */
static const uint64_t most_pending = 512;

/* Steps in a row that end the run: with a loss that is not finite; skipped, while a dynamic loss
 * scale falls to a millionth of what it starts with, and without one. */
static const unsigned most_bad_losses = 3, most_skips_dynamic = 20, most_skips = 3;

uint64_t trainer_global_step(const struct trainer *trainer)
{
    return trainer->state.epoch * trainer->state.steps_per_epoch + trainer->state.step;
}

struct status trainer_begin_updates(struct trainer *trainer)
{
    const struct run_state *state = &trainer->state;
    CLEANUP(memory_free) double *rates = NULL;
    TRY(memory_alloc(state->steps_per_epoch, sizeof *rates, &rates));
    struct update_rule rule = train_options_rule(trainer->options);
    rule.rates = rates;
    rule.rate_count = state->steps_per_epoch;
    rule.applied = trainer_global_step(trainer) - state->skipped;
    rule.scale = state->scale;
    for (uint64_t i = 0; i < rule.rate_count; i++)
        rates[i] = schedule_lr(&trainer->schedule, rule.applied + i);
    return trainer->model->ops->store_begin(trainer->model->store, &rule);
}

struct status trainer_note_updates(struct trainer *trainer)
{
    uint64_t applied;
    TRY(trainer->model->ops->store_progress(trainer->model->store, &applied,
                                            &trainer->state.scale));
    trainer->state.skipped = trainer_global_step(trainer) - applied;
    return OK;
}

/* The parameter whose gradient was the first on the way back to be not finite; NULL: none is. */
static struct status broken_param_find(struct trainer *trainer, const char **ret_name)
{
    const struct network *network = trainer->network;
    const struct model *model = trainer->model;
    CLEANUP(memory_free) double *values = NULL;
    *ret_name = NULL;
    for (size_t p = network->param_count; p-- > 0 && !*ret_name;) {
        const struct param *param = &network->params[p];
        if (!param_is_trained(param))
            continue;
        TRY(memory_resize(param->count, sizeof *values, &values));
        TRY(model->ops->store_read(model->store, ROLE_GRADIENT, p, values));
        for (uint64_t i = 0; i < param->count && !*ret_name; i++)
            if (!isfinite(values[i]))
                *ret_name = param->name;
    }
    return OK;
}

static struct status skips_fail(struct trainer *trainer)
{
    const char *name;
    TRY(broken_param_find(trainer, &name));
    FAIL(STATUS_FAILED,
         "%u steps in a row were skipped, because gradients were not finite (epoch %" PRIu64
         ", before step %" PRIu64 ", loss scale %g)%s%s: try a lower --lr or another --loss-scale; "
         "the last checkpoint is from before",
         trainer->skips_in_a_row, trainer->state.epoch, trainer->state.step,
         trainer->line.loss_scale, name ? "; on the way back the first was that of " : "",
         name ? name : "");
}

/* What a step came to, over its micro-batches and all processes. */
struct step_result {
    struct metric_sums sums;
    struct step_metrics last; /* of its last micro-batch in this process; of it what is no sum */
};

static struct status step_check(struct trainer *trainer, const struct step_result *result)
{
    bool bad = !isfinite(result->sums.loss), applied = result->last.applied;
    trainer->bad_losses = bad ? trainer->bad_losses + 1 : 0;
    trainer->skips_in_a_row = applied ? 0 : trainer->skips_in_a_row + 1;
    trainer->epoch_skips += !applied;
    if (trainer->bad_losses >= most_bad_losses)
        FAIL(STATUS_FAILED,
             "the loss was not finite in %u steps in a row (epoch %" PRIu64 ", before step %" PRIu64
             "): try a lower --lr or more --warmup-epochs; the last checkpoint is from before",
             trainer->bad_losses, trainer->state.epoch, trainer->state.step);
    if (trainer->skips_in_a_row >= (trainer->state.scale.dynamic ? most_skips_dynamic : most_skips))
        return skips_fail(trainer);
    return OK;
}

/* The steps since the last call, as this process sees them; *ret_results is heap memory. */
static struct status results_read(struct trainer *trainer, struct step_result **ret_results,
                                  size_t *ret_count)
{
    CLEANUP(memory_free) struct step_metrics *metrics = NULL;
    CLEANUP(memory_free) struct step_result *results = NULL;
    size_t count = trainer->pending, steps = 0;
    trainer->pending = 0;
    TRY(memory_alloc(count + 1, sizeof *metrics, &metrics));
    TRY(memory_alloc(count + 1, sizeof *results, &results));
    if (count)
        TRY(trainer->model->ops->plan_metrics(trainer->train_plan, metrics, count, &count));
    for (size_t i = 0; i < count; i++) {
        sums_add(&results[steps].sums, &metrics[i]);
        results[steps].last = metrics[i];
        steps += metrics[i].completes;
    }
    *ret_results = MOVE(results);
    *ret_count = steps;
    return OK;
}

/* The sums of all processes; what is no sum is the same everywhere. */
static struct status results_join(struct comm *comm, struct step_result *results, size_t count)
{
    CLEANUP(memory_free) struct metric_sums *sums = NULL;
    TRY(memory_alloc(count + 1, sizeof *sums, &sums));
    for (size_t i = 0; i < count; i++)
        sums[i] = results[i].sums;
    TRY(sums_join(comm, sums, count));
    for (size_t i = 0; i < count; i++)
        results[i].sums = sums[i];
    return OK;
}

struct status trainer_take_metrics(struct trainer *trainer)
{
    CLEANUP(memory_free) struct step_result *results = NULL;
    struct line *line = &trainer->line;
    size_t count;
    TRY(results_read(trainer, &results, &count));
    TRY(results_join(trainer->comm, results, count));
    for (size_t i = 0; i < count; i++) {
        line->last = results[i].sums;
        line->lr = results[i].last.learning_rate;
        line->loss_scale = results[i].last.loss_scale;
        sums_add_sums(&trainer->state.epoch_sums, &results[i].sums);
        trainer->window_images += results[i].sums.count;
        TRY(step_check(trainer, &results[i]));
    }
    return OK;
}

/* Micro-batches of the next step; an epoch's last one may have fewer. */
static uint32_t micro_batches(const struct trainer *trainer)
{
    const uint32_t whole = trainer->division.accumulate;
    uint64_t left = feed_steps(trainer->data->train) - trainer->state.step * whole;
    return left < whole ? (uint32_t)left : whole;
}

/* The next `count` batches into trainer->inputs. */
static struct status inputs_load(struct trainer *trainer, uint32_t count)
{
    uint32_t taken;
    TRY(feed_next_several(trainer->data->train, count, trainer->inputs, &taken));
    if (taken < count)
        FAIL(STATUS_FAILED, "epoch %" PRIu64 " ended after %" PRIu64 " of %" PRIu64 " steps",
             trainer->state.epoch, trainer->state.step, trainer->state.steps_per_epoch);
    return OK;
}

/* The same, and how long they let us wait; or all processes agree to stop, and trainer->stopping is
 * set: one that waited in vain was to stop or, where a step `begins`, was asked to at all. */
static struct status inputs_take(struct trainer *trainer, uint32_t count, bool begins,
                                 double *waited_s)
{
    double asked_s = clock_seconds();
    struct status status = begins ? stop_check() : OK;
    if (status.code == STATUS_DONE)
        status = inputs_load(trainer, count);
    *waited_s += clock_seconds() - asked_s;
    return ranks_vote_stop(trainer->comm, begins && stop_requested(), status, &trainer->stopping);
}

static struct status micro_batch_run(struct trainer *trainer, struct step_input *input)
{
    TRY(trainer->model->ops->plan_forward_backward(trainer->train_plan, input));
    for (size_t i = 0; i < trainer->network->param_count; i++)
        if (trainer->network->params[i].kind == PARAM_COUNTER)
            trainer->weights->counters[i]++;
    trainer->pending++;
    return OK;
}

/* Takes back the first micro-batches of a step that cannot be made. Their gradients stay, until the
 * next step's replace them; their metrics count for nothing without the step's last one. */
static struct status micro_batches_undo(struct trainer *trainer, uint32_t count)
{
    if (count == 0)
        return OK;
    for (size_t i = 0; i < trainer->network->param_count; i++)
        if (trainer->network->params[i].kind == PARAM_COUNTER)
            trainer->weights->counters[i] -= count;
    return model_write_statistics(trainer->model, trainer->weights);
}

/* Images of a step that could be read, in all processes. */
static struct status valid_count(struct trainer *trainer, const struct step_input *inputs,
                                 uint32_t count, uint64_t *ret_valid)
{
    double valid = 0;
    for (uint32_t i = 0; i < count; i++)
        valid += inputs[i].valid;
    TRY(comm_sum_f64(trainer->comm, &valid, 1));
    *ret_valid = (uint64_t)valid;
    return OK;
}

/* Where images may be unreadable, all micro-batches are loaded first: their valid images have to be
 * counted before any gradient is divided by their number. */
static struct status step_compute(struct trainer *trainer, double *waited_s)
{
    const uint32_t count = micro_batches(trainer);
    const bool count_first = trainer->options->on_error == LOADER_SKIP;
    const struct run_state *state = &trainer->state;
    struct step_input *inputs = trainer->inputs;
    const float mixed_in = mixup_share(trainer->options->mixup, (uint64_t)trainer->options->seed,
                                       state->epoch, state->step);
    uint64_t divisor = (uint64_t)count * division_micro_batch(&trainer->division);
    if (count_first) {
        TRY(inputs_take(trainer, count, true, waited_s));
        if (trainer->stopping)
            return OK;
        TRY(valid_count(trainer, inputs, count, &divisor));
    }
    if (trainer->reads_statistics)
        TRY(model_read_statistics(trainer->model, trainer->weights));
    for (uint32_t i = 0; i < count; i++) {
        if (!count_first)
            TRY(inputs_take(trainer, 1, i == 0, waited_s));
        if (trainer->stopping)
            return micro_batches_undo(trainer, i);
        struct step_input *input = &inputs[count_first ? i : 0];
        input->divisor = divisor;
        input->adds = i > 0;
        input->completes = i + 1 == count;
        input->mixed_in = mixed_in;
        TRY(micro_batch_run(trainer, input));
    }
    return trainer->model->ops->store_update(trainer->model->store);
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

/* Moves the average of --ema where the step that was made asks for it. */
static struct status average_move(struct trainer *trainer)
{
    const struct ema ema = train_options_ema(trainer->options);
    double decay;
    if (!ema_is_due(&ema, trainer->state.epoch, trainer->state.step, &decay))
        return OK;
    return model_move_average(trainer->model, trainer->weights, decay);
}

struct status trainer_step(struct trainer *trainer)
{
    struct run_state *state = &trainer->state;
    struct line *line = &trainer->line;
    uint64_t step = state->step;
    double started_s = clock_seconds(), waited_s = 0;
    TRY(step_compute(trainer, &waited_s));
    if (trainer->stopping)
        return OK;
    TRY(average_move(trainer));
    trainer->saved = false;
    state->step++;
    bool print = step % (uint64_t)trainer->options->print_freq == 0;
    if (print || trainer->pending >= most_pending)
        TRY(trainer_take_metrics(trainer));
    double now_s = clock_seconds();
    meter_add(&line->time, now_s - started_s);
    meter_add(&line->data, waited_s);
    if (print)
        TRY(line_print(trainer, step, now_s));
    char what[32];
    snprintf(what, sizeof what, "epoch %" PRIu64, state->epoch);
    run_log_bar(trainer->log, what, state->step, state->steps_per_epoch,
                (double)trainer->options->batch_size / meter_mean(&line->time));
    return OK;
}
