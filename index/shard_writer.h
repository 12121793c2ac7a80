#ifndef HEADRACE_INDEX_SHARD_WRITER_H
#define HEADRACE_INDEX_SHARD_WRITER_H

/* Writing packed shards (FORMAT.md): records one after the other, a trailer behind them, a new
 * shard when one is full. */

#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"
#include "image/source.h"

struct shard_writer;

/* Shards will be called PREFIX-00000.shard and so on. `classes` is borrowed. The caller keeps other
 * processes away by a file writer of its own (that of the index). */
struct status shard_writer_open(const char *prefix, const struct class_table *classes,
                                uint64_t shard_bytes, struct shard_writer **ret_writer);
/* Removes what was not published. */
void shard_writer_free(struct shard_writer *writer);
CLEANUP_POINTER(shard_writer_free, struct shard_writer)

/* Adds a record: a copy of `item` with its place set. `bytes` holds shard_padded(item->length)
 * bytes, zero behind the record, and is borrowed until shard_writer_flush; records that follow each
 * other in memory are written at once. */
struct status shard_writer_add(struct shard_writer *writer, const struct source_item *item,
                               const uint8_t *bytes);
struct status shard_writer_flush(struct shard_writer *writer);

/* Ends the last shard. All shards are synced and wait for their names. */
struct status shard_writer_finish(struct shard_writer *writer);
/* Fails when a shard of another content stands under one of the names, or under the next one. */
struct status shard_writer_check(const struct shard_writer *writer);
/* Gives all shards their names, and removes shards of these names with higher numbers (of an
 * earlier, longer set). */
struct status shard_writer_publish(struct shard_writer *writer);

/* The shards and records so far, borrowed. */
const struct source_shard *shard_writer_shards(const struct shard_writer *writer,
                                               size_t *ret_count);
const struct source_item *shard_writer_items(const struct shard_writer *writer,
                                             uint64_t *ret_count);

/* Bytes that a record takes in a shard. */
uint64_t shard_padded(uint64_t length);
/* "PREFIX-00012.shard" on the heap. */
struct status shard_path(const char *prefix, size_t number, char **ret_path);

/* How many shards the items of a source make, and their bytes without trailers: the same rule as
 * above. */
void shard_layout(const struct source *source, uint64_t shard_bytes, uint64_t *ret_shards,
                  uint64_t *ret_bytes);

#endif
