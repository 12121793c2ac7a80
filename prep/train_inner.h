#ifndef HEADRACE_PREP_TRAIN_INNER_H
#define HEADRACE_PREP_TRAIN_INNER_H

/* The inner archives of a training archive: CLASS.tar, one a class. */

#include "base/memory.h"
#include "image/class_table.h"
#include "prep/archive_listing.h"

struct train_inner {
    const struct archive_item **items; /* of the outer listing, borrowed */
    const char **classes;              /* names of their classes */
    size_t count;
    struct arena names;
};

/* Picks them out of the outer archive's listing. Fails with STATUS_NOT_FOUND if there are none,
 * with STATUS_CORRUPT for a class that occurs twice, and, where `classes` (NULL is fine) is given,
 * for classes that it does not have, naming them and those that the archive lacks. Warns when the
 * classes show that this is another archive than it seems. */
struct status train_inner_find(const struct archive_file *file, const struct archive_listing *outer,
                               const struct class_table *classes, struct train_inner *ret_inner);
void train_inner_done(struct train_inner *inner);
CLEANUP_VALUE(train_inner_done, struct train_inner)

/* The class of an inner archive's name, on the heap. */
struct status train_class_name(const char *inner_name, char **ret_class_name);

#endif
