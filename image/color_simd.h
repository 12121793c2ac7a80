#ifndef HEADRACE_IMAGE_COLOR_SIMD_H
#define HEADRACE_IMAGE_COLOR_SIMD_H

/* Private to image/color_avx*.c: upsampling and colour conversion, whatever a vector's size. */

#include "image/color_kernels.h"
#include "image/simd.h"

#ifdef __AVX2__

/* Bytes of each 128-bit lane's left and right half, three times `a` and once `b`, as 16-bit sums.
 */
SIMD VEC_INT left_sums(VEC_INT a, VEC_INT b)
{
    return VEC(maddubs_epi16)(VEC(unpacklo_epi8)(a, b), VEC(set1_epi16)(0x0103));
}

SIMD VEC_INT right_sums(VEC_INT a, VEC_INT b)
{
    return VEC(maddubs_epi16)(VEC(unpackhi_epi8)(a, b), VEC(set1_epi16)(0x0103));
}

/* Even and odd results side by side: both are bytes in 16 bits. */
SIMD VEC_INT mix(VEC_INT even, VEC_INT odd)
{
    return vec_or(even, VEC(slli_epi16)(odd, 8));
}

/* Two parts of a vector's samples: (sum + bias) >> 2. */
SIMD VEC_INT quarter(VEC_INT sums, int bias)
{
    return VEC(srli_epi16)(VEC(add_epi16)(sums, VEC(set1_epi16)((short)bias)), 2);
}

static void across_simd(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i += sizeof(VEC_INT)) {
        VEC_INT here = vec_load(in + i), before = vec_load(in + i - 1),
                after = vec_load(in + i + 1);
        VEC_INT left = mix(quarter(left_sums(here, before), 1), quarter(left_sums(here, after), 2));
        VEC_INT right =
            mix(quarter(right_sums(here, before), 1), quarter(right_sums(here, after), 2));
        vec_store_halves(out + 2 * i, left, right);
    }
}

static void down_simd(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                      uint8_t *out)
{
    for (size_t i = 0; i < count; i += sizeof(VEC_INT)) {
        VEC_INT a = vec_load(near + i), b = vec_load(far + i);
        VEC_INT left = quarter(left_sums(a, b), (int)bias),
                right = quarter(right_sums(a, b), (int)bias);
        vec_store(out + i, VEC(packus_epi16)(left, right));
    }
}

/* The second dimension: sums of 3 to 1 of sums. */
SIMD VEC_INT sixteenth(VEC_INT here, VEC_INT beside, VEC_INT bias)
{
    VEC_INT sum = VEC(add_epi16)(VEC(add_epi16)(here, here), VEC(add_epi16)(here, beside));
    return VEC(srli_epi16)(VEC(add_epi16)(sum, bias), 4);
}

static void both_simd(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    const VEC_INT seven = VEC(set1_epi16)(7), eight = VEC(set1_epi16)(8);
    for (size_t i = 0; i < count; i += sizeof(VEC_INT)) {
        VEC_INT near_here = vec_load(near + i), far_here = vec_load(far + i);
        VEC_INT near_before = vec_load(near + i - 1), far_before = vec_load(far + i - 1);
        VEC_INT near_after = vec_load(near + i + 1), far_after = vec_load(far + i + 1);
        VEC_INT here = left_sums(near_here, far_here);
        VEC_INT left = mix(sixteenth(here, left_sums(near_before, far_before), eight),
                           sixteenth(here, left_sums(near_after, far_after), seven));
        here = right_sums(near_here, far_here);
        VEC_INT right = mix(sixteenth(here, right_sums(near_before, far_before), eight),
                            sixteenth(here, right_sums(near_after, far_after), seven));
        vec_store_halves(out + 2 * i, left, right);
    }
}

/* Samples of half a vector in 16 bits to colours. */
SIMD void convert(VEC_INT y, VEC_INT cb, VEC_INT cr, VEC_INT rgb[3])
{
    const VEC_INT middle = VEC(set1_epi16)(128), bias = VEC(set1_epi32)(GREEN_BIAS);
    const VEC_INT by = VEC(set1_epi32)((int)((uint32_t)GREEN_REST << 16 | (GREEN_BY_CB & 0xffff)));
    VEC_INT green_left = vec_add_dot(bias, VEC(unpacklo_epi16)(cb, cr), by);
    VEC_INT green_right = vec_add_dot(bias, VEC(unpackhi_epi16)(cb, cr), by);
    VEC_INT green =
        VEC(packs_epi32)(VEC(srai_epi32)(green_left, 16), VEC(srai_epi32)(green_right, 16));
    cb = VEC(sub_epi16)(cb, middle);
    cr = VEC(sub_epi16)(cr, middle);
    VEC_INT red = VEC(add_epi16)(cr, VEC(mulhrs_epi16)(cr, VEC(set1_epi16)(RED_REST)));
    VEC_INT blue = VEC(add_epi16)(cb, VEC(mulhrs_epi16)(cb, VEC(set1_epi16)(BLUE_REST)));
    rgb[0] = VEC(add_epi16)(y, red);
    rgb[1] = VEC(add_epi16)(y, VEC(sub_epi16)(green, cr));
    rgb[2] = VEC(add_epi16)(y, blue);
}

static void to_rgb_simd(const uint8_t *const ycc[3], uint32_t count, uint8_t *const rgb[3])
{
    const VEC_INT zero = vec_zero();
    for (size_t i = 0; i < count; i += sizeof(VEC_INT)) {
        VEC_INT y = vec_load(ycc[0] + i), cb = vec_load(ycc[1] + i), cr = vec_load(ycc[2] + i);
        VEC_INT left[3], right[3];
        convert(VEC(unpacklo_epi8)(y, zero), VEC(unpacklo_epi8)(cb, zero),
                VEC(unpacklo_epi8)(cr, zero), left);
        convert(VEC(unpackhi_epi8)(y, zero), VEC(unpackhi_epi8)(cb, zero),
                VEC(unpackhi_epi8)(cr, zero), right);
        for (int c = 0; c < 3; c++)
            vec_store(rgb[c] + i, VEC(packus_epi16)(left[c], right[c]));
    }
}

#endif
#endif
