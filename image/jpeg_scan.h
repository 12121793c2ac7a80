#ifndef HEADRACE_IMAGE_JPEG_SCAN_H
#define HEADRACE_IMAGE_JPEG_SCAN_H

/* Entropy decoding of baseline and extended sequential JPEG files, and back: a file becomes its
 * quantised coefficients and a string of everything else, and the two give the file again, bit for
 * bit. No library is involved, and nothing is guessed: a file that is damaged or of another kind is
 * refused.
 *
 * What is kept beside the coefficients describes itself:
 *
 *     u8      number of scans: 1 … 3
 *     for each scan:
 *       varint  bytes of the file before its entropy-coded data, from the end of the scan before
 *       u8      bit 0: intervals end in 0 bits (else in 1 bits), as the first one does;
 *               bit 1: there are exceptions
 *       where there are exceptions: varint number of them, then for each
 *       varint  intervals since the exception before (the first: since the scan's begin)
 *       u8      the bits with which the interval's last byte is filled up
 *       u8      0xFF bytes before the restart marker behind it, beyond the one that belongs to it
 *     the bytes counted above, one scan's after the other
 *     the rest: the bytes behind the last scan
 *
 * A varint is a number in groups of 7 bits, the lowest first, bit 7 set in all but the last.
 * Restart markers follow from the header's restart interval. */

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "image/coefficients.h"

/* Why a file is not taken apart. Sampling and extremes are found by jpeg_take.h, a failed round
 * trip by packing. */
enum jpeg_refusal {
    JPEG_TAKEN = 0,
    JPEG_REFUSED_KIND, /* no JPEG */
    JPEG_REFUSED_PROGRESSIVE,
    JPEG_REFUSED_ARITHMETIC,
    JPEG_REFUSED_LOSSLESS,   /* or hierarchical */
    JPEG_REFUSED_PRECISION,  /* 12 bits a sample */
    JPEG_REFUSED_COMPONENTS, /* neither 1 nor 3: CMYK, YCCK */
    JPEG_REFUSED_SIZE,       /* beyond DECODE_MAX_PIXELS, JPEG_MAX_SIDE */
    JPEG_REFUSED_DAMAGED,
    JPEG_REFUSED_SAMPLING,   /* factors that libjpeg does not decode either */
    JPEG_REFUSED_EXTREME,    /* coefficients that overflow an inverse DCT in 16 bits */
    JPEG_REFUSED_ROUND_TRIP, /* another file would come back */
    JPEG_REFUSALS,
};
/* "progressive", "CMYK", … */
const char *jpeg_refusal_name(enum jpeg_refusal refusal);

/* Scratch of one thread, for both directions. */
struct jpeg_scanner;
struct status jpeg_scanner_open(struct jpeg_scanner **ret_scanner);
void jpeg_scanner_close(struct jpeg_scanner *scanner);
CLEANUP_POINTER(jpeg_scanner_close, struct jpeg_scanner)

/* Takes a file apart. Replaces the content of `coefficients` and `kept`. Fails with
 * STATUS_UNSUPPORTED or STATUS_CORRUPT where the file is refused, *ret_refusal saying why, and with
 * STATUS_NO_MEMORY, *ret_refusal being JPEG_TAKEN then. */
struct status jpeg_scan_read(struct jpeg_scanner *scanner, const void *bytes, size_t length,
                             struct coefficients *coefficients, struct buffer *kept,
                             enum jpeg_refusal *ret_refusal);

/* Puts the file together again, replacing the content of `bytes`. Fails with STATUS_CORRUPT where
 * `kept` does not hold, is that of another frame or has no code for a coefficient. */
struct status jpeg_scan_write(struct jpeg_scanner *scanner, const struct coefficients *coefficients,
                              const void *kept, size_t kept_bytes, struct buffer *bytes);

#endif
