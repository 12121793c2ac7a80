#include <string.h>

#include "base/memory.h"
#include "index/pack_image.h"
#include "index/shard_writer.h"
#include "index/writer.h"

/* So many images are packed to see what the others will take. */
enum { SAMPLE_IMAGES = 32 };

/* Packs images that stand as far from each other as possible; adds up what they have and take. */
static struct status sample_pack(const struct pack_source *from, uint64_t *ret_source_bytes,
                                 uint64_t *ret_padded_bytes)
{
    CLEANUP(pack_scratch_done) struct pack_scratch scratch = {0};
    CLEANUP(buffer_done) struct buffer record = {.ceiling_bytes = SIZE_MAX};
    const struct source *source = from->source;
    size_t count = source->item_count < SAMPLE_IMAGES ? source->item_count : SAMPLE_IMAGES;
    *ret_source_bytes = *ret_padded_bytes = 0;
    for (size_t k = 0; k < count; k++) {
        size_t i = (2 * k + 1) * source->item_count / (2 * count);
        struct pack_finding finding;
        record.length = 0;
        struct status status = pack_image(from, i, &scratch, &record, &finding);
        if (status.code == STATUS_NO_MEMORY)
            return status;
        if (status.code == STATUS_DONE) { /* others fail when it is their turn */
            memory_free(finding.problem);
            *ret_source_bytes += source->items[i].length;
            *ret_padded_bytes += finding.padded_bytes;
        }
        status_clear(&status);
    }
    return OK;
}

/* The bytes of all records and the number of shards, from some of them. */
static struct status sample_layout(const struct source *source, const struct pack_options *options,
                                   struct pack_prediction *prediction)
{
    CLEANUP(shard_reader_close) struct shard_reader *reader = NULL;
    struct pack_options keeping = *options;
    uint64_t source_bytes, padded_bytes;
    keeping.on_error = PACK_KEEP;
    TRY(shard_reader_open(source->shards, source->shard_count, &reader));
    const struct pack_source from = {source, reader, &keeping};
    TRY(sample_pack(&from, &source_bytes, &padded_bytes));
    double ratio = source_bytes ? (double)padded_bytes / (double)source_bytes : 1;
    prediction->is_estimate = true;
    prediction->shard_bytes = (uint64_t)((double)prediction->source_bytes * ratio);
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
