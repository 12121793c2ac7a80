#include "image/color.h"

#include "image/color_kernels.h"

const struct color_kernels *color_kernels_for(enum cpu_level level)
{
    (void)level;
    return &color_plain;
}
