#ifndef HEADRACE_INDEX_DCT_MAKE_H
#define HEADRACE_INDEX_DCT_MAKE_H

/* From a JPEG file to a `dct` record that was proved to give the file back. */

#include "image/jpeg_take.h"
#include "index/record_original.h"

/* Scratch of one thread. Zero it to start. */
struct dct_maker {
    struct restorer restorer; /* its parts serve encoding, too */
    struct buffer rebuilt;    /* what a new record gives back */
};
void dct_maker_done(struct dct_maker *maker);
CLEANUP_VALUE(dct_maker_done, struct dct_maker)

/* Appends a file's record to `out`, SHARD_PADDING bytes of room behind it; or appends nothing and
 * says why in *ret_refusal. The image's size is that of maker->restorer.coefficients then, and also
 * where the record was refused for what it gives back. */
struct status dct_make(struct dct_maker *maker, const struct buffer *file, struct buffer *out,
                       enum jpeg_refusal *ret_refusal);

#endif
