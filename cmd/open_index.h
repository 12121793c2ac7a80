#ifndef HEADRACE_CMD_OPEN_INDEX_H
#define HEADRACE_CMD_OPEN_INDEX_H

#include "index/index.h"

/* Opens an INDEX of the command line of `command`. Fails for a folder with the command to type: on
 * an index in it or beside it, or to make one. */
struct status command_open_index(const char *command, const char *path, struct index **ret_index);

#endif
