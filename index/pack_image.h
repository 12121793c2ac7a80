#ifndef HEADRACE_INDEX_PACK_IMAGE_H
#define HEADRACE_INDEX_PACK_IMAGE_H

/* Private to index/pack*.c: from an image of a source to a record. */

#include "image/decode.h"
#include "image/resample.h"
#include "image/shard_reader.h"
#include "index/dct_make.h"
#include "index/pack.h"

/* Scratch of one thread. Zero it to start. */
struct pack_scratch {
    struct dct_maker maker;
    struct buffer original; /* the file that is to be packed, where it is not packed as it stands */
    struct buffer jpeg;     /* what was encoded anew */
    struct decoder *decoder;
    struct resampler *resampler;
    struct picture picture, shrunk;
};
void pack_scratch_done(struct pack_scratch *scratch);
CLEANUP_VALUE(pack_scratch_done, struct pack_scratch)

/* What became of an image. */
struct pack_finding {
    struct source_item item;   /* as it stands in the new shard, but for its place */
    uint64_t padded_bytes;     /* appended for it */
    enum jpeg_refusal refusal; /* why it is not `dct`, if it was to be */
    bool is_png, is_shrunk;
    char *problem; /* NULL: none; on the heap */
};

struct pack_source {
    const struct source *source;
    struct shard_reader *reader;
    const struct pack_options *options;
};

/* Appends the record of item `i` to `out`, with zeros up to shard_padded and SHARD_PADDING bytes of
 * room behind it. A problem with the image itself fails, or is noted, as options->on_error says
 * (PACK_SKIP: nothing is appended). */
struct status pack_image(const struct pack_source *from, size_t i, struct pack_scratch *scratch,
                         struct buffer *out, struct pack_finding *finding);

bool pack_is_lossy(const struct pack_options *options);
/* Whether records are made of the source's images that are not their bytes. */
bool pack_converts(const struct source *source, const struct pack_options *options);

#endif
