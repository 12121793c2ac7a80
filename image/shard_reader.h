#ifndef HEADRACE_IMAGE_SHARD_READER_H
#define HEADRACE_IMAGE_SHARD_READER_H

/* Reading byte ranges of shards: with pread, or through a `struct shard_remote`. Sources and
 * indexes both read through here. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"
#include "image/source.h"

/* Where one record stands and what its bytes have to be. */
struct shard_range {
    uint32_t shard;
    uint64_t offset, length;
    uint32_t crc32c; /* of the bytes, if crc_known */
    bool crc_known;
    const char *class_name, *name; /* of a folder's file; not used elsewhere */
};

/* Reads ranges of one shard that is not a file of this machine, and checks their CRC. Thread-safe.
 */
struct shard_remote {
    struct status (*read)(struct shard_remote *remote, const struct shard_range *range,
                          void *bytes);
};

/* Thread-safe. Files are opened when first read and stay open; a folder's files are opened for each
 * read. */
struct shard_reader;

/* `shards` is borrowed. Their sizes are compared with those of the files when these are opened. */
struct status shard_reader_open(const struct source_shard *shards, size_t count,
                                struct shard_reader **ret_reader);
void shard_reader_close(struct shard_reader *reader);
CLEANUP_POINTER(shard_reader_close, struct shard_reader)

/* Reads a range into `bytes`, which holds range->length bytes, and checks the CRC where it is
 * known; where it is not, that the file was not written to since it was opened. Fails with
 * STATUS_NOT_FOUND when the file is gone, STATUS_CORRUPT when its size, its time or the CRC is
 * another; messages name the shard and the offset, the caller adds the record. */
struct status shard_read(struct shard_reader *reader, const struct shard_range *range, void *bytes);
/* The same, replacing a buffer's content, with SHARD_PADDING zero bytes after it in memory. */
#define SHARD_PADDING 64
struct status shard_read_buffer(struct shard_reader *reader, const struct shard_range *range,
                                struct buffer *bytes);

/* What the file of a shard was when it was opened, which it is here where nothing was read yet; of
 * a folder, what it is. For shards of this machine. */
struct status shard_state(struct shard_reader *reader, uint32_t shard, struct stat *ret_state);

/* The range of a source's item, for shard_read. */
struct shard_range source_range(const struct source *source, size_t item);

/* Tells the kernel that a range will be read soon; does nothing for folders and what is not on this
 * machine. What fails here is left to the reading. */
void shard_read_ahead(struct shard_reader *reader, uint32_t shard, uint64_t offset,
                      uint64_t length);

#endif
