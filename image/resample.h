#ifndef HEADRACE_IMAGE_RESAMPLE_H
#define HEADRACE_IMAGE_RESAMPLE_H

/* Pillow's antialiased bilinear resampling: 22-bit integer weights, rounded to 8 bits between the
 * passes. Bit for bit what Image.resize(size, BILINEAR) gives. Up to version 12 Pillow goes across
 * first; version 13 goes down first where that shrinks the image by more. */

#include "base/status.h"
#include "image/crop.h"
#include "image/picture.h"
#include "image/pixels.h"
#include "image/row_source.h"
#include "image/tensor.h"

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
                            const struct crop *crop, enum pixels pixels, struct picture *out);

/* The same from rows of resample_region(crop) to a network's input (tensor_image_bytes of the
 * window), with the flip: what resampler_run and tensor_write give one after the other. */
struct status resampler_write(struct resampler *resampler, const struct row_source *source,
                              const struct crop *crop, enum pixels pixels,
                              const struct tensor_format *format, void *out);

#endif
