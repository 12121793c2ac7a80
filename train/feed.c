#include "train/feed.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

enum { SYNTHETIC_BATCHES = 2 };

struct feed {
    uint64_t images, steps;

    /* From an index */
    struct loader *loader;
    bool skips; /* what is damaged */
    struct batch **held;
    size_t held_count, held_capacity;

    /* Synthetic */
    struct synthetic_options synthetic;
    uint32_t slice;   /* images of a batch that are this rank's */
    uint8_t *pixels;  /* (SYNTHETIC_BATCHES, slice, …) in the format */
    int32_t *labels;  /* (SYNTHETIC_BATCHES, slice) */
    int32_t *partial; /* (slice): labels of an incomplete last batch */
    size_t batch_bytes;
    uint64_t epoch, next_step;
};

struct status feed_open_index(struct index *index, const struct loader_options *options,
                              struct feed **ret_feed)
{
    CLEANUP(feed_close) struct feed *feed = NULL;
    TRY(memory_alloc(1, sizeof *feed, &feed));
    TRY(loader_open(index, options, &feed->loader));
    feed->images = index_count(index);
    feed->skips = options->on_error == LOADER_SKIP;
    feed->steps = loader_steps(feed->loader);
    *ret_feed = MOVE(feed);
    return OK;
}

/* One image of noise, in the format. */
static void noise_draw(struct picture *picture, const struct tensor_format *format, uint64_t seed,
                       uint64_t image, void *out)
{
    struct random_stream stream = random_stream_make(seed, RANDOM_SYNTHETIC, 0, image);
    for (uint32_t y = 0; y < picture->height; y++) {
        uint8_t *row = picture->pixels + y * picture->stride_bytes;
        for (uint32_t i = 0; i < picture->width * 3; i += 4) {
            uint32_t word = random_u32(&stream);
            memcpy(row + i, &word, sizeof word); /* rows are padded */
        }
    }
    tensor_write(format, picture, false, out);
}

struct status feed_synthetic_bytes(const struct synthetic_options *options, uint64_t *ret_bytes)
{
    const uint64_t slice = options->batch / options->world_size;
    if (!size_multiply(SYNTHETIC_BATCHES * slice,
                       tensor_image_bytes(&options->format, options->size, options->size),
                       ret_bytes))
        FAIL(STATUS_NO_MEMORY, "a batch of %u images of %u pixels is too large", (unsigned)slice,
             options->size);
    return OK;
}

/* Draws this rank's slice of each batch; labels are drawn for all ranks, so that each image has its
 * own whatever their number. */
static struct status synthetic_draw(struct feed *feed)
{
    const struct synthetic_options *options = &feed->synthetic;
    size_t image_bytes = tensor_image_bytes(&options->format, options->size, options->size);
    uint64_t count = (uint64_t)SYNTHETIC_BATCHES * feed->slice, bytes;
    TRY(feed_synthetic_bytes(options, &bytes));
    TRY(memory_alloc_tensor(bytes, &feed->pixels));
    TRY(memory_alloc(count, sizeof *feed->labels, &feed->labels));
    TRY(memory_alloc(feed->slice, sizeof *feed->partial, &feed->partial));
    feed->batch_bytes = image_bytes * feed->slice;
    CLEANUP(picture_done) struct picture picture = {0};
    TRY(picture_resize(&picture, options->size, options->size));
    struct random_stream stream = random_stream_make(options->seed, RANDOM_SYNTHETIC, 1, 0);
    uint64_t drawn = 0;
    for (uint64_t i = 0; i < (uint64_t)SYNTHETIC_BATCHES * options->batch; i++) {
        uint64_t label = random_below(&stream, options->classes);
        if (i % options->batch / feed->slice != options->rank)
            continue;
        noise_draw(&picture, &options->format, options->seed, i,
                   feed->pixels + drawn * image_bytes);
        feed->labels[drawn++] = (int32_t)label;
    }
    return OK;
}

struct status feed_open_synthetic(const struct synthetic_options *options, struct feed **ret_feed)
{
    CLEANUP(feed_close) struct feed *feed = NULL;
    TRY(memory_alloc(1, sizeof *feed, &feed));
    feed->synthetic = *options;
    feed->slice = options->batch / options->world_size;
    feed->images = options->images;
    uint64_t rest = options->drop_last ? 0 : options->batch - 1;
    feed->steps = (options->images + rest) / options->batch;
    TRY(synthetic_draw(feed));
    *ret_feed = MOVE(feed);
    return OK;
}

static void held_release(struct feed *feed)
{
    while (feed->held_count > 0)
        batch_release(feed->held[--feed->held_count]);
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    held_release(feed);
    loader_close(feed->loader);
    memory_free(feed->held);
    memory_free(feed->pixels);
    memory_free(feed->labels);
    memory_free(feed->partial);
    memory_free(feed);
}

uint64_t feed_steps(const struct feed *feed)
{
    return feed->steps;
}

uint64_t feed_images(const struct feed *feed)
{
    return feed->images;
}

struct loader_statistics feed_statistics(const struct feed *feed)
{
    struct loader_statistics statistics = {0};
    if (feed->loader)
        loader_statistics(feed->loader, &statistics);
    return statistics;
}

struct status feed_start(struct feed *feed, uint64_t epoch, uint64_t first_step)
{
    held_release(feed);
    feed->epoch = epoch;
    feed->next_step = first_step;
    return feed->loader ? loader_start(feed->loader, epoch, first_step) : OK;
}

/* The labels of the last batch with those past the last image set to -1. */
static const int32_t *labels_cut(struct feed *feed, const int32_t *labels, uint32_t valid)
{
    for (uint32_t i = 0; i < feed->slice; i++)
        feed->partial[i] = i < valid ? labels[i] : -1;
    return feed->partial;
}

/* How many images of this rank's slice are among the first `left` of the batch. */
static uint32_t slice_valid(const struct feed *feed, uint64_t left)
{
    uint64_t before = (uint64_t)feed->synthetic.rank * feed->slice;
    uint64_t valid = left < before ? 0 : left - before;
    return valid < feed->slice ? (uint32_t)valid : feed->slice;
}

static void synthetic_next(struct feed *feed, struct step_input *ret_input)
{
    uint64_t step = feed->next_step++;
    uint64_t which = (feed->epoch * feed->steps + step) % SYNTHETIC_BATCHES;
    const int32_t *labels = feed->labels + which * feed->slice;
    uint32_t valid = feed->slice;
    if (feed->synthetic.last_partial)
        valid = slice_valid(feed, feed->images - step * feed->synthetic.batch);
    *ret_input = (struct step_input){
        .images = feed->pixels + which * feed->batch_bytes,
        .labels = valid < feed->slice ? labels_cut(feed, labels, valid) : labels,
        .valid = valid,
    };
}

/* Takes the loader's next batch and holds it. */
static struct status loaded_next(struct feed *feed, struct step_input *ret_input, bool *ret_done)
{
    struct batch *batch;
    TRY(memory_grow(feed->held_count + 1, sizeof *feed->held, &feed->held, &feed->held_capacity));
    struct status status = loader_next(feed->loader, &batch);
    if (status.code == STATUS_CORRUPT && !feed->skips)
        return status_advise(status, "--on-error skip goes on without such images");
    TRY(status);
    *ret_done = !batch;
    if (!batch)
        return OK;
    feed->held[feed->held_count++] = batch;
    *ret_input = (struct step_input){
        .images = batch->images,
        .labels = batch->labels,
        .valid = batch->valid,
    };
    return OK;
}

struct status feed_next_several(struct feed *feed, uint32_t count, struct step_input *ret_inputs,
                                uint32_t *ret_count)
{
    held_release(feed);
    for (*ret_count = 0; *ret_count < count; (*ret_count)++) {
        bool done = !feed->loader && feed->next_step >= feed->steps;
        if (feed->loader)
            TRY(loaded_next(feed, &ret_inputs[*ret_count], &done));
        else if (!done)
            synthetic_next(feed, &ret_inputs[*ret_count]);
        if (done)
            break;
    }
    return OK;
}

struct status feed_next(struct feed *feed, struct step_input *ret_input, bool *ret_done)
{
    uint32_t count;
    TRY(feed_next_several(feed, 1, ret_input, &count));
    *ret_done = count == 0;
    return OK;
}
