#include "train/model.h"

#include "base/memory.h"
#include "base/path.h"
#include "base/pool.h"
#include "train/module.h"

struct status model_open(const struct network *network, const char *device,
                         const struct backend_config *config, struct model **ret_model)
{
    CLEANUP(model_close) struct model *model = NULL;
    CLEANUP(memory_free) char *cache = NULL, *plan_cache = NULL;
    const struct backend_module *module;
    TRY(module_find(device, &module));
    if (!config->plan_cache)
        TRY(path_cache_folder(&cache));
    if (cache)
        TRY(path_join(cache, "plans", &plan_cache));
    TRY(memory_alloc(1, sizeof *model, &model));
    model->network = network;
    model->ops = module->ops;
    model->backend_name = module->name;
    model->threads = config->threads ? config->threads : cores_available();
    struct backend_config whole = *config;
    whole.threads = model->threads;
    if (plan_cache)
        whole.plan_cache = plan_cache;
    TRY(module->ops->open(&whole, &model->backend));
    TRY(module->ops->store_open(model->backend, network, &model->store));
    *ret_model = MOVE(model);
    return OK;
}

void model_close(struct model *model)
{
    if (!model)
        return;
    if (model->store)
        model->ops->store_close(model->store);
    if (model->backend)
        model->ops->close(model->backend);
    memory_free(model);
}

static uint64_t largest_param(const struct network *network)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < network->param_count; i++)
        if (network->params[i].count > largest)
            largest = network->params[i].count;
    return largest;
}

static struct status param_write(struct model *model, enum param_role role, size_t param,
                                 const float *values, double *scratch)
{
    for (uint64_t i = 0; i < model->network->params[param].count; i++)
        scratch[i] = values[i];
    return model->ops->store_write(model->store, role, param, scratch);
}

static struct status param_read(struct model *model, enum param_role role, size_t param,
                                float *values, double *scratch)
{
    TRY(model->ops->store_read(model->store, role, param, scratch));
    for (uint64_t i = 0; i < model->network->params[param].count; i++)
        values[i] = (float)scratch[i];
    return OK;
}

struct status model_write(struct model *model, const struct weights *weights, bool state)
{
    const bool average = state && weights->average && model->ops->store_average;
    CLEANUP(memory_free) double *scratch = NULL;
    TRY(memory_alloc(largest_param(model->network), sizeof *scratch, &scratch));
    for (size_t i = 0; i < model->network->param_count; i++) {
        if (weights->values[i])
            TRY(param_write(model, ROLE_VALUE, i, weights->values[i], scratch));
        if (state && weights->momentum[i])
            TRY(param_write(model, ROLE_MOMENTUM, i, weights->momentum[i], scratch));
        if (average && weights->average[i])
            TRY(param_write(model, ROLE_AVERAGE, i, weights->average[i], scratch));
    }
    return OK;
}

struct status model_read(struct model *model, struct weights *weights, bool state)
{
    const bool average = state && weights->average && model->ops->store_average;
    CLEANUP(memory_free) double *scratch = NULL;
    TRY(memory_alloc(largest_param(model->network), sizeof *scratch, &scratch));
    for (size_t i = 0; i < model->network->param_count; i++) {
        if (weights->values[i])
            TRY(param_read(model, ROLE_VALUE, i, weights->values[i], scratch));
        if (state && weights->momentum[i])
            TRY(param_read(model, ROLE_MOMENTUM, i, weights->momentum[i], scratch));
        if (average && weights->average[i])
            TRY(param_read(model, ROLE_AVERAGE, i, weights->average[i], scratch));
    }
    return OK;
}

static bool param_is_statistic(const struct param *param)
{
    return param->kind == PARAM_RUNNING_MEAN || param->kind == PARAM_RUNNING_VAR;
}

struct status model_read_statistics(struct model *model, struct weights *weights)
{
    const struct network *network = model->network;
    CLEANUP(memory_free) double *scratch = NULL;
    TRY(memory_alloc(largest_param(network), sizeof *scratch, &scratch));
    for (size_t i = 0; i < network->param_count; i++)
        if (param_is_statistic(&network->params[i]))
            TRY(param_read(model, ROLE_VALUE, i, weights->values[i], scratch));
    return OK;
}

struct status model_write_statistics(struct model *model, const struct weights *weights)
{
    const struct network *network = model->network;
    CLEANUP(memory_free) double *scratch = NULL;
    TRY(memory_alloc(largest_param(network), sizeof *scratch, &scratch));
    for (size_t i = 0; i < network->param_count; i++)
        if (param_is_statistic(&network->params[i]))
            TRY(param_write(model, ROLE_VALUE, i, weights->values[i], scratch));
    return OK;
}

struct status model_move_average(struct model *model, struct weights *weights, double decay)
{
    if (!model->ops->store_average) {
        TRY(model_read(model, weights, false));
        return weights_average(weights, decay);
    }
    const double kept = weights->average ? decay : 0;
    TRY(weights_open_average(weights));
    return model->ops->store_average(model->store, kept);
}
