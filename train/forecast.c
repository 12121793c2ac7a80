#include "train/forecast.h"

#include <inttypes.h>

#include "base/memory.h"
#include "train/comm.h"
#include "train/dataset.h"
#include "train/mirrored.h"
#include "train/module.h"

/* One question: what would the plans of a batch take? */
struct question {
    struct train_options options; /* with --synthetic where no data was named */
    struct train_options asked;   /* without */
    const struct backend_module *module;
    const struct dataset *data;
    const struct network *network;
    struct comm *comm;
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
    const struct train_options *options = &question->options;
    struct backend_config config = train_options_backend(options, question->comm);
    config.forecast = true;
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
    const struct train_options *options = &question->options;
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

static struct plan_config eval_config(const struct question *question,
                                      const struct division *division)
{
    return (struct plan_config){
        .mode = PLAN_EVAL,
        .batch =
            dataset_val_batch(question->data, &question->options, division) / division->processes,
        .height = question->val_crop,
        .width = question->val_crop,
    };
}

static struct status plans_start(const struct question *question, const struct division *division,
                                 struct answering *answering, struct memory_use *ret_uses)
{
    const struct train_options *options = &question->options;
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
    const struct plan_config eval = eval_config(question, division);
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
        TRY(division_make((uint32_t)question->options.batch_size, division));
    TRY(answering->ops->store_open(answering->backend, question->network, &answering->store));
    TRY(updates_start(question, answering));
    return plans_start(question, division, answering, ret_uses);
}

static uint64_t average_bytes(const struct question *question)
{
    uint64_t bytes = 0;
    if (question->options.ema == 0 || question->module->ops->store_average)
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
    const struct plan_config eval = eval_config(question, division);
    answering->ops->input_format(answering->backend, &format);
    *ret_memory = (struct forecast_memory){
        .pinned_bytes = all->pinned_bytes * division->replicas,
        .average_bytes = average_bytes(question),
        .reserved_bytes = all->reserved_bytes,
    };
    if (answering->eval && question->options.val_flip)
        ret_memory->mirrored_bytes = mirrored_bytes(&eval, &format, question->network->classes);
    TRY(dataset_bytes(question->data, &question->asked, division, &format, question->image_size,
                      answering->eval != NULL, &ret_memory->loader_bytes));
    for (int part = 0; part < FORECAST_PART_COUNT; part++)
        for (int kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
            uint64_t before = part ? uses[part - 1].bytes[kind] : 0;
            ret_memory->bytes[part][kind] = uses[part].bytes[kind] - before;
            ret_memory->device_bytes += uses[part].bytes[kind] - before;
        }
    if (all->on_host)
        ret_memory->device_bytes +=
            ret_memory->loader_bytes + ret_memory->average_bytes + ret_memory->mirrored_bytes;
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

static const char *slow_reason(const struct answering *answering)
{
    return backend_slow_reason(answering->ops, answering->train);
}

/* The forecast of the batch that was asked for. */
static struct status forecast_asked(const struct question *question, struct forecast *forecast)
{
    CLEANUP(answering_done) struct answering answering = {0};
    struct memory_use uses[FORECAST_PART_COUNT];
    TRY(answering_start(question, &forecast->division, &answering, uses));
    TRY(memory_sum(question, &forecast->division, &answering, uses, &forecast->memory));
    TRY(device_note(&answering, forecast));
    if (slow_reason(&answering))
        TRY(string_copy(slow_reason(&answering), &forecast->slow_reason));
    TRY(answering.ops->plan_choices(answering.train, choice_add, &forecast->training));
    return answering.eval
               ? answering.ops->plan_choices(answering.eval, choice_add, &forecast->evaluation)
               : OK;
}

/* What a batch would take. */
struct measured {
    uint64_t bytes;    /* of a device */
    char *refusal;     /* why it cannot be planned; NULL: it can */
    char *slow_reason; /* as in struct forecast */
};
static void measured_done(struct measured *measured)
{
    memory_free(measured->refusal);
    memory_free(measured->slow_reason);
}
CLEANUP_VALUE(measured_done, struct measured)

static struct status size_measure(struct question *question, const struct division *asked,
                                  uint32_t device_batch, struct measured *ret_measured)
{
    CLEANUP(answering_done) struct answering answering = {0};
    struct memory_use uses[FORECAST_PART_COUNT];
    struct division division = *asked;
    struct forecast_memory memory;
    division.device_batch = device_batch;
    question->options.batch_size = (int64_t)division_micro_batch(&division) * division.accumulate;
    question->asked.batch_size = question->options.batch_size;
    struct status started = answering_start(question, &division, &answering, uses);
    if (started.code == STATUS_UNSUPPORTED) {
        struct status copied = string_copy(status_message(&started), &ret_measured->refusal);
        status_ignore(started);
        return copied;
    }
    TRY(started);
    TRY(memory_sum(question, &division, &answering, uses, &memory));
    ret_measured->bytes = memory.device_bytes;
    return slow_reason(&answering)
               ? string_copy(slow_reason(&answering), &ret_measured->slow_reason)
               : OK;
}

/* The search for the largest number of images that is good: planned, it fits, and where `fast` is
 * asked for no slower operations are planned. Numbers are of steps; each end is what was planned
 * for the largest good one and the smallest other one that are known, 0 where none is. */
struct search {
    struct question *question;
    const struct forecast *forecast;
    uint32_t step; /* images */
    bool fast;
    uint32_t good, bad;
    struct measured good_end, bad_end;
};
static void search_done(struct search *search)
{
    measured_done(&search->good_end);
    measured_done(&search->bad_end);
}
CLEANUP_VALUE(search_done, struct search)

static struct status search_try(struct search *search, uint32_t steps)
{
    CLEANUP(measured_done) struct measured measured = {0};
    TRY(size_measure(search->question, &search->forecast->division, steps * search->step,
                     &measured));
    const bool good = !measured.refusal &&
                      measured.bytes <= search->forecast->memory.capacity_bytes &&
                      !(search->fast && measured.slow_reason);
    struct measured *end = good ? &search->good_end : &search->bad_end;
    measured_done(end);
    *end = measured;
    measured = (struct measured){0};
    *(good ? &search->good : &search->bad) = steps;
    return OK;
}

/* From `first` upwards until one is bad or `ceiling` is good. */
static struct status search_grow(struct search *search, uint32_t first, uint32_t ceiling)
{
    const double capacity = (double)search->forecast->memory.capacity_bytes;
    TRY(search_try(search, first < ceiling ? first : ceiling));
    while (!search->bad && search->good < ceiling) {
        const double growth = capacity / (double)search->good_end.bytes;
        const double next = search->good * (growth < 2 ? growth * 1.02 : growth * 1.1) + 1;
        TRY(search_try(search, next < ceiling ? (uint32_t)next : ceiling));
    }
    return OK;
}

/* Where a straight line between the memory of both ends meets the capacity. */
static uint32_t line_guess(const struct search *search)
{
    const uint32_t good = search->good, bad = search->bad;
    const uint64_t good_bytes = search->good_end.bytes;
    const double share = (double)(search->forecast->memory.capacity_bytes - good_bytes) /
                         ((double)search->bad_end.bytes - (double)good_bytes);
    const uint32_t guess = good + (uint32_t)(share * (bad - good));
    return guess <= good ? good + 1 : guess >= bad ? bad - 1 : guess;
}

/* Until the ends are neighbours. Halves the way where memory is not what is in it, and now and then
 * where workspaces come and go with the size so that no straight line leads on. */
static struct status search_narrow(struct search *search)
{
    for (unsigned tries = 1; search->bad > search->good + 1; tries++) {
        const bool line = !search->fast && !search->bad_end.refusal && tries % 3 != 0;
        TRY(search_try(search, line ? line_guess(search)
                                    : search->good + (search->bad - search->good) / 2));
    }
    return OK;
}

/* The largest batch of this division that a device takes at a time, up to what --batch-size takes,
 * and the largest without slower operations. */
static struct status largest_find(struct question *question, struct forecast *forecast)
{
    const struct division *division = &forecast->division;
    const uint32_t parts = division->processes * division->replicas * division->accumulate;
    const uint32_t step = question->options.mixup > 0 ? 2 : 1;
    const uint32_t first = division->device_batch / step, ceiling = TRAIN_BATCH_MAX / parts / step;
    CLEANUP(search_done)
    struct search fits = {.question = question, .forecast = forecast, .step = step};
    CLEANUP(search_done)
    struct search fast = {.question = question, .forecast = forecast, .step = step, .fast = true};
    TRY(search_grow(&fits, first ? first : 1, ceiling));
    TRY(search_narrow(&fits));
    forecast->largest_device_batch = forecast->fast_device_batch = fits.good * step;
    forecast->next_bytes = fits.bad_end.bytes;
    forecast->next_refusal = MOVE(fits.bad_end.refusal);
    if (fits.good_end.slow_reason) {
        fast.good = forecast->slow_reason || first > fits.good ? 0 : first;
        fast.bad = fits.good;
        TRY(search_narrow(&fast));
        forecast->fast_device_batch = fast.good * step;
        struct measured *slow = fast.bad_end.slow_reason ? &fast.bad_end : &fits.good_end;
        forecast->fast_end_reason = MOVE(slow->slow_reason);
    }
    forecast->largest_batch = (uint64_t)forecast->largest_device_batch * parts;
    forecast->fast_batch = (uint64_t)forecast->fast_device_batch * parts;
    return OK;
}

static struct status network_open_for(const struct train_options *options,
                                      const struct dataset *data, struct forecast *forecast)
{
    forecast->image_size = (uint32_t)options->image_size;
    forecast->image_size_start = train_options_ramp(options).first_size;
    TRY(network_open(train_options_arch(options), (uint32_t)class_table_count(data->classes),
                     &forecast->network));
    TRY(memory_alloc(forecast->network->node_count, sizeof *forecast->sizes, &forecast->sizes));
    return network_sizes(forecast->network, forecast->image_size, forecast->image_size,
                         forecast->sizes);
}

/* The question of a run with these sets and this network, which are borrowed. */
static struct status question_make(const struct train_options *options, struct comm *comm,
                                   const struct dataset *data, const struct network *network,
                                   struct question *ret_question)
{
    const char *device = device_names[options->plan_device ? DEVICE_CUDA : options->device];
    uint32_t resize, val_crop;
    train_options_geometry(options, &resize, &val_crop);
    *ret_question = (struct question){
        .options = *options,
        .asked = *options,
        .data = data,
        .network = network,
        .comm = comm,
        .image_size = (uint32_t)options->image_size,
        .val_crop = val_crop,
    };
    return module_find(device, &ret_question->module);
}

static struct division division_asked(const struct train_options *options, const struct comm *comm)
{
    return (struct division){
        .processes = comm_size(comm),
        .rank = comm_rank(comm),
        .accumulate = (uint32_t)options->accumulate,
    };
}

struct status forecast_make(const struct train_options *options, struct comm *comm,
                            const struct checkpoint *checkpoint, struct forecast **ret_forecast)
{
    CLEANUP(forecast_free) struct forecast *forecast = NULL;
    CLEANUP(dataset_close) struct dataset *data = NULL;
    struct question question;
    struct train_options assumed = *options;
    TRY(memory_alloc(1, sizeof *forecast, &forecast));
    forecast->has_data = options->data || options->train;
    assumed.synthetic = !forecast->has_data;
    TRY(dataset_open(&assumed, checkpoint ? checkpoint->classes : NULL, true, &data));
    TRY(network_open_for(&assumed, data, forecast));
    TRY(question_make(&assumed, comm, data, forecast->network, &question));
    question.asked = *options;
    forecast->val_crop = question.val_crop;
    forecast->division = division_asked(options, comm);
    TRY(forecast_asked(&question, forecast));
    forecast->val_batch = dataset_val_batch(data, &assumed, &forecast->division);
    if (forecast->memory.capacity_bytes)
        TRY(largest_find(&question, forecast));
    *ret_forecast = MOVE(forecast);
    return OK;
}

struct status forecast_check_host(const struct train_options *options, struct comm *comm,
                                  const struct dataset *data, const struct network *network)
{
    CLEANUP(forecast_free) struct forecast *forecast = NULL;
    CLEANUP(memory_free) char *advice = NULL;
    struct question question;
    TRY(memory_alloc(1, sizeof *forecast, &forecast));
    TRY(question_make(options, comm, data, network, &question));
    forecast->division = division_asked(options, comm);
    TRY(forecast_asked(&question, forecast));
    const struct forecast_memory *memory = &forecast->memory;
    const uint64_t available = memory_available_bytes();
    const unsigned here = comm_local_size(comm);
    if (!available || memory->device_bytes * here <= available)
        return OK;
    forecast->memory.capacity_bytes = available / here;
    TRY(largest_find(&question, forecast));
    if (forecast->largest_batch)
        TRY(string_format(&advice, "give -b %" PRIu64 " or less, or more of --accumulate",
                          forecast->largest_batch));
    FAIL(STATUS_NO_MEMORY,
         "training in batches of %" PRId64 " takes %.1f GiB of memory%s; %.1f of this machine's "
         "%.1f GiB are free: %s",
         options->batch_size, forecast_gib(memory->device_bytes * here),
         here > 1 ? " for all processes" : "", forecast_gib(available),
         forecast_gib(memory_installed_bytes()),
         advice ? advice : "not even one image at a time fits; take a smaller --image-size");
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
    memory_free(forecast->slow_reason);
    memory_free(forecast->next_refusal);
    memory_free(forecast->fast_end_reason);
    memory_free(forecast);
}
