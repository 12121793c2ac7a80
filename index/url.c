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

struct status url_refuse_kind(const char *path)
{
    const char *end = strstr(path, "://");
    size_t length = end ? (size_t)(end - path) : 0;
    if (length == 0 || strcspn(path, "/") < length || url_is(path) || path_exists(path))
        return OK;
    FAIL(STATUS_USAGE,
         "'%s' is a URL of a kind that is not read; those of http://, https:// and "
         "s3:// are, and files by their path",
         path);
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

struct status url_check(const char *url)
{
    const char *host = behind_scheme(url), *end = host_end(host);
    const char *at = memrchr(host, '@', (size_t)(end - host));
    if (at)
        FAIL(STATUS_USAGE,
             "'%.*s%s' holds a user or a password, which lists of processes and logs would show: "
             "leave it out and give --user and --password-file, or HEADRACE_USER and "
             "HEADRACE_PASSWORD",
             (int)(host - url), url, at + 1);
    if (end == host)
        FAIL(STATUS_USAGE, "'%s' names no host", url);
    for (const char *c = url; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f ||
            (!url_is_s3(url) && (*c == ' ' || *c == '#' || *c == '\\')))
            FAIL(STATUS_USAGE, "'%s' has a character that has to be written as %%%02X", url,
                 (unsigned char)*c);
    return OK;
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
