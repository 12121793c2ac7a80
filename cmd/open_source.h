#ifndef HEADRACE_CMD_OPEN_SOURCE_H
#define HEADRACE_CMD_OPEN_SOURCE_H

/* Finds out what a SRC on the command line is: class folders, an archive, an index or packed shard,
 * or a folder that holds a training and a validation part. */

#include "base/status.h"
#include "image/source.h"
#include "index/access.h"

struct source_request {
    const char *path;
    const char *devkit; /* NULL: looked for beside a validation archive */
    const char *prefix; /* which class folders of an archive; NULL: all of them */
    unsigned threads;
    struct access *access; /* of an index that has URLs; outlives the source */
};

/* One set. A folder that holds both parts fails with STATUS_USAGE and names them. */
struct status source_open_any(const struct source_request *request, struct source **ret_source);

/* Both parts, with the same class table: folders train/ and val/, a folder with the published
 * archives, or an archive of class folders below train/ and val/. Else fails with STATUS_USAGE,
 * saying what was expected. */
struct status source_open_pair(const struct source_request *request, struct source **ret_train,
                               struct source **ret_val);

#endif
