#ifndef HEADRACE_PREP_KNOWN_SUBSET_H
#define HEADRACE_PREP_KNOWN_SUBSET_H

#include "image/class_table.h"

/* The name of the published data set that has exactly these classes of ILSVRC2012, in a training
 * and a validation part of its own, which mix both of ILSVRC2012's ("Imagenette", "Imagewoof");
 * NULL for none. */
const char *known_subset_name(const struct class_table *classes);

#endif
