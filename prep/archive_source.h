#ifndef HEADRACE_PREP_ARCHIVE_SOURCE_H
#define HEADRACE_PREP_ARCHIVE_SOURCE_H

/* Archives as sources: only headers are read, and images are byte ranges of the untouched archive.
 * Archives must be plain (not compressed) files. `classes` (borrowed) gives the labels, as in
 * folder_source.h; NULL: the archive's own classes, with words and counts from the built-in table
 * where all of them are ImageNet's. */

#include "image/source.h"
#include "prep/archive.h"
#include "prep/devkit.h"

/* A tar of one tar a class, named CLASS.tar; the inner ones are read in parallel. A class that
 * occurs twice or that `classes` does not have fails with STATUS_CORRUPT. */
struct status train_source_open(const struct archive_file *file, const struct class_table *classes,
                                unsigned threads, struct source **ret_source);

/* Flat validation images; labels come from the devkit's ground truth, paired by the number in the
 * name. */
struct status val_source_open(const struct archive_file *file, const struct devkit *devkit,
                              struct source **ret_source);

/* Class folders: PREFIX/CLASS/NAME, or CLASS/NAME when `prefix` is "". NULL: what the archive has,
 * if that is one thing; else fails and names the prefixes to choose from. */
struct status tar_source_open(const struct archive_file *file, const char *prefix,
                              const struct class_table *classes, struct source **ret_source);

/* Fails: a prefix was given for something else, `what`. */
struct status archive_fail_prefix(const char *path, const char *what);

/* Whichever of these the archive is. A prefix fails where it is not an archive of class folders.
 * `devkit` may be NULL unless it is a validation archive. */
struct status archive_source_open(const char *path, const struct devkit *devkit, const char *prefix,
                                  unsigned threads, struct source **ret_source);

#endif
