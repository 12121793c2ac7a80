#ifndef HEADRACE_TRAIN_CPU_BF16_H
#define HEADRACE_TRAIN_CPU_BF16_H

/* bf16: the upper half of an f32. */

#include <stdint.h>
#include <string.h>

static inline float bf16_to_f32(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to nearest even; a NaN stays one. */
static inline uint16_t bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
