#ifndef HEADRACE_INDEX_FOLDER_INDEX_H
#define HEADRACE_INDEX_FOLDER_INDEX_H

/* Class folders as an index, made when it is first asked for. */

#include "image/class_table.h"
#include "index/index.h"

/* Opens the index of the class folders under `root`: ROOT.idx beside it, else one in the user's
 * cache (XDG_CACHE_HOME or ~/.cache, headrace/). One that is missing, broken, older than a class
 * folder, or whose classes are not `classes`, is made anew (with `threads`, and labels by `classes`
 * unless that is NULL); where neither place can be written, it lives as long as it is open. Fails
 * as folder_source_open does. */
struct status folder_index_open(const char *root, const struct class_table *classes,
                                unsigned threads, struct index **ret_index);

/* Whether an index was made by folder_index_open, and not by packing or selecting. */
bool folder_index_is_own(const struct index *index);

#endif
