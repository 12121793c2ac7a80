#include "tests/support/parity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "train/initialise.h"

enum { SEED = 1, SAMPLES = 64, GOLDEN_MAX_BYTES = 1 << 20, WORST_NAME_BYTES = 96 };

/* Streams of RANDOM_TEST (b of random_stream_make). */
enum { STREAM_IMAGES = 0, STREAM_POSITIONS = 1, STREAM_SIGNS = 2 };

/* What stands for a tensor in a golden file. */
struct digest {
    double norm, projection;
    double samples[SAMPLES];
    size_t sample_count;
};

struct golden {
    char arch[17];
    uint32_t classes, batch, side, steps;
    double residual_gamma, label_smoothing;
    int32_t labels[16];
    double losses[16];
    double eval_loss;
    double *logits, *eval_logits; /* (batch, classes) */
    struct digest *initial;       /* one a parameter */
    struct digest *after;         /* gradients, or buffers after the first step */
};

/* One run of a backend against a golden file. */
struct session {
    const struct backend_ops *ops;
    const struct parity_bounds *bounds;
    struct golden golden;
    struct network *network;
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
    void *images;
    double *values; /* room for the largest parameter */
    struct step_input input;
    double worst[4]; /* distances, by enum measure */
    char worst_name[4][WORST_NAME_BYTES];
};

enum measure { MEASURE_GRADIENT = 0, MEASURE_RUNNING, MEASURE_LOGITS, MEASURE_LOSS };
static const char *const measure_names[] = {"gradient", "running statistics", "logits", "loss"};

static void session_done(struct session *s)
{
    if (s->backend) {
        s->ops->plan_close(s->train);
        s->ops->plan_close(s->eval);
        s->ops->store_close(s->store);
        s->ops->close(s->backend);
    }
    network_close(s->network);
    memory_free(s->images);
    memory_free(s->values);
    memory_free(s->golden.logits);
    memory_free(s->golden.eval_logits);
    memory_free(s->golden.initial);
    memory_free(s->golden.after);
}
CLEANUP_VALUE(session_done, struct session)

static double bound_of(const struct session *s, enum measure measure)
{
    const double bounds[] = {s->bounds->gradient, s->bounds->running, s->bounds->logits,
                             s->bounds->loss};
    return bounds[measure];
}

/* Remembers a distance; one that is not below its bound is a failure. */
static struct status measure_add(struct session *s, enum measure measure, const char *name,
                                 double distance)
{
    if (!(distance <= bound_of(s, measure)))
        FAIL(STATUS_FOUND, "%s of %s: off by %.3g, at most %.3g was expected",
             measure_names[measure], name, distance, bound_of(s, measure));
    if (distance >= s->worst[measure]) {
        s->worst[measure] = distance;
        snprintf(s->worst_name[measure], WORST_NAME_BYTES, "%s", name);
    }
    return OK;
}

static double reader_f64(struct reader *reader)
{
    uint64_t bits = reader_le64(reader);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static struct status reader_f64_array(struct reader *reader, size_t count, double **ret_values)
{
    TRY(memory_alloc(count, sizeof **ret_values, ret_values));
    for (size_t i = 0; i < count; i++)
        (*ret_values)[i] = reader_f64(reader);
    return OK;
}

static struct digest reader_digest(struct reader *reader, size_t sample_count)
{
    struct digest digest = {.norm = reader_f64(reader), .projection = reader_f64(reader)};
    digest.sample_count = digest.norm > 0 ? sample_count : 0;
    for (size_t i = 0; i < digest.sample_count; i++)
        digest.samples[i] = reader_f64(reader);
    return digest;
}

static struct status golden_read_header(struct reader *reader, const char *name,
                                        struct golden *golden)
{
    const uint8_t *magic = reader_take(reader, 8), *arch = reader_take(reader, 16);
    if (!magic || !arch || memcmp(magic, "HRGOLD01", 8) != 0)
        FAIL(STATUS_CORRUPT, "%s is not a golden file", name);
    memcpy(golden->arch, arch, 16);
    golden->classes = reader_le32(reader);
    golden->batch = reader_le32(reader);
    golden->side = reader_le32(reader);
    golden->steps = reader_le32(reader);
    if (golden->batch > ARRAY_LENGTH(golden->labels) ||
        golden->steps > ARRAY_LENGTH(golden->losses) || golden->classes > 1000)
        FAIL(STATUS_CORRUPT, "%s: batch, steps or classes out of range", name);
    golden->residual_gamma = reader_f64(reader);
    golden->label_smoothing = reader_f64(reader);
    for (uint32_t n = 0; n < golden->batch; n++)
        golden->labels[n] = (int32_t)reader_le32(reader);
    for (uint32_t i = 0; i < golden->steps; i++)
        golden->losses[i] = reader_f64(reader);
    golden->eval_loss = reader_f64(reader);
    size_t logits = (size_t)golden->batch * golden->classes;
    TRY(reader_f64_array(reader, logits, &golden->logits));
    return reader_f64_array(reader, logits, &golden->eval_logits);
}

/* Reads the file and opens the network that it is about. */
static struct status golden_read(struct session *s, const char *name)
{
    struct golden *golden = &s->golden;
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s.bin", name);
    CLEANUP(buffer_done) struct buffer content = {0};
    TRY(file_read_all(path, GOLDEN_MAX_BYTES, &content));
    struct reader reader = reader_make(content.data, content.length);
    TRY(golden_read_header(&reader, name, golden));
    TRY(network_open(golden->arch, golden->classes, &s->network));
    TRY(memory_alloc(s->network->param_count, sizeof *golden->initial, &golden->initial));
    TRY(memory_alloc(s->network->param_count, sizeof *golden->after, &golden->after));
    for (size_t p = 0; p < s->network->param_count; p++) {
        const struct param *param = &s->network->params[p];
        if (param->kind == PARAM_COUNTER)
            continue;
        golden->initial[p] = reader_digest(&reader, 0);
        size_t samples = param->count < SAMPLES ? param->count : SAMPLES;
        golden->after[p] = reader_digest(&reader, param_is_trained(param) ? samples : 0);
    }
    if (reader.overrun || reader_left(&reader) > 0)
        FAIL(STATUS_CORRUPT, "%s does not have the size of a golden file of %s", name,
             golden->arch);
    return OK;
}

static struct digest digest_of(size_t param, size_t count, const double *values)
{
    struct digest digest = {.sample_count = count < SAMPLES ? count : SAMPLES};
    struct random_stream signs = random_stream_make(SEED, RANDOM_TEST, param, STREAM_SIGNS);
    uint32_t word = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % 32 == 0)
            word = random_u32(&signs);
        squares += values[i] * values[i];
        digest.projection += word >> i % 32 & 1 ? values[i] : -values[i];
    }
    digest.norm = sqrt(squares);
    struct random_stream positions = random_stream_make(SEED, RANDOM_TEST, param, STREAM_POSITIONS);
    for (size_t i = 0; i < digest.sample_count; i++)
        digest.samples[i] = values[count > SAMPLES ? random_below(&positions, count) : i];
    return digest;
}

/* How far a digest is from the golden one, relative to the golden norm or largest sample; from 0 it
 * is absolute. */
static double digest_distance(const struct digest *golden, const struct digest *digest)
{
    double norm = golden->norm > 0 ? golden->norm : 1, largest = 0;
    double distance = fmax(fabs(digest->norm - golden->norm) / norm,
                           fabs(digest->projection - golden->projection) / norm);
    for (size_t i = 0; i < golden->sample_count; i++)
        largest = fmax(largest, fabs(golden->samples[i]));
    for (size_t i = 0; i < golden->sample_count; i++) {
        double off = fabs(digest->samples[i] - golden->samples[i]) / largest;
        if (!(off <= distance)) /* a NaN is far away */
            distance = off;
    }
    return isnan(digest->norm) ? digest->norm : distance;
}

static struct status images_make(struct session *s)
{
    const struct golden *golden = &s->golden;
    struct tensor_format format = {0};
    s->ops->input_format(s->backend, &format);
    if (format.layout != TENSOR_NHWC || (format.type != TENSOR_F32 && format.type != TENSOR_BF16))
        FAIL(STATUS_UNSUPPORTED, "parity is checked with NHWC images in f32 or bf16");
    size_t count = (size_t)golden->batch * golden->side * golden->side * 3;
    TRY(memory_alloc(count, sizeof(float), &s->images));
    struct random_stream stream = random_stream_make(SEED, RANDOM_TEST, 0, STREAM_IMAGES);
    for (size_t i = 0; i < count; i++) {
        float pixel = (float)(random_u32(&stream) >> 8) * 0x1p-22f - 2;
        uint32_t bits;
        memcpy(&bits, &pixel, sizeof bits);
        if (format.type == TENSOR_F32)
            memcpy((float *)s->images + i, &pixel, sizeof pixel);
        else /* to nearest even */
            store_le16((uint16_t *)s->images + i,
                       (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
    }
    return OK;
}

/* Draws the initial weights, sets the γ of residual branches, and holds what the store then has
 * against the file. */
static struct status weights_make(struct session *s)
{
    const struct golden *golden = &s->golden;
    uint64_t largest = 0;
    for (size_t p = 0; p < s->network->param_count; p++)
        if (s->network->params[p].count > largest)
            largest = s->network->params[p].count;
    TRY(memory_alloc(largest, sizeof *s->values, &s->values));
    bool zero_init = golden->residual_gamma == 0;
    TRY(initialise_store(s->network, s->ops, s->store, SEED, zero_init));
    for (size_t p = 0; p < s->network->param_count; p++) {
        const struct param *param = &s->network->params[p];
        if (param->kind == PARAM_COUNTER)
            continue;
        for (size_t i = 0; param->zero_init && i < param->count; i++)
            s->values[i] = (float)golden->residual_gamma;
        if (param->zero_init && !zero_init)
            TRY(s->ops->store_write(s->store, ROLE_VALUE, p, s->values));
        TRY(s->ops->store_read(s->store, ROLE_VALUE, p, s->values));
        struct digest digest = digest_of(p, param->count, s->values);
        double distance = digest_distance(&golden->initial[p], &digest);
        if (!(distance < 1e-12))
            FAIL(STATUS_FOUND, "the initial value of %s is off by %.3g", param->name, distance);
    }
    return OK;
}

static struct status session_open(struct session *s, const struct backend_config *config)
{
    const struct golden *golden = &s->golden;
    TRY(s->ops->open(config, &s->backend));
    TRY(s->ops->store_open(s->backend, s->network, &s->store));
    struct plan_config plan = {.mode = PLAN_TRAIN,
                               .batch = golden->batch,
                               .height = golden->side,
                               .width = golden->side,
                               .label_smoothing = (float)golden->label_smoothing};
    TRY(s->ops->plan_open(s->store, &plan, &s->train));
    plan.mode = PLAN_EVAL;
    TRY(s->ops->plan_open(s->store, &plan, &s->eval));
    TRY(images_make(s));
    TRY(weights_make(s));
    s->input = (struct step_input){.images = s->images, .labels = golden->labels};
    for (uint32_t n = 0; n < golden->batch; n++)
        s->input.valid += golden->labels[n] >= 0;
    s->input.divisor = s->input.valid;
    s->input.completes = true;
    return OK;
}

/* How many labels are among the `places` largest logits. */
static uint32_t top_count(const struct golden *golden, const float *logits, uint32_t places)
{
    uint32_t hits = 0;
    for (uint32_t n = 0; n < golden->batch; n++) {
        if (golden->labels[n] < 0)
            continue;
        const float *row = logits + (size_t)n * golden->classes;
        uint32_t rank = 0, label = (uint32_t)golden->labels[n];
        for (uint32_t c = 0; c < golden->classes; c++)
            rank += row[c] > row[label] || (row[c] == row[label] && c < label);
        hits += rank < places;
    }
    return hits;
}

/* The metrics of a plan's last step against its own logits, and those and the loss against the
 * file's. */
static struct status outcome_check(struct session *s, struct plan *plan, const char *name,
                                   double loss_sum, const double *golden_logits)
{
    const struct golden *golden = &s->golden;
    size_t count = (size_t)golden->batch * golden->classes, steps;
    CLEANUP(memory_free) float *logits = NULL;
    struct step_metrics metrics;
    TRY(memory_alloc(count, sizeof *logits, &logits));
    TRY(s->ops->plan_metrics(plan, &metrics, 1, &steps));
    TRY(s->ops->plan_logits(plan, logits));
    if (steps != 1 || metrics.count != s->input.valid ||
        metrics.top1 != top_count(golden, logits, 1) ||
        metrics.top5 != top_count(golden, logits, 5))
        FAIL(STATUS_FOUND, "%s: the metrics do not belong to the logits", name);
    double largest = 0, distance = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(golden_logits[i]));
        double off = fabs(logits[i] - golden_logits[i]);
        if (!(off <= distance))
            distance = off;
    }
    TRY(measure_add(s, MEASURE_LOGITS, name, distance / largest));
    return measure_add(s, MEASURE_LOSS, name, fabs(metrics.loss_sum - loss_sum) / loss_sum);
}

static struct status tensors_check(struct session *s)
{
    for (size_t p = 0; p < s->network->param_count; p++) {
        const struct param *param = &s->network->params[p];
        if (param->kind == PARAM_COUNTER)
            continue;
        bool trained = param_is_trained(param);
        TRY(s->ops->store_read(s->store, trained ? ROLE_GRADIENT : ROLE_VALUE, p, s->values));
        struct digest digest = digest_of(p, param->count, s->values);
        TRY(measure_add(s, trained ? MEASURE_GRADIENT : MEASURE_RUNNING, param->name,
                        digest_distance(&s->golden.after[p], &digest)));
    }
    return OK;
}

static struct status first_step_check(struct session *s)
{
    const struct golden *golden = &s->golden;
    TRY(s->ops->plan_forward_backward(s->train, &s->input));
    TRY(outcome_check(s, s->train, "training", golden->losses[0] * s->input.valid, golden->logits));
    TRY(tensors_check(s));
    TRY(s->ops->plan_forward(s->eval, &s->input));
    return outcome_check(s, s->eval, "evaluation", golden->eval_loss, golden->eval_logits);
}

static struct status further_steps_check(struct session *s)
{
    const double rate = .01;
    const struct update_rule rule = {
        .momentum = .9,
        .weight_decay = 1e-4,
        .decay_norm_and_bias = true,
        .rates = &rate,
        .rate_count = 1,
        .scale.value = 1,
    };
    TRY(s->ops->store_begin(s->store, &rule));
    for (uint32_t step = 1; step < s->golden.steps && step < s->bounds->steps; step++) {
        TRY(s->ops->store_update(s->store));
        TRY(s->ops->plan_forward_backward(s->train, &s->input));
        struct step_metrics metrics;
        size_t count;
        TRY(s->ops->plan_metrics(s->train, &metrics, 1, &count));
        double loss = metrics.loss_sum / metrics.count, expected = s->golden.losses[step];
        char name[32];
        snprintf(name, sizeof name, "step %u", step + 1);
        TRY(measure_add(s, MEASURE_LOSS, name, fabs(loss - expected) / expected));
    }
    return OK;
}

static struct status session_run(struct session *s, const struct backend_config *config,
                                 const char *name)
{
    TRY(golden_read(s, name));
    TRY(session_open(s, config));
    TRY(first_step_check(s));
    return further_steps_check(s);
}

struct status parity_check(const struct backend_module *module, const struct backend_config *config,
                           const char *name, const struct parity_bounds *bounds)
{
    CLEANUP(session_done) struct session session = {.ops = module->ops, .bounds = bounds};
    struct status status = session_run(&session, config, name);
    for (int i = 0; i < 4; i++)
        printf("%s, %s: at most %.2g off (%s)\n", name, measure_names[i], session.worst[i],
               session.worst_name[i]);
    return status_context(status, "%s against %s", module->name, name);
}
