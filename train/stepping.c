#include "train/stepping.h"

#include <float.h>
#include <string.h>

#include "base/memory.h"

void stepping_init(struct stepping *stepping)
{
    *stepping = (struct stepping){.scale.value = 1};
}

void stepping_done(struct stepping *stepping)
{
    memory_free(stepping->rates);
}

struct status stepping_begin(struct stepping *stepping, const struct update_rule *rule)
{
    TRY(memory_resize(rule->rate_count, sizeof *stepping->rates, &stepping->rates));
    memcpy(stepping->rates, rule->rates, rule->rate_count * sizeof *stepping->rates);
    stepping->rule = *rule;
    stepping->rule.rates = stepping->rates;
    stepping->applied = rule->applied;
    stepping->scale = rule->scale;
    return OK;
}

double stepping_rate(const struct stepping *stepping)
{
    const struct update_rule *rule = &stepping->rule;
    uint64_t place = stepping->applied - rule->applied;
    if (rule->rate_count == 0)
        return 0;
    return rule->rates[place < rule->rate_count ? place : rule->rate_count - 1];
}

bool stepping_needs_norms(const struct stepping *stepping, enum param_kind kind)
{
    return stepping->rule.kind == OPTIMIZER_LARS && param_is_weight(kind);
}

/* LARS's share of the rate. */
static double trust_ratio(const struct update_rule *rule, double decay, double value_norm,
                          double gradient_norm)
{
    if (!(value_norm > 0 && gradient_norm > 0))
        return 1;
    return rule->lars_eta * value_norm / (gradient_norm + decay * value_norm + rule->lars_epsilon);
}

struct tensor_step stepping_tensor(const struct stepping *stepping, enum param_kind kind,
                                   double value_norm, double gradient_norm)
{
    const struct update_rule *rule = &stepping->rule;
    const double rate = stepping_rate(stepping), factor = 1 / stepping->scale.value;
    const double decay =
        rule->decay_norm_and_bias || param_is_weight(kind) ? rule->weight_decay : 0;
    struct tensor_step step = {
        .rate = rate,
        .momentum = rule->momentum,
        .decay = decay,
        .gradient_factor = factor,
        .nesterov = rule->nesterov,
    };
    if (rule->kind == OPTIMIZER_SGD)
        return step;
    double own_rate = rate;
    if (param_is_weight(kind))
        own_rate *= trust_ratio(rule, decay, value_norm, factor * gradient_norm);
    step.rate = 1;
    step.decay = own_rate * decay;
    step.gradient_factor = own_rate * factor;
    return step;
}

double stepping_loss_weight(const struct stepping *stepping, uint64_t divisor)
{
    return divisor ? stepping->scale.value / (double)divisor : 0;
}

/* As PyTorch's GradScaler: x2 after many clean steps, x0.5 after a skipped one. */
static void scale_move(struct loss_scale *scale, bool finite)
{
    if (!scale->dynamic)
        return;
    scale->clean_steps = finite ? scale->clean_steps + 1 : 0;
    if (!finite)
        scale->value /= 2;
    if (scale->clean_steps < scale->grow_after)
        return;
    scale->clean_steps = 0;
    if (scale->value <= (double)FLT_MAX / 2)
        scale->value *= 2;
}

void stepping_advance(struct stepping *stepping, bool finite)
{
    stepping->was_applied[stepping->updates++ % METRICS_KEPT] = finite;
    stepping->applied += finite;
    scale_move(&stepping->scale, finite);
}

void metrics_push(struct metrics_queue *queue, struct step_metrics sums,
                  const struct step_input *input, const struct stepping *stepping)
{
    if (queue->count == METRICS_KEPT) {
        queue->first = (queue->first + 1) % METRICS_KEPT;
        queue->count--;
    }
    size_t at = (queue->first + queue->count++) % METRICS_KEPT;
    sums.completes = input && input->completes;
    if (input) {
        sums.learning_rate = stepping_rate(stepping);
        sums.loss_scale = stepping->scale.value;
    }
    queue->metrics[at] = sums;
    queue->updates[at] = stepping->updates;
}

size_t metrics_take(struct metrics_queue *queue, const struct stepping *stepping,
                    struct step_metrics *ret_metrics, size_t capacity)
{
    size_t count = queue->count < capacity ? queue->count : capacity;
    for (size_t i = 0; i < count; i++) {
        size_t at = (queue->first + i) % METRICS_KEPT;
        uint64_t update = queue->updates[at];
        ret_metrics[i] = queue->metrics[at];
        if (ret_metrics[i].completes && update < stepping->updates)
            ret_metrics[i].applied = stepping->was_applied[update % METRICS_KEPT];
    }
    queue->first = (queue->first + count) % METRICS_KEPT;
    queue->count -= count;
    return count;
}
