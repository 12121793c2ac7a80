#include "index/sampler.h"

#include "base/memory.h"
#include "base/progress.h"
#include "base/random.h"
#include "index/record_image.h"

struct sampler {
    struct index *index;
    const struct loader_options *options;
    struct record_image *image;
    struct budget *budget; /* for scratch beyond kept_bytes; NULL: no bounds */
    uint64_t kept_bytes;
    struct prefetch *prefetch; /* NULL: records are read from the index */
};

struct status sampler_open(struct index *index, const struct loader_options *options,
                           struct sampler **ret_sampler)
{
    CLEANUP(sampler_close) struct sampler *sampler = NULL;
    TRY(memory_alloc(1, sizeof *sampler, &sampler));
    sampler->index = index;
    sampler->options = options;
    TRY(record_image_open(index, options->pixels, &sampler->image));
    *ret_sampler = MOVE(sampler);
    return OK;
}

void sampler_close(struct sampler *sampler)
{
    if (!sampler)
        return;
    record_image_close(sampler->image);
    memory_free(sampler);
}

void sampler_bound(struct sampler *sampler, struct budget *budget, uint64_t kept_bytes)
{
    sampler->budget = budget;
    sampler->kept_bytes = kept_bytes;
}

void sampler_read_through(struct sampler *sampler, struct prefetch *prefetch)
{
    sampler->prefetch = prefetch;
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

/* The size of the record that was read, as the index tells it, else from its own header. */
static struct status size_find(struct sampler *sampler, const struct record *record,
                               struct image_info *ret_info)
{
    *ret_info = (struct image_info){.width = record->width, .height = record->height};
    if (record->width && record->height)
        return OK;
    return record_image_probe(sampler->image, ret_info);
}

/* From the record that was read to the image. */
static struct status image_make(struct sampler *sampler, uint64_t epoch, uint64_t number,
                                const struct record *record, void *out, struct crop *ret_crop,
                                uint64_t *scratch_bytes)
{
    const struct loader_options *options = sampler->options;
    struct image_info info;
    TRY(size_find(sampler, record, &info));
    *ret_crop = crop_choose(options, epoch, number, info.width, info.height);
    uint64_t needed = record_image_scratch_bytes(record, info.width, info.height);
    bool is_kept = !sampler->budget || needed <= sampler->kept_bytes;
    *scratch_bytes = is_kept ? needed : sampler->kept_bytes;
    if (is_kept)
        return record_image_tensor(sampler->image, ret_crop, &options->format, out);
    budget_take(sampler->budget, needed - sampler->kept_bytes);
    struct status status = record_image_tensor(sampler->image, ret_crop, &options->format, out);
    record_image_shrink(sampler->image);
    budget_give_back(sampler->budget, needed - sampler->kept_bytes);
    return status;
}

struct status sampler_run(struct sampler *sampler, uint64_t epoch, uint64_t record_number,
                          void *out, struct batch_sample *ret_sample, struct sampler_work *work)
{
    struct record record;
    double start = clock_seconds();
    struct status status = sampler->prefetch
                               ? record_image_fetch(sampler->image, sampler->prefetch, work->place,
                                                    record_number, &record)
                               : record_image_read(sampler->image, record_number, &record);
    TRY(index_blame(sampler->index, record_number, status));
    double read = clock_seconds();
    work->read_seconds += read - start;
    work->bytes += record.length;
    ret_sample->record = record_number;
    struct status made = image_make(sampler, epoch, record_number, &record, out, &ret_sample->crop,
                                    &work->scratch_bytes);
    work->decode_seconds += clock_seconds() - read;
    return index_blame(sampler->index, record_number,
                       index_blame_bytes(sampler->index, record_number, made));
}

struct status sampler_crop(struct sampler *sampler, uint64_t epoch, uint64_t record_number,
                           struct crop *ret_crop)
{
    struct index *index = sampler->index;
    struct record record;
    struct image_info info;
    TRY(index_record(index, record_number, &record));
    if (record.width == 0 || record.height == 0)
        TRY(index_blame(index, record_number,
                        record_image_read(sampler->image, record_number, &record)));
    struct status found = size_find(sampler, &record, &info);
    TRY(index_blame(index, record_number, index_blame_bytes(index, record_number, found)));
    *ret_crop = crop_choose(sampler->options, epoch, record_number, info.width, info.height);
    return OK;
}
