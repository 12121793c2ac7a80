#ifndef HEADRACE_PREP_LAYOUT_H
#define HEADRACE_PREP_LAYOUT_H

/* Folders of images as other people lay them out. What cannot be read as it is, is refused with the
 * command that helps; the order of labels is never guessed. */

#include "base/status.h"

/* Where train/ and val/ are, on the heap: Kaggle's tree has them in ILSVRC/Data/CLS-LOC; else
 * `path` itself. */
struct status layout_find_root(const char *path, char **ret_root);

/* OK for a folder of class folders, and for what is not recognised. Fails with STATUS_USAGE for
 *  - flat images of ILSVRC2012, also in one folder that would pass for a class,
 *  - Tiny-ImageNet. */
struct status layout_check_classes(const char *path);

#endif
