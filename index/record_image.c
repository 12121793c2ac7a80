#include "index/record_image.h"

#include "base/memory.h"
#include "image/block_decode.h"
#include "image/block_sample.h"
#include "image/jpeg_take.h"
#include "image/resample.h"
#include "index/dct_record.h"

_Static_assert(DCT_RECORD_PADDING <= RECORD_PADDING, "records are read with too little padding");

/* What grows with the images; opened when first needed. */
struct scratch {
    struct buffer bytes;
    struct decoder *decoder;
    struct resampler *resampler;
    struct block_decoder *block_decoder;
    struct block_sampler *block_sampler;
    struct jpeg_scanner *scanner; /* of a JPEG file, like the next two */
    struct coefficients coefficients;
    struct buffer kept;
    struct picture decoded, resized;
};

struct record_image {
    struct index *index;
    struct cache_reader *cache; /* NULL: records are read from the index */
    enum pixels pixels;
    struct scratch scratch;

    /* The record read last */
    bool is_dct;
    struct dct_record dct;
};

struct status record_image_open(struct index *index, enum pixels pixels,
                                struct record_image **ret_image)
{
    struct record_image *image;
    TRY(memory_alloc(1, sizeof *image, &image));
    image->index = index;
    image->pixels = pixels;
    *ret_image = image;
    return OK;
}

void record_image_read_through(struct record_image *image, struct cache_reader *cache)
{
    image->cache = cache;
}

void record_image_shrink(struct record_image *image)
{
    struct scratch *scratch = &image->scratch;
    decoder_close(scratch->decoder);
    resampler_close(scratch->resampler);
    block_decoder_close(scratch->block_decoder);
    block_sampler_close(scratch->block_sampler);
    jpeg_scanner_close(scratch->scanner);
    coefficients_done(&scratch->coefficients);
    buffer_done(&scratch->kept);
    buffer_done(&scratch->bytes);
    picture_done(&scratch->decoded);
    picture_done(&scratch->resized);
    *scratch = (struct scratch){0};
}

void record_image_close(struct record_image *image)
{
    if (!image)
        return;
    record_image_shrink(image);
    memory_free(image);
}

/* Looks at the bytes that were read. */
static struct status bytes_open(struct record_image *image, uint64_t number, uint8_t encoding)
{
    const struct buffer *bytes = &image->scratch.bytes;
    image->is_dct = encoding == ENCODING_DCT;
    if (!image->is_dct)
        return OK;
    return index_blame_bytes(image->index, number,
                             dct_record_open(bytes->data, bytes->length, &image->dct));
}

struct status record_image_read(struct record_image *image, uint64_t number,
                                struct record *ret_record)
{
    struct buffer *bytes = &image->scratch.bytes;
    TRY(index_record(image->index, number, ret_record));
    if (image->cache)
        TRY(cache_reader_read(image->cache, number, bytes, &ret_record->encoding));
    else
        TRY(index_read(image->index, number, bytes));
    ret_record->length = (uint32_t)bytes->length;
    return bytes_open(image, number, ret_record->encoding);
}

struct status record_image_fetch(struct record_image *image, struct prefetch *prefetch,
                                 uint64_t place, uint64_t number, struct record *ret_record)
{
    struct buffer *bytes = &image->scratch.bytes;
    TRY(index_record(image->index, number, ret_record));
    TRY(prefetch_read(prefetch, place, number, bytes, &ret_record->encoding));
    ret_record->length = (uint32_t)bytes->length;
    return bytes_open(image, number, ret_record->encoding);
}

struct status record_image_probe(struct record_image *image, struct image_info *ret_info)
{
    const struct frame *frame = &image->dct.frame;
    if (!image->is_dct)
        return image_probe(image->scratch.bytes.data, image->scratch.bytes.length, ret_info);
    *ret_info = (struct image_info){
        .kind = IMAGE_JPEG,
        .width = frame->width,
        .height = frame->height,
        .components = frame->component_count,
    };
    return OK;
}

static struct status blocks_decode(struct record_image *image, const struct rectangle *region,
                                   struct picture *picture)
{
    struct scratch *scratch = &image->scratch;
    struct block_reader reader = dct_record_reader(&image->dct);
    if (!scratch->block_decoder)
        TRY(block_decoder_open(&scratch->block_decoder));
    return block_decoder_run(scratch->block_decoder, &image->dct.frame, &reader, region, picture);
}

struct status record_image_decode(struct record_image *image, const struct rectangle *region,
                                  struct picture *picture)
{
    struct scratch *scratch = &image->scratch;
    if (image->is_dct)
        return blocks_decode(image, region, picture);
    if (!scratch->decoder)
        TRY(decoder_open(&scratch->decoder));
    return decoder_decode(scratch->decoder, scratch->bytes.data, scratch->bytes.length, region,
                          picture, NULL);
}

static struct status blocks_sample(struct record_image *image, const struct frame *frame,
                                   struct block_reader reader, const struct crop *crop,
                                   const struct tensor_format *format, void *out)
{
    struct scratch *scratch = &image->scratch;
    if (!scratch->block_sampler)
        TRY(block_sampler_open(&scratch->block_sampler));
    return block_sampler_run(scratch->block_sampler, frame, &reader, crop, image->pixels, format,
                             out);
}

/* Takes a JPEG file apart as packing it into a `dct` record would: that is faster than libjpeg, and
 * gives the same pixels. *ret_taken is false for what would be kept as a file. */
static struct status coefficients_take(struct record_image *image, bool *ret_taken)
{
    struct scratch *scratch = &image->scratch;
    const struct buffer *bytes = &scratch->bytes;
    enum jpeg_refusal refusal;
    *ret_taken = false;
    if (image_kind_of(bytes->data, bytes->length) != IMAGE_JPEG)
        return OK;
    if (!scratch->scanner)
        TRY(jpeg_scanner_open(&scratch->scanner));
    TRY(jpeg_take(scratch->scanner, bytes->data, bytes->length, &scratch->coefficients,
                  &scratch->kept, &refusal));
    *ret_taken = refusal == JPEG_TAKEN;
    return OK;
}

static struct status file_sample(struct record_image *image, const struct crop *crop,
                                 const struct tensor_format *format, void *out)
{
    struct scratch *scratch = &image->scratch;
    struct rectangle region = resample_region(crop);
    if (!scratch->resampler)
        TRY(resampler_open(&scratch->resampler));
    TRY(record_image_decode(image, &region, &scratch->decoded));
    TRY(resampler_run(scratch->resampler, &scratch->decoded, crop, image->pixels,
                      &scratch->resized));
    tensor_write(format, &scratch->resized, crop->flip, out);
    return OK;
}

struct status record_image_tensor(struct record_image *image, const struct crop *crop,
                                  const struct tensor_format *format, void *out)
{
    const struct coefficients *coefficients = &image->scratch.coefficients;
    bool taken;
    if (image->is_dct)
        return blocks_sample(image, &image->dct.frame, dct_record_reader(&image->dct), crop, format,
                             out);
    TRY(coefficients_take(image, &taken));
    if (taken)
        return blocks_sample(image, &coefficients->frame, coefficients_reader(coefficients), crop,
                             format, out);
    return file_sample(image, crop, format, out);
}

uint64_t record_image_scratch_bytes(const struct record *record, uint32_t width, uint32_t height)
{
    /* Of a file: three of pixels, eight of a progressive CMYK JPEG's coefficients, three of rows on
     * their way. Of a `dct` record, whose blocks are decoded a few at a time: three of planes,
     * three of rows. */
    const uint64_t file_pixel_bytes = 14, dct_pixel_bytes = 6, always = 512 << 10;
    bool is_dct = record->encoding == ENCODING_DCT;
    uint64_t pixels = (uint64_t)width * height;
    return record->length + always + pixels * (is_dct ? dct_pixel_bytes : file_pixel_bytes);
}
