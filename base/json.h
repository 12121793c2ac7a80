#ifndef HEADRACE_BASE_JSON_H
#define HEADRACE_BASE_JSON_H

/* JSON values, by jansson. A thin layer: building objects, writing them in one line with keys in
 * insertion order, parsing with clear errors, and typed look-ups. Strings that are not UTF-8 are
 * written with each bad byte replaced by U+FFFD. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"

struct json; /* opaque: a value with one owner */

struct json *json_object_new(void);
struct json *json_array_new(void);
void json_free(struct json *value);
CLEANUP_POINTER(json_free, struct json)

/* Setters. A string may be NULL: null. Memory exhaustion is remembered: every later json_write
 * fails. */
void json_set_string(struct json *object, const char *key, const char *value);
void json_set_integer(struct json *object, const char *key, int64_t value);
void json_set_real(struct json *object, const char *key, double value); /* non-finite: null */
void json_set_boolean(struct json *object, const char *key, bool value);
/* Takes ownership of `value`. */
void json_set(struct json *object, const char *key, struct json *value);
/* Stores a copy of `value`, which stays the caller's. */
void json_set_copy(struct json *object, const char *key, const struct json *value);
void json_append(struct json *array, struct json *value);
void json_append_string(struct json *array, const char *value);
void json_append_integer(struct json *array, int64_t value);
void json_append_real(struct json *array, double value);

/* Appends the value to `text`: one line, or indented by 2. */
struct status json_write(const struct json *value, bool indented, struct buffer *text);

/* Parses `length` bytes; `name` is for messages (which give line and column). */
struct status json_parse(const void *bytes, size_t length, const char *name,
                         struct json **ret_value);

/* Look-ups: a missing key or wrong type fails with STATUS_CORRUPT naming the key. */
struct status json_get_string(const struct json *object, const char *key, const char **ret_value);
struct status json_get_integer(const struct json *object, const char *key, int64_t *ret_value);
struct status json_get_real(const struct json *object, const char *key, double *ret_value);
struct status json_get_boolean(const struct json *object, const char *key, bool *ret_value);
/* A borrowed member; NULL when missing or when `object` is no object. */
const struct json *json_get(const struct json *object, const char *key);
/* Elements or members; 0 for any other value. */
size_t json_length(const struct json *array_or_object);
/* A borrowed element; NULL past the end. */
const struct json *json_at(const struct json *array, size_t index);
/* The value itself. */
struct status json_as_integer(const struct json *value, int64_t *ret_value);
struct status json_as_real(const struct json *value, double *ret_value);
struct status json_as_boolean(const struct json *value, bool *ret_value);
/* Checks that it is an array, and gives its length. */
struct status json_as_array(const struct json *value, size_t *ret_length);
struct status json_as_string(const struct json *value, const char **ret_value);
/* Whether it is null, or missing (NULL). */
bool json_is_nothing(const struct json *value);
bool json_holds_string(const struct json *value);
bool json_holds_number(const struct json *value);
/* The key of the i-th member of an object, in the order of the text; NULL past the end. */
const char *json_key_at(const struct json *object, size_t index);

#endif
