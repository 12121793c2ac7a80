#ifndef HEADRACE_IMAGE_IDCT_KERNELS_H
#define HEADRACE_IMAGE_IDCT_KERNELS_H

/* Private to image/idct*.c: constants of the transform and its variants. */

#include "image/idct.h"

/* Loeffler, Ligtenberg and Moschytz's rotations, scaled by 2^13. */
#define IDCT_BITS 13
#define C0_298 2446
#define C0_390 3196
#define C0_541 4433
#define C0_765 6270
#define C0_899 7373
#define C1_175 9633
#define C1_501 12299
#define C1_847 15137
#define C1_961 16069
#define C2_053 16819
#define C2_562 20995
#define C3_072 25172

/* Two bits of fraction are kept between the passes; the transform itself scales by 8. */
#define IDCT_COLUMN_SHIFT (IDCT_BITS - 2)
#define IDCT_ROW_SHIFT (IDCT_BITS + 2 + 3)

#endif
