#ifndef HEADRACE_IMAGE_FOLDER_SOURCE_H
#define HEADRACE_IMAGE_FOLDER_SOURCE_H

#include "image/source.h"

/* Lists class folders: ROOT/CLASS/NAME.JPEG. Hidden folders, __MACOSX, lost+found and files beside
 * the class folders are passed over and counted. `classes` (borrowed) gives the labels: a folder
 * that is not in it fails with STATUS_CORRUPT; NULL: the folders themselves are the classes, with
 * words and counts from the built-in table where all of them are ImageNet's. Class folders without
 * images keep their label. Fails with the command to run for flat validation folders. */
struct status folder_source_open(const char *root, const struct class_table *classes,
                                 unsigned threads, struct source **ret_source);
/* The same for those who want to know of all that is wrong: goes on past folders and files that
 * cannot be read, and notes them in the source. Fails where nothing can be read. */
struct status folder_source_survey(const char *root, unsigned threads, struct source **ret_source);

#endif
