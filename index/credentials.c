#include "index/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "index/url.h"

/* No file of credentials is longer. */
enum { CREDENTIALS_FILE_BYTES = 1 << 20 };

void credentials_done(struct credentials *credentials)
{
    arena_done(&credentials->texts);
    *credentials = (struct credentials){0};
}

static struct status text_keep(struct credentials *credentials, const char *text,
                               const char **ret_text)
{
    return arena_copy(&credentials->texts, text, strlen(text), ret_text);
}

/* An environment variable; NULL for an empty one too. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* The first line of a file. */
static struct status secret_read(struct credentials *credentials, const char *path,
                                 const char **ret_secret)
{
    CLEANUP(buffer_done) struct buffer content = {0};
    const char *text;
    TRY(file_read_all(path, CREDENTIALS_FILE_BYTES, &content));
    TRY(buffer_text(&content, &text));
    size_t length = strcspn(text, "\r\n");
    if (length == 0)
        FAIL(STATUS_USAGE, "'%s' begins with an empty line, expected the password or token", path);
    return arena_copy(&credentials->texts, text, length, ret_secret);
}

/* A file in the user's home, or where a variable says; NULL where there is none. */
static struct status home_file(struct credentials *credentials, const char *variable,
                               const char *name, const char **ret_path)
{
    CLEANUP(memory_free) char *path = NULL;
    const char *home = environment("HOME"), *named = variable ? environment(variable) : NULL;
    *ret_path = NULL;
    if (named)
        TRY(string_copy(named, &path));
    else if (home)
        TRY(path_join(home, name, &path));
    return path && path_exists(path) ? text_keep(credentials, path, ret_path) : OK;
}

/* Cuts blanks off both ends, in place. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* One setting of a file of Amazon's tools, and where it goes. */
struct setting {
    const char *name;
    const char **value;
};

/* Takes "[SECTION]" and "name = value" lines; values that are known already stay. */
static struct status settings_parse(struct credentials *credentials, char *text,
                                    const char *section, const struct setting *settings,
                                    size_t count)
{
    bool inside = false;
    for (char *line; (line = strsep(&text, "\n"));) {
        line = trim(line);
        size_t length = strlen(line);
        if (line[0] == '[' && line[length - 1] == ']') {
            line[length - 1] = '\0';
            inside = strcmp(trim(line + 1), section) == 0;
            continue;
        }
        char *equals = strchr(line, '=');
        if (!inside || !equals || line[0] == '#' || line[0] == ';')
            continue;
        *equals = '\0';
        const char *name = trim(line), *value = trim(equals + 1);
        for (size_t i = 0; i < count; i++)
            if (!*settings[i].value && value[0] && strcmp(name, settings[i].name) == 0)
                TRY(text_keep(credentials, value, settings[i].value));
    }
    return OK;
}

static struct status settings_read(struct credentials *credentials, const char *path,
                                   const char *section, const struct setting *settings,
                                   size_t count)
{
    CLEANUP(buffer_done) struct buffer content = {0};
    if (!path)
        return OK;
    TRY(file_read_all(path, CREDENTIALS_FILE_BYTES, &content));
    TRY(buffer_append_u8(&content, '\0'));
    return settings_parse(credentials, (char *)content.data, section, settings, count);
}

/* The profile's key, unless the environment gave one: a key and a secret belong together. */
static struct status s3_key_read(struct credentials *credentials, const char *profile)
{
    const struct setting settings[] = {
        {"aws_access_key_id", &credentials->s3_key},
        {"aws_secret_access_key", &credentials->s3_secret},
        {"aws_session_token", &credentials->s3_session},
    };
    const char *path;
    if (credentials->s3_key)
        return OK;
    TRY(home_file(credentials, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", &path));
    return settings_read(credentials, path, profile, settings, ARRAY_LENGTH(settings));
}

static struct status s3_region_read(struct credentials *credentials, const char *profile)
{
    CLEANUP(memory_free) char *section = NULL;
    const struct setting settings[] = {
        {"region", &credentials->s3_region},
        {"endpoint_url", &credentials->s3_endpoint},
    };
    const char *path;
    bool is_default = strcmp(profile, "default") == 0;
    TRY(string_format(&section, "%s%s", is_default ? "" : "profile ", profile));
    TRY(home_file(credentials, "AWS_CONFIG_FILE", ".aws/config", &path));
    return settings_read(credentials, path, section, settings, ARRAY_LENGTH(settings));
}

/* The first of two variables that is set. */
static struct status environment_keep(struct credentials *credentials, const char *first,
                                      const char *second, const char **ret_text)
{
    const char *value = environment(first);
    if (!value && second)
        value = environment(second);
    return value ? text_keep(credentials, value, ret_text) : OK;
}

/* The message names the variable, which may stand for endpoint_url of the configuration. */
static struct status s3_endpoint_check(const char *endpoint)
{
    CLEANUP(memory_free) char *shown = NULL;
    TRY(url_shown(endpoint, &shown));
    if (url_has_credentials(endpoint))
        FAIL(STATUS_USAGE,
             "AWS_ENDPOINT_URL is '%s' with a user or a password: leave them out, and set "
             "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
             shown);
    if (!url_is(endpoint) || url_is_s3(endpoint))
        FAIL(STATUS_USAGE, "AWS_ENDPOINT_URL is '%s', expected http:// or https://", shown);
    return status_context(url_check(endpoint), "AWS_ENDPOINT_URL");
}

static struct status s3_collect(struct credentials *credentials)
{
    const char *profile = environment("AWS_PROFILE");
    profile = profile ? profile : "default";
    TRY(environment_keep(credentials, "AWS_ACCESS_KEY_ID", NULL, &credentials->s3_key));
    TRY(environment_keep(credentials, "AWS_SECRET_ACCESS_KEY", NULL, &credentials->s3_secret));
    TRY(environment_keep(credentials, "AWS_SESSION_TOKEN", NULL, &credentials->s3_session));
    TRY(environment_keep(credentials, "AWS_REGION", "AWS_DEFAULT_REGION", &credentials->s3_region));
    TRY(environment_keep(credentials, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
                         &credentials->s3_endpoint));
    TRY(s3_key_read(credentials, profile));
    TRY(s3_region_read(credentials, profile));
    if (credentials->s3_key && !credentials->s3_secret)
        FAIL(STATUS_USAGE, "there is a key for S3, but no secret: set AWS_SECRET_ACCESS_KEY too");
    if (credentials->s3_endpoint)
        TRY(s3_endpoint_check(credentials->s3_endpoint));
    if (!credentials->s3_region)
        return text_keep(credentials, "us-east-1", &credentials->s3_region);
    return OK;
}

/* What goes into the head of a request must not end a line of it. The value is not shown. */
static struct status secret_check(const char *text, const char *what)
{
    for (const char *c = text ? text : ""; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            FAIL(STATUS_USAGE,
                 "the %s holds a character that cannot be sent, such as a line's end; is there "
                 "more in its variable or file?",
                 what);
    return OK;
}

static struct status secrets_check(const struct credentials *credentials)
{
    if (credentials->user && strchr(credentials->user, ':'))
        FAIL(STATUS_USAGE, "the user holds a colon, which ends it: the password goes into "
                           "--password-file or HEADRACE_PASSWORD");
    TRY(secret_check(credentials->user, "user"));
    TRY(secret_check(credentials->password, "password"));
    TRY(secret_check(credentials->token, "token"));
    TRY(secret_check(credentials->s3_key, "key for S3"));
    TRY(secret_check(credentials->s3_secret, "secret for S3"));
    TRY(secret_check(credentials->s3_session, "session token for S3"));
    return secret_check(credentials->s3_region, "region of S3");
}

struct status credentials_collect(const struct credential_sources *sources,
                                  struct credentials *ret_credentials)
{
    CLEANUP(credentials_done) struct credentials collected = {0};
    const char *home_netrc = NULL;
    if (sources->user)
        TRY(text_keep(&collected, sources->user, &collected.user));
    if (sources->password)
        TRY(text_keep(&collected, sources->password, &collected.password));
    if (sources->password_file)
        TRY(secret_read(&collected, sources->password_file, &collected.password));
    if (sources->token)
        TRY(text_keep(&collected, sources->token, &collected.token));
    if (sources->token_file)
        TRY(secret_read(&collected, sources->token_file, &collected.token));
    if (collected.password && !collected.user)
        FAIL(STATUS_USAGE, "there is a password, but no user: give --user, or HEADRACE_USER");
    if (sources->netrc && !path_exists(sources->netrc))
        FAIL(STATUS_NOT_FOUND, "there is no file '%s', expected a netrc file", sources->netrc);
    TRY(home_file(&collected, NULL, ".netrc", &home_netrc));
    if (sources->netrc)
        TRY(text_keep(&collected, sources->netrc, &collected.netrc));
    else
        collected.netrc = home_netrc;
    TRY(s3_collect(&collected));
    TRY(secrets_check(&collected));
    *ret_credentials = collected;
    collected = (struct credentials){0};
    return OK;
}
