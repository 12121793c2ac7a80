#ifndef HEADRACE_CMD_OPEN_INDEX_H
#define HEADRACE_CMD_OPEN_INDEX_H

#include "index/access.h"
#include "index/index.h"

/* Opens an INDEX of the command line of `command`, a file or a URL. Fails for a folder with the
 * command to type: on an index in it or beside it, or to make one. */
struct status command_open_index(const char *command, const char *path, struct access *access,
                                 struct index **ret_index);
/* Refuses a URL as the place of what a command writes. */
struct status command_check_output(const char *path);

#endif
