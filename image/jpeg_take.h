#ifndef HEADRACE_IMAGE_JPEG_TAKE_H
#define HEADRACE_IMAGE_JPEG_TAKE_H

/* Which JPEG files may stand as their coefficients: the one rule for packing them so and for
 * decoding them that way, so that no pixel depends on how a file is stored. */

#include "image/jpeg_scan.h"

/* Takes a file apart as jpeg_scan_read does, and refuses what the blocks' decoder cannot make into
 * exactly libjpeg-turbo's pixels (JPEG_REFUSED_SAMPLING, JPEG_REFUSED_EXTREME). That a file is
 * refused is no failure: *ret_refusal says it. Fails with STATUS_NO_MEMORY. */
struct status jpeg_take(struct jpeg_scanner *scanner, const void *bytes, size_t length,
                        struct coefficients *coefficients, struct buffer *kept,
                        enum jpeg_refusal *ret_refusal);

#endif
