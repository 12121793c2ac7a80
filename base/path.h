#ifndef HEADRACE_BASE_PATH_H
#define HEADRACE_BASE_PATH_H

/* Paths as text. Results on the heap are freed with memory_free. */

#include <stdbool.h>

#include "base/status.h"

bool path_exists(const char *path);
bool path_is_folder(const char *path);
/* "a/b" on the heap. An absolute `name` stands alone; an empty `name` gives `folder`, an empty
 * `folder` gives `name`. */
struct status path_join(const char *folder, const char *name, char **ret_path);
/* The last component, borrowed from `path`; trailing slashes are not skipped. */
const char *path_base(const char *path);
/* Everything before the last component ("." if there is none), on the heap. */
struct status path_folder(const char *path, char **ret_folder);
/* `path` as seen from `folder` when it lies below it, else absolute; on the heap. Both folders must
 * exist, the file itself need not. */
struct status path_relative(const char *path, const char *folder, char **ret_path);
/* The folder of the running program, on the heap. */
struct status path_program_folder(char **ret_folder);
/* The user's folder for what can be made again, which may not exist: headrace/ in XDG_CACHE_HOME or
 * in ~/.cache, on the heap; NULL where no home is known. */
struct status path_cache_folder(char **ret_folder);
/* The real absolute path of something that exists, on the heap. */
struct status path_real(const char *path, char **ret_path);

#endif
