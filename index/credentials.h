#ifndef HEADRACE_INDEX_CREDENTIALS_H
#define HEADRACE_INDEX_CREDENTIALS_H

/* Who we are to a server of shards, and S3's settings. They are kept in memory alone. */

#include "base/memory.h"
#include "base/scope.h"
#include "base/status.h"

/* NULL: not known. Memory of `texts`. */
struct credentials {
    const char *user, *password, *token;
    const char *netrc;
    const char *s3_key, *s3_secret, *s3_session, *s3_region;
    const char *s3_endpoint; /* http or https URL */
    struct arena texts;
};
void credentials_done(struct credentials *credentials);
CLEANUP_VALUE(credentials_done, struct credentials)

/* Where they may stand; NULL: nowhere. */
struct credential_sources {
    const char *user, *password, *token;
    const char *password_file, *token_file; /* their first line */
    const char *netrc;
};

/* Collects them from `sources`, the user's ~/.netrc where there is one, and for S3 from
 * AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION,
 * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else from the profile AWS_PROFILE (default) of
 * ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE). */
struct status credentials_collect(const struct credential_sources *sources,
                                  struct credentials *ret_credentials);

#endif
