#ifndef HEADRACE_INDEX_HTTP_HEAD_H
#define HEADRACE_INDEX_HTTP_HEAD_H

/* What the head of an HTTP response says of a file and of a range of it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_VALIDATOR_BYTES = 256 };

/* What changes when a file does: its ETag, the time of its last change. "": the server does not
 * tell. One that is too long ends in a CRC of all of it. */
struct http_version {
    char etag[HTTP_VALIDATOR_BYTES], modified[HTTP_VALIDATOR_BYTES];
};

struct http_head {
    int status;            /* 206; 0 before there is any */
    bool has_length;       /* Content-Length */
    uint64_t length_bytes; /* of the body */
    bool has_range;        /* Content-Range: bytes first-last/total */
    uint64_t first, last;  /* both are in the range */
    bool has_total;        /* Content-Range with a total, with a range or without (416) */
    uint64_t total_bytes;  /* of the file */
    bool is_encoded;       /* the body is compressed, or otherwise not the file's bytes */
    struct http_version version;
};

/* Takes one line as it came, with or without its line end. A status line begins a new head: what
 * stood there was of a response before, a redirect say. Fields that say nothing of the file, and
 * those that cannot be read, are passed over. */
void http_head_take(struct http_head *head, const char *line, size_t length);

/* The ETag, or else the time; "" if the server tells neither. */
const char *http_version_text(const struct http_version *version);

/* What two versions that cannot be the same differ in, each one's text; NULL where nothing speaks
 * against it. ETags decide where both have one, else times: of servers behind one name not all need
 * tell the same. */
const char *http_version_differs(const struct http_version *version,
                                 const struct http_version *before, const char **ret_before);

#endif
