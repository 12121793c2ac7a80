#ifndef HEADRACE_CMD_OPEN_INDEX_H
#define HEADRACE_CMD_OPEN_INDEX_H

#include "index/access.h"
#include "index/index.h"

/* Opens an INDEX of a command line, a file or a URL. Fails for a folder with the command to type:
 * on an index in it or beside it, which takes the place of the word INDEX in `usage` ("unpack INDEX
 * DEST"), or to make one. */
struct status command_open_index(const char *usage, const char *path, struct access *access,
                                 struct index **ret_index);
/* Refuses a URL, and no name at all, as the place of what a command writes. */
struct status command_check_output(const char *path);

#endif
