#ifndef HEADRACE_INDEX_WRITER_H
#define HEADRACE_INDEX_WRITER_H

/* Writing an index (FORMAT.md). */

#include <stddef.h>
#include <stdint.h>

#include "base/file_writer.h"
#include "base/status.h"
#include "image/class_table.h"
#include "image/source.h"

/* What goes into an index, all borrowed. */
struct index_contents {
    const struct class_table *classes;
    const struct source_shard *shards;
    size_t shard_count;
    const struct source_item *items; /* sorted and checked (source_finish) */
    uint64_t item_count;
    uint32_t first_shard;   /* the items' number of shards[0] */
    const char *provenance; /* JSON text of an object */
};

/* Appends the bytes of an index at the writer's position, which is a multiple of 64. The shards'
 * paths are stored as they are. Nothing is committed. */
struct status index_encode(const struct index_contents *contents, struct file_writer *writer);

/* Writes an index that will be called `path` through a writer that was opened for it. The shards'
 * paths are taken as they can be opened from here; those below the index's folder are stored
 * relative to it, others absolute. The file is synced but has no name yet: publish it with
 * file_writer_publish. */
struct status index_prepare(const struct index_contents *contents, const char *path,
                            struct file_writer *writer);

/* Writes a finished source as an index called `path`. */
struct status index_write(const struct source *source, const char *provenance, const char *path);

/* Roughly how many bytes an index has, a little too much. `names_bytes` are those of all names
 * without their ends. */
uint64_t index_estimate_bytes(const struct class_table *classes, uint64_t record_count,
                              uint64_t names_bytes);

#endif
