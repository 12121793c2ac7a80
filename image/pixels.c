#include "image/pixels.h"

#include <stddef.h>

const char *const pixels_names[] = {"pillow", "pillow13", "fast", NULL};
