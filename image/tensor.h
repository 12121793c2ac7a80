#ifndef HEADRACE_IMAGE_TENSOR_H
#define HEADRACE_IMAGE_TENSOR_H

/* The last step: RGB bytes to a network's input, mirrored or not. */

#include <stdbool.h>
#include <stddef.h>

#include "image/picture.h"

enum tensor_type { TENSOR_U8 = 0, TENSOR_F32, TENSOR_BF16, TENSOR_F16 };
enum tensor_layout { TENSOR_NHWC = 0, TENSOR_NCHW };

struct tensor_format {
    enum tensor_type type;
    enum tensor_layout layout;
    float mean[3],
        std[3]; /* in units of 0 … 1; value = (pixel / 255 − mean) / std; not used for TENSOR_U8 */
};
extern const struct tensor_format
    tensor_format_imagenet; /* f32, NHWC, mean .485 .456 .406, std .229 .224 .225 */

size_t tensor_type_bytes(enum tensor_type type);
const char *tensor_type_name(enum tensor_type type);
/* Bytes of one image. */
size_t tensor_image_bytes(const struct tensor_format *format, uint32_t height, uint32_t width);
/* Writes one image of picture->height x picture->width to `out`. f32: (float)(pixel/255 − mean)/std
 * computed as torchvision's ToTensor and Normalize do, bit for bit, from a table of 256 values a
 * channel; bf16 and f16 are those rounded to nearest even. */
void tensor_write(const struct tensor_format *format, const struct picture *picture, bool flip,
                  void *out);
/* Turns `count` images in that format left to right; `out` is another place than `in`. */
void tensor_mirror(const struct tensor_format *format, uint32_t height, uint32_t width,
                   uint32_t count, const void *in, void *out);

/* What tensor_write does, from planes, a row at a time. Scratch of one thread; it keeps a format's
 * tables from image to image. */
struct tensor_writer;
struct status tensor_writer_open(struct tensor_writer **ret_writer);
void tensor_writer_close(struct tensor_writer *writer);
CLEANUP_POINTER(tensor_writer_close, struct tensor_writer)
/* Begins an image; `out` is borrowed until its last row. */
void tensor_writer_start(struct tensor_writer *writer, const struct tensor_format *format,
                         uint32_t height, uint32_t width, void *out);
/* Writes row y: `width` samples of red, green and blue, after each of which 64 bytes may be read.
 */
void tensor_writer_row(struct tensor_writer *writer, uint32_t y, const uint8_t *const rgb[3]);
/* Ends the image: other threads may read it then. */
void tensor_writer_finish(struct tensor_writer *writer);

#endif
