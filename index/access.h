#ifndef HEADRACE_INDEX_ACCESS_H
#define HEADRACE_INDEX_ACCESS_H

/* What a process reaches indexes and shards behind URLs with: origins, credentials, deadlines. One
 * is opened for all indexes of a process, and outlives them. Nothing of the network is loaded
 * before the first URL is met. */

#include <stddef.h>
#include <stdint.h>

#include "base/option.h"
#include "base/scope.h"
#include "base/status.h"
#include "index/remote.h"

/* Borrowed until access_open returns. NULL: none. */
struct access_options {
    const char *origins; /* "URL,URL,…" or "HOST,HOST:PORT,…" */
    const char *user, *password_file, *token_file, *netrc;
    const char *password, *token; /* not on the command line, where others could read them */
    const char *ca_file;
    int64_t connect_timeout, idle_timeout, timeout; /* seconds; 0: as usual */
};

/* The defaults, and what the environment says: HEADRACE_ORIGINS, HEADRACE_USER, HEADRACE_PASSWORD,
 * HEADRACE_TOKEN, HEADRACE_CA_FILE. */
void access_options_init(struct access_options *options);

/* Their rows in the table of a command's options. `field` is the struct in its arguments. */
#define ACCESS_OPTIONS(field)                                                                      \
    {"origins",                                                                                    \
     0,                                                                                            \
     OPT_STRING,                                                                                   \
     FIELD(field.origins),                                                                         \
     .value = "URL,…",                                                                             \
     .not_stored = true,                                                                           \
     .help = "servers that have the same shards: URLs of their folder, or hosts"},                 \
        {"user",                                                                                   \
         0,                                                                                        \
         OPT_STRING,                                                                               \
         FIELD(field.user),                                                                        \
         .value = "NAME",                                                                          \
         .not_stored = true,                                                                       \
         .help = "user of the servers; the password stands in --password-file or "                 \
                 "HEADRACE_PASSWORD"},                                                             \
        {"password-file",                                                                          \
         0,                                                                                        \
         OPT_STRING,                                                                               \
         FIELD(field.password_file),                                                               \
         .value = "FILE",                                                                          \
         .not_stored = true,                                                                       \
         .help = "a file whose first line is the password"},                                       \
        {"token-file",                                                                             \
         0,                                                                                        \
         OPT_STRING,                                                                               \
         FIELD(field.token_file),                                                                  \
         .value = "FILE",                                                                          \
         .not_stored = true,                                                                       \
         .help = "a file whose first line is a bearer token"},                                     \
        {"netrc",                                                                                  \
         0,                                                                                        \
         OPT_STRING,                                                                               \
         FIELD(field.netrc),                                                                       \
         .value = "FILE",                                                                          \
         .not_stored = true,                                                                       \
         .help = "users and passwords by host, where no --user is given; else ~/.netrc"},          \
        {"ca-file",                                                                                \
         0,                                                                                        \
         OPT_STRING,                                                                               \
         FIELD(field.ca_file),                                                                     \
         .value = "FILE",                                                                          \
         .not_stored = true,                                                                       \
         .help = "certificates that sign the servers', instead of the system's"},                  \
        {"connect-timeout",                                                                        \
         0,                                                                                        \
         OPT_INT,                                                                                  \
         FIELD(field.connect_timeout),                                                             \
         .min = 1,                                                                                 \
         .max = 3600,                                                                              \
         .value = "SECONDS",                                                                       \
         .not_stored = true,                                                                       \
         .help = "for a connection to a server (default %d)"},                                     \
        {"idle-timeout",                                                                           \
         0,                                                                                        \
         OPT_INT,                                                                                  \
         FIELD(field.idle_timeout),                                                                \
         .min = 1,                                                                                 \
         .max = 3600,                                                                              \
         .value = "SECONDS",                                                                       \
         .not_stored = true,                                                                       \
         .help = "without bytes, then a read is tried again (default %d)"},                        \
    {                                                                                              \
        "timeout", 0, OPT_INT, FIELD(field.timeout),                                               \
            .min = 1, .max = 86400, .value = "SECONDS", .not_stored = true,                        \
            .help = "for a read from a server with all its tries (default %d)"                     \
    }

struct access;

/* Fails with STATUS_USAGE for origins that are none, STATUS_NOT_FOUND for a file that is not there.
 */
struct status access_open(const struct access_options *options, struct access **ret_access);
/* All indexes that were opened with it are closed. */
void access_close(struct access *access);
CLEANUP_POINTER(access_close, struct access)

/* What stands at a URL may be asked for with the user, password or token: somebody here named it,
 * and not only a file from a server. The same holds for all of its origin. */
struct status access_trust(struct access *access, const char *url);

/* The path or URL of a shard, as it stands in the index at `index_path`: relative to the origins
 * where they are URLs, else to the index. On the heap. */
struct status access_resolve(const struct access *access, const char *index_path,
                             const char *shard_path, char **ret_path);

/* The file at a URL, on all origins that have it; of the access, one for each URL. `size_bytes` 0:
 * not known. Thread-safe. */
struct status access_file(struct access *access, const char *url, uint64_t size_bytes,
                          struct remote_file **ret_file);

#endif
