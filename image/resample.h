#ifndef HEADRACE_IMAGE_RESAMPLE_H
#define HEADRACE_IMAGE_RESAMPLE_H

/* Pillow's antialiased bilinear resampling (Pillow's Resample.c, up to version 12): 22-bit integer
 * weights, horizontal pass first, rounded to 8 bits between the passes. Bit for bit what
 * Image.resize(size, BILINEAR) gives. */

#include "base/status.h"
#include "image/crop.h"
#include "image/picture.h"

/* Scratch of one thread: weights and the rows between the passes. */
struct resampler;
struct status resampler_open(struct resampler **ret_resampler);
void resampler_close(struct resampler *resampler);
CLEANUP_POINTER(resampler_close, struct resampler)

/* The part of the image (in its own coordinates) that `crop` reads: what has to be decoded. */
struct rectangle resample_region(const struct crop *crop);

/* Computes crop->window of the resized box from `image`, which must cover resample_region(crop);
 * writes RGB rows of window.width pixels into `out` (resized to the window). The flip is not
 * applied here. */
struct status resampler_run(struct resampler *resampler, const struct picture *image,
                            const struct crop *crop, struct picture *out);

#endif
