#ifndef HEADRACE_PREP_FLAT_SOURCE_H
#define HEADRACE_PREP_FLAT_SOURCE_H

/* A folder of flat images as a source: nothing has to be moved to pack or verify it. */

#include "image/source.h"
#include "prep/devkit.h"

/* Lists the images in `root`, whose classes `devkit` tells by their names; NULL: all are of one
 * class, "(flat)". Labels count `classes` (borrowed; NULL: the devkit's). Fails with STATUS_CORRUPT
 * for an image whose class is not known, or not among them; other files are counted as ignored. */
struct status flat_source_open(const char *root, const struct devkit *devkit,
                               const struct class_table *classes, unsigned threads,
                               struct source **ret_source);
/* A table of the one class "(flat)". */
struct status flat_classes(struct class_table **ret_classes);

#endif
