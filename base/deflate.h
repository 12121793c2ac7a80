#ifndef HEADRACE_BASE_DEFLATE_H
#define HEADRACE_BASE_DEFLATE_H

/* Byte strings made smaller, and back: the deflate format (RFC 1951), raw or with the header and
 * checksum of zlib (RFC 1950). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/scope.h"
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

/* Inflates raw deflated bytes piece by piece. */
struct inflater;

struct status inflater_open(struct inflater **ret_inflater);
void inflater_close(struct inflater *inflater);
CLEANUP_POINTER(inflater_close, struct inflater)
/* Begins with another stream. */
void inflater_reset(struct inflater *inflater);
/* Takes from `packed` and writes at most `capacity` bytes: *ret_length of them, fewer only when
 * `packed` is used up or the stream ends here (*ret_ended). Fails with STATUS_CORRUPT for damaged
 * data; the message says nothing more. */
struct status inflater_run(struct inflater *inflater, struct reader *packed, void *bytes,
                           size_t capacity, size_t *ret_length, bool *ret_ended);

/* CRC-32 as zip and gzip have it; 0 to begin with. */
uint32_t crc32_update(uint32_t crc, const void *bytes, size_t length);

#endif
