#ifndef HEADRACE_INDEX_REMOTE_H
#define HEADRACE_INDEX_REMOTE_H

/* Files behind URLs: a read gives the right bytes or one clear error.
 *
 * A file may stand at several places, the same bytes behind different URLs. A read goes to one of
 * them and, where that fails, to the next; what may pass (no connection, a cut answer, 5xx, a CRC
 * that does not hold) is tried again after a while, until the deadline of the read. A server that
 * failed several times is left alone for some seconds, then one read tries whether it is back. Each
 * place is pinned by what its first answers said: an ETag, a time of change, and the size. Another
 * ETag later, or another time where one answer has no ETag, is an error, so bytes of two versions
 * are never mixed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "image/shard_reader.h"
#include "index/curl.h"

/* Texts are borrowed for as long as the remote lives; NULL: not known. */
struct remote_options {
    const char *user, *password, *token; /* for places that are trusted */
    const char *netrc;                   /* a file with users and passwords by host */
    const char *ca_file;
    const char *s3_key, *s3_secret, *s3_session, *s3_region;
    unsigned connect_ms; /* for a connection */
    unsigned idle_s;     /* without bytes; then another try */
    unsigned total_ms;   /* for a read with all its tries */
};

struct remote;

struct status remote_open(const struct remote_options *options, struct remote **ret_remote);
/* All reads have returned. Its files are closed with it. */
void remote_close(struct remote *remote);
CLEANUP_POINTER(remote_close, struct remote)

enum { REMOTE_MAX_PLACES = 64 };

/* Where a file stands. */
struct remote_place {
    const char *url; /* http or https; of s3:// what url_of_s3 makes of it */
    bool is_trusted; /* it gets the user, password or token */
    bool is_s3;      /* requests are signed */
};

struct remote_file;

/* Notes a file; nothing is read yet. `name`, for messages, and the places are copied. `size_bytes`
 * 0: not known, the first answer tells it. Owned by the remote. Thread-safe. */
struct status remote_file_open(struct remote *remote, const char *name,
                               const struct remote_place *places, size_t count, uint64_t size_bytes,
                               struct remote_file **ret_file);
/* The file as a shard's reader. */
struct shard_remote *remote_file_shard(struct remote_file *file);

/* Reads a range (offset, length, CRC; its other fields are not used) into `bytes`. Fails with
 * STATUS_NOT_FOUND, STATUS_CORRUPT for a file that was changed, has another size or a CRC that does
 * not hold, STATUS_UNSUPPORTED for a server that cannot give ranges, STATUS_STOPPED between two
 * tries or where a server does not answer a process or thread that is to stop, and STATUS_IO for
 * all else. Messages name the file, never a password. Thread-safe. */
struct status remote_file_read(struct remote_file *file, const struct shard_range *range,
                               void *bytes);

/* What tells these bytes of a file (of remote_file_shard) from another version of them: what its
 * place is pinned by, "" where the server says nothing. Reads a byte where there was no answer yet,
 * with the same failures. Thread-safe. */
struct status remote_shard_version(struct shard_remote *shard, char ret_text[HTTP_VALIDATOR_BYTES]);

/* The size, 0 while it is not known: a successful read tells it. */
uint64_t remote_file_size(struct remote_file *file);

#endif
