#ifndef HEADRACE_IMAGE_BLOCK_SAMPLE_H
#define HEADRACE_IMAGE_BLOCK_SAMPLE_H

/* From a JPEG's DCT blocks straight to a network's input: only the crop's blocks are decoded. */

#include "image/coefficients.h"
#include "image/crop.h"
#include "image/pixels.h"
#include "image/tensor.h"

/* Scratch of one thread, reused from image to image. */
struct block_sampler;
struct status block_sampler_open(struct block_sampler **ret_sampler);
void block_sampler_close(struct block_sampler *sampler);
CLEANUP_POINTER(block_sampler_close, struct block_sampler)

/* Writes crop->window of the image (frame, reader), flipped if the crop says so, to `out`
 * (tensor_image_bytes of the window). PIXELS_PILLOW and PIXELS_PILLOW13: bit for bit what decoding
 * the file with libjpeg-turbo, resampler_run and tensor_write give. Fails as block_decoder_run. */
struct status block_sampler_run(struct block_sampler *sampler, const struct frame *frame,
                                const struct block_reader *reader, const struct crop *crop,
                                enum pixels pixels, const struct tensor_format *format, void *out);

#endif
