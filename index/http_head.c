#include "index/http_head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/crc32c.h"

/* A part of a line. */
struct span {
    const char *begin, *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct span trim(struct span text)
{
    while (text.begin < text.end && is_blank(*text.begin))
        text.begin++;
    while (text.begin < text.end && is_blank(text.end[-1]))
        text.end--;
    return text;
}

static bool span_equal(struct span text, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(text.end - text.begin) == length && strncasecmp(text.begin, word, length) == 0;
}

/* Takes a word off the front. */
static bool word_take(struct span *text, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(text->end - text->begin) < length || strncasecmp(text->begin, word, length) != 0)
        return false;
    text->begin += length;
    return true;
}

/* Takes a whole number off the front. */
static bool number_take(struct span *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *begin = text->begin;
    for (; text->begin < text->end && *text->begin >= '0' && *text->begin <= '9'; text->begin++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text->begin - '0'), &value))
            return false;
    *ret_value = value;
    return text->begin > begin;
}

static void status_line_take(struct http_head *head, struct span text)
{
    uint64_t status;
    *head = (struct http_head){0};
    while (text.begin < text.end && *text.begin != ' ')
        text.begin++;
    text = trim(text);
    if (number_take(&text, &status) && status < 1000)
        head->status = (int)status;
}

static void length_take(struct http_head *head, struct span value)
{
    uint64_t length;
    if (!number_take(&value, &length) || value.begin != value.end)
        return;
    head->has_length = true;
    head->length_bytes = length;
}

/* "bytes 0-499/1234", "bytes 0-499/" and a star, "bytes", a star and "/1234". */
static void range_take(struct http_head *head, struct span value)
{
    uint64_t first = 0, last = 0, total = 0;
    if (!word_take(&value, "bytes"))
        return;
    value = trim(value);
    bool has_range = !word_take(&value, "*");
    if (has_range && (!number_take(&value, &first) || !word_take(&value, "-") ||
                      !number_take(&value, &last) || last < first))
        return;
    if (!word_take(&value, "/"))
        return;
    bool has_total = !word_take(&value, "*");
    if ((has_total && (!number_take(&value, &total) || (has_range && last >= total))) ||
        value.begin != value.end)
        return;
    head->has_range = has_range;
    head->first = first;
    head->last = last;
    head->has_total = has_total;
    head->total_bytes = total;
}

static void text_take(char text[HTTP_VALIDATOR_BYTES], struct span value)
{
    const int kept_bytes = 64; /* of one that is too long */
    size_t length = (size_t)(value.end - value.begin);
    if (length < HTTP_VALIDATOR_BYTES)
        snprintf(text, HTTP_VALIDATOR_BYTES, "%.*s", (int)length, value.begin);
    else
        snprintf(text, HTTP_VALIDATOR_BYTES, "%.*s… (CRC %08x)", kept_bytes, value.begin,
                 crc32c_update(0, value.begin, length));
}

void http_head_take(struct http_head *head, const char *line, size_t length)
{
    struct span text = trim((struct span){line, line + length});
    const char *colon = memchr(text.begin, ':', (size_t)(text.end - text.begin));
    struct span first = text;
    if (word_take(&first, "HTTP/")) {
        status_line_take(head, text);
        return;
    }
    if (!colon)
        return;
    struct span name = {text.begin, colon}, value = trim((struct span){colon + 1, text.end});
    if (span_equal(name, "Content-Length"))
        length_take(head, value);
    else if (span_equal(name, "Content-Range"))
        range_take(head, value);
    else if (span_equal(name, "Content-Encoding"))
        head->is_encoded = !span_equal(value, "identity");
    else if (span_equal(name, "ETag"))
        text_take(head->version.etag, value);
    else if (span_equal(name, "Last-Modified"))
        text_take(head->version.modified, value);
}

const char *http_version_text(const struct http_version *version)
{
    return version->etag[0] ? version->etag : version->modified;
}

const char *http_version_differs(const struct http_version *version,
                                 const struct http_version *before, const char **ret_before)
{
    bool has_etags = version->etag[0] && before->etag[0];
    const char *now = has_etags ? version->etag : version->modified;
    *ret_before = has_etags ? before->etag : before->modified;
    return now[0] && (*ret_before)[0] && strcmp(now, *ret_before) != 0 ? now : NULL;
}
