#ifndef HEADRACE_IMAGE_FAST_RESAMPLE_H
#define HEADRACE_IMAGE_FAST_RESAMPLE_H

/* The short way from a JPEG's DCT blocks to a network's input: each component is resized from its
 * own resolution straight to the output's (antialiased bilinear, weights of seven bits), then
 * colours are converted. Chroma is not upsampled to the image's size first, and far fewer pixels
 * are converted. Close to the exact pixels, not equal: over the 1000 images that the tests use, the
 * PSNR of training crops is 52.0 dB in the mean and 41.6 dB at least (evaluation: 51.7 and 41.9).
 * Blocks are always transformed whole, also for crops much larger than the output: most of the time
 * goes into unpacking them, and coarser transforms would save little of the rest. */

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
