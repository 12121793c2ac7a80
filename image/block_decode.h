#ifndef HEADRACE_IMAGE_BLOCK_DECODE_H
#define HEADRACE_IMAGE_BLOCK_DECODE_H

/* From a JPEG's DCT blocks to RGB: bit for bit what libjpeg-turbo makes of the file (islow inverse
 * DCT, fancy upsampling), for any part of the image. */

#include <stdbool.h>

#include "image/coefficients.h"
#include "image/picture.h"
#include "image/row_source.h"

/* Whether there are one or three components, and the largest sampling factors are whole multiples
 * of each component's: libjpeg decodes no others either. */
bool block_decode_supports(const struct frame *frame);

/* Scratch of one thread, reused from image to image. */
struct block_decoder;
struct status block_decoder_open(struct block_decoder **ret_decoder);
void block_decoder_close(struct block_decoder *decoder);
CLEANUP_POINTER(block_decoder_close, struct block_decoder)

/* Decodes the rectangle `region` of the image (NULL: all of it) into a picture with that origin and
 * size; only the blocks that matter are read. Fails with STATUS_FAILED if the region is not within
 * the image, STATUS_UNSUPPORTED, STATUS_CORRUPT if the frame contradicts itself, as the reader
 * fails, or with STATUS_NO_MEMORY. */
struct status block_decoder_run(struct block_decoder *decoder, const struct frame *frame,
                                const struct block_reader *reader, const struct rectangle *region,
                                struct picture *picture);

/* The same row by row and in planes, for whoever resizes at once: a gray image has one channel.
 * `frame` is borrowed as long as rows are taken from *ret_source. */
struct status block_decoder_start(struct block_decoder *decoder, const struct frame *frame,
                                  const struct block_reader *reader, const struct rectangle *region,
                                  struct row_source *ret_source);

#endif
