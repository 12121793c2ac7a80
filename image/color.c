#include "image/color.h"

#include "image/color_kernels.h"

const struct color_kernels *color_kernels_for(enum cpu_level level)
{
#ifdef __x86_64__
    if (level >= CPU_AVX512)
        return &color_avx512;
    if (level >= CPU_AVX2)
        return &color_avx2;
#endif
    (void)level;
    return &color_plain;
}
