/* Times a backend by itself, without loader or log, for scripts/bench_train.sh.
 *
 *     bench_backend DEVICE ARCH DTYPE BATCH train|eval [SIZE [THREADS]]
 *
 * Says one line about the backend when it is ready. Then each line of stdin is a number of steps,
 * which are run; the answer is a line with the seconds they took. So several programs can take
 * turns in one run. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/initialise.h"
#include "train/model.h"

#define BENCH_CLASSES 1000

struct bench {
    struct network *network;
    struct model *model;
    const struct backend_ops *ops; /* the model's */
    struct plan *plan;
    struct plan_config config;
    void *images;
    int32_t *labels;
};

static struct status number_read(const char *text, long *ret_number)
{
    char *end;
    *ret_number = strtol(text, &end, 10);
    if (end == text || (*end && *end != '\n') || *ret_number < 1)
        FAIL(STATUS_USAGE, "'%s' is no positive number", text);
    return OK;
}

/* Noise: normal in f32 and bf16, any byte otherwise. */
static void pixel_make(struct random_stream *stream, enum tensor_type type, void *pixels, size_t i)
{
    if (type == TENSOR_U8) {
        ((uint8_t *)pixels)[i] = (uint8_t)random_below(stream, 256);
        return;
    }
    float value = (float)random_normal(stream);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == TENSOR_F32)
        ((float *)pixels)[i] = value;
    else
        ((uint16_t *)pixels)[i] = (uint16_t)(bits >> 16);
}

static struct status images_make(struct bench *bench)
{
    struct tensor_format format = {0};
    bench->ops->input_format(bench->model->backend, &format);
    size_t count = (size_t)bench->config.batch * bench->config.height * bench->config.width * 3;
    struct random_stream stream = random_stream_make(1, RANDOM_SYNTHETIC, 0, 0);
    TRY(memory_alloc_tensor(count * tensor_type_bytes(format.type), &bench->images));
    for (size_t i = 0; i < count; i++)
        pixel_make(&stream, format.type, bench->images, i);
    TRY(memory_alloc(bench->config.batch, sizeof *bench->labels, &bench->labels));
    for (uint32_t i = 0; i < bench->config.batch; i++)
        bench->labels[i] = (int32_t)random_below(&stream, BENCH_CLASSES);
    return OK;
}

static struct status dtype_read(const char *name, enum train_dtype *ret_dtype)
{
    for (int i = 0; train_dtype_names[i]; i++)
        if (strcmp(train_dtype_names[i], name) == 0) {
            *ret_dtype = (enum train_dtype)i;
            return OK;
        }
    FAIL(STATUS_USAGE, "there is no dtype '%s'", name);
}

static struct status bench_open(struct bench *bench, int argc, char **argv)
{
    long batch, size = 224, threads = 0;
    struct backend_config config = {0};
    const double rate = .01;
    const struct update_rule rule = {
        .momentum = .9,
        .weight_decay = 1e-4,
        .rates = &rate,
        .rate_count = 1,
        .scale.value = 1,
    };
    TRY(number_read(argv[4], &batch));
    if (argc > 6)
        TRY(number_read(argv[6], &size));
    if (argc > 7)
        TRY(number_read(argv[7], &threads));
    TRY(dtype_read(argv[3], &config.dtype));
    config.threads = (unsigned)threads;
    TRY(network_open(argv[2], BENCH_CLASSES, &bench->network));
    TRY(model_open(bench->network, argv[1], &config, &bench->model));
    bench->ops = bench->model->ops;
    bench->config = (struct plan_config){
        .mode = strcmp(argv[5], "train") == 0 ? PLAN_TRAIN : PLAN_EVAL,
        .batch = (uint32_t)batch,
        .height = (uint32_t)size,
        .width = (uint32_t)size,
    };
    TRY(initialise_store(bench->network, bench->ops, bench->model->store, 1, false));
    TRY(bench->ops->store_begin(bench->model->store, &rule));
    TRY(bench->ops->plan_open(bench->model->store, &bench->config, &bench->plan));
    return images_make(bench);
}

static void bench_close(struct bench *bench)
{
    if (bench->plan)
        bench->ops->plan_close(bench->plan);
    model_close(bench->model);
    network_close(bench->network);
    memory_free(bench->images);
    memory_free(bench->labels);
}

static struct status bench_step(const struct bench *bench)
{
    const uint32_t batch = bench->config.batch;
    const struct step_input input = {
        bench->images, bench->labels, batch, .divisor = batch, .completes = true,
    };
    if (bench->config.mode == PLAN_EVAL)
        return bench->ops->plan_forward(bench->plan, &input);
    TRY(bench->ops->plan_forward_backward(bench->plan, &input));
    return bench->ops->store_update(bench->model->store);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct status bench_serve(const struct bench *bench)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *description;
    TRY(bench->ops->describe(bench->model->backend, &text));
    TRY(buffer_text(&text, &description));
    printf("%s, %.2f GB\n", description, (double)bench->ops->plan_bytes(bench->plan) / 1e9);
    fflush(stdout);
    for (char line[32]; fgets(line, sizeof line, stdin);) {
        long steps;
        struct step_metrics metrics = {0};
        size_t count;
        TRY(number_read(line, &steps));
        double start = seconds_now();
        for (long i = 0; i < steps; i++)
            TRY(bench_step(bench));
        TRY(bench->ops->plan_metrics(bench->plan, &metrics, 1, &count));
        printf("%.6f loss %.4f\n", seconds_now() - start, metrics.loss_sum / metrics.count);
        fflush(stdout);
    }
    return OK;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: %s DEVICE ARCH DTYPE BATCH train|eval [SIZE [THREADS]]\n", argv[0]);
        return 2;
    }
    struct bench bench = {0};
    struct status status = bench_open(&bench, argc, argv);
    if (status.code == STATUS_DONE)
        status = bench_serve(&bench);
    bench_close(&bench);
    int exit_code = status_exit_code(status.code);
    if (exit_code)
        fprintf(stderr, "%s: %s\n", argv[0], status_message(&status));
    status_clear(&status);
    return exit_code;
}
