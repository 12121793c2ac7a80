#ifndef HEADRACE_IMAGE_BLOCK_DECODE_H
#define HEADRACE_IMAGE_BLOCK_DECODE_H

/* From a JPEG's DCT blocks to RGB: bit for bit what libjpeg-turbo makes of the file (islow inverse
 * DCT, fancy upsampling), for any part of the image. */

#include <stdbool.h>

#include "image/coefficients.h"
#include "image/picture.h"

/* Whether the components' sampling can be decoded: the largest factors are whole multiples of each
 * component's. libjpeg decodes no others either. */
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

/* The same row by row and in planes, for whoever resizes at once. The rows are of region->width
 * samples; `frame` is borrowed until the last row. A gray image has one plane. */
#define BLOCK_DECODER_ROWS 8
struct status block_decoder_start(struct block_decoder *decoder, const struct frame *frame,
                                  const struct block_reader *reader,
                                  const struct rectangle *region);
/* Sets rows[c][i] to plane c of row first + i of the region, for i < count <= BLOCK_DECODER_ROWS.
 * They hold until the next call; at least 64 bytes after each may be read. */
void block_decoder_rows(struct block_decoder *decoder, uint32_t first, uint32_t count,
                        const uint8_t *rows[3][BLOCK_DECODER_ROWS]);

#endif
