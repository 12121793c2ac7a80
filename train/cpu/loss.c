#include "train/cpu/loss.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "train/cpu/cpu.h"
#include "train/logits.h"

struct status loss_init(struct loss *loss, const struct loss_shape *shape)
{
    loss->shape = *shape;
    TRY(memory_alloc(shape->batch, sizeof *loss->losses, &loss->losses));
    return memory_alloc(shape->batch, sizeof *loss->ranks, &loss->ranks);
}

void loss_done(struct loss *loss)
{
    memory_free(loss->losses);
    memory_free(loss->ranks);
}

/* What an image should be: its label, with the share `mixed_in` another one. */
struct target {
    uint32_t label, other;
    double mixed_in;
};

/* Σ over classes of target · −log softmax. */
static double image_loss(const struct loss_shape *shape, const float *logits, struct target target,
                         double log_sum)
{
    double smoothing = (double)shape->label_smoothing;
    double loss = (1 - target.mixed_in) * (log_sum - (double)logits[target.label]);
    if (target.mixed_in > 0)
        loss += target.mixed_in * (log_sum - (double)logits[target.other]);
    if (smoothing == 0)
        return loss;
    double mean = 0;
    for (uint32_t c = 0; c < shape->classes; c++)
        mean += log_sum - (double)logits[c];
    return (1 - smoothing) * loss + smoothing * mean / shape->classes;
}

static void image_gradient(const struct loss_shape *shape, const float *logits,
                           struct target target, double log_sum, double weight, float *ret_gradient)
{
    double spread = (double)shape->label_smoothing / shape->classes;
    for (uint32_t c = 0; c < shape->classes; c++) {
        double share = (c == target.label ? 1 - target.mixed_in : 0) +
                       (c == target.other ? target.mixed_in : 0);
        double softmax = exp((double)logits[c] - log_sum);
        double wanted = spread + share * (1 - (double)shape->label_smoothing);
        ret_gradient[c] = (float)((softmax - wanted) * weight);
    }
}

static void image_run(struct loss *loss, uint32_t image, const float *logits, struct target target,
                      double weight, float *ret_gradient)
{
    double log_sum = logits_log_sum(logits, loss->shape.classes);
    loss->losses[image] = image_loss(&loss->shape, logits, target, log_sum);
    loss->ranks[image] = logits_rank(logits, loss->shape.classes, target.label);
    if (ret_gradient)
        image_gradient(&loss->shape, logits, target, log_sum, weight, ret_gradient);
}

/* The image's part of loss_run. */
static void image_take(struct loss *loss, uint32_t image, const float *logits,
                       const int32_t *labels, float mixed_in, double weight, float *gradients)
{
    const size_t classes = loss->shape.classes;
    float *gradient = gradients ? gradients + image * classes : NULL;
    if (labels[image] < 0) {
        if (gradient)
            memset(gradient, 0, classes * sizeof *gradient);
        return;
    }
    const struct target target = {
        .label = (uint32_t)labels[image],
        .other = (uint32_t)labels[step_partner(labels, mixed_in, image)],
        .mixed_in = (double)mixed_in,
    };
    image_run(loss, image, logits + image * classes, target, weight, gradient);
}

struct status loss_run(struct loss *loss, const float *logits, const int32_t *labels,
                       float mixed_in, unsigned threads, double weight, float *ret_gradient,
                       struct step_metrics *ret_metrics)
{
    TRY(step_check_labels(labels, loss->shape.batch, loss->shape.classes));
    FOR_PARTS(part, threads)
    {
        struct span images = span_part(loss->shape.batch, 1, part, threads);
        for (size_t i = images.begin; i < images.end; i++)
            image_take(loss, (uint32_t)i, logits, labels, mixed_in, weight, ret_gradient);
    }
    *ret_metrics = (struct step_metrics){0};
    for (uint32_t i = 0; i < loss->shape.batch; i++) {
        if (labels[i] < 0)
            continue;
        ret_metrics->loss_sum += loss->losses[i];
        ret_metrics->top1 += loss->ranks[i] < 1;
        ret_metrics->top5 += loss->ranks[i] < 5;
        ret_metrics->count++;
    }
    return OK;
}
