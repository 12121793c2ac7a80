#ifndef HEADRACE_IMAGE_DECODE_H
#define HEADRACE_IMAGE_DECODE_H

/* From the bytes of an image file to RGB pixels. The kind is found by content, not by name: JPEG
 * (libjpeg-turbo) and PNG (libpng). */

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "image/picture.h"

enum image_kind { IMAGE_UNKNOWN = 0, IMAGE_JPEG, IMAGE_PNG };

struct image_info {
    enum image_kind kind;
    uint32_t width, height; /* stored orientation; EXIF is ignored, as the usual pipelines do */
    unsigned components;    /* 1 gray, 3 colour, 4 CMYK or YCCK (or alpha) */
    bool progressive;
};

const char *image_kind_name(enum image_kind kind);
/* By the first bytes alone. */
enum image_kind image_kind_of(const void *bytes, size_t length);
/* Whether a JPEG has its end mark among the last JPEG_TAIL_BYTES of these bytes, which may be all
 * of the file or its end; some have stray bytes behind it. One that has not was cut short, as
 * decoding it will show; one that has may still be damaged. */
#define JPEG_TAIL_BYTES 256
bool jpeg_has_end(const void *bytes, size_t length);
/* Reads the header only. Fails with STATUS_CORRUPT and a reason. */
struct status image_probe(const void *bytes, size_t length, struct image_info *ret_info);

/* Scratch of one thread: codec state and row buffers, reused from image to image. */
struct decoder;
struct status decoder_open(struct decoder **ret_decoder);
void decoder_close(struct decoder *decoder);
CLEANUP_POINTER(decoder_close, struct decoder)

/* What libjpeg decodes; a header can claim a little more. */
#define JPEG_MAX_SIDE 65500

/* Images above this many pixels are refused before memory is allocated for them. */
#define DECODE_MAX_PIXELS ((uint64_t)178956970)

/* Decodes at least the rectangle `region` of the image (NULL: all of it). The picture's origin and
 * size say what was decoded: a JPEG is widened to MCU borders as needed, and its pixels equal those
 * of a full decode bit for bit (islow IDCT, fancy upsampling: what Pillow gives; CMYK and YCCK as
 * Pillow's convert("RGB")). A JPEG that ends early fails with STATUS_CORRUPT (libjpeg's own
 * filling-in is an error here); harmless warnings (stray bytes before a marker) are counted in
 * *ret_warnings (NULL is fine). */
struct status decoder_decode(struct decoder *decoder, const void *bytes, size_t length,
                             const struct rectangle *region, struct picture *picture,
                             unsigned *ret_warnings);

/* Encodes a picture: JPEG of a quality (1 … 100, 4:2:0 below 90, else 4:4:4) or PNG. Replaces the
 * buffer's content. */
struct status jpeg_encode(const struct picture *picture, int quality, struct buffer *bytes);
struct status png_encode(const struct picture *picture, struct buffer *bytes);

#endif
