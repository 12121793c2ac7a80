#ifndef HEADRACE_BASE_DIGEST_H
#define HEADRACE_BASE_DIGEST_H

/* MD5 (to recognise published files) and SHA-256 (to name content), by libmd. */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define MD5_HEX_LENGTH 32
#define SHA256_BYTES 32

/* Called between blocks with the number of bytes done so far. May be NULL where accepted. */
typedef void digest_progress_fn(uint64_t done_bytes, void *context);

/* The MD5 of a file as 32 lower-case hexadecimal digits and a zero. */
struct status digest_md5_file(const char *path, digest_progress_fn *progress, void *context,
                              char ret_hex[MD5_HEX_LENGTH + 1]);
void digest_md5_bytes(const void *bytes, size_t length, char ret_hex[MD5_HEX_LENGTH + 1]);
void digest_sha256_bytes(const void *bytes, size_t length, uint8_t ret_digest[SHA256_BYTES]);

#endif
