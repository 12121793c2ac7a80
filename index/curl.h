#ifndef HEADRACE_INDEX_CURL_H
#define HEADRACE_INDEX_CURL_H

/* HTTP requests over libcurl, which is loaded when the first client is opened: a program that meets
 * no URL neither needs it nor loads the libraries that it brings along. One thread drives all
 * requests of a client over connections that are kept; each caller waits for its own. What to ask
 * for again, and where, is remote.h's. A child of fork that goes on without exec starts a thread
 * and connections of its own when it first asks for something; while a process forks, no other
 * thread of it may be opening or reading files of a remote. */

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "index/http_head.h"

/* Where the body goes. */
struct http_sink {
    uint8_t *bytes;
    uint64_t capacity_bytes; /* a longer body ends the request */
    uint64_t received_bytes;
};

/* Looks at the head of an answer of status 200 or 206 before its body comes. Runs in the client's
 * thread. A failure ends the request. */
typedef struct status http_accept_fn(void *context, const struct http_head *head);

/* Everything is borrowed until http_client_get returns; NULL: none. */
struct http_request {
    const char *url;
    uint64_t offset, length; /* the range asked for; length > 0 */
    const char *user, *password;
    const char *token;                  /* Bearer */
    const char *netrc;                  /* a file */
    const char *s3_region, *s3_session; /* not NULL: user and password sign the request */
    bool is_s3;
    const char *ca_file;
    unsigned connect_ms; /* to connect */
    unsigned idle_s;     /* with less than HTTP_LEAST_BYTES_PER_SECOND */
    unsigned total_ms;   /* for all of it, a wait for a free connection too */
    http_accept_fn *accept;
    void *context;
};
enum { HTTP_LEAST_BYTES_PER_SECOND = 1000 };

enum http_outcome {
    HTTP_ANSWERED = 0, /* with any status; one other than 200 and 206 leaves the sink alone */
    HTTP_DECLINED,     /* by `accept`: `status` says why */
    HTTP_UNREACHABLE,  /* no connection */
    HTTP_BROKEN,       /* a connection, but no whole answer in time */
    HTTP_DISTRUSTED,   /* the server is not who it should be */
    HTTP_IMPOSSIBLE,   /* a request that no server can answer: redirects without end, say */
    HTTP_STOPPED,      /* the thread or the process that asked was to stop (stop.h) meanwhile */
};

struct http_response {
    enum http_outcome outcome;
    struct status status; /* of HTTP_DECLINED, owned; else OK */
    struct http_head head;
    unsigned retry_after_s;
    char reason[256]; /* in words, where there is no answer */
};

struct http_client;

/* Fails with STATUS_UNSUPPORTED where libcurl is not installed or too old. */
struct status http_client_open(struct http_client **ret_client);
/* All callers of http_client_get have returned. */
void http_client_close(struct http_client *client);
CLEANUP_POINTER(http_client_close, struct http_client)

/* Gets a range and waits for it. Follows redirects, from https to https only; credentials go to the
 * host of the URL alone. Is given up when the caller's thread closes, and HTTP_STOP_PATIENCE_MS
 * after the process was asked to stop. What became of it stands in *response. Thread-safe. */
enum { HTTP_STOP_PATIENCE_MS = 2000 };
void http_client_get(struct http_client *client, const struct http_request *request,
                     struct http_sink *sink, struct http_response *response);

#endif
