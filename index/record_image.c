#include "index/record_image.h"

#include "base/memory.h"
#include "image/resample.h"

/* What grows with the images; opened when first needed. */
struct scratch {
    struct buffer bytes;
    struct decoder *decoder;
    struct resampler *resampler;
    struct picture decoded, resized;
};

struct record_image {
    struct index *index;
    struct scratch scratch;
};

struct status record_image_open(struct index *index, struct record_image **ret_image)
{
    struct record_image *image;
    TRY(memory_alloc(1, sizeof *image, &image));
    image->index = index;
    *ret_image = image;
    return OK;
}

void record_image_shrink(struct record_image *image)
{
    struct scratch *scratch = &image->scratch;
    decoder_close(scratch->decoder);
    resampler_close(scratch->resampler);
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

struct status record_image_read(struct record_image *image, uint64_t number)
{
    return index_read(image->index, number, &image->scratch.bytes);
}

struct status record_image_probe(struct record_image *image, struct image_info *ret_info)
{
    return image_probe(image->scratch.bytes.data, image->scratch.bytes.length, ret_info);
}

struct status record_image_decode(struct record_image *image, const struct rectangle *region,
                                  struct picture *picture)
{
    struct scratch *scratch = &image->scratch;
    if (!scratch->decoder)
        TRY(decoder_open(&scratch->decoder));
    return decoder_decode(scratch->decoder, scratch->bytes.data, scratch->bytes.length, region,
                          picture, NULL);
}

struct status record_image_tensor(struct record_image *image, const struct crop *crop,
                                  const struct tensor_format *format, void *out)
{
    struct scratch *scratch = &image->scratch;
    struct rectangle region = resample_region(crop);
    if (!scratch->resampler)
        TRY(resampler_open(&scratch->resampler));
    TRY(record_image_decode(image, &region, &scratch->decoded));
    TRY(resampler_run(scratch->resampler, &scratch->decoded, crop, PIXELS_PILLOW,
                      &scratch->resized));
    tensor_write(format, &scratch->resized, crop->flip, out);
    return OK;
}

uint64_t record_image_scratch_bytes(uint64_t length, uint32_t width, uint32_t height)
{
    /* Three of pixels, eight of a progressive CMYK JPEG's coefficients, three of rows on their way.
     */
    const uint64_t bytes_per_pixel = 14, always = 512 << 10;
    return length + always + bytes_per_pixel * width * height;
}
