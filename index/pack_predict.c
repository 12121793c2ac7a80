#include <string.h>

#include "base/memory.h"
#include "index/pack_image.h"
#include "index/shard_writer.h"
#include "index/writer.h"

/* One in SAMPLE_EVERY images is packed to see what the others will take. */
enum { SAMPLE_EVERY = 32, SAMPLE_LEAST = 32, SAMPLE_MOST = 128 };

/* Sums over packed images: x is the bytes of the source, y those of the padded record. */
struct sample {
    double count, x, y, xx, xy;
};

static void sample_add(struct sample *sample, double x, double y)
{
    sample->count++;
    sample->x += x;
    sample->y += y;
    sample->xx += x * x;
    sample->xy += x * y;
}

/* Packs images that stand as far from each other as possible. */
static struct status sample_pack(const struct pack_source *from, struct sample *ret_sample)
{
    CLEANUP(pack_scratch_done) struct pack_scratch scratch = {0};
    CLEANUP(buffer_done) struct buffer record = {.ceiling_bytes = SIZE_MAX};
    const struct source *source = from->source;
    size_t count = source->item_count / SAMPLE_EVERY;
    count = count < SAMPLE_LEAST ? SAMPLE_LEAST : count > SAMPLE_MOST ? SAMPLE_MOST : count;
    count = count < source->item_count ? count : source->item_count;
    *ret_sample = (struct sample){0};
    for (size_t k = 0; k < count; k++) {
        size_t i = (2 * k + 1) * source->item_count / (2 * count);
        struct pack_finding finding;
        record.length = 0;
        struct status status = pack_image(from, i, &scratch, &record, &finding);
        if (status.code == STATUS_NO_MEMORY)
            return status;
        if (status.code == STATUS_DONE) { /* others fail when it is their turn */
            memory_free(finding.problem);
            sample_add(ret_sample, (double)source->items[i].length, (double)finding.padded_bytes);
        }
        status_clear(&status);
    }
    return OK;
}

/* What all records take: a line through the sample (least squares, survey sampling's regression
 * estimator). Records that keep the image grow with the file; those that are shrunk hardly do, and
 * a few large files in the sample must not speak for all. */
static double sample_extend(const struct sample *sample, double images, double source_bytes)
{
    if (sample->count == 0)
        return source_bytes;
    double mean_x = sample->x / sample->count, mean_y = sample->y / sample->count;
    double spread = sample->xx - sample->x * mean_x;
    double slope = spread > 0 ? (sample->xy - sample->y * mean_x) / spread : 0;
    slope = slope > 0 ? slope : 0;
    double bytes = images * mean_y + slope * (source_bytes - images * mean_x);
    return bytes > 0 ? bytes : 0;
}

/* The bytes of all records and the number of shards, from some of them. */
static struct status sample_layout(const struct source *source, const struct pack_options *options,
                                   struct pack_prediction *prediction)
{
    CLEANUP(shard_reader_close) struct shard_reader *reader = NULL;
    struct pack_options keeping = *options;
    struct sample sample;
    keeping.on_error = PACK_KEEP;
    TRY(shard_reader_open(source->shards, source->shard_count, &reader));
    const struct pack_source from = {source, reader, &keeping};
    TRY(sample_pack(&from, &sample));
    prediction->is_estimate = true;
    prediction->shard_bytes = (uint64_t)sample_extend(&sample, (double)prediction->images,
                                                      (double)prediction->source_bytes);
    prediction->shards = prediction->shard_bytes / options->shard_bytes + 1;
    return OK;
}

struct status pack_predict(const struct source *source, const struct pack_options *options,
                           struct pack_prediction *ret_prediction)
{
    struct pack_prediction prediction = {.images = source->item_count};
    uint64_t names_bytes = 0;
    for (size_t i = 0; i < source->item_count; i++) {
        prediction.source_bytes += source->items[i].length;
        names_bytes += strlen(source->items[i].name);
    }
    prediction.index_bytes = index_estimate_bytes(source->classes, source->item_count, names_bytes);
    if (!options->in_place) {
        if (pack_converts(source, options))
            TRY(sample_layout(source, options, &prediction));
        else
            shard_layout(source, options->shard_bytes, &prediction.shards, &prediction.shard_bytes);
        /* Each trailer has all classes, all trailers together the records of the index. */
        prediction.shard_bytes += prediction.index_bytes +
                                  prediction.shards * index_estimate_bytes(source->classes, 0, 0);
    }
    *ret_prediction = prediction;
    return OK;
}
