#ifndef HEADRACE_IMAGE_CROP_H
#define HEADRACE_IMAGE_CROP_H

/* Where a network's input comes from in an image: pure functions, no pixels. */

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "image/picture.h"

/* The image region `box`, resized to out_width x out_height, of which only `window` is wanted,
 * mirrored left to right if `flip`. Training: a random box, window = all of the output. Evaluation:
 * box = the whole image, window = the centre. */
struct crop {
    struct rectangle box;
    uint32_t out_width, out_height;
    struct rectangle window;
    bool flip;
};

struct crop_options {
    double scale_min, scale_max; /* share of the image's area; torchvision: .08, 1 */
    double ratio_min, ratio_max; /* width / height; torchvision: 3/4, 4/3 */
    double flip_probability;     /* .5 */
};
extern const struct crop_options crop_options_default;

/* RandomResizedCrop as torchvision draws it (ten tries, then the largest centred box within the
 * ratio), from `stream`. */
struct crop crop_random(const struct crop_options *options, uint32_t width, uint32_t height,
                        uint32_t out_size, struct random_stream *stream);

/* Resize (short side to `resize`, long side truncated, as torchvision) and CenterCrop (`crop` <=
 * `resize`; offset rounds half to even). */
struct crop crop_center(uint32_t width, uint32_t height, uint32_t resize, uint32_t crop);

#endif
