#ifndef HEADRACE_BASE_DEFLATE_H
#define HEADRACE_BASE_DEFLATE_H

/* Byte strings made smaller, and back: the deflate format (RFC 1951), raw or with the header and
 * checksum of zlib (RFC 1950). */

#include <stddef.h>

#include "base/bytes.h"
#include "base/status.h"

/* What both sides know. Of its bytes the last 32 KiB count; what is most likely stands at its end.
 */
struct deflate_dictionary {
    const void *bytes;
    size_t length;
};

/* Appends the compressed bytes, raw. Fails with STATUS_NO_MEMORY. */
struct status deflate_raw(const void *bytes, size_t length,
                          const struct deflate_dictionary *dictionary, struct buffer *out);

/* Appends what was compressed, up to the buffer's ceiling. Fails with STATUS_CORRUPT where the
 * bytes are not exactly one compressed string, and with STATUS_NO_MEMORY. */
struct status inflate_raw(const void *bytes, size_t length,
                          const struct deflate_dictionary *dictionary, struct buffer *out);
/* The same for zlib's form. Bytes behind the compressed string are passed over. */
struct status inflate_zlib(const void *bytes, size_t length, struct buffer *out);

#endif
