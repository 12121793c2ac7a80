#ifndef HEADRACE_IMAGE_FAST_RESAMPLE_H
#define HEADRACE_IMAGE_FAST_RESAMPLE_H

/* The short way from a JPEG's DCT blocks to a network's input: each component is resized from its
 * own resolution straight to the output's (antialiased bilinear, weights of seven bits), then
 * colours are converted. Chroma is not upsampled to the image's size first, and far fewer pixels
 * are converted. Close to the exact pixels, not equal: over the 1000 images that the tests use, the
 * PSNR of 224 x 224 outputs (training and evaluation) is 51.8 dB in the mean and 41.3 dB at least.
 *
 * Of crops much larger than the output, blocks are reduced to 4 x 4, 2 x 2 or 1 x 1 samples, as
 * long as 2.5 samples are left for each output (2 of chroma that is coarser than luma). Over the
 * same images, made so small that luma is reduced by 2, 4 and 8, the PSNR is 50.8, 50.2 and 49.6
 * dB in the mean and 41.5, 40.3 and 42.2 at least. At 3000 x 2250 pixels that makes 1.6 to 2.6
 * times as many images a second as whole blocks would.
 *
 * scripts/compare_pixels.py compares the accuracy of networks trained on either. */

#include "image/coefficients.h"
#include "image/crop.h"
#include "image/tensor.h"

/* Scratch of one thread, reused from image to image. */
struct fast_resampler;
struct status fast_resampler_open(struct fast_resampler **ret_resampler);
void fast_resampler_close(struct fast_resampler *resampler);
CLEANUP_POINTER(fast_resampler_close, struct fast_resampler)

/* Writes crop->window, flipped if the crop says so, to `out`. *ret_made tells whether it did: a
 * crop of a few samples is left to the exact way, and so are frames that block_decode_supports
 * refuses. Fails as planes_decode. */
struct status fast_resampler_run(struct fast_resampler *resampler, const struct frame *frame,
                                 const struct block_reader *reader, const struct crop *crop,
                                 const struct tensor_format *format, void *out, bool *ret_made);

#endif
