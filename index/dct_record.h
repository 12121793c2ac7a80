#ifndef HEADRACE_INDEX_DCT_RECORD_H
#define HEADRACE_INDEX_DCT_RECORD_H

/* The record encoding `dct` (FORMAT.md): a JPEG's quantised coefficients in a form that SIMD
 * unpacks several times faster than Huffman codes, any block row by itself, and the rest of the
 * file, compressed, so that the file comes back bit for bit. */

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "image/coefficients.h"
#include "index/dct_blocks.h"

/* This many bytes behind a record may be read, whatever they are. */
#define DCT_RECORD_PADDING 64

/* Appends the record of an image to `out`. `kept` is what the original file has beside its
 * coefficients; it is not looked into. Fails with STATUS_UNSUPPORTED where the encoding cannot hold
 * the image (a coefficient of -32768, more than 65535 pixels a side, a frame that no JPEG has), and
 * with STATUS_NO_MEMORY. */
struct status dct_record_write(const struct coefficients *coefficients, const void *kept,
                               size_t kept_bytes, struct buffer *out);

/* One component's rows within a record. */
struct dct_plane {
    struct dct_code code;
    const uint8_t *row_lengths, *rows;
    uint64_t rows_bytes;
    uint32_t row;        /* the row that was read last */
    uint64_t row_offset; /* where it begins in `rows` */
};

/* An opened record: no memory of its own. Of one thread at a time. */
struct dct_record {
    struct frame frame;
    struct dct_plane planes[FRAME_MAX_COMPONENTS];
    unsigned row_length_bytes; /* 2 or 4 */
    const uint8_t *tables, *kept;
    size_t tables_bytes, kept_bytes;
    const struct dct_kernels *kernels;
};

/* Reads the header of a record. `bytes` is borrowed as long as the record is used;
 * DCT_RECORD_PADDING bytes after it must be readable. Constant time: the rows are checked as they
 * are read. Fails with STATUS_CORRUPT. */
struct status dct_record_open(const void *bytes, size_t length, struct dct_record *ret_record);

/* Blocks from the record, which is borrowed. Fastest when a component's rows are read downwards. */
struct block_reader dct_record_reader(struct dct_record *record);

/* All coefficients, reusing the memory of `coefficients`. Fails with STATUS_CORRUPT, also where
 * bytes are left over, and STATUS_NO_MEMORY. */
struct status dct_record_coefficients(struct dct_record *record, struct coefficients *coefficients);

/* Replaces the buffer's content by what dct_record_write was given. Fails with STATUS_CORRUPT and
 * STATUS_NO_MEMORY. */
struct status dct_record_kept(const struct dct_record *record, struct buffer *kept);

#endif
