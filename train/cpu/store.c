#include "train/cpu/store.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Which section of the arrays a parameter lies in. */
static unsigned section_of(const struct param *param)
{
    return param_is_weight(param->kind) ? 0 : param_is_trained(param) ? 1 : 2;
}

/* Places every parameter by the size of its layout. */
static void params_place(struct store *store)
{
    size_t ends[3], offset = 0;
    for (unsigned section = 0; section < 3; section++) {
        for (size_t i = 0; i < store->network->param_count; i++) {
            if (section_of(&store->network->params[i]) != section)
                continue;
            store->params[i].offset = offset;
            offset += (store->params[i].count + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
        }
        ends[section] = offset;
    }
    store->weight_count = ends[0];
    store->trained_count = ends[1];
    store->total_count = ends[2];
}

static struct status param_set_layout(struct store_param *param, const struct layout *layout)
{
    struct layout *copy;
    TRY(layout_clone(layout, &copy));
    layout_close(param->layout);
    param->layout = copy;
    param->count = layout_bytes(copy) / sizeof(float);
    return OK;
}

static struct status dense_layout_open(const struct param *param, struct layout **ret_layout)
{
    return layout_open_dense(param->rank, param->shape, ret_layout);
}

static struct status array_open(struct store *store, enum memory_kind kind, size_t count,
                                float **ret_array)
{
    TRY(memory_alloc_tensor(count * sizeof(float), ret_array));
    store->backend->use.bytes[kind] += count * sizeof(float);
    return OK;
}

static void array_close(struct store *store, enum memory_kind kind, size_t count, float *array)
{
    if (array)
        store->backend->use.bytes[kind] -= count * sizeof(float);
    memory_free(array);
}

static struct status arrays_open(struct store *store)
{
    TRY(array_open(store, MEMORY_PARAMETERS, store->total_count, &store->values));
    TRY(array_open(store, MEMORY_GRADIENTS, store->trained_count, &store->gradients));
    return array_open(store, MEMORY_OPTIMIZER, store->trained_count, &store->momenta);
}

static void arrays_close(struct store *store)
{
    array_close(store, MEMORY_PARAMETERS, store->total_count, MOVE(store->values));
    array_close(store, MEMORY_GRADIENTS, store->trained_count, MOVE(store->gradients));
    array_close(store, MEMORY_OPTIMIZER, store->trained_count, MOVE(store->momenta));
    array_close(store, MEMORY_GRADIENTS, store->trained_count, MOVE(store->earlier));
}

struct status store_open(struct backend *backend, const struct network *network,
                         struct store **ret_store)
{
    CLEANUP(store_close) struct store *store = NULL;
    TRY(memory_alloc(1, sizeof *store, &store));
    store->backend = backend;
    store->network = network;
    store->version = 1;
    stepping_init(&store->stepping);
    TRY(memory_alloc(network->param_count, sizeof *store->params, &store->params));
    for (size_t i = 0; i < network->param_count; i++) {
        store->params[i].count = network->params[i].count;
        if (param_is_weight(network->params[i].kind))
            TRY(dense_layout_open(&network->params[i], &store->params[i].layout));
    }
    params_place(store);
    TRY(arrays_open(store));
    *ret_store = MOVE(store);
    return OK;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    for (size_t i = 0; store->params && i < store->network->param_count; i++)
        layout_close(store->params[i].layout);
    memory_free(store->params);
    arrays_close(store);
    stepping_done(&store->stepping);
    memory_free(store);
}

uint64_t store_bytes(const struct store *store)
{
    return (store->total_count + 2 * store->trained_count) * sizeof(float);
}

static struct status reorder(struct backend *backend, const struct layout *from, void *source,
                             const struct layout *to, void *target)
{
    CLEANUP(operation_close) struct operation *operation = NULL;
    CLEANUP(memory_free) void *scratch = NULL;
    backend_enter(backend);
    TRY(operation_open_reorder(backend->onednn, from, to, &operation));
    TRY(memory_alloc_tensor(operation_scratch_bytes(operation), &scratch));
    const struct operation_tensors tensors = {.input = source,
                                              .output = target,
                                              .scratch = scratch};
    return operation_run(operation, &tensors);
}

/* Copies one parameter from the arrays of `from` to those of `to`, which has the same parameters.
 */
static struct status param_move(const struct store *from, const struct store *to, size_t i)
{
    const struct store_param *old = &from->params[i], *new = &to->params[i];
    float *const sources[] = {from->values, from->gradients, from->momenta};
    float *const targets[] = {to->values, to->gradients, to->momenta};
    unsigned roles = param_is_trained(&from->network->params[i]) ? 3 : 1;
    for (unsigned role = 0; role < roles; role++) {
        float *source = sources[role] + old->offset, *target = targets[role] + new->offset;
        if (old->layout)
            TRY(reorder(from->backend, old->layout, source, new->layout, target));
        else
            memcpy(target, source, old->count * sizeof *target);
    }
    return OK;
}

struct status store_adopt_layouts(struct store *store, const struct layout *const *wanted)
{
    if (store->adopted)
        return OK;
    CLEANUP(store_close) struct store *moved = NULL;
    TRY(store_open(store->backend, store->network, &moved));
    arrays_close(moved);
    for (size_t i = 0; i < store->network->param_count; i++)
        if (wanted[i])
            TRY(param_set_layout(&moved->params[i], wanted[i]));
    params_place(moved);
    TRY(arrays_open(moved));
    for (size_t i = 0; i < store->network->param_count; i++)
        TRY(param_move(store, moved, i));
    moved->adopted = true;
    moved->version = store->version + 1;
    struct store old = *store;
    *store = *moved;
    store->stepping = old.stepping;
    *moved = old; /* its arrays are freed with it */
    stepping_init(&moved->stepping);
    return OK;
}

static struct status param_array(const struct store *store, enum param_role role, size_t param,
                                 float **ret_array)
{
    const struct param *described = &store->network->params[param];
    if (described->kind == PARAM_COUNTER || (role != ROLE_VALUE && !param_is_trained(described)))
        FAIL(STATUS_USAGE, "the backend keeps no such tensor of '%s'", described->name);
    float *const arrays[] = {
        [ROLE_VALUE] = store->values,
        [ROLE_GRADIENT] = store->gradients,
        [ROLE_MOMENTUM] = store->momenta,
    };
    *ret_array = arrays[role] + store->params[param].offset;
    return OK;
}

struct status store_write(struct store *store, enum param_role role, size_t param,
                          const double *values)
{
    const struct param *described = &store->network->params[param];
    CLEANUP(memory_free) float *dense = NULL;
    float *array = NULL;
    TRY(param_array(store, role, param, &array));
    TRY(memory_alloc(described->count, sizeof *dense, &dense));
    for (uint64_t i = 0; i < described->count; i++)
        dense[i] = (float)values[i];
    store->version += role == ROLE_VALUE;
    if (!param_is_weight(described->kind)) {
        memcpy(array, dense, described->count * sizeof *dense);
        return OK;
    }
    CLEANUP(layout_close) struct layout *layout = NULL;
    TRY(dense_layout_open(described, &layout));
    return reorder(store->backend, layout, dense, store->params[param].layout, array);
}

static struct status array_read_dense(const struct store *store, size_t param, float *array,
                                      float *ret_values)
{
    const struct param *described = &store->network->params[param];
    if (!param_is_weight(described->kind)) {
        memcpy(ret_values, array, described->count * sizeof *ret_values);
        return OK;
    }
    CLEANUP(layout_close) struct layout *layout = NULL;
    TRY(dense_layout_open(described, &layout));
    return reorder(store->backend, store->params[param].layout, array, layout, ret_values);
}

struct status store_read_dense(const struct store *store, size_t param, float *ret_values)
{
    return array_read_dense(store, param, store_value(store, param), ret_values);
}

struct status store_read(struct store *store, enum param_role role, size_t param,
                         double *ret_values)
{
    uint64_t count = store->network->params[param].count;
    CLEANUP(memory_free) float *dense = NULL;
    float *array = NULL;
    TRY(param_array(store, role, param, &array));
    TRY(memory_alloc(count, sizeof *dense, &dense));
    TRY(array_read_dense(store, param, array, dense));
    for (uint64_t i = 0; i < count; i++)
        ret_values[i] = dense[i];
    return OK;
}

struct status store_need_earlier(struct store *store)
{
    return store->earlier
               ? OK
               : array_open(store, MEMORY_GRADIENTS, store->trained_count, &store->earlier);
}

struct status store_keep_gradients(struct store *store)
{
    TRY(store_need_earlier(store));
    float *made = store->gradients;
    store->gradients = store->earlier;
    store->earlier = made;
    return OK;
}

void store_add_gradients(struct store *store)
{
    const struct backend *backend = store->backend;
    FOR_PARTS(part, backend->threads)
    {
        struct span span = span_part(store->trained_count, KERNEL_LANES, part, backend->threads);
        backend->kernels->add(span.begin, span.end, store->gradients, store->earlier);
    }
}

struct status store_share(struct store *store)
{
    const struct backend *backend = store->backend;
    if (!backend->comm)
        return OK;
    TRY(comm_sum_f32(backend->comm, store->gradients, store->trained_count));
    if (backend->sync_bn)
        return OK;
    /* Each process's moved from the same values, so that the mean is what the batches' mean
     * statistics would have made of them. */
    float *running = store->values + store->trained_count;
    const size_t count = store->total_count - store->trained_count;
    TRY(comm_sum_f32(backend->comm, running, count));
    for (size_t i = 0; i < count; i++)
        running[i] /= (float)comm_size(backend->comm);
    return OK;
}

struct status store_begin(struct store *store, const struct update_rule *rule)
{
    return stepping_begin(&store->stepping, rule);
}

static bool gradients_are_finite(const struct store *store)
{
    const struct backend *backend = store->backend;
    unsigned broken = 0; /* parts */
    PRAGMA(omp parallel for schedule(static) num_threads(backend->threads) reduction(+ : broken))
    for (unsigned part = 0; part < backend->threads; part++) {
        struct span span = span_part(store->trained_count, KERNEL_LANES, part, backend->threads);
        broken += !backend->kernels->are_finite(span.begin, span.end, store->gradients);
    }
    return broken == 0;
}

static struct sgd_step kernel_step(const struct tensor_step *step)
{
    return (struct sgd_step){
        .learning_rate = (float)step->rate,
        .momentum = (float)step->momentum,
        .weight_decay = (float)step->decay,
        .gradient_factor = (float)step->gradient_factor,
        .nesterov = step->nesterov,
    };
}

static void section_update(struct store *store, size_t begin, size_t end, enum param_kind kind)
{
    const struct backend *backend = store->backend;
    const struct tensor_step tensor_step = stepping_tensor(&store->stepping, kind, 0, 0);
    const struct sgd_step step = kernel_step(&tensor_step);
    FOR_PARTS(part, backend->threads)
    {
        struct span span = span_part(end - begin, KERNEL_LANES, part, backend->threads);
        backend->kernels->sgd(begin + span.begin, begin + span.end, store->values, store->momenta,
                              store->gradients, &step);
    }
}

/* Euclidean, in an order of its own, whatever the number of threads: all processes come to the same
 * number. The lanes let a compiler add several numbers at once. */
static double norm(size_t count, const float *values)
{
    double lanes[KERNEL_LANES] = {0}, sum = 0;
    for (size_t i = 0; i < count; i += KERNEL_LANES)
        for (unsigned lane = 0; lane < KERNEL_LANES; lane++)
            lanes[lane] += (double)values[i + lane] * (double)values[i + lane];
    for (unsigned lane = 0; lane < KERNEL_LANES; lane++)
        sum += lanes[lane];
    return sqrt(sum);
}

/* A weight whose rate depends on its norms. Padding is 0 in all arrays. */
static void weight_update(struct store *store, size_t param)
{
    const size_t begin = store->params[param].offset;
    const size_t count = store->params[param].count + KERNEL_LANES - 1;
    const size_t padded = count - count % KERNEL_LANES;
    const struct tensor_step tensor_step =
        stepping_tensor(&store->stepping, store->network->params[param].kind,
                        norm(padded, store->values + begin),
                        norm(padded, store->gradients + begin));
    const struct sgd_step step = kernel_step(&tensor_step);
    store->backend->kernels->sgd(begin, begin + padded, store->values, store->momenta,
                                 store->gradients, &step);
}

static void values_update(struct store *store)
{
    if (stepping_needs_norms(&store->stepping, PARAM_CONV_WEIGHT)) {
        PRAGMA(omp parallel for schedule(dynamic) num_threads(store->backend->threads))
        for (size_t i = 0; i < store->network->param_count; i++)
            if (param_is_weight(store->network->params[i].kind))
                weight_update(store, i);
    } else {
        section_update(store, 0, store->weight_count, PARAM_CONV_WEIGHT);
    }
    section_update(store, store->weight_count, store->trained_count, PARAM_BN_WEIGHT);
    store->version++;
}

struct status store_update(struct store *store)
{
    backend_enter(store->backend);
    bool finite = gradients_are_finite(store);
    if (finite)
        values_update(store);
    stepping_advance(&store->stepping, finite);
    return OK;
}

struct status store_progress(struct store *store, uint64_t *ret_applied,
                             struct loss_scale *ret_scale)
{
    *ret_applied = store->stepping.applied;
    *ret_scale = store->stepping.scale;
    return OK;
}
