#include "train/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static const char module_prefix[] = "module.";
static const char momentum_prefix[] = "momentum.";
static const char average_prefix[] = "average.";
enum { LONGEST_PREFIX = sizeof momentum_prefix };

static uint64_t floats_needed(const struct network *network)
{
    uint64_t count = 0;
    for (size_t i = 0; i < network->param_count; i++) {
        const struct param *param = &network->params[i];
        if (param->kind != PARAM_COUNTER)
            count += param->count * (param_is_trained(param) ? 2 : 1);
    }
    return count;
}

struct status weights_open(const struct network *network, struct weights **ret_weights)
{
    CLEANUP(weights_close) struct weights *weights = NULL;
    TRY(memory_alloc(1, sizeof *weights, &weights));
    weights->network = network;
    TRY(memory_alloc(network->param_count, sizeof *weights->values, &weights->values));
    TRY(memory_alloc(network->param_count, sizeof *weights->momentum, &weights->momentum));
    TRY(memory_alloc(network->param_count, sizeof *weights->counters, &weights->counters));
    TRY(memory_alloc(floats_needed(network), sizeof *weights->memory, &weights->memory));
    float *next = weights->memory;
    for (size_t i = 0; i < network->param_count; i++) {
        const struct param *param = &network->params[i];
        if (param->kind == PARAM_COUNTER)
            continue;
        weights->values[i] = next;
        next += param->count;
        if (!param_is_trained(param))
            continue;
        weights->momentum[i] = next;
        next += param->count;
    }
    *ret_weights = MOVE(weights);
    return OK;
}

void weights_close_average(struct weights *weights)
{
    memory_free(MOVE(weights->average));
    memory_free(MOVE(weights->average_memory));
}

void weights_close(struct weights *weights)
{
    if (!weights)
        return;
    memory_free(weights->values);
    memory_free(weights->momentum);
    memory_free(weights->counters);
    memory_free(weights->memory);
    weights_close_average(weights);
    memory_free(weights);
}

static struct status shape_check(const struct param *param, const struct safetensor *tensor,
                                 const char *path)
{
    bool same = param->rank == tensor->rank;
    for (unsigned i = 0; same && i < param->rank; i++)
        same = param->shape[i] == tensor->shape[i];
    if (same)
        return OK;
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *shapes;
    TRY(shape_append(&text, tensor->shape, tensor->rank));
    TRY(buffer_append_text(&text, ", the network's is "));
    TRY(shape_append(&text, param->shape, param->rank));
    TRY(buffer_text(&text, &shapes));
    FAIL(STATUS_CORRUPT, "'%s': the shape of '%s' is %s%s", path, param->name, shapes,
         strncmp(param->name, "fc.", 3) == 0 ? ": another number of classes" : "");
}

/* A list of names that grows to a sentence: "'a', 'b', 'c' and 4 more". */
struct name_list {
    struct buffer text;
    size_t count;
};

static void name_list_done(struct name_list *list)
{
    buffer_done(&list->text);
}
CLEANUP_VALUE(name_list_done, struct name_list)

static struct status name_list_add(struct name_list *list, const char *name)
{
    const size_t shown = 5;
    if (list->count++ >= shown)
        return OK;
    return buffer_append_text(&list->text, "%s'%.100s'", list->count > 1 ? ", " : "", name);
}

static struct status name_list_finish(struct name_list *list, const char *title)
{
    const size_t shown = 5;
    if (list->count > shown)
        TRY(buffer_append_text(&list->text, " and %zu more", list->count - shown));
    CLEANUP(buffer_done) struct buffer names = list->text;
    list->text = (struct buffer){0};
    if (!list->count)
        return OK;
    TRY(buffer_append_text(&list->text, "; %s: ", title));
    return buffer_append(&list->text, names.data, names.length);
}

static bool all_have_prefix(const struct safetensors *file)
{
    for (size_t i = 0; i < safetensors_count(file); i++)
        if (strncmp(safetensors_at(file, i)->name, module_prefix, sizeof module_prefix - 1) != 0)
            return false;
    return safetensors_count(file) > 0;
}

/* Fails, listing names, unless `found` (by parameter) and the file's names are the same set. */
static struct status names_check(const struct network *network,
                                 const struct safetensor *const *found,
                                 const struct safetensors *file, size_t prefix_length,
                                 const char *path)
{
    CLEANUP(name_list_done) struct name_list missing = {0};
    CLEANUP(name_list_done) struct name_list unexpected = {0};
    for (size_t i = 0; i < network->param_count; i++)
        if (!found[i] && network->params[i].kind != PARAM_COUNTER)
            TRY(name_list_add(&missing, network->params[i].name));
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const char *name = safetensors_at(file, i)->name + prefix_length;
        if (network_find_param(network, name) < 0)
            TRY(name_list_add(&unexpected, name));
    }
    if (!missing.count && !unexpected.count)
        return OK;
    const char *missing_text, *unexpected_text;
    TRY(name_list_finish(&missing, "missing"));
    TRY(name_list_finish(&unexpected, "unexpected"));
    TRY(buffer_text(&missing.text, &missing_text));
    TRY(buffer_text(&unexpected.text, &unexpected_text));
    FAIL(STATUS_CORRUPT, "'%s' does not hold the weights of %s%s%s", path, network->arch,
         missing_text, unexpected_text);
}

static struct status value_take(struct weights *weights, size_t i, const struct safetensor *tensor,
                                const char *path)
{
    TRY(shape_check(&weights->network->params[i], tensor, path));
    if (weights->network->params[i].kind == PARAM_COUNTER)
        return status_context(safetensor_read_integer(tensor, &weights->counters[i]), "'%s'", path);
    return status_context(safetensor_read(tensor, weights->values[i]), "'%s'", path);
}

struct status weights_from_safetensors(struct weights *weights, const struct safetensors *file,
                                       const char *path, bool *ret_stripped)
{
    const struct network *network = weights->network;
    bool stripped = all_have_prefix(file);
    size_t prefix_length = stripped ? sizeof module_prefix - 1 : 0;
    CLEANUP(memory_free) const struct safetensor **found = NULL;
    TRY(memory_alloc(network->param_count, sizeof *found, &found));
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensor *tensor = safetensors_at(file, i);
        int param = network_find_param(network, tensor->name + prefix_length);
        if (param >= 0)
            found[param] = tensor;
    }
    TRY(names_check(network, found, file, prefix_length, path));
    for (size_t i = 0; i < network->param_count; i++) {
        weights->counters[i] = 0;
        if (found[i])
            TRY(value_take(weights, i, found[i], path));
    }
    if (ret_stripped)
        *ret_stripped = stripped;
    return OK;
}

/* Takes the arrays that are not NULL from the tensors of that prefix. */
static struct status arrays_take(const struct network *network, float *const *arrays,
                                 const char *prefix, const struct safetensors *file,
                                 const char *path)
{
    for (size_t i = 0; i < network->param_count; i++) {
        const struct param *param = &network->params[i];
        if (!arrays[i])
            continue;
        char name[sizeof param->name + LONGEST_PREFIX];
        snprintf(name, sizeof name, "%s%s", prefix, param->name);
        const struct safetensor *tensor = safetensors_find(file, name);
        if (!tensor)
            FAIL(STATUS_CORRUPT, "'%s': no tensor '%s'", path, name);
        TRY(shape_check(param, tensor, path));
        TRY(status_context(safetensor_read(tensor, arrays[i]), "'%s'", path));
    }
    return OK;
}

static bool has_average(const struct safetensors *file)
{
    for (size_t i = 0; i < safetensors_count(file); i++)
        if (strncmp(safetensors_at(file, i)->name, average_prefix, sizeof average_prefix - 1) == 0)
            return true;
    return false;
}

struct status weights_state_from_safetensors(struct weights *weights,
                                             const struct safetensors *file, const char *path)
{
    TRY(arrays_take(weights->network, weights->momentum, momentum_prefix, file, path));
    if (!has_average(file))
        return OK;
    TRY(weights_open_average(weights));
    return arrays_take(weights->network, weights->average, average_prefix, file, path);
}

static struct safetensor tensor_of(const struct param *param, const char *name, const void *data)
{
    struct safetensor tensor = {
        .name = name,
        .dtype = param->kind == PARAM_COUNTER ? TENSOR_DTYPE_I64 : TENSOR_DTYPE_F32,
        .rank = param->rank,
        .count = param->count,
        .data = data,
    };
    memcpy(tensor.shape, param->shape, sizeof param->shape);
    return tensor;
}

struct status weights_describe_values(const struct weights *weights,
                                      struct safetensor **ret_tensors, size_t *ret_count)
{
    const struct network *network = weights->network;
    CLEANUP(memory_free) struct safetensor *tensors = NULL;
    TRY(memory_alloc(network->param_count, sizeof *tensors, &tensors));
    for (size_t i = 0; i < network->param_count; i++) {
        const struct param *param = &network->params[i];
        const void *data =
            param->kind == PARAM_COUNTER ? (const void *)&weights->counters[i] : weights->values[i];
        tensors[i] = tensor_of(param, param->name, data);
    }
    *ret_count = network->param_count;
    *ret_tensors = MOVE(tensors);
    return OK;
}

/* Adds the arrays that are not NULL to `tensors`, which has room. */
static struct status arrays_describe(const struct network *network, float *const *arrays,
                                     const char *prefix, struct arena *names,
                                     struct safetensor *tensors, size_t *count)
{
    for (size_t i = 0; i < network->param_count; i++) {
        const struct param *param = &network->params[i];
        if (!arrays[i])
            continue;
        char name[sizeof param->name + LONGEST_PREFIX];
        const char *copy;
        int length = snprintf(name, sizeof name, "%s%s", prefix, param->name);
        TRY(arena_copy(names, name, (size_t)length, &copy));
        tensors[(*count)++] = tensor_of(param, copy, arrays[i]);
    }
    return OK;
}

struct status weights_describe_state(const struct weights *weights, struct arena *names,
                                     struct safetensor **ret_tensors, size_t *ret_count)
{
    const struct network *network = weights->network;
    CLEANUP(memory_free) struct safetensor *tensors = NULL;
    size_t count = 0;
    TRY(memory_alloc(2 * network->param_count, sizeof *tensors, &tensors));
    TRY(arrays_describe(network, weights->momentum, momentum_prefix, names, tensors, &count));
    if (weights->average)
        TRY(arrays_describe(network, weights->average, average_prefix, names, tensors, &count));
    *ret_count = count;
    *ret_tensors = MOVE(tensors);
    return OK;
}

struct status weights_open_average(struct weights *weights)
{
    const struct network *network = weights->network;
    CLEANUP(memory_free) float **arrays = NULL;
    uint64_t count = 0;
    if (weights->average)
        return OK;
    for (size_t i = 0; i < network->param_count; i++)
        count += weights->values[i] ? network->params[i].count : 0;
    TRY(memory_alloc(network->param_count, sizeof *arrays, &arrays));
    TRY(memory_alloc(count, sizeof *weights->average_memory, &weights->average_memory));
    float *next = weights->average_memory;
    for (size_t i = 0; i < network->param_count; i++) {
        if (!weights->values[i])
            continue;
        arrays[i] = next;
        next += network->params[i].count;
    }
    weights->average = MOVE(arrays);
    return OK;
}

struct status weights_average(struct weights *weights, double decay)
{
    const float keep = weights->average ? (float)decay : 0, take = (float)(1 - decay);
    TRY(weights_open_average(weights));
    for (size_t p = 0; p < weights->network->param_count; p++) {
        const float *values = weights->values[p];
        float *average = weights->average[p];
        for (uint64_t i = 0; values && i < weights->network->params[p].count; i++)
            average[i] = keep > 0 ? keep * average[i] + take * values[i] : values[i];
    }
    return OK;
}

struct weights weights_average_view(const struct weights *weights)
{
    struct weights view = *weights;
    view.values = weights->average;
    view.average = NULL;
    return view;
}
