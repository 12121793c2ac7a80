#include "base/json.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include <jansson.h>

/* A struct json is jansson's json_t under a name of ours. */
static struct json *wrap(json_t *value)
{
    return (struct json *)value;
}

static json_t *unwrap(const struct json *value)
{
    return (json_t *)value;
}

/* Set when a value could not be made or stored: what is written afterwards would lack it. */
static atomic_bool exhausted;

static json_t *made(json_t *value)
{
    if (!value)
        atomic_store(&exhausted, true);
    return value;
}

static void stored(int result)
{
    if (result != 0)
        atomic_store(&exhausted, true);
}

/* The length of the UTF-8 character at `p`, or 0 if there is none (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF). Stops at the zero that ends a string. */
static size_t utf8_length(const uint8_t *p)
{
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    uint8_t low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high)
        return 0;
    size_t length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static bool utf8_valid(const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    while (*p) {
        size_t length = utf8_length(p);
        if (length == 0)
            return false;
        p += length;
    }
    return true;
}

/* `text` itself, or a copy in `copy` with each bad byte replaced. */
static struct status utf8_clean(const char *text, struct buffer *copy, const char **ret_text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    *ret_text = text;
    if (utf8_valid(text))
        return OK;
    for (const uint8_t *p = (const uint8_t *)text; *p;) {
        size_t length = utf8_length(p);
        if (length)
            TRY(buffer_append(copy, p, length));
        else
            TRY(buffer_append(copy, replacement, 3));
        p += length ? length : 1;
    }
    return buffer_text(copy, ret_text);
}

static json_t *string_make(const char *text)
{
    if (!text)
        return json_null();
    CLEANUP(buffer_done) struct buffer copy = {0};
    const char *clean = NULL;
    struct status status = utf8_clean(text, &copy, &clean);
    json_t *value = status.code == STATUS_DONE ? json_string(clean) : NULL;
    status_ignore(status);
    return made(value);
}

static json_t *real_make(double value)
{
    return isfinite(value) ? made(json_real(value)) : json_null();
}

static void object_set(struct json *object, const char *key, json_t *value)
{
    CLEANUP(buffer_done) struct buffer copy = {0};
    const char *clean = NULL;
    struct status status = utf8_clean(key, &copy, &clean);
    if (status.code == STATUS_DONE) {
        stored(json_object_set_new(unwrap(object), clean, value));
    } else {
        json_decref(value);
        stored(-1);
    }
    status_ignore(status);
}

struct json *json_object_new(void)
{
    return wrap(made(json_object()));
}

struct json *json_array_new(void)
{
    return wrap(made(json_array()));
}

void json_free(struct json *value)
{
    json_decref(unwrap(value));
}

void json_set_string(struct json *object, const char *key, const char *value)
{
    object_set(object, key, string_make(value));
}

void json_set_integer(struct json *object, const char *key, int64_t value)
{
    object_set(object, key, made(json_integer(value)));
}

void json_set_real(struct json *object, const char *key, double value)
{
    object_set(object, key, real_make(value));
}

void json_set_boolean(struct json *object, const char *key, bool value)
{
    object_set(object, key, json_boolean(value));
}

void json_set(struct json *object, const char *key, struct json *value)
{
    object_set(object, key, unwrap(value));
}

void json_set_copy(struct json *object, const char *key, const struct json *value)
{
    object_set(object, key, made(json_deep_copy(unwrap(value))));
}

void json_append(struct json *array, struct json *value)
{
    stored(json_array_append_new(unwrap(array), unwrap(value)));
}

void json_append_string(struct json *array, const char *value)
{
    json_append(array, wrap(string_make(value)));
}

void json_append_integer(struct json *array, int64_t value)
{
    json_append(array, wrap(made(json_integer(value))));
}

void json_append_real(struct json *array, double value)
{
    json_append(array, wrap(real_make(value)));
}

struct dump {
    struct buffer *text;
    struct status status;
};

static int dump_piece(const char *bytes, size_t length, void *context)
{
    struct dump *dump = context;
    if (dump->status.code == STATUS_DONE)
        dump->status = buffer_append(dump->text, bytes, length);
    return dump->status.code == STATUS_DONE ? 0 : -1;
}

struct status json_write(const struct json *value, bool indented, struct buffer *text)
{
    if (!value || atomic_load(&exhausted))
        FAIL(STATUS_NO_MEMORY, "out of memory while JSON was being built");
    struct dump dump = {text, OK};
    size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17) | (indented ? JSON_INDENT(2) : 0);
    int result = json_dump_callback(unwrap(value), dump_piece, &dump, flags);
    if (result != 0 && dump.status.code == STATUS_DONE)
        FAIL(STATUS_NO_MEMORY, "out of memory while JSON was being written");
    return dump.status;
}

struct status json_parse(const void *bytes, size_t length, const char *name,
                         struct json **ret_value)
{
    json_error_t error;
    json_t *value = json_loadb(bytes, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!value)
        FAIL(STATUS_CORRUPT, "'%s' is not valid JSON, line %d, column %d: %s", name, error.line,
             error.column, error.text);
    *ret_value = wrap(value);
    return OK;
}

static const char *type_name(const json_t *value)
{
    if (!value)
        return "nothing";
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return names[json_typeof(value)];
}

static struct status type_wrong(const json_t *value, const char *expected)
{
    FAIL(STATUS_CORRUPT, "expected %s, found %s", expected, type_name(value));
}

struct status json_as_integer(const struct json *value, int64_t *ret_value)
{
    if (!json_is_integer(unwrap(value)))
        return type_wrong(unwrap(value), "an integer");
    *ret_value = json_integer_value(unwrap(value));
    return OK;
}

struct status json_as_real(const struct json *value, double *ret_value)
{
    if (!json_is_number(unwrap(value)))
        return type_wrong(unwrap(value), "a number");
    *ret_value = json_number_value(unwrap(value));
    return OK;
}

struct status json_as_string(const struct json *value, const char **ret_value)
{
    if (!json_is_string(unwrap(value)))
        return type_wrong(unwrap(value), "a string");
    *ret_value = json_string_value(unwrap(value));
    return OK;
}

struct status json_as_array(const struct json *value, size_t *ret_length)
{
    if (!json_is_array(unwrap(value)))
        return type_wrong(unwrap(value), "an array");
    *ret_length = json_array_size(unwrap(value));
    return OK;
}

struct status json_as_boolean(const struct json *value, bool *ret_value)
{
    if (!json_is_boolean(unwrap(value)))
        return type_wrong(unwrap(value), "true or false");
    *ret_value = json_is_true(unwrap(value));
    return OK;
}

const struct json *json_get(const struct json *object, const char *key)
{
    return wrap(json_object_get(unwrap(object), key));
}

struct status json_get_string(const struct json *object, const char *key, const char **ret_value)
{
    return status_context(json_as_string(json_get(object, key), ret_value), "\"%s\"", key);
}

struct status json_get_integer(const struct json *object, const char *key, int64_t *ret_value)
{
    return status_context(json_as_integer(json_get(object, key), ret_value), "\"%s\"", key);
}

struct status json_get_real(const struct json *object, const char *key, double *ret_value)
{
    return status_context(json_as_real(json_get(object, key), ret_value), "\"%s\"", key);
}

struct status json_get_boolean(const struct json *object, const char *key, bool *ret_value)
{
    return status_context(json_as_boolean(json_get(object, key), ret_value), "\"%s\"", key);
}

size_t json_length(const struct json *array_or_object)
{
    const json_t *value = unwrap(array_or_object);
    return json_is_array(value) ? json_array_size(value) : json_object_size(value);
}

const struct json *json_at(const struct json *array, size_t index)
{
    return wrap(json_array_get(unwrap(array), index));
}

bool json_is_nothing(const struct json *value)
{
    return !value || json_is_null(unwrap(value));
}

bool json_holds_string(const struct json *value)
{
    return value && json_is_string(unwrap(value));
}

bool json_holds_number(const struct json *value)
{
    return value && json_is_number(unwrap(value));
}

const char *json_key_at(const struct json *object, size_t index)
{
    void *member = json_object_iter(unwrap(object));
    while (member && index-- > 0)
        member = json_object_iter_next(unwrap(object), member);
    return member ? json_object_iter_key(member) : NULL;
}
