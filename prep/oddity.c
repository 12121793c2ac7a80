#include "prep/oddity.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

static const char published_png[] = "n02105855_2933.JPEG";

/* Sorted. */
static const char *const published_cmyk[] = {
    "n01739381_1309.JPEG",  "n02077923_14822.JPEG", "n02447366_23489.JPEG", "n02492035_15739.JPEG",
    "n02747177_10752.JPEG", "n03018349_4028.JPEG",  "n03062245_4620.JPEG",  "n03347037_9675.JPEG",
    "n03467068_12171.JPEG", "n03529860_11437.JPEG", "n03544143_17228.JPEG", "n03633091_5218.JPEG",
    "n03710637_5125.JPEG",  "n03961711_5286.JPEG",  "n04033995_2932.JPEG",  "n04258138_17003.JPEG",
    "n04264628_27969.JPEG", "n04336792_7448.JPEG",  "n04371774_5854.JPEG",  "n04596742_4225.JPEG",
    "n07583066_647.JPEG",   "n13037406_4650.JPEG",
};

const char *oddity_kind_name(enum oddity_kind kind)
{
    static const char *const names[ODDITY_KINDS] = {
        [ODDITY_NONE] = "none",
        [ODDITY_PNG] = "PNG under a JPEG's name",
        [ODDITY_CMYK] = "CMYK or YCCK",
        [ODDITY_CONVERTED] = "converted",
    };
    return names[kind];
}

static int name_compare(const void *name, const void *element)
{
    return strcmp(name, *(const char *const *)element);
}

enum oddity_kind oddity_published(const char *name)
{
    if (strcmp(name, published_png) == 0)
        return ODDITY_PNG;
    return bsearch(name, published_cmyk, ARRAY_LENGTH(published_cmyk), sizeof *published_cmyk,
                   name_compare)
               ? ODDITY_CMYK
               : ODDITY_NONE;
}

enum oddity_kind oddity_of(const char *name, const struct image_info *info)
{
    const char *dot = strrchr(name, '.');
    if (info->kind == IMAGE_PNG)
        return dot && strcasecmp(dot, ".png") == 0 ? ODDITY_NONE : ODDITY_PNG;
    if (info->components == 4)
        return ODDITY_CMYK;
    return oddity_published(name) == ODDITY_NONE ? ODDITY_NONE : ODDITY_CONVERTED;
}
