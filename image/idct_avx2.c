#ifdef __x86_64__

#include "image/idct_simd.h"

const struct idct_kernels idct_avx2 = {.full = full_simd};

#endif
