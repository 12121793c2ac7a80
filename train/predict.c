#include "train/predict.h"

#include <math.h>

#include "base/memory.h"
#include "train/logits.h"

struct predictor {
    struct model *model;
    struct plan *plan;
    struct tensor_format format;
    uint32_t classes;
    size_t image_bytes;
    float *logits; /* (classes) */
};

struct status predictor_open(const struct trained *trained, const char *device,
                             const struct backend_config *config, uint32_t size,
                             struct predictor **ret_predictor)
{
    CLEANUP(predictor_close) struct predictor *predictor = NULL;
    const struct plan_config plan = {.mode = PLAN_EVAL, .batch = 1, .height = size, .width = size};
    TRY(memory_alloc(1, sizeof *predictor, &predictor));
    TRY(model_open(trained->network, device, config, &predictor->model));
    struct model *model = predictor->model;
    TRY(model_write(model, trained->weights, false));
    TRY(model->ops->plan_open(model->store, &plan, &predictor->plan));
    predictor->format = tensor_format_imagenet;
    model->ops->input_format(model->backend, &predictor->format);
    predictor->image_bytes = tensor_image_bytes(&predictor->format, size, size);
    predictor->classes = trained->network->classes;
    TRY(memory_alloc(predictor->classes, sizeof(float), &predictor->logits));
    *ret_predictor = MOVE(predictor);
    return OK;
}

void predictor_close(struct predictor *predictor)
{
    if (!predictor)
        return;
    if (predictor->plan)
        predictor->model->ops->plan_close(predictor->plan);
    model_close(predictor->model);
    memory_free(predictor->logits);
    memory_free(predictor);
}

struct tensor_format predictor_format(const struct predictor *predictor)
{
    return predictor->format;
}

/* Puts a label into its place among the likeliest; of equal ones the lower class comes first. */
static void top_insert(struct prediction *prediction, const float *logits, int32_t label)
{
    int place = PREDICTION_TOP;
    while (place > 0 &&
           (prediction->top[place - 1] < 0 || logits[prediction->top[place - 1]] < logits[label])) {
        if (place < PREDICTION_TOP)
            prediction->top[place] = prediction->top[place - 1];
        place--;
    }
    if (place < PREDICTION_TOP)
        prediction->top[place] = label;
}

static void prediction_make(const float *logits, uint32_t classes, int32_t label,
                            struct prediction *prediction)
{
    double total = logits_log_sum(logits, classes);
    for (int i = 0; i < PREDICTION_TOP; i++)
        prediction->top[i] = -1;
    for (uint32_t i = 0; i < classes; i++)
        top_insert(prediction, logits, (int32_t)i);
    for (int i = 0; i < PREDICTION_TOP; i++)
        prediction->share[i] =
            prediction->top[i] < 0 ? 0 : (float)exp(logits[prediction->top[i]] - total);
    prediction->loss = label < 0 ? 0 : total - logits[label];
}

struct status predictor_run(struct predictor *predictor, const void *images, const int32_t *labels,
                            uint32_t count, struct prediction *ret_predictions)
{
    const struct backend_ops *ops = predictor->model->ops;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t label = labels[i];
        const struct step_input input = {
            .images = (const uint8_t *)images + i * predictor->image_bytes,
            .labels = &label,
            .valid = label >= 0,
        };
        struct step_metrics metrics;
        size_t metric_count;
        TRY(ops->plan_forward(predictor->plan, &input));
        TRY(ops->plan_logits(predictor->plan, predictor->logits));
        TRY(ops->plan_metrics(predictor->plan, &metrics, 1, &metric_count));
        prediction_make(predictor->logits, predictor->classes, label, &ret_predictions[i]);
    }
    return OK;
}
