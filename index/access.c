#include "index/access.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/memory.h"
#include "index/credentials.h"
#include "index/url.h"

enum { CONNECT_S = 10, IDLE_S = 20, TOTAL_S = 60 };

/* A file that was asked for. */
struct known_file {
    char *url;
    uint64_t size_bytes;      /* as it was opened with */
    struct remote_file *file; /* NULL: that failed */
};

struct access {
    struct credentials credentials;
    char *ca_file;
    unsigned connect_ms, idle_s, total_ms;
    char **origins; /* without a slash at their end */
    size_t origin_count, origin_capacity;
    bool by_host; /* they are hosts, not URLs */

    pthread_mutex_t mutex; /* guards all below */
    struct remote *remote; /* opened with the first file */
    char **trusted;        /* as url_origin has them */
    size_t trusted_count, trusted_capacity;
    struct known_file *files;
    size_t file_count, file_capacity;
};

void access_options_init(struct access_options *options)
{
    *options = (struct access_options){
        .origins = getenv("HEADRACE_ORIGINS"),
        .user = getenv("HEADRACE_USER"),
        .password = getenv("HEADRACE_PASSWORD"),
        .token = getenv("HEADRACE_TOKEN"),
        .ca_file = getenv("HEADRACE_CA_FILE"),
        .connect_timeout = CONNECT_S,
        .idle_timeout = IDLE_S,
        .timeout = TOTAL_S,
    };
}

static struct status host_check(const char *text)
{
    CLEANUP(memory_free) char *shown = NULL;
    CLEANUP(memory_free) char *url = NULL;
    TRY(url_shown(text, &shown));
    if (strpbrk(text, "/@?# "))
        FAIL(STATUS_USAGE, "the origin '%.*s' is neither a URL nor a host",
             (int)strcspn(shown, "?#"), shown);
    TRY(string_format(&url, "http://%s/", text));
    return status_context(url_check(url), "an origin");
}

static struct status origin_add(struct access *access, const char *text)
{
    bool by_host = !url_is(text);
    TRY(by_host ? host_check(text) : url_check(text));
    if (access->origin_count > 0 && access->by_host != by_host)
        FAIL(STATUS_USAGE, "the origins are URLs and hosts mixed; expected one or the other");
    if (access->origin_count == REMOTE_MAX_PLACES)
        FAIL(STATUS_USAGE, "there are more than %d origins", REMOTE_MAX_PLACES);
    access->by_host = by_host;
    TRY(memory_grow(access->origin_count + 1, sizeof *access->origins, &access->origins,
                    &access->origin_capacity));
    char **origin = &access->origins[access->origin_count];
    TRY(string_copy(text, origin));
    access->origin_count++;
    for (size_t length = strlen(*origin); length > 0 && (*origin)[length - 1] == '/'; length--)
        (*origin)[length - 1] = '\0';
    return by_host ? OK : access_trust(access, text);
}

static struct status origins_split(struct access *access, const char *list)
{
    CLEANUP(memory_free) char *copy = NULL;
    TRY(string_copy(list, &copy));
    for (char *rest = copy, *entry; (entry = strsep(&rest, ","));)
        if (entry[0] != '\0')
            TRY(origin_add(access, entry));
    return OK;
}

static unsigned seconds(int64_t given, unsigned usual)
{
    return given > 0 ? (unsigned)given : usual;
}

struct status access_open(const struct access_options *options, struct access **ret_access)
{
    CLEANUP(access_close) struct access *access = NULL;
    const struct credential_sources sources = {
        .user = options->user,
        .password = options->password,
        .token = options->token,
        .password_file = options->password_file,
        .token_file = options->token_file,
        .netrc = options->netrc,
    };
    TRY(memory_alloc(1, sizeof *access, &access));
    pthread_mutex_init(&access->mutex, NULL);
    access->connect_ms = seconds(options->connect_timeout, CONNECT_S) * 1000;
    access->idle_s = seconds(options->idle_timeout, IDLE_S);
    access->total_ms = seconds(options->timeout, TOTAL_S) * 1000;
    TRY(credentials_collect(&sources, &access->credentials));
    if (options->ca_file && options->ca_file[0]) {
        if (!path_exists(options->ca_file))
            FAIL(STATUS_NOT_FOUND, "there is no file '%s', expected certificates",
                 options->ca_file);
        TRY(string_copy(options->ca_file, &access->ca_file));
    }
    if (options->origins)
        TRY(origins_split(access, options->origins));
    *ret_access = MOVE(access);
    return OK;
}

void access_close(struct access *access)
{
    if (!access)
        return;
    remote_close(access->remote);
    for (size_t i = 0; i < access->file_count; i++)
        memory_free(access->files[i].url);
    for (size_t i = 0; i < access->origin_count; i++)
        memory_free(access->origins[i]);
    for (size_t i = 0; i < access->trusted_count; i++)
        memory_free(access->trusted[i]);
    memory_free(access->files);
    memory_free(access->origins);
    memory_free(access->trusted);
    memory_free(access->ca_file);
    credentials_done(&access->credentials);
    pthread_mutex_destroy(&access->mutex);
    memory_free(access);
}

/* The caller holds the mutex. */
static struct status trust_find(const struct access *access, const char *url, bool *ret_trusted)
{
    CLEANUP(memory_free) char *origin = NULL;
    *ret_trusted = false;
    TRY(url_origin(url, &origin));
    for (size_t i = 0; i < access->trusted_count && !*ret_trusted; i++)
        *ret_trusted = strcmp(access->trusted[i], origin) == 0;
    return OK;
}

/* The caller holds the mutex. */
static struct status trust_add(struct access *access, const char *url)
{
    bool is_trusted;
    TRY(trust_find(access, url, &is_trusted));
    if (is_trusted)
        return OK;
    TRY(memory_grow(access->trusted_count + 1, sizeof *access->trusted, &access->trusted,
                    &access->trusted_capacity));
    TRY(url_origin(url, &access->trusted[access->trusted_count]));
    access->trusted_count++;
    return OK;
}

struct status access_trust(struct access *access, const char *url)
{
    pthread_mutex_lock(&access->mutex);
    struct status status = trust_add(access, url);
    pthread_mutex_unlock(&access->mutex);
    return status;
}

struct status access_resolve(const struct access *access, const char *index_path,
                             const char *shard_path, char **ret_path)
{
    CLEANUP(memory_free) char *folder = NULL;
    if (url_is(shard_path))
        return string_copy(shard_path, ret_path);
    bool is_remote = url_is(index_path);
    if (shard_path[0] == '/' && is_remote)
        FAIL(STATUS_UNSUPPORTED,
             "the shard '%s' stands outside the index's folder on the machine that made it; make "
             "the index beside its shards",
             shard_path);
    if (shard_path[0] != '/' && access && access->origin_count > 0 && !access->by_host) {
        TRY(string_format(&folder, "%s/", access->origins[0]));
        return url_join(folder, shard_path, ret_path);
    }
    if (is_remote)
        return url_join(index_path, shard_path, ret_path);
    if (shard_path[0] != '/' && access && access->by_host)
        FAIL(STATUS_USAGE,
             "the index is a file of this machine, so that hosts alone do not say where its shards "
             "are: give --origins as URLs");
    TRY(path_folder(index_path, &folder));
    return path_join(folder, shard_path, ret_path);
}

/* --- Files --- */

/* The URLs of a file, on the heap. */
struct urls {
    char *url[REMOTE_MAX_PLACES];
    size_t count;
};

static void urls_done(struct urls *urls)
{
    for (size_t i = 0; i < urls->count; i++)
        memory_free(urls->url[i]);
}
CLEANUP_VALUE(urls_done, struct urls)

/* What of a URL lies below one of the origins; NULL if nothing. */
static const char *below_origin(const struct access *access, const char *url)
{
    for (size_t i = 0; !access->by_host && i < access->origin_count; i++) {
        size_t length = strlen(access->origins[i]);
        if (strncmp(url, access->origins[i], length) == 0 && url[length] == '/')
            return url + length;
    }
    return NULL;
}

static struct status urls_list(const struct access *access, const char *url, struct urls *urls)
{
    const char *rest = below_origin(access, url);
    bool by_host = access->by_host && !url_is_s3(url);
    if (!rest && !by_host) {
        TRY(string_copy(url, &urls->url[0]));
        urls->count = 1;
        return OK;
    }
    for (size_t i = 0; i < access->origin_count; i++) {
        if (rest)
            TRY(string_format(&urls->url[i], "%s%s", access->origins[i], rest));
        else
            TRY(url_replace_host(url, access->origins[i], &urls->url[i]));
        urls->count++;
    }
    return OK;
}

/* Where a file stands, for the client: keys of buckets become URLs of their server. */
static struct status places_list(struct access *access, const char *named_url, struct urls *urls,
                                 struct remote_place *places)
{
    const struct credentials *credentials = &access->credentials;
    bool is_trusted;
    TRY(trust_find(access, named_url, &is_trusted));
    for (size_t i = 0; i < urls->count; i++) {
        struct remote_place *place = &places[i];
        place->is_s3 = url_is_s3(urls->url[i]);
        if (place->is_s3) {
            char *url;
            TRY(url_of_s3(urls->url[i], credentials->s3_endpoint, credentials->s3_region, &url));
            memory_free(urls->url[i]);
            urls->url[i] = url;
        } else if (access->by_host) {
            place->is_trusted = is_trusted; /* the hosts were named, the scheme perhaps not */
        } else {
            TRY(trust_find(access, urls->url[i], &place->is_trusted));
        }
        place->url = urls->url[i];
    }
    return OK;
}

static struct status remote_need(struct access *access)
{
    const struct credentials *credentials = &access->credentials;
    const struct remote_options options = {
        .user = credentials->user,
        .password = credentials->password,
        .token = credentials->token,
        .netrc = credentials->netrc,
        .ca_file = access->ca_file,
        .s3_key = credentials->s3_key,
        .s3_secret = credentials->s3_secret,
        .s3_session = credentials->s3_session,
        .s3_region = credentials->s3_region,
        .connect_ms = access->connect_ms,
        .idle_s = access->idle_s,
        .total_ms = access->total_ms,
    };
    return access->remote ? OK : remote_open(&options, &access->remote);
}

/* The caller holds the mutex. */
static struct status file_add(struct access *access, const char *url, uint64_t size_bytes,
                              struct remote_file **ret_file)
{
    CLEANUP(urls_done) struct urls urls = {0};
    CLEANUP(memory_free) char *name = NULL;
    struct remote_place places[REMOTE_MAX_PLACES] = {0};
    TRY(url_check(url));
    TRY(url_name(url, &name));
    TRY(urls_list(access, url, &urls));
    TRY(places_list(access, url, &urls, places));
    TRY(remote_need(access));
    TRY(memory_grow(access->file_count + 1, sizeof *access->files, &access->files,
                    &access->file_capacity));
    struct known_file *known = &access->files[access->file_count];
    TRY(string_copy(url, &known->url));
    access->file_count++;
    known->size_bytes = size_bytes;
    known->file = NULL;
    TRY(remote_file_open(access->remote, name, places, urls.count, size_bytes, &known->file));
    *ret_file = known->file;
    return OK;
}

/* NULL: there is none. The caller holds the mutex. */
static struct remote_file *file_find(const struct access *access, const char *url,
                                     uint64_t size_bytes)
{
    for (size_t i = 0; i < access->file_count; i++) {
        const struct known_file *known = &access->files[i];
        if (known->file && strcmp(known->url, url) == 0 &&
            (!size_bytes || !known->size_bytes || size_bytes == known->size_bytes))
            return known->file;
    }
    return NULL;
}

struct status access_file(struct access *access, const char *url, uint64_t size_bytes,
                          struct remote_file **ret_file)
{
    struct status status = OK;
    pthread_mutex_lock(&access->mutex);
    struct remote_file *file = file_find(access, url, size_bytes);
    if (!file)
        status = file_add(access, url, size_bytes, &file);
    if (status.code == STATUS_DONE)
        *ret_file = file;
    pthread_mutex_unlock(&access->mutex);
    return status;
}
