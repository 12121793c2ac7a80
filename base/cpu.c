#include "base/cpu.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct cpu_features {
    enum cpu_level level;
    bool sse42;
    bool avx512_bf16;
    bool amx_bf16;
};

static struct cpu_features features;
static pthread_once_t features_once = PTHREAD_ONCE_INIT;

#ifdef __x86_64__
#include <cpuid.h>

struct cpuid_leaf {
    unsigned eax, ebx, ecx, edx;
};

static struct cpuid_leaf cpuid_read(unsigned leaf, unsigned subleaf)
{
    struct cpuid_leaf r = {0};
    __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
    return r;
}

/* The register states that the operating system saves: a feature without its state is unusable. */
static uint64_t saved_states(bool osxsave)
{
    if (!osxsave)
        return 0;
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has_all(uint64_t set, uint64_t wanted)
{
    return (set & wanted) == wanted;
}

static struct cpu_features features_detect(void)
{
    const uint64_t state_avx = 0x6, state_avx512 = 0xe6, state_amx = 0x60000;
    struct cpuid_leaf one = cpuid_read(1, 0), seven = cpuid_read(7, 0), seven_one = {0};
    if (seven.eax >= 1)
        seven_one = cpuid_read(7, 1);
    uint64_t states = saved_states(one.ecx & bit_OSXSAVE);

    struct cpu_features found = {.sse42 = has_all(one.ecx, bit_SSE4_2 | bit_PCLMUL)};
    if (found.sse42 && has_all(states, state_avx) &&
        has_all(one.ecx, bit_AVX | bit_FMA | bit_F16C) &&
        has_all(seven.ebx, bit_AVX2 | bit_BMI | bit_BMI2))
        found.level = CPU_AVX2;
    if (found.level == CPU_AVX2 && has_all(states, state_avx512) &&
        has_all(seven.ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ) &&
        has_all(seven.ecx, bit_AVX512VBMI | bit_AVX512VBMI2 | bit_AVX512VNNI | bit_AVX512VPOPCNTDQ))
        found.level = CPU_AVX512;
    if (found.level == CPU_AVX512) {
        found.avx512_bf16 = has_all(seven_one.eax, 1u << 5);
        found.amx_bf16 = has_all(states, state_amx) && has_all(seven.edx, 1u << 22 | 1u << 24);
    }
    return found;
}
#else
static struct cpu_features features_detect(void)
{
#ifdef __aarch64__
    return (struct cpu_features){.level = CPU_NEON};
#else
    return (struct cpu_features){.level = CPU_PLAIN};
#endif
}
#endif

static void features_lower(struct cpu_features *found, const char *wish)
{
    enum cpu_level highest = CPU_AVX512;
    if (strcmp(wish, cpu_level_name(CPU_PLAIN)) == 0) {
        highest = CPU_PLAIN;
        found->sse42 = false;
    } else if (strcmp(wish, cpu_level_name(CPU_AVX2)) == 0) {
        highest = CPU_AVX2;
    }
    if (highest < CPU_AVX512)
        found->avx512_bf16 = found->amx_bf16 = false;
    if (found->level > highest)
        found->level = highest;
}

static void features_init(void)
{
    features = features_detect();
    const char *wish = getenv("HEADRACE_CPU");
    if (wish)
        features_lower(&features, wish);
}

static const struct cpu_features *features_get(void)
{
    pthread_once(&features_once, features_init);
    return &features;
}

enum cpu_level cpu_level(void)
{
    return features_get()->level;
}

const char *cpu_level_name(enum cpu_level level)
{
#ifdef __aarch64__
    static const char *const names[] = {"plain", "neon"};
#else
    static const char *const names[] = {"plain", "avx2", "avx512"};
#endif
    return names[level];
}

bool cpu_has_sse42(void)
{
    return features_get()->sse42;
}

bool cpu_has_avx512_bf16(void)
{
    return features_get()->avx512_bf16;
}

bool cpu_has_amx_bf16(void)
{
    return features_get()->amx_bf16;
}
