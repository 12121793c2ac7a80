#ifndef HEADRACE_INDEX_PACK_H
#define HEADRACE_INDEX_PACK_H

/* Making an index of a source: with shards of our own, or in place, over the files that the source
 * has. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "image/jpeg_scan.h"
#include "image/source.h"
#include "index/problem.h"

/* What to do about an image that cannot be probed or was cut short (or cannot be decoded, if that
 * was asked for). */
enum pack_on_error {
    PACK_FAIL = 0,
    PACK_SKIP, /* it is left out, and named in report and provenance */
    PACK_KEEP, /* it is packed as it is, its size unknown, and named in the report */
};

struct pack_prediction;
struct pack_options {
    enum record_encoding encoding;
    bool in_place; /* the source's own files are the shards: nothing is copied */
    bool crc;      /* in place: read all images for their CRCs and sizes, else nothing is read */
    bool decode;   /* decode each image in full, to find those that only look right */
    bool force;    /* shards without an index, of another content, are replaced */
    enum pack_on_error on_error;
    uint64_t shard_bytes; /* of records in a shard; at least one record */
    unsigned threads;
    /* Lossy, both 0: not. Images whose longer side has more pixels than max_side are shrunk to it,
     * antialiased; these, or with a quality (1 … 100) all images, are encoded as JPEG anew. */
    uint32_t max_side, quality;
    /* Of this source and options; NULL: pack_run predicts by itself. Borrowed. */
    const struct pack_prediction *prediction;
};
#define PACK_SHARD_BYTES ((uint64_t)1 << 30)
#define PACK_QUALITY 90 /* of images that are shrunk, where none was asked for */

struct pack_prediction {
    uint64_t images, source_bytes;
    uint64_t shards, shard_bytes; /* to be written; 0 in place */
    bool is_estimate;             /* of the shards: made from some images */
    uint64_t index_bytes;         /* an estimate */
};
/* What packing would write, if no image is skipped. Where records are not the source's bytes, some
 * images, the same ones each time, are packed to see; else nothing is read. */
struct status pack_predict(const struct source *source, const struct pack_options *options,
                           struct pack_prediction *ret_prediction);

struct pack_report {
    uint64_t images, image_bytes; /* in the index */
    uint64_t written_bytes;       /* shards */
    uint64_t shards;
    uint64_t png_count;               /* PNG files, whatever their names */
    uint64_t encodings[ENCODINGS];    /* records of each */
    uint64_t refusals[JPEG_REFUSALS]; /* images that were to be `dct` and are not, by reason */
    uint64_t shrunk;                  /* images that were made smaller */
    struct problem_list problems;     /* in record order */
};
void pack_report_done(struct pack_report *report);
CLEANUP_VALUE(pack_report_done, struct pack_report)

/* "some/set" of "some/set.idx", on the heap. Other endings fail with STATUS_USAGE. */
struct status pack_prefix(const char *path, char **ret_prefix);

/* Fails where pack_run would before it writes: `path` cannot be written, it would replace the
 * source's own shards, or the disk has too little room. With `makes_folder` its folder may be
 * missing, and could be made. Writes nothing. */
struct status pack_check_output(const struct source *source, const char *path, bool makes_folder,
                                const struct pack_options *options);

/* Writes the index `path` (ending in ".idx") of a finished source and, unless in place, its shards
 * PATH-00000.shard … (without the ".idx") beside it. The bytes do not depend on the number of
 * threads. All appear when they are complete and synced, the index last; an index that was there is
 * removed first. Fails with STATUS_NO_SPACE before writing when the disk has too little, with
 * STATUS_STOPPED on request, and when the source's own shards would be replaced; nothing is left
 * behind then. Fill the report with zeros before. */
struct status pack_run(const struct source *source, const char *path,
                       const struct pack_options *options, struct pack_report *report);

/* Whether `path` already is the index that packing this source in this way (in place or not, with
 * CRCs or not, encoding, lossy or not) would make: the same classes, names and lengths but for
 * images that were skipped, and packed shards that are there in full. An index that cannot be read
 * is not. */
bool pack_is_done(const struct source *source, const char *path,
                  const struct pack_options *options);

#endif
