#ifndef HEADRACE_IMAGE_PIXELS_H
#define HEADRACE_IMAGE_PIXELS_H

/* Whose pixels a decoded and resized image has. */
enum pixels {
    PIXELS_PILLOW = 0, /* bit for bit those of Pillow up to 12: horizontal pass first */
    PIXELS_PILLOW13,   /* those of Pillow 13, which chooses the order of passes by shape */
    PIXELS_FAST,       /* of blocks, close to them (fast_resample.h); of other files, Pillow's */
};
extern const char *const pixels_names[]; /* as options take them; ends in NULL */

#endif
