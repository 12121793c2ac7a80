#ifndef HEADRACE_PREP_LAYOUT_H
#define HEADRACE_PREP_LAYOUT_H

/* Folders of images as other people lay them out. What cannot be read as it is, is refused with the
 * command that helps; the order of labels is never guessed. */

#include "base/status.h"
#include "prep/devkit.h"
#include "prep/image_name.h"

/* Where train/ and val/ are, on the heap: Kaggle's tree has them in ILSVRC/Data/CLS-LOC; else
 * `path` itself. */
struct status layout_find_root(const char *path, char **ret_root);

/* OK for a folder of class folders, and for what is not recognised. Fails with STATUS_USAGE for
 *  - flat images of ILSVRC2012, also in one folder that would pass for a class,
 *  - Tiny-ImageNet. */
struct status layout_check_classes(const char *path);

/* Whose flat images a folder without class folders holds; IMAGE_SET_OTHER for any other folder. */
struct status layout_flat_set(const char *path, enum image_set *ret_set);
/* What tells the classes of such a folder's images: the devkit or Kaggle's CSV in it or in one of
 * the folders around it (Kaggle's is four levels up), else their own names. NULL where nothing
 * does. */
struct status layout_open_labels(const char *path, struct devkit **ret_devkit);

#endif
