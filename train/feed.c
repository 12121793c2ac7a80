#include "train/feed.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

enum { SYNTHETIC_BATCHES = 2 };

struct feed {
    uint64_t images, steps;

    /* From an index */
    struct loader *loader;
    struct batch *held;

    /* Synthetic */
    struct synthetic_options synthetic;
    uint8_t *pixels;  /* (SYNTHETIC_BATCHES, batch, …) in the format */
    int32_t *labels;  /* (SYNTHETIC_BATCHES, batch) */
    int32_t *partial; /* (batch): labels of an incomplete last batch */
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

static struct status synthetic_draw(struct feed *feed)
{
    const struct synthetic_options *options = &feed->synthetic;
    size_t image_bytes = tensor_image_bytes(&options->format, options->size, options->size);
    uint64_t count = (uint64_t)SYNTHETIC_BATCHES * options->batch, bytes;
    if (!size_multiply(count, image_bytes, &bytes))
        FAIL(STATUS_NO_MEMORY, "a batch of %u images of %u pixels is too large", options->batch,
             options->size);
    TRY(memory_alloc_tensor(bytes, &feed->pixels));
    TRY(memory_alloc(count, sizeof *feed->labels, &feed->labels));
    TRY(memory_alloc(options->batch, sizeof *feed->partial, &feed->partial));
    feed->batch_bytes = image_bytes * options->batch;
    CLEANUP(picture_done) struct picture picture = {0};
    TRY(picture_resize(&picture, options->size, options->size));
    struct random_stream stream = random_stream_make(options->seed, RANDOM_SYNTHETIC, 1, 0);
    for (uint64_t i = 0; i < count; i++) {
        noise_draw(&picture, &options->format, options->seed, i, feed->pixels + i * image_bytes);
        feed->labels[i] = (int32_t)random_below(&stream, options->classes);
    }
    return OK;
}

struct status feed_open_synthetic(const struct synthetic_options *options, struct feed **ret_feed)
{
    CLEANUP(feed_close) struct feed *feed = NULL;
    TRY(memory_alloc(1, sizeof *feed, &feed));
    feed->synthetic = *options;
    feed->images = options->images;
    uint64_t rest = options->drop_last ? 0 : options->batch - 1;
    feed->steps = (options->images + rest) / options->batch;
    TRY(synthetic_draw(feed));
    *ret_feed = MOVE(feed);
    return OK;
}

static void held_release(struct feed *feed)
{
    if (feed->held)
        batch_release(MOVE(feed->held));
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    held_release(feed);
    loader_close(feed->loader);
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
    for (uint32_t i = 0; i < feed->synthetic.batch; i++)
        feed->partial[i] = i < valid ? labels[i] : -1;
    return feed->partial;
}

static void synthetic_next(struct feed *feed, struct step_input *ret_input)
{
    uint32_t batch = feed->synthetic.batch;
    uint64_t step = feed->next_step++;
    uint64_t which = (feed->epoch * feed->steps + step) % SYNTHETIC_BATCHES;
    uint64_t left = feed->images - step * batch;
    const int32_t *labels = feed->labels + which * batch;
    bool cut = feed->synthetic.last_partial && left < batch;
    *ret_input = (struct step_input){
        .images = feed->pixels + which * feed->batch_bytes,
        .labels = cut ? labels_cut(feed, labels, (uint32_t)left) : labels,
        .valid = cut ? (uint32_t)left : batch,
    };
}

struct status feed_next(struct feed *feed, struct step_input *ret_input, bool *ret_done)
{
    held_release(feed);
    *ret_done = feed->next_step >= feed->steps;
    if (!feed->loader) {
        if (!*ret_done)
            synthetic_next(feed, ret_input);
        return OK;
    }
    TRY(loader_next(feed->loader, &feed->held));
    *ret_done = !feed->held;
    if (feed->held)
        *ret_input = (struct step_input){.images = feed->held->images,
                                         .labels = feed->held->labels,
                                         .valid = feed->held->valid};
    return OK;
}
