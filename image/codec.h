#ifndef HEADRACE_IMAGE_CODEC_H
#define HEADRACE_IMAGE_CODEC_H

/* Private to image/: what decode.c calls in the one file of each library. */

#include "image/decode.h"

/* libjpeg's decompressor, and a row buffer that is reused from image to image. */
struct jpeg_reader;
struct status jpeg_reader_open(struct jpeg_reader **ret_reader);
void jpeg_reader_close(struct jpeg_reader *reader);
CLEANUP_POINTER(jpeg_reader_close, struct jpeg_reader)

/* As image_probe and decoder_decode; a region that is not NULL lies inside the image or fails with
 * STATUS_FAILED. */
struct status jpeg_reader_probe(struct jpeg_reader *reader, const void *bytes, size_t length,
                                struct image_info *ret_info);
struct status jpeg_reader_decode(struct jpeg_reader *reader, const void *bytes, size_t length,
                                 const struct rectangle *region, struct picture *picture,
                                 unsigned *ret_warnings);

struct status png_probe(const void *bytes, size_t length, struct image_info *ret_info);
/* Always the whole image. */
struct status png_decode(const void *bytes, size_t length, struct picture *picture,
                         unsigned *ret_warnings);

/* Fails if an image of this size is not to be decoded. */
struct status image_check_size(uint32_t width, uint32_t height);

#endif
