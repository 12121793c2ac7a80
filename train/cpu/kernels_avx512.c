/* The kernels for AVX-512; this file is compiled for it. */

#include "train/cpu/kernels_simd.h"

#ifdef __AVX2__
KERNEL_TABLES(avx512)
#endif
