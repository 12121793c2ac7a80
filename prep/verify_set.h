#ifndef HEADRACE_PREP_VERIFY_SET_H
#define HEADRACE_PREP_VERIFY_SET_H

/* The steps of verifying one set; private to verify*.c. */

#include "prep/verify.h"

/* Compares classes, counts and names with `table` (NULL: nothing is known). */
struct status verify_counts(struct verify_set *set, const struct verify_options *options,
                            const struct source *source, const struct class_table *table);
/* Looks for what does not belong into a folder of class folders. */
struct status verify_strays(struct verify_set *set, const struct source *source);
/* Looks at the first and last bytes of all images, or decodes them all. */
struct status verify_images(struct verify_set *set, const struct verify_options *options,
                            const struct source *source);
/* Finds images with the same bytes, within a set and across the sets; `sources` are theirs, NULL
 * where a set has no images. */
struct status verify_duplicates(struct verify_report *report, const struct verify_options *options,
                                const struct source *const *sources);
/* Compares an archive file with the published ones: by size, and by MD5 where that is asked for. */
struct status verify_official(struct verify_set *set, const struct verify_options *options,
                              uint64_t size_bytes);

#endif
