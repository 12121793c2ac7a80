#include "index/url.h"

#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/path.h"

/* Behind "scheme://"; NULL for what is no URL. */
static const char *behind_scheme(const char *url)
{
    static const char *const schemes[] = {"http://", "https://", "s3://"};
    for (size_t i = 0; i < ARRAY_LENGTH(schemes); i++)
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
            return url + strlen(schemes[i]);
    return NULL;
}

bool url_is(const char *path)
{
    return behind_scheme(path) != NULL;
}

bool url_is_s3(const char *url)
{
    return strncasecmp(url, "s3://", 5) == 0;
}

/* Where the host ends. */
static const char *host_end(const char *host)
{
    return host + strcspn(host, "/?#");
}

/* Where the path ends: a key of a bucket goes to the end. */
static const char *path_end(const char *url)
{
    return url_is_s3(url) ? url + strlen(url) : url + strcspn(url, "?#");
}

/* Behind the scheme of what was meant to be a URL, such as " http:/host", or the text's begin. */
static const char *behind_any_scheme(const char *text)
{
    static const char *const known[] = {"http", "https", "s3", "ftp"};
    const char *scheme = text + strspn(text, " \t");
    size_t length =
        strspn(scheme, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (length > 0 && strncmp(scheme + length, "://", 3) == 0)
        return scheme + length + 3;
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        size_t marks = strspn(scheme + length, ":/");
        if (marks > 0 && scheme[length + marks] && strlen(known[i]) == length &&
            strncasecmp(scheme, known[i], length) == 0 && (scheme[length] == ':' || marks > 1))
            return scheme + length + marks;
    }
    return text;
}

/* The '@' behind what may be a user and a password: the last one, where it stands in the host or
 * somewhere behind a ':', since whoever writes a password does not always escape it. NULL: none. */
static const char *credentials_end(const char *text)
{
    const char *host = behind_any_scheme(text), *at = strrchr(host, '@'), *end = host_end(host);
    if (!at)
        return NULL;
    const char *colon = memchr(host, ':', (size_t)(at - host));
    if (colon > end && url_is_s3(text)) /* of a key */
        colon = NULL;
    return colon || memchr(host, '@', (size_t)(end - host)) ? at : NULL;
}

bool url_has_credentials(const char *url)
{
    return credentials_end(url) != NULL;
}

bool url_is_like(const char *path)
{
    const char *host = behind_any_scheme(path), *at = credentials_end(path);
    return host != path || (at && memchr(path, ':', (size_t)(at - path)));
}

/* Stands in the place of a query. */
static const char left_out[] = "…";

struct status url_shown(const char *text, char **ret_shown)
{
    const char *host = behind_any_scheme(text), *at = credentials_end(text);
    const char *rest = at ? at + 1 : host;
    if (!url_is_like(text))
        return string_copy(text, ret_shown);
    if (at && memchr(host, '?', (size_t)(at - host))) /* in the password or before the query */
        rest = "";
    size_t length = url_is_s3(text) ? strlen(rest) : strcspn(rest, "?#");
    return string_format(ret_shown, "%.*s%.*s%.1s%s", (int)(host - text), text, (int)length, rest,
                         rest + length, rest[length] ? left_out : "");
}

bool url_lacks_query(const char *shown)
{
    const size_t length = strlen(shown), mark = sizeof left_out - 1;
    return url_is(shown) && length > mark && strcmp(shown + length - mark, left_out) == 0;
}

struct status url_refuse_kind(const char *path)
{
    CLEANUP(memory_free) char *shown = NULL;
    if (url_is(path) || !url_is_like(path) || path_exists(path))
        return OK;
    TRY(url_shown(path, &shown));
    FAIL(STATUS_USAGE,
         "'%s' is a URL of a kind that is not read; those of http://, https:// and s3:// are, and "
         "files by their path",
         shown);
}

/* Whether host and port, up to `end`, are such as a server can have. */
static struct status host_check(const char *url, const char *host, const char *end)
{
    const char *bracket = host[0] == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
    const char *name_end = bracket ? bracket + 1 : memchr(host, ':', (size_t)(end - host));
    name_end = name_end ? name_end : end;
    int name_length = (int)(name_end - url);
    bool is_bare = host[0] != '[' && memchr(name_end, ':', (size_t)(end - name_end)) !=
                                         memrchr(name_end, ':', (size_t)(end - name_end));
    if (is_bare)
        FAIL(STATUS_USAGE,
             "'%.*s:…' has more than one colon in its host: write the address of an IPv6 host in "
             "brackets, http://[::1]:8080/",
             name_length, url);
    if ((host[0] == '[') != (bracket != NULL) || (name_end < end && *name_end != ':'))
        FAIL(STATUS_USAGE, "'%.*s…' has a bracket without its other one, or something behind it",
             (int)(host - url), url);
    uint64_t port = 0;
    for (const char *c = name_end + 1; name_end < end && c < end; c++)
        port = *c >= '0' && *c <= '9' && port <= 65535 ? port * 10 + (uint64_t)(*c - '0') : 65536;
    if (name_end < end && (port < 1 || port > 65535))
        FAIL(STATUS_USAGE, "the port of '%.*s:…' is none, expected a number from 1 to 65535",
             name_length, url);
    return OK;
}

static struct status characters_check(const char *url)
{
    CLEANUP(memory_free) char *shown = NULL;
    for (const char *c = url; *c; c++) {
        if ((unsigned char)*c >= ' ' && *c != 0x7f &&
            (url_is_s3(url) || (*c != ' ' && *c != '#' && *c != '\\')))
            continue;
        TRY(url_shown(url, &shown));
        FAIL(STATUS_USAGE, "'%s' has a character that has to be written as %%%02X", shown,
             (unsigned char)*c);
    }
    return OK;
}

struct status url_check(const char *url)
{
    CLEANUP(memory_free) char *shown = NULL;
    const char *host = behind_scheme(url), *end = host_end(host);
    TRY(url_shown(url, &shown));
    if (url_has_credentials(url))
        FAIL(STATUS_USAGE,
             "'%s' holds a user or a password, which lists of processes and logs would show: "
             "leave it out and give --user and --password-file, or HEADRACE_USER and "
             "HEADRACE_PASSWORD; an @ that belongs to the path is written as %%40",
             shown);
    if (end == host)
        FAIL(STATUS_USAGE, "'%s' names no host", shown);
    if (url_is_s3(url) && strcasestr(url, "?X-Amz-"))
        FAIL(STATUS_USAGE,
             "'%.*s…' is a key with what signs a URL behind it: give the presigned "
             "URL as it was made, https://…",
             (int)(end - url), url);
    if (!url_is_s3(url))
        TRY(host_check(url, host, end));
    return characters_check(url);
}

/* Everything but letters, digits, `-._~` and slashes as %XX: what SigV4 asks for, and safe
 * everywhere. */
static struct status encoded_append(struct buffer *text, const char *path)
{
    for (const char *c = path; *c; c++) {
        bool is_plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                        (*c >= '0' && *c <= '9') || strchr("-._~/", *c);
        TRY(buffer_append_text(text, is_plain ? "%c" : "%%%02X", (unsigned char)*c));
    }
    return OK;
}

static struct status text_take(struct buffer *buffer, char **ret_text)
{
    const char *text;
    TRY(buffer_text(buffer, &text));
    return string_copy(text, ret_text);
}

struct status url_join(const char *url, const char *path, char **ret_url)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *host = behind_scheme(url), *end = path_end(url);
    const char *slash = memrchr(host, '/', (size_t)(end - host));
    size_t folder = (size_t)((slash ? slash : end) - url);
    TRY(buffer_append_text(&text, "%.*s/", (int)folder, url));
    if (url_is_s3(url))
        TRY(buffer_append_text(&text, "%s", path));
    else
        TRY(encoded_append(&text, path));
    return text_take(&text, ret_url);
}

struct status url_name(const char *url, char **ret_name)
{
    return string_format(ret_name, "%.*s", (int)(path_end(url) - url), url);
}

struct status url_origin(const char *url, char **ret_origin)
{
    const char *host = behind_scheme(url), *end = host_end(host);
    const char *bracket = memrchr(host, ']', (size_t)(end - host)); /* of [::1]:8080 */
    const char *name = bracket ? bracket : host;
    bool has_port = memchr(name, ':', (size_t)(end - name));
    bool is_https = strncasecmp(url, "https:", 6) == 0;
    TRY(string_format(ret_origin, "%.*s%s", (int)(end - url), url,
                      has_port || url_is_s3(url) ? ""
                      : is_https                 ? ":443"
                                                 : ":80"));
    for (char *c = *ret_origin; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    return OK;
}

struct status url_replace_host(const char *url, const char *host, char **ret_url)
{
    const char *begin = behind_scheme(url);
    return string_format(ret_url, "%.*s%s%s", (int)(begin - url), url, host, host_end(begin));
}

struct status url_of_s3(const char *url, const char *endpoint, const char *region, char **ret_url)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *bucket = behind_scheme(url), *slash = strchr(bucket, '/');
    if (!slash || slash == bucket || slash[1] == '\0')
        FAIL(STATUS_USAGE, "'%s' is not s3://BUCKET/KEY", url);
    int bucket_length = (int)(slash - bucket);
    if (endpoint) {
        size_t length = strlen(endpoint);
        while (length > 0 && endpoint[length - 1] == '/')
            length--;
        TRY(buffer_append_text(&text, "%.*s/%.*s", (int)length, endpoint, bucket_length, bucket));
    } else if (memchr(bucket, '.', (size_t)bucket_length)) { /* no certificate fits below dots */
        TRY(buffer_append_text(&text, "https://s3.%s.amazonaws.com/%.*s", region, bucket_length,
                               bucket));
    } else {
        TRY(buffer_append_text(&text, "https://%.*s.s3.%s.amazonaws.com", bucket_length, bucket,
                               region));
    }
    TRY(encoded_append(&text, slash));
    return text_take(&text, ret_url);
}
