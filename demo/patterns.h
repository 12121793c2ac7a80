#ifndef HEADRACE_DEMO_PATTERNS_H
#define HEADRACE_DEMO_PATTERNS_H

/* Drawn stand-ins for ten ImageNet classes. A class is told by its pattern alone: colours, light,
 * size, turn and position are random, so that nothing simpler than shape separates the classes. */

#include <stdint.h>

#include "base/random.h"
#include "base/status.h"
#include "image/picture.h"

struct pattern_class {
    const char *wnid;
    const char *words;
    double (*cover)(double u, double v, double phase); /* 0 background, 1 pattern */
};

#define PATTERN_CLASSES 10
/* Sorted by WNID. */
extern const struct pattern_class pattern_classes[PATTERN_CLASSES];

/* Draws one image of a class: 96 to 223 pixels a side, all its choices taken from `stream`. */
struct status pattern_draw(unsigned label, struct random_stream *stream, struct picture *picture);

#endif
