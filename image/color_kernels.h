#ifndef HEADRACE_IMAGE_COLOR_KERNELS_H
#define HEADRACE_IMAGE_COLOR_KERNELS_H

/* Private to image/color*.c: the variants, and the conversion's constants. */

#include "image/color.h"

/* ITU-R BT.601 in units of 2^-16. */
#define RED_BY_CR 91881    /* 1.402 */
#define GREEN_BY_CB -22554 /* -.34414 */
#define GREEN_BY_CR -46802 /* -.71414 */
#define BLUE_BY_CB 116130  /* 1.772 */

/* For 16-bit vectors: x + (x * this, rounded, in units of 2^-15) is what a chroma sample x of
 * -128 … 127 adds to red or blue; the same 256 values as from the constants above. */
#define RED_REST 13173
#define BLUE_REST 25297
/* Green in 16 bits: what GREEN_BY_CR lacks to -1. */
#define GREEN_REST (GREEN_BY_CR + 65536)
/* Half a unit, and what is subtracted too much where chroma is taken as 0 … 255. */
#define GREEN_BIAS ((1 << 15) - 128 * (GREEN_BY_CB + GREEN_REST))

#endif
