#include "index/sampler.h"

#include "base/memory.h"
#include "base/progress.h"
#include "base/random.h"
#include "image/decode.h"
#include "image/resample.h"

struct sampler {
    struct index *index;
    const struct loader_options *options;
    struct decoder *decoder;
    struct resampler *resampler;
    struct buffer bytes;
    struct picture decoded;
    struct picture resized;
};

struct status sampler_open(struct index *index, const struct loader_options *options,
                           struct sampler **ret_sampler)
{
    CLEANUP(sampler_close) struct sampler *sampler = NULL;
    TRY(memory_alloc(1, sizeof *sampler, &sampler));
    sampler->index = index;
    sampler->options = options;
    TRY(decoder_open(&sampler->decoder));
    TRY(resampler_open(&sampler->resampler));
    *ret_sampler = MOVE(sampler);
    return OK;
}

void sampler_close(struct sampler *sampler)
{
    if (!sampler)
        return;
    decoder_close(sampler->decoder);
    resampler_close(sampler->resampler);
    buffer_done(&sampler->bytes);
    picture_done(&sampler->decoded);
    picture_done(&sampler->resized);
    memory_free(sampler);
}

uint32_t sampler_output_size(const struct loader_options *options)
{
    return options->mode == LOADER_TRAIN ? options->image_size : options->val_crop;
}

static struct crop crop_choose(const struct loader_options *options, uint64_t epoch,
                               uint64_t record, uint32_t width, uint32_t height)
{
    if (options->mode == LOADER_EVAL)
        return crop_center(width, height, options->val_resize, options->val_crop);
    struct random_stream stream = random_stream_make(options->seed, RANDOM_CROP, epoch, record);
    return crop_random(&options->crop, width, height, options->image_size, &stream);
}

/* From the record's bytes in sampler->bytes to the image. */
static struct status image_make(struct sampler *sampler, uint64_t epoch, uint64_t number,
                                const struct record *record, void *out, struct crop *ret_crop)
{
    const struct loader_options *options = sampler->options;
    struct image_info info = {.width = record->width, .height = record->height};
    if (info.width == 0 || info.height == 0)
        TRY(image_probe(sampler->bytes.data, sampler->bytes.length, &info));
    *ret_crop = crop_choose(options, epoch, number, info.width, info.height);
    struct rectangle region = resample_region(ret_crop);
    TRY(decoder_decode(sampler->decoder, sampler->bytes.data, sampler->bytes.length, &region,
                       &sampler->decoded, NULL));
    TRY(resampler_run(sampler->resampler, &sampler->decoded, ret_crop, &sampler->resized));
    tensor_write(&options->format, &sampler->resized, ret_crop->flip, out);
    return OK;
}

static struct status record_blame(struct sampler *sampler, uint64_t number, struct status status)
{
    const char *name = "?";
    if (status.code != STATUS_DONE)
        status_ignore(index_name(sampler->index, number, &name));
    return status_context(status, "%s: record %llu (%s)", index_path(sampler->index),
                          (unsigned long long)number, name);
}

struct status sampler_run(struct sampler *sampler, uint64_t epoch, uint64_t record_number,
                          void *out, struct batch_sample *ret_sample, struct sampler_work *work)
{
    struct record record;
    double start = clock_seconds();
    TRY(index_record(sampler->index, record_number, &record));
    TRY(index_read(sampler->index, record_number, &sampler->bytes));
    double read = clock_seconds();
    work->read_seconds += read - start;
    work->bytes += record.length;
    ret_sample->record = record_number;
    struct status made = image_make(sampler, epoch, record_number, &record, out, &ret_sample->crop);
    work->decode_seconds += clock_seconds() - read;
    return record_blame(sampler, record_number, made);
}

struct status sampler_crop(struct sampler *sampler, uint64_t epoch, uint64_t record_number,
                           struct crop *ret_crop)
{
    struct record record;
    TRY(index_record(sampler->index, record_number, &record));
    struct image_info info = {.width = record.width, .height = record.height};
    if (info.width == 0 || info.height == 0) {
        TRY(index_read(sampler->index, record_number, &sampler->bytes));
        struct status probed = image_probe(sampler->bytes.data, sampler->bytes.length, &info);
        TRY(record_blame(sampler, record_number, probed));
    }
    *ret_crop = crop_choose(sampler->options, epoch, record_number, info.width, info.height);
    return OK;
}
