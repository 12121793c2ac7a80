#include <string.h>

#include "base/memory.h"
#include "binding/binding.h"
#include "binding/internal.h"

static const char *const mode_names[] = {"train", "eval", NULL};
static const char *const type_names[] = {"u8", "f32", "bf16", "f16", NULL};
static const char *const layout_names[] = {"nhwc", "nchw", NULL};

/* Refuses what is not a number, too. */
static struct status range_check(const char *option, double value, double least, double most)
{
    if (!(value >= least && value <= most))
        FAIL(STATUS_USAGE, "%s is %.10g, expected %.10g to %.10g", option, value, least, most);
    return OK;
}

static struct status size_check(const struct binding_loader_options *options)
{
    if (options->size_bytes != sizeof *options)
        FAIL(STATUS_USAGE,
             "the loader's options have %llu bytes, expected %zu: the caller was made "
             "for another version of the library",
             (unsigned long long)options->size_bytes, sizeof *options);
    return OK;
}

static struct status options_init(struct binding_loader_options *options)
{
    struct loader_options usual;
    TRY(size_check(options));
    loader_options_init(&usual);
    *options = (struct binding_loader_options){
        .size_bytes = sizeof *options,
        .mode = mode_names[usual.mode],
        .order = order_kind_names[usual.order],
        .pixels = pixels_names[usual.pixels],
        .dtype = type_names[usual.format.type],
        .layout = layout_names[usual.format.layout],
        .on_error = loader_on_error_names[usual.on_error],
        .scale_min = usual.crop.scale_min,
        .scale_max = usual.crop.scale_max,
        .ratio_min = usual.crop.ratio_min,
        .ratio_max = usual.crop.ratio_max,
        .flip_probability = usual.crop.flip_probability,
        .global_batch = usual.global_batch,
        .world_size = usual.world_size,
        .image_size = usual.image_size,
        .val_resize = usual.val_resize,
        .val_crop = usual.val_crop,
    };
    memcpy(options->mean, usual.format.mean, sizeof options->mean);
    memcpy(options->std, usual.format.std, sizeof options->std);
    return OK;
}

int binding_loader_options_init(struct binding_loader_options *options)
{
    return binding_end(options_init(options));
}

static struct status words_read(const struct binding_loader_options *options,
                                struct loader_options *read)
{
    int mode, order, pixels, type, layout, on_error;
    TRY(binding_word_find("mode", mode_names, options->mode, &mode));
    TRY(binding_word_find("order", order_kind_names, options->order, &order));
    TRY(binding_word_find("pixels", pixels_names, options->pixels, &pixels));
    TRY(binding_word_find("dtype", type_names, options->dtype, &type));
    TRY(binding_word_find("layout", layout_names, options->layout, &layout));
    TRY(binding_word_find("on_error", loader_on_error_names, options->on_error, &on_error));
    read->mode = (enum loader_mode)mode;
    read->order = (enum order_kind)order;
    read->pixels = (enum pixels)pixels;
    read->format.type = (enum tensor_type)type;
    read->format.layout = (enum tensor_layout)layout;
    read->on_error = (enum loader_on_error)on_error;
    return OK;
}

static struct status crop_read(const struct binding_loader_options *options,
                               struct crop_options *crop)
{
    const double least_share = 1e-6, most_ratio = 1e3;
    TRY(range_check("the smaller scale", options->scale_min, least_share, 1));
    TRY(range_check("the larger scale", options->scale_max, options->scale_min, 1));
    TRY(range_check("the smaller ratio", options->ratio_min, 1 / most_ratio, most_ratio));
    TRY(range_check("the larger ratio", options->ratio_max, options->ratio_min, most_ratio));
    TRY(range_check("flip", options->flip_probability, 0, 1));
    *crop = (struct crop_options){
        .scale_min = options->scale_min,
        .scale_max = options->scale_max,
        .ratio_min = options->ratio_min,
        .ratio_max = options->ratio_max,
        .flip_probability = options->flip_probability,
    };
    return OK;
}

static struct status format_read(const struct binding_loader_options *options,
                                 struct tensor_format *format)
{
    for (int i = 0; i < 3; i++) {
        TRY(range_check("mean", options->mean[i], -1e6, 1e6));
        TRY(range_check("std", options->std[i], 1e-6, 1e6));
        format->mean[i] = options->mean[i];
        format->std[i] = options->std[i];
    }
    return OK;
}

/* The ranges are the command line's. */
static struct status numbers_read(const struct binding_loader_options *options,
                                  struct loader_options *read)
{
    const uint32_t most_side = 4096, most_batch = 1 << 24, most_threads = 1024;
    TRY(range_check("the global batch", options->global_batch, 1, most_batch));
    TRY(range_check("image_size", options->image_size, 1, most_side));
    TRY(range_check("val_resize", options->val_resize, 1, most_side));
    TRY(range_check("val_crop", options->val_crop, 1, most_side));
    TRY(range_check("threads", options->threads, 0, most_threads));
    TRY(range_check("slots", options->slots, 0, most_threads));
    read->global_batch = options->global_batch;
    read->rank = options->rank;
    read->world_size = options->world_size;
    read->image_size = options->image_size;
    read->val_resize = options->val_resize;
    read->val_crop = options->val_crop;
    read->threads = options->threads;
    read->slots = options->slots;
    read->window = options->window;
    read->seed = options->seed;
    read->memory_bytes = options->memory_bytes;
    read->background = options->background;
    read->drop_last = options->drop_last;
    read->label_map = options->label_map;
    read->cache = options->cache;
    return OK;
}

static struct status open_loader(struct index *index, const struct binding_loader_options *options,
                                 struct loader **ret_loader)
{
    struct loader_options read;
    loader_options_init(&read);
    TRY(size_check(options));
    TRY(words_read(options, &read));
    TRY(crop_read(options, &read.crop));
    TRY(format_read(options, &read.format));
    TRY(numbers_read(options, &read));
    return loader_open(index, &read, ret_loader);
}

int binding_loader_open(struct index *index, const struct binding_loader_options *options,
                        struct loader **ret_loader)
{
    return binding_end(open_loader(index, options, ret_loader));
}

void binding_loader_stop(struct loader *loader)
{
    loader_stop(loader);
}

void binding_loader_close(struct loader *loader)
{
    loader_close(loader);
}

uint64_t binding_loader_steps(const struct loader *loader)
{
    return loader_steps(loader);
}

int binding_loader_start(struct loader *loader, uint64_t epoch, uint64_t first_step)
{
    return binding_end(loader_start(loader, epoch, first_step));
}

static struct status next_take(struct loader *loader, uint32_t wait_ms,
                               struct binding_batch *ret_batch, uint32_t *ret_next)
{
    struct batch *batch;
    bool ready;
    *ret_next = BINDING_WAITING;
    TRY(loader_wait(loader, wait_ms, &ready));
    if (!ready)
        return OK;
    TRY(loader_next(loader, &batch));
    *ret_next = batch ? BINDING_BATCH : BINDING_END;
    if (!batch)
        return OK;
    *ret_batch = (struct binding_batch){
        .batch = batch,
        .epoch = batch->epoch,
        .step = batch->step,
        .images = batch->images,
        .labels = batch->labels,
        .records = &batch->samples->record,
        .record_stride_bytes = sizeof *batch->samples,
        .count = batch->count,
        .valid = batch->valid,
    };
    return OK;
}

int binding_loader_next(struct loader *loader, uint32_t wait_ms, struct binding_batch *ret_batch,
                        uint32_t *ret_next)
{
    return binding_end(next_take(loader, wait_ms, ret_batch, ret_next));
}

void binding_batch_release(struct batch *batch)
{
    batch_release(batch);
}

void binding_loader_statistics(const struct loader *loader,
                               struct binding_statistics *ret_statistics)
{
    struct loader_statistics statistics;
    loader_statistics(loader, &statistics);
    *ret_statistics = (struct binding_statistics){
        .images = statistics.images,
        .bytes = statistics.bytes,
        .bad_records = statistics.bad_records,
        .memory_bytes = statistics.memory_bytes,
        .seconds = statistics.seconds,
        .read_seconds = statistics.read_seconds,
        .decode_seconds = statistics.decode_seconds,
        .wait_seconds = statistics.wait_seconds,
        .threads = statistics.threads,
    };
}
