#include "image/block_sample.h"

#include "base/memory.h"
#include "image/block_decode.h"
#include "image/fast_resample.h"
#include "image/resample.h"

struct block_sampler {
    struct block_decoder *decoder;
    struct resampler *resampler;
    struct fast_resampler *fast;
};

struct status block_sampler_open(struct block_sampler **ret_sampler)
{
    CLEANUP(block_sampler_close) struct block_sampler *sampler = NULL;
    TRY(memory_alloc(1, sizeof *sampler, &sampler));
    TRY(block_decoder_open(&sampler->decoder));
    TRY(resampler_open(&sampler->resampler));
    TRY(fast_resampler_open(&sampler->fast));
    *ret_sampler = MOVE(sampler);
    return OK;
}

void block_sampler_close(struct block_sampler *sampler)
{
    if (!sampler)
        return;
    block_decoder_close(sampler->decoder);
    resampler_close(sampler->resampler);
    fast_resampler_close(sampler->fast);
    memory_free(sampler);
}

struct status block_sampler_run(struct block_sampler *sampler, const struct frame *frame,
                                const struct block_reader *reader, const struct crop *crop,
                                enum pixels pixels, const struct tensor_format *format, void *out)
{
    bool made = false;
    if (pixels == PIXELS_FAST)
        TRY(fast_resampler_run(sampler->fast, frame, reader, crop, format, out, &made));
    if (made)
        return OK;
    struct rectangle region = resample_region(crop);
    struct row_source source;
    TRY(block_decoder_start(sampler->decoder, frame, reader, &region, &source));
    return resampler_write(sampler->resampler, &source, crop, pixels, format, out);
}
