#ifdef __x86_64__

#include "image/idct_simd.h"

const struct idct_kernels idct_avx512 = {
    .reduced = {full_simd, to_4_simd, to_2_simd, idct_to_1_plain},
    .count_small = count_small_simd,
};

#endif
