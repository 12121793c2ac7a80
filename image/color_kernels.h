#ifndef HEADRACE_IMAGE_COLOR_KERNELS_H
#define HEADRACE_IMAGE_COLOR_KERNELS_H

/* Private to image/color*.c: the variants, and the conversion's constants. */

#include "image/color.h"

/* ITU-R BT.601 in units of 2^-16. */
#define RED_BY_CR 91881    /* 1.402 */
#define GREEN_BY_CB -22554 /* -.34414 */
#define GREEN_BY_CR -46802 /* -.71414 */
#define BLUE_BY_CB 116130  /* 1.772 */

#endif
