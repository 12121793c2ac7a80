#ifndef HEADRACE_IMAGE_SOURCE_H
#define HEADRACE_IMAGE_SOURCE_H

/* A source: a data set as a list of images, each a byte range of a file. Archives, class folders
 * and indexes all become one (train_source.h, folder_source.h, …), so that packing, counting and
 * indexing in place know one form only. Listing reads headers alone; bytes are read with
 * source_read.
 *
 * Items stand in the order (label, name bytes) whatever they came from, so folder, archive and
 * index of the same data are the same data set. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"

/* What a file that holds images is. Values are stored in indexes. */
enum shard_kind {
    SHARD_PACKED = 0, /* records written by headrace, padded, with a trailer */
    SHARD_TAR = 1,    /* an archive: records are its members' bytes */
    SHARD_FOLDER = 2, /* a folder: a record is the file WNID/NAME below it */
    SHARD_FLAT = 3,   /* a folder: a record is the file NAME in it */
    SHARD_KINDS,
};

/* How an image's bytes are stored. Values are stored in indexes. */
enum record_encoding {
    ENCODING_JPEG =
        0, /* the original file's bytes, whatever they are (JPEG, or PNG under a JPEG's name) */
    ENCODING_DCT = 1, /* a JPEG's quantised coefficients (index/dct_record.h) */
    ENCODINGS,
};

struct shard_remote;
struct source_shard {
    char *path;          /* as it can be opened from here: a file, a folder, or a URL */
    uint64_t size_bytes; /* 0 for a folder */
    enum shard_kind kind;
    struct shard_remote *remote; /* reads it where its path is a URL, borrowed; NULL: not needed */
};
/* Whether its records are files of their own, and not ranges of one. */
bool shard_is_folder(const struct source_shard *shard);
/* The file of a record in such a shard, on the heap. */
struct status shard_record_path(const struct source_shard *shard, const char *class_name,
                                const char *name, char **ret_path);

struct source_item {
    const char *name; /* file name, unique within its class; memory of the source */
    uint64_t offset;  /* in the shard; 0 in a folder */
    uint64_t length;  /* bytes */
    uint32_t label;
    uint32_t shard;
    uint32_t crc32c; /* of the bytes, if crc_known */
    bool crc_known;
    uint8_t encoding;
    bool is_lossy;          /* not the original image: shrunk or encoded anew */
    uint16_t width, height; /* pixels; 0 if not known yet */
};

/* What could not be listed. */
struct source_failure {
    char *path; /* below the data set: CLASS or CLASS/NAME */
    char *reason;
};

struct source {
    struct class_table *classes; /* owned */
    struct source_shard *shards;
    size_t shard_count, shard_capacity;
    struct source_item *items;
    size_t item_count, item_capacity;
    struct arena names;
    char *kind;       /* "ilsvrc-train-tar", "class-folders", …: part of the provenance */
    uint64_t ignored; /* files passed over (not images), reported by the caller */
    struct source_failure *failures; /* none but for those who asked to go on past them */
    size_t failure_count, failure_capacity;
};

struct status source_new(struct source **ret_source);
void source_free(struct source *source);
CLEANUP_POINTER(source_free, struct source)

struct status source_add_shard(struct source *source, const char *path, uint64_t size_bytes,
                               enum shard_kind kind, uint32_t *ret_shard);
/* Copies the item and its name (of name_length bytes). */
struct status source_add_item(struct source *source, const struct source_item *item,
                              const char *name, size_t name_length);
/* Notes what could not be listed, and ends the status that says why. Out of memory is handed back.
 */
struct status source_add_failure(struct source *source, const char *path, struct status failure);
/* Sorts the items and checks them: labels in range, ranges inside their shards, no name twice in a
 * class (STATUS_CORRUPT, naming both), at least one item (STATUS_NOT_FOUND). */
struct status source_finish(struct source *source);

/* The bytes of an item, replacing the buffer's content; checks the CRC where it is known.
 * Thread-safe. Files stay open between calls. */
struct source_reader;
struct status source_reader_open(const struct source *source, struct source_reader **ret_reader);
struct status source_read(struct source_reader *reader, size_t item, struct buffer *bytes);
void source_reader_close(struct source_reader *reader);
CLEANUP_POINTER(source_reader_close, struct source_reader)

/* Whether a file name is an image's (.jpeg .jpg .png in any case) and no hidden file. */
bool source_is_image_name(const char *name);
/* Whether a folder of this name may be a class's: not hidden, and not what file systems and archive
 * programs leave (lost+found, __MACOSX). */
bool source_is_class_name(const char *name);

#endif
