/* headrace bench: how fast batches come out of an index. */

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "index/loader.h"

enum bench_mode { BENCH_TRAIN = 0, BENCH_EVAL };
static const char *const mode_names[] = {"train", "eval", NULL};
static const char *const type_names[] = {"u8", "f32", "bf16", "fp16", NULL};
static const char *const layout_names[] = {"nhwc", "nchw", NULL};

struct bench_arguments {
    int mode, dtype, layout, pixels, order, on_error;
    int64_t image_size, batch_size, jobs, epochs, window, seed;
    uint64_t memory;
    bool json;
    struct access_options access;
    struct cache_options cache;
};

#define FIELD(name) offsetof(struct bench_arguments, name)
static const struct option bench_options[] = {
    {"image-size", 0, OPT_INT, FIELD(image_size), .min = 1, .max = 4096, .value = "PIXELS",
     .help = "side of the images made (default %d)"},
    {"dtype", 0, OPT_ENUM, FIELD(dtype), .names = type_names,
     .help = "element type; all but u8 are normalised (default %d)"},
    {"layout", 0, OPT_ENUM, FIELD(layout), .names = layout_names,
     .help = "order of the dimensions (default %d)"},
    {"pixels", 0, OPT_ENUM, FIELD(pixels), .names = pixels_names,
     .help = "bit for bit Pillow's up to version 12, those of 13, or close to them and faster "
             "(default %d)"},
    {"mode", 0, OPT_ENUM, FIELD(mode), .names = mode_names,
     .help = "train: random order, random crops and flips; eval: index order, centre crops "
             "(default %d)"},
    {"order", 0, OPT_ENUM, FIELD(order), .names = order_kind_names,
     .help = "of training: all shuffled, shuffled within windows, or as they stand (default %d)"},
    {"window", 0, OPT_INT, FIELD(window), .min = 1, .max = 1e9, .value = "N",
     .help = "images that --order window shuffles at a time (default %d)"},
    {"batch-size", 'b', OPT_INT, FIELD(batch_size), .min = 1, .max = 65536, .value = "N",
     .help = "images a batch (default %d)"},
    {"epochs", 0, OPT_INT, FIELD(epochs), .min = 1, .max = 1000, .value = "N",
     .help = "passes over the index, each in a fresh order (default %d)"},
    COMMAND_JOBS(jobs),
    {"on-error", 0, OPT_ENUM, FIELD(on_error), .names = loader_on_error_names,
     .help = "what an unreadable image does (default %d)"},
    {"memory", 0, OPT_SIZE, FIELD(memory), .value = "BYTES",
     .help = "ceiling of batches and scratch, beyond the page cache; 0: what three batches and the "
             "threads usually need"},
    {"seed", 0, OPT_INT, FIELD(seed), .min = 0, .max = 9007199254740992, .value = "N",
     .help = "seed of order and crops (default %d)"},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "one JSON object a pass"},
    CACHE_OPTIONS(cache),
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage bench_usage = {
    .command = "bench",
    .positionals = "INDEX",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Measures how fast the loader makes batches, checking every record's CRC.",
    .details = "Shares are of the threads' time: \"read\" is reading and CRC, \"decode\" decoding, "
               "cropping, resampling and normalising; what the caller waited for batches is of the "
               "pass's time. JSON has them in seconds, those of threads added up. In "
               "--mode train the last batch is filled up with the first images of the order, as in "
               "training, and they are counted.",
    .example = "headrace bench train.idx --image-size 224 --dtype bf16 -j 4",
};

static struct loader_options loader_options_of(const struct bench_arguments *arguments)
{
    struct loader_options options;
    loader_options_init(&options);
    options.mode = arguments->mode == BENCH_TRAIN ? LOADER_TRAIN : LOADER_EVAL;
    options.pixels = (enum pixels)arguments->pixels;
    options.order = (enum order_kind)arguments->order;
    options.window = (uint64_t)arguments->window;
    options.global_batch = (uint32_t)arguments->batch_size;
    options.image_size = options.val_crop = (uint32_t)arguments->image_size;
    options.val_resize = (uint32_t)(arguments->image_size * 256 / 224);
    options.format.type = (enum tensor_type)arguments->dtype;
    options.format.layout = (enum tensor_layout)arguments->layout;
    options.threads = command_threads(arguments->jobs);
    options.memory_bytes = arguments->memory;
    options.seed = (uint64_t)arguments->seed;
    options.on_error = (enum loader_on_error)arguments->on_error;
    return options;
}

/* One epoch; every batch is taken and given back at once. */
static struct status pass_run(struct loader *loader, uint64_t epoch,
                              struct loader_statistics *ret_statistics)
{
    TRY(loader_start(loader, epoch, 0));
    for (;;) {
        struct batch *batch;
        struct status status = loader_next(loader, &batch);
        if (status.code == STATUS_CORRUPT)
            status = status_advise(status, "--on-error skip goes on without such images");
        TRY(status);
        if (!batch)
            break;
        batch_release(batch);
        TRY(stop_check());
    }
    loader_statistics(loader, ret_statistics);
    return OK;
}

static struct status pass_print(const struct bench_arguments *arguments, int64_t epoch,
                                const struct loader_statistics *statistics)
{
    double rate = (double)statistics->images / statistics->seconds;
    if (!arguments->json) {
        char bytes[16], memory[16], bad[48] = "", shares[LOADER_STATISTICS_TEXT_BYTES];
        if (statistics->bad_records)
            snprintf(bad, sizeof bad, ", %llu of them unreadable",
                     (unsigned long long)statistics->bad_records);
        printf("pass %lld: %llu images%s in %.2f s: %.1f images/s, %s/s read, %s of memory; %s\n",
               (long long)epoch, (unsigned long long)statistics->images, bad, statistics->seconds,
               rate,
               format_bytes((uint64_t)((double)statistics->bytes / statistics->seconds), bytes),
               format_bytes(statistics->memory_bytes, memory),
               loader_statistics_text(statistics, shares));
        return OK;
    }
    CLEANUP(json_free) struct json *object = json_object_new();
    json_set_integer(object, "version", 1);
    json_set_integer(object, "pass", epoch);
    json_set_real(object, "images_per_second", rate);
    loader_statistics_store(statistics, object);
    return command_print_json(object);
}

struct status cmd_bench(int argc, char **argv)
{
    struct bench_arguments arguments = {
        .dtype = TENSOR_F32,
        .image_size = 224,
        .batch_size = 64,
        .epochs = 3,
        .window = ORDER_WINDOW_RECORDS,
    };
    struct option_parse parse;
    access_options_init(&arguments.access);
    TRY(cache_options_init(&arguments.cache));
    TRY(command_parse(&bench_usage, bench_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    if (arguments.mode == BENCH_EVAL && option_given(&parse, bench_options, "order"))
        FAIL(STATUS_USAGE, "--order is of training; --mode eval reads in the index's order");
    if (arguments.order != ORDER_WINDOW && option_given(&parse, bench_options, "window"))
        FAIL(STATUS_USAGE, "--window goes with --order window");
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    TRY(access_open(&arguments.access, &access));
    TRY(command_open_index("bench INDEX", parse.positionals[0], access, &index));
    TRY(cache_open_options(&arguments.cache, &cache));
    struct loader_options options = loader_options_of(&arguments);
    options.cache = cache;
    CLEANUP(loader_close) struct loader *loader = NULL;
    TRY(loader_open(index, &options, &loader));
    for (int64_t epoch = 0; epoch < arguments.epochs; epoch++) {
        struct loader_statistics statistics;
        TRY(pass_run(loader, (uint64_t)epoch, &statistics));
        TRY(pass_print(&arguments, epoch, &statistics));
        fflush(stdout);
    }
    return OK;
}
