#include "train/cpu/kernels.h"

const struct kernels *kernels_find(enum cpu_level level, enum train_dtype dtype)
{
    bool bf16 = dtype == DTYPE_BF16;
#ifdef __x86_64__
    if (level >= CPU_AVX512)
        return bf16 ? &kernels_avx512_bf16 : &kernels_avx512_f32;
    if (level >= CPU_AVX2)
        return bf16 ? &kernels_avx2_bf16 : &kernels_avx2_f32;
#endif
    (void)level;
    return bf16 ? &kernels_plain_bf16 : &kernels_plain_f32;
}
