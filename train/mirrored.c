#include "train/mirrored.h"

#include "base/memory.h"
#include "train/logits.h"

struct mirrored {
    const struct model *model;
    struct plan_config config;
    struct tensor_format format;
    void *images; /* (batch, …), mirrored */
    float *logits,
        *of_image; /* (batch, classes): of the batch that ran last; of the first of two */
};

static uint64_t images_bytes(const struct plan_config *config, const struct tensor_format *format)
{
    return config->batch * tensor_image_bytes(format, config->height, config->width);
}

uint64_t mirrored_bytes(const struct plan_config *config, const struct tensor_format *format,
                        uint32_t classes)
{
    return images_bytes(config, format) + 2 * (uint64_t)config->batch * classes * sizeof(float);
}

struct status mirrored_open(const struct model *model, const struct plan_config *config,
                            const struct tensor_format *format, struct mirrored **ret_mirrored)
{
    CLEANUP(mirrored_close) struct mirrored *mirrored = NULL;
    const size_t logits = (size_t)config->batch * model->network->classes;
    TRY(memory_alloc(1, sizeof *mirrored, &mirrored));
    mirrored->model = model;
    mirrored->config = *config;
    mirrored->format = *format;
    TRY(memory_alloc_tensor(images_bytes(config, format), &mirrored->images));
    TRY(memory_alloc(logits, sizeof *mirrored->logits, &mirrored->logits));
    TRY(memory_alloc(logits, sizeof *mirrored->of_image, &mirrored->of_image));
    *ret_mirrored = MOVE(mirrored);
    return OK;
}

void mirrored_close(struct mirrored *mirrored)
{
    if (!mirrored)
        return;
    memory_free(mirrored->images);
    memory_free(mirrored->logits);
    memory_free(mirrored->of_image);
    memory_free(mirrored);
}

/* The logits of a batch. The plan's own metrics are of one of the two images: not wanted. */
static struct status logits_compute(const struct mirrored *mirrored, struct plan *plan,
                                    const struct step_input *input, float *ret_logits)
{
    const struct backend_ops *ops = mirrored->model->ops;
    struct step_metrics metrics;
    size_t count;
    TRY(ops->plan_forward(plan, input));
    TRY(ops->plan_logits(plan, ret_logits));
    return ops->plan_metrics(plan, &metrics, 1, &count);
}

struct status mirrored_forward(struct mirrored *mirrored, struct plan *plan,
                               const struct step_input *input, struct step_metrics *ret_metrics)
{
    const uint32_t classes = mirrored->model->network->classes;
    const struct plan_config *config = &mirrored->config;
    struct step_input turned = *input;
    turned.images = mirrored->images;
    tensor_mirror(&mirrored->format, config->height, config->width, config->batch, input->images,
                  mirrored->images);
    TRY(logits_compute(mirrored, plan, input, mirrored->of_image));
    TRY(logits_compute(mirrored, plan, &turned, mirrored->logits));
    *ret_metrics = (struct step_metrics){0};
    for (uint32_t i = 0; i < config->batch; i++) {
        float *logits = mirrored->logits + (size_t)i * classes;
        const float *of_image = mirrored->of_image + (size_t)i * classes;
        if (input->labels[i] < 0)
            continue;
        for (uint32_t c = 0; c < classes; c++)
            logits[c] = (logits[c] + of_image[c]) / 2;
        uint32_t label = (uint32_t)input->labels[i];
        uint32_t rank = logits_rank(logits, classes, label);
        ret_metrics->loss_sum += logits_log_sum(logits, classes) - logits[label];
        ret_metrics->top1 += rank < 1;
        ret_metrics->top5 += rank < 5;
        ret_metrics->count++;
    }
    return OK;
}
