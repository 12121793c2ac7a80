#ifndef HEADRACE_INDEX_PACK_WINDOWS_H
#define HEADRACE_INDEX_PACK_WINDOWS_H

/* Private to index/pack*.c: goes through all images of a source in parallel, and adds them to
 * shards, index and report in order. */

#include "index/pack_image.h"
#include "index/shard_writer.h"

struct packer {
    struct pack_source from;
    struct pack_report *report;
    struct shard_writer *writer; /* NULL: in place */
    struct source_item *kept;    /* in place: the items that go into the index, room for all */
    size_t kept_count;
};

struct status pack_windows_run(struct packer *packer);

#endif
