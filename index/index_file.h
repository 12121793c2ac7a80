#ifndef HEADRACE_INDEX_INDEX_FILE_H
#define HEADRACE_INDEX_INDEX_FILE_H

/* The bytes of an index, wherever they stand: a file of its own or the trailer of a packed shard,
 * on this machine (mapped) or behind a URL (fetched into memory). */

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "index/format.h"
#include "index/remote.h"

/* No index is larger: one of all of ImageNet-21k takes a fifth of it. What a server announces is
 * not believed beyond. */
#define INDEX_REMOTE_BYTES ((uint64_t)4 << 30)

struct index_file {
    const uint8_t *data; /* the index, aligned to 64 */
    uint64_t size_bytes;
    uint64_t file_bytes; /* of the file that it stands in */
    bool is_packed;      /* that is a packed shard, whose header this is: */
    uint8_t header[PACKED_HEADER_BYTES];

    struct file_map map; /* of a file of this machine */
    uint8_t *fetched;    /* from a URL */
    size_t fetched_bytes;
};
void index_file_done(struct index_file *file);
CLEANUP_VALUE(index_file_done, struct index_file)

/* Opens what stands at `path`, or where that is a URL, is read from `remote`. Fails with
 * STATUS_CORRUPT for a packed shard without its trailer. */
struct status index_file_open(const char *path, struct remote_file *remote,
                              struct index_file *ret_file);

#endif
