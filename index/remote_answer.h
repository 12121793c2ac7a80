#ifndef HEADRACE_INDEX_REMOTE_ANSWER_H
#define HEADRACE_INDEX_REMOTE_ANSWER_H

/* What an answer means for a read; private to index/remote*.c. */

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "index/curl.h"

/* What a read knows of its file. */
struct answer_expected {
    uint64_t offset, length;
    uint64_t size_bytes;         /* of the file; 0: not known */
    struct http_version version; /* of answers before */
};

/* Whether the head of an answer (200 or 206) is that of the range asked for, of the same file as
 * before. */
struct status answer_check(const struct http_head *head, const struct answer_expected *expected);

/* Whether a failure may pass by itself: there is no answer, or one of a server that is busy or ill.
 */
bool answer_may_pass(const struct http_response *response);

/* The failure that a response stands for, taken out of it; OK for 200 and 206. */
struct status answer_failure(struct http_response *response, const struct http_request *request);

#endif
