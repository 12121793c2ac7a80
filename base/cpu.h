#ifndef HEADRACE_BASE_CPU_H
#define HEADRACE_BASE_CPU_H

/* What this processor can do, read once. HEADRACE_CPU=plain|avx2|avx512 (arm64: plain|neon) in the
 * environment lowers it, for tests. */

#include <stdbool.h>

enum cpu_level {
    CPU_PLAIN = 0,
    CPU_NEON = 1, /* every arm64 processor; the others are x86-64's */
    CPU_AVX2 = 1, /* AVX2, FMA, F16C, BMI1, BMI2 */
    CPU_AVX512,   /* AVX-512 F, BW, VL, DQ, VBMI, VBMI2, VNNI, VPOPCNTDQ */
};

enum cpu_level cpu_level(void);
const char *cpu_level_name(enum cpu_level level);
bool cpu_has_sse42(void);
/* AVX512-BF16, also true where AMX is. */
bool cpu_has_avx512_bf16(void);
bool cpu_has_amx_bf16(void);

#endif
