#ifndef HEADRACE_INDEX_URL_H
#define HEADRACE_INDEX_URL_H

/* URLs as text: http://, https:// and s3://BUCKET/KEY. Results on the heap are freed with
 * memory_free. */

#include <stdbool.h>

#include "base/status.h"

bool url_is(const char *path);
/* Fails with STATUS_USAGE for a URL of a kind that is not read, unless a file has that name. */
struct status url_refuse_kind(const char *path);
bool url_is_s3(const char *url);

/* Whether a text is a URL or was meant to be one: with a blank before it, a slash too few, a scheme
 * that is not known, "user:password@host". */
bool url_is_like(const char *path);

/* How a URL, or a text that was meant to be one, may be printed: without what may be a user and a
 * password, with "?…" in the place of its query, which may hold a signature. Paths stay. */
struct status url_shown(const char *text, char **ret_shown);
/* Whether a text is a URL of which url_shown has left something out. */
bool url_lacks_query(const char *shown);
/* Whether there may be a user or a password in it: an '@' in the host, or behind a ':'. */
bool url_has_credentials(const char *url);

/* Whether a URL can be used. Fails with STATUS_USAGE for one without a host, with a port that is
 * none, with characters that have to be percent-encoded, or with "user:password@": it would end up
 * in lists of processes, in logs and in checkpoints. Messages do not show the password. */
struct status url_check(const char *url);

/* The URL of `path`, a relative file name, in the folder of `url`, percent-encoded; the query of
 * `url` is its own and left out. `path` under s3:// is taken as it is. */
struct status url_join(const char *url, const char *path, char **ret_url);

/* The URL without its query, which may hold a signature: for messages. */
struct status url_name(const char *url, char **ret_name);

/* Scheme, host and port, in small letters, the port always there: "https://host:443". Two URLs with
 * the same origin are served by the same server. */
struct status url_origin(const char *url, char **ret_origin);

/* The same URL at another "host" or "host:port". */
struct status url_replace_host(const char *url, const char *host, char **ret_url);

/* Where a key of a bucket is served: below `endpoint`, or at Amazon's host of the region where that
 * is NULL. Percent-encoded. Fails with STATUS_USAGE for a URL without a bucket or a key. */
struct status url_of_s3(const char *url, const char *endpoint, const char *region, char **ret_url);

#endif
