#ifdef __x86_64__

#include "image/idct_simd.h"

const struct idct_kernels idct_avx512 = {.full = full_simd};

#endif
