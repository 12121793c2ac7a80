#ifndef HEADRACE_PREP_ODDITY_H
#define HEADRACE_PREP_ODDITY_H

/* Images that are fine but not what their names promise. ILSVRC2012 as published has 23 of them,
 * and everybody's copy has the same ones. */

#include <stdbool.h>

#include "image/decode.h"

enum oddity_kind {
    ODDITY_NONE,
    ODDITY_PNG,       /* a PNG under a JPEG's name */
    ODDITY_CMYK,      /* a JPEG in CMYK or YCCK */
    ODDITY_CONVERTED, /* published as one of the above, an ordinary JPEG here */
    ODDITY_KINDS,
};

/* "PNG under a JPEG's name", … */
const char *oddity_kind_name(enum oddity_kind kind);
/* What the image `name` (a file name) is published as; ODDITY_NONE for all but the 23. */
enum oddity_kind oddity_published(const char *name);
/* What an image is by its header. */
enum oddity_kind oddity_of(const char *name, const struct image_info *info);

#endif
