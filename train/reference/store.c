#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "train/reference/backend.h"

CLEANUP_POINTER(reference_store_close, struct store)

static bool param_has(const struct param *param, enum param_role role)
{
    return param->kind != PARAM_COUNTER && (role == ROLE_VALUE || param_is_trained(param));
}

struct status reference_store_open(struct backend *backend, const struct network *network,
                                   struct store **ret_store)
{
    CLEANUP(reference_store_close) struct store *store = NULL;
    TRY(memory_alloc(1, sizeof *store, &store));
    store->backend = backend;
    store->network = network;
    stepping_init(&store->stepping);
    TRY(memory_alloc(network->param_count, sizeof *store->tensors, &store->tensors));

    size_t total = 0;
    for (size_t p = 0; p < network->param_count; p++)
        for (int role = ROLE_VALUE; role <= ROLE_MOMENTUM; role++)
            if (param_has(&network->params[p], role))
                total += network->params[p].count;
    store->bytes = sizeof(real) * total;
    TRY(memory_alloc_tensor(store->bytes, &store->block));

    real *next = store->block, *ends[3];
    for (int role = ROLE_VALUE; role <= ROLE_MOMENTUM; role++) {
        for (size_t p = 0; p < network->param_count; p++)
            if (param_has(&network->params[p], role)) {
                store->tensors[p][role] = next;
                next += network->params[p].count;
            }
        ends[role] = next;
    }
    store->gradients = ends[ROLE_VALUE];
    store->gradient_count = (size_t)(ends[ROLE_GRADIENT] - ends[ROLE_VALUE]);
    *ret_store = MOVE(store);
    return OK;
}

void reference_store_close(struct store *store)
{
    if (!store)
        return;
    memory_free(store->tensors);
    memory_free(store->block);
    memory_free(store->earlier);
    stepping_done(&store->stepping);
    memory_free(store);
}

/* Where element i of torchvision's (out, in, kernel, kernel) stands in ours. */
static size_t element_place(const struct param *param, size_t i)
{
    if (param->kind != PARAM_CONV_WEIGHT)
        return i;
    size_t taps = param->shape[2] * param->shape[3];
    size_t tap = i % taps, in = i / taps % param->shape[1], out = i / taps / param->shape[1];
    return (tap * param->shape[1] + in) * param->shape[0] + out;
}

struct status reference_store_write(struct store *store, enum param_role role, size_t param,
                                    const double *values)
{
    real *tensor = store->tensors[param][role];
    assert(tensor);
    for (size_t i = 0; i < store->network->params[param].count; i++)
        tensor[element_place(&store->network->params[param], i)] = (real)values[i];
    return OK;
}

struct status reference_store_read(struct store *store, enum param_role role, size_t param,
                                   double *ret_values)
{
    const real *tensor = store->tensors[param][role];
    assert(tensor);
    for (size_t i = 0; i < store->network->params[param].count; i++)
        ret_values[i] = tensor[element_place(&store->network->params[param], i)];
    return OK;
}

struct status reference_store_keep_gradients(struct store *store)
{
    size_t bytes = sizeof *store->earlier * store->gradient_count;
    if (!store->earlier)
        TRY(memory_alloc_tensor(bytes, &store->earlier));
    memcpy(store->earlier, store->gradients, bytes);
    return OK;
}

void reference_store_add_gradients(struct store *store)
{
    for (size_t i = 0; i < store->gradient_count; i++)
        store->gradients[i] += store->earlier[i];
}

/* Over all processes, in either precision. */
static struct status sum(struct comm *comm, real *values, size_t count)
{
    return sizeof(real) == sizeof(double) ? comm_sum_f64(comm, (void *)values, count)
                                          : comm_sum_f32(comm, (void *)values, count);
}

static bool is_running_statistic(const struct param *param)
{
    return param->kind == PARAM_RUNNING_MEAN || param->kind == PARAM_RUNNING_VAR;
}

/* Each process's moved from the same values, so that the mean is what the batches' mean statistics
 * would have made of them. */
static struct status running_statistics_share(struct store *store)
{
    struct comm *comm = store->backend->comm;
    for (size_t p = 0; p < store->network->param_count; p++) {
        const struct param *param = &store->network->params[p];
        real *values = store->tensors[p][ROLE_VALUE];
        if (!is_running_statistic(param))
            continue;
        TRY(sum(comm, values, param->count));
        for (size_t i = 0; i < param->count; i++)
            values[i] /= (real)comm_size(comm);
    }
    return OK;
}

struct status reference_store_share(struct store *store)
{
    const struct backend *backend = store->backend;
    if (!backend->comm)
        return OK;
    TRY(sum(backend->comm, store->gradients, store->gradient_count));
    return backend->sync_bn ? OK : running_statistics_share(store);
}

struct status reference_store_begin(struct store *store, const struct update_rule *rule)
{
    return stepping_begin(&store->stepping, rule);
}

static bool gradients_are_finite(const struct store *store)
{
    bool finite = true;
    for (size_t i = 0; i < store->gradient_count; i++)
        finite &= isfinite(store->gradients[i]) != 0;
    return finite;
}

static struct status param_update(struct store *store, size_t p)
{
    const struct param *param = &store->network->params[p];
    real **tensors = store->tensors[p];
    double norms[2] = {0};
    if (stepping_needs_norms(&store->stepping, param->kind)) {
        norms[0] = reference_norm(param->count, tensors[ROLE_VALUE]);
        norms[1] = reference_norm(param->count, tensors[ROLE_GRADIENT]);
    }
    const struct tensor_step step =
        stepping_tensor(&store->stepping, param->kind, norms[0], norms[1]);
    return reference_sgd(store->backend->pool, param->count, &step, tensors[ROLE_GRADIENT],
                         tensors[ROLE_MOMENTUM], tensors[ROLE_VALUE]);
}

static struct status params_update(struct store *store)
{
    for (size_t p = 0; p < store->network->param_count; p++)
        if (param_is_trained(&store->network->params[p]))
            TRY(param_update(store, p));
    return OK;
}

struct status reference_store_update(struct store *store)
{
    bool finite = gradients_are_finite(store);
    if (finite)
        TRY(params_update(store));
    stepping_advance(&store->stepping, finite);
    return OK;
}

struct status reference_store_progress(struct store *store, uint64_t *ret_applied,
                                       struct loss_scale *ret_scale)
{
    *ret_applied = store->stepping.applied;
    *ret_scale = store->stepping.scale;
    return OK;
}
