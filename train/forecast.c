#include "train/forecast.h"

#include <inttypes.h>

#include "base/memory.h"
#include "train/comm.h"
#include "train/dataset.h"
#include "train/module.h"

/* One question: what would the plans of a batch take? */
struct question {
    const struct train_options *options;
    const struct backend_module *module;
    const struct dataset *data;
    const struct network *network;
    struct comm *comm;
    const struct train_options *asked; /* without what is assumed where no data was named */
    enum forecast_mode mode;
    uint32_t image_size, val_crop;
};

/* What answers it, while it is open. */
struct answering {
    const struct backend_ops *ops;
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
};

static void answering_done(struct answering *answering)
{
    if (answering->eval)
        answering->ops->plan_close(answering->eval);
    if (answering->train)
        answering->ops->plan_close(answering->train);
    if (answering->store)
        answering->ops->store_close(answering->store);
    if (answering->backend)
        answering->ops->close(answering->backend);
}
CLEANUP_VALUE(answering_done, struct answering)

static struct status backend_start(const struct question *question, struct answering *answering)
{
    const struct train_options *options = question->options;
    struct backend_config config = train_options_backend(options, question->comm);
    config.forecast = question->mode;
    config.forecast_device = options->plan_device;
    answering->ops = question->module->ops;
    if (!answering->ops->memory)
        FAIL(STATUS_UNSUPPORTED,
             "the %s backend plans nothing ahead, so there is nothing to print: use --device cpu "
             "or cuda",
             question->module->name);
    return answering->ops->open(&config, &answering->backend);
}

/* Rates as an epoch has them: they take memory, their values do not matter. */
static struct status updates_start(const struct question *question, struct answering *answering)
{
    const struct train_options *options = question->options;
    CLEANUP(memory_free) double *rates = NULL;
    const uint64_t steps = dataset_train_steps(question->data, options);
    TRY(memory_alloc(steps ? steps : 1, sizeof *rates, &rates));
    struct update_rule rule = train_options_rule(options);
    rule.rates = rates;
    rule.rate_count = steps ? steps : 1;
    rule.scale.value = 1;
    TRY(answering->ops->store_begin(answering->store, &rule));
    if (options->ema > 0 && answering->ops->store_average)
        return answering->ops->store_average(answering->store, 0);
    return OK;
}

static struct status plans_start(const struct question *question, const struct division *division,
                                 struct answering *answering, struct memory_use *ret_uses)
{
    const struct train_options *options = question->options;
    const struct backend_ops *ops = answering->ops;
    const struct plan_config train = {
        .mode = PLAN_TRAIN,
        .batch = division_local_batch(division),
        .height = question->image_size,
        .width = question->image_size,
        .label_smoothing = (float)options->label_smoothing,
        .adds = division->accumulate > 1,
        .mixes = options->mixup > 0,
    };
    const struct plan_config eval = {
        .mode = PLAN_EVAL,
        .batch = dataset_val_batch(question->data, options, division) / division->processes,
        .height = question->val_crop,
        .width = question->val_crop,
    };
    ops->memory(answering->backend, &ret_uses[FORECAST_STORE]);
    TRY(ops->plan_open(answering->store, &train, &answering->train));
    ops->memory(answering->backend, &ret_uses[FORECAST_TRAINING]);
    if (question->data->val_index || options->synthetic)
        TRY(ops->plan_open(answering->store, &eval, &answering->eval));
    ops->memory(answering->backend, &ret_uses[FORECAST_EVALUATION]);
    return OK;
}

/* Opens all that training opens on the device. Sets division->replicas, and where
 * division->device_batch is 0, that from the options. */
static struct status answering_start(const struct question *question, struct division *division,
                                     struct answering *answering, struct memory_use *ret_uses)
{
    TRY(backend_start(question, answering));
    division->replicas = answering->ops->replicas(answering->backend);
    if (!division->device_batch)
        TRY(division_make((uint32_t)question->options->batch_size, division));
    TRY(answering->ops->store_open(answering->backend, question->network, &answering->store));
    TRY(updates_start(question, answering));
    return plans_start(question, division, answering, ret_uses);
}

static uint64_t average_bytes(const struct question *question)
{
    uint64_t bytes = 0;
    if (question->options->ema == 0 || question->module->ops->store_average)
        return 0;
    for (size_t i = 0; i < question->network->param_count; i++)
        if (question->network->params[i].kind != PARAM_COUNTER)
            bytes += question->network->params[i].count * sizeof(float);
    return bytes;
}

static struct status memory_sum(const struct question *question, const struct division *division,
                                const struct answering *answering, const struct memory_use *uses,
                                struct forecast_memory *ret_memory)
{
    const struct memory_use *all = &uses[FORECAST_EVALUATION];
    struct tensor_format format = tensor_format_imagenet;
    answering->ops->input_format(answering->backend, &format);
    *ret_memory = (struct forecast_memory){
        .pinned_bytes = all->pinned_bytes * division->replicas,
        .average_bytes = average_bytes(question),
        .reserved_bytes = all->reserved_bytes,
    };
    TRY(dataset_bytes(question->data, question->asked, division, &format, question->image_size,
                      answering->eval != NULL, &ret_memory->loader_bytes));
    for (int part = 0; part < FORECAST_PART_COUNT; part++)
        for (int kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
            uint64_t before = part ? uses[part - 1].bytes[kind] : 0;
            ret_memory->bytes[part][kind] = uses[part].bytes[kind] - before;
            ret_memory->device_bytes += uses[part].bytes[kind] - before;
        }
    if (all->on_host)
        ret_memory->device_bytes += ret_memory->loader_bytes + ret_memory->average_bytes;
    if (all->capacity_bytes > all->reserved_bytes)
        ret_memory->capacity_bytes = all->capacity_bytes - all->reserved_bytes;
    return OK;
}

static struct status choice_add(const struct plan_choice *choice, void *context)
{
    struct forecast_choices *choices = context;
    TRY(memory_grow(choices->count + 1, sizeof *choices->all, &choices->all, &choices->capacity));
    struct forecast_choice *added = &choices->all[choices->count];
    *added = (struct forecast_choice){NULL, choice->uses, choice->workspace_bytes};
    TRY(string_copy(choice->text, &added->text));
    choices->count++;
    return OK;
}

static struct status device_note(const struct answering *answering, struct forecast *forecast)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const char *text;
    forecast->dtype = answering->ops->dtype(answering->backend);
    TRY(answering->ops->describe(answering->backend, &buffer));
    TRY(buffer_text(&buffer, &text));
    return string_copy(text, &forecast->device);
}

/* The forecast of the batch that was asked for. */
static struct status forecast_asked(const struct question *question, struct forecast *forecast)
{
    CLEANUP(answering_done) struct answering answering = {0};
    struct memory_use uses[FORECAST_PART_COUNT];
    TRY(answering_start(question, &forecast->division, &answering, uses));
    TRY(memory_sum(question, &forecast->division, &answering, uses, &forecast->memory));
    TRY(device_note(&answering, forecast));
    TRY(answering.ops->plan_choices(answering.train, choice_add, &forecast->training));
    return answering.eval
               ? answering.ops->plan_choices(answering.eval, choice_add, &forecast->evaluation)
               : OK;
}

static uint64_t workspace_of(const struct forecast_memory *memory)
{
    uint64_t bytes = 0;
    for (int part = 0; part < FORECAST_PART_COUNT; part++)
        bytes += memory->bytes[part][MEMORY_WORKSPACE];
    return bytes;
}

/* Stands for what a batch takes that cannot be planned. */
static const uint64_t too_much = UINT64_MAX;

/* Bytes that `device_batch` images on each device take, or too_much. Workspaces that take long to
 * find out are taken to be no larger than those of the batch that was asked for. */
static struct status size_measure(const struct question *question, const struct forecast *asked,
                                  uint32_t device_batch, uint64_t *ret_bytes)
{
    CLEANUP(answering_done) struct answering answering = {0};
    struct memory_use uses[FORECAST_PART_COUNT];
    struct division division = asked->division;
    struct forecast_memory memory;
    division.device_batch = device_batch;
    struct status started = answering_start(question, &division, &answering, uses);
    if (started.code == STATUS_UNSUPPORTED) {
        status_ignore(started);
        *ret_bytes = too_much;
        return OK;
    }
    TRY(started);
    TRY(memory_sum(question, &division, &answering, uses, &memory));
    const uint64_t workspace = workspace_of(&memory), known = workspace_of(&asked->memory);
    *ret_bytes = memory.device_bytes + (known > workspace ? known - workspace : 0);
    return OK;
}

/* A size between two that stand for what fits and what does not: where a straight line between
 * their memory meets the capacity; half-way where that is not known. */
static uint32_t size_guess(const struct forecast_memory *memory, uint32_t fits, uint64_t fits_bytes,
                           uint32_t fails, uint64_t fails_bytes)
{
    if (fails_bytes == too_much)
        return fits + (fails - fits) / 2;
    double share =
        (double)(memory->capacity_bytes - fits_bytes) / (double)(fails_bytes - fits_bytes);
    uint32_t guess = fits + (uint32_t)(share * (fails - fits));
    return guess <= fits ? fits + 1 : guess >= fails ? fails - 1 : guess;
}

/* The largest batch that a device takes at a time, up to what --batch-size takes. */
static struct status largest_find(struct question *question, struct forecast *forecast)
{
    const struct forecast_memory *memory = &forecast->memory;
    const struct division *division = &forecast->division;
    const uint32_t parts = division->processes * division->replicas * division->accumulate;
    const uint32_t ceiling = TRAIN_BATCH_MAX / parts, step = question->options->mixup > 0 ? 2 : 1;
    uint32_t fits = 0, fails = division->device_batch / step;
    uint64_t fits_bytes = 0, fails_bytes = memory->device_bytes;
    question->mode = FORECAST_SIZES;
    while (fails_bytes <= memory->capacity_bytes && fails < ceiling / step) {
        fits = fails;
        fits_bytes = fails_bytes;
        double growth = (double)memory->capacity_bytes / (double)fits_bytes;
        double next = fits * (growth < 2 ? growth * 1.02 : growth * 1.1) + 1;
        fails = next < ceiling / step ? (uint32_t)next : ceiling / step;
        TRY(size_measure(question, forecast, fails * step, &fails_bytes));
    }
    if (fails_bytes <= memory->capacity_bytes)
        fits = fails;
    while (fails > fits + 1) {
        uint64_t bytes;
        uint32_t guess = size_guess(memory, fits, fits_bytes, fails, fails_bytes);
        TRY(size_measure(question, forecast, guess * step, &bytes));
        bool good = bytes <= memory->capacity_bytes;
        *(good ? &fits : &fails) = guess;
        *(good ? &fits_bytes : &fails_bytes) = bytes;
    }
    forecast->largest_is_planned = fails_bytes == too_much;
    forecast->largest_device_batch = fits * step;
    forecast->largest_batch = (uint64_t)fits * step * parts;
    return OK;
}

static struct status network_open_for(const struct train_options *options,
                                      const struct dataset *data, struct forecast *forecast)
{
    uint32_t resize;
    forecast->image_size = (uint32_t)options->image_size;
    train_options_geometry(options, &resize, &forecast->val_crop);
    TRY(network_open(train_options_arch(options), (uint32_t)class_table_count(data->classes),
                     &forecast->network));
    TRY(memory_alloc(forecast->network->node_count, sizeof *forecast->sizes, &forecast->sizes));
    return network_sizes(forecast->network, forecast->image_size, forecast->image_size,
                         forecast->sizes);
}

struct status forecast_make(const struct train_options *options, struct comm *comm,
                            const struct checkpoint *checkpoint, struct forecast **ret_forecast)
{
    CLEANUP(forecast_free) struct forecast *forecast = NULL;
    CLEANUP(dataset_close) struct dataset *data = NULL;
    struct train_options assumed = *options;
    struct question question = {.options = &assumed,
                                .asked = options,
                                .comm = comm,
                                .mode = FORECAST_PLANS};
    const char *device = device_names[options->device];
    TRY(memory_alloc(1, sizeof *forecast, &forecast));
    forecast->has_data = options->data || options->train;
    assumed.synthetic = !forecast->has_data;
    TRY(dataset_open(&assumed, checkpoint ? checkpoint->classes : NULL, true, &data));
    TRY(network_open_for(&assumed, data, forecast));
    TRY(module_find(options->plan_device ? device_names[DEVICE_CUDA] : device, &question.module));
    question.data = data;
    question.network = forecast->network;
    question.image_size = forecast->image_size;
    question.val_crop = forecast->val_crop;
    forecast->division = (struct division){
        .processes = comm_size(comm),
        .rank = comm_rank(comm),
        .accumulate = (uint32_t)options->accumulate,
    };
    TRY(forecast_asked(&question, forecast));
    forecast->val_batch = dataset_val_batch(data, &assumed, &forecast->division);
    TRY(largest_find(&question, forecast));
    *ret_forecast = MOVE(forecast);
    return OK;
}

static void choices_done(struct forecast_choices *choices)
{
    for (size_t i = 0; i < choices->count; i++)
        memory_free(choices->all[i].text);
    memory_free(choices->all);
}

void forecast_free(struct forecast *forecast)
{
    if (!forecast)
        return;
    choices_done(&forecast->training);
    choices_done(&forecast->evaluation);
    network_close(forecast->network);
    memory_free(forecast->sizes);
    memory_free(forecast->device);
    memory_free(forecast);
}
