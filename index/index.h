#ifndef HEADRACE_INDEX_INDEX_H
#define HEADRACE_INDEX_INDEX_H

/* Reading an index (FORMAT.md): a small mapped file that says where each record of a data set
 * stands. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"
#include "image/source.h"

struct access;
struct index;

/* Whether a file begins as an index or a packed shard does. A URL is taken for one. */
struct status index_recognise(const char *path, bool *ret_is_index);

/* Opens the index at `path`, a file or a URL, and maps it, or fetches it whole from its server.
 * O(1) in the number of records: header and section directory are checked; columns are checked, 64
 * KiB at a time, when they are first touched. On success *ret_index is owned by the caller
 * (index_close). Fails with STATUS_CORRUPT, naming the section and offset; *ret_index is then
 * untouched. Shards are opened when first read. */
struct status index_open(const char *path, struct index **ret_index);
/* The same with an access (access.h) that outlives the index. index_open takes one of its own, with
 * what the environment says, where there is a URL. */
struct status index_open_with(const char *path, struct access *access, struct index **ret_index);
void index_close(struct index *index);
CLEANUP_POINTER(index_close, struct index)

/* Checks every section against its CRCs, and the header of a packed shard. Fails with
 * STATUS_CORRUPT. */
struct status index_check_sections(const struct index *index);

/* Has messages call an index by another name: its file is gone. */
struct status index_rename(struct index *index, const char *name);
/* Of a URL, without its query. */
const char *index_path(const struct index *index);
/* What reads its URLs, borrowed; NULL: it has none, and no access was given. */
struct access *index_access(const struct index *index);
uint64_t index_count(const struct index *index);
size_t index_shard_count(const struct index *index);
/* Whether shards stand behind URLs. */
bool index_has_urls(const struct index *index);
/* Shard `i` with its path resolved (access_resolve); borrowed. */
const struct source_shard *index_shard(const struct index *index, size_t shard);
/* Borrowed; made once. */
const struct class_table *index_classes(const struct index *index);
/* Provenance as JSON text, borrowed; "{}" if there is none. */
const char *index_provenance(const struct index *index);

/* Names the records' content: of indexes with the same number, records of the same number have the
 * same bytes. Where the index does not know all their CRCs, its shards' places and times of change
 * are part of it, or what their servers tell versions by, who are asked for that. Where a server
 * tells none, the number is this open index's alone, *ret_lasts is false, and that is warned of.
 * Checks the whole column of flags. */
struct status index_identity(const struct index *index, uint64_t *ret_identity, bool *ret_lasts);

/* The labels, contiguous, borrowed: count numbers below the number of classes. Checks the whole
 * column. */
struct status index_labels(const struct index *index, const int32_t **ret_labels);

/* A column of fixed width (FORMAT.md's sections 4 … 11) as it stands, borrowed. Its CRCs hold; its
 * numbers are not checked against the shard and class tables. STATUS_USAGE for another section. */
struct status index_column(const struct index *index, uint32_t section, const void **ret_column);

struct record {
    uint64_t offset;
    uint32_t length; /* bytes as stored, without padding */
    uint32_t shard;
    uint32_t label;
    uint32_t crc32c;
    bool crc_known;
    uint8_t encoding;
    bool is_lossy;          /* not the original image: shrunk or encoded anew */
    uint16_t width, height; /* pixels; 0 if not known */
};
/* Record `i` < count, its numbers checked against the shard and class tables. Thread-safe. */
struct status index_record(const struct index *index, uint64_t i, struct record *ret_record);
/* File name of a record; borrowed. Thread-safe. */
struct status index_name(const struct index *index, uint64_t i, const char **ret_name);

/* The record of a class with this file name, in O(log count). Fails with STATUS_NOT_FOUND.
 * Thread-safe. */
struct status index_find(const struct index *index, uint32_t label, const char *name,
                         uint64_t *ret_i);

/* Reads a record as it stands in its shard, with pread or from its server, replacing the buffer's
 * content, and checks its CRC where known. At least RECORD_PADDING zero bytes follow in memory.
 * Failures name shard and offset. Thread-safe. */
#define RECORD_PADDING 64
struct status index_read_stored(struct index *index, uint64_t i, struct buffer *bytes);
/* The same into memory of record.length bytes, without padding. */
struct status index_read_into(struct index *index, uint64_t i, void *bytes);
/* index_read_stored of a record whose encoding this program knows. */
struct status index_read(struct index *index, uint64_t i, struct buffer *bytes);

/* Puts the index, the record's number, class and name before a failure that is not a stop. */
struct status index_blame(const struct index *index, uint64_t i, struct status status);
/* Puts the place of a record's bytes before a failure that does not tell it: shard and offset, or
 * the record's own file. */
struct status index_blame_bytes(const struct index *index, uint64_t i, struct status status);

/* Tells the kernel that a shard's bytes will be read soon. */
void index_read_ahead(struct index *index, uint32_t shard, uint64_t offset, uint64_t length);

#endif
