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

/* The odd half of the transform with its rotations multiplied out: sum k is
 * ODD(k, 1) in[1] + ODD(k, 5) in[5] + ODD(k, 3) in[3] + ODD(k, 7) in[7]. */
#define ODD0_1 (C1_501 - C0_899 + C1_175 - C0_390)
#define ODD0_5 (C1_175 - C0_390)
#define ODD0_3 C1_175
#define ODD0_7 (C1_175 - C0_899)
#define ODD1_1 C1_175
#define ODD1_5 (C1_175 - C2_562)
#define ODD1_3 (C3_072 - C2_562 + C1_175 - C1_961)
#define ODD1_7 (C1_175 - C1_961)
#define ODD2_1 (C1_175 - C0_390)
#define ODD2_5 (C2_053 - C2_562 + C1_175 - C0_390)
#define ODD2_3 (C1_175 - C2_562)
#define ODD2_7 C1_175
#define ODD3_1 (C1_175 - C0_899)
#define ODD3_5 C1_175
#define ODD3_3 (C1_175 - C1_961)
#define ODD3_7 (C0_298 - C0_899 + C1_175 - C1_961)

/* The even half: in[0] and in[4] as they are, in[2] and in[6] by these. It is the transform of
 * length 4 by itself, of in[0], in[2] and in[1], in[3]. */
#define EVEN0_2 (C0_541 + C0_765)
#define EVEN0_6 C0_541
#define EVEN1_2 C0_541
#define EVEN1_6 (C0_541 - C1_847)

/* Of few samples a block: not every instruction set makes more of them. */
idct_fn idct_to_2_plain, idct_to_1_plain;

/* Two bits of fraction are kept between the passes; the transform itself scales by 8. */
#define IDCT_COLUMN_SHIFT (IDCT_BITS - 2)
#define IDCT_ROW_SHIFT (IDCT_BITS + 2 + 3)

#endif
