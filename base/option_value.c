#include "base/option_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/number.h"

static void *field_of(const struct option *row, void *arguments)
{
    return (char *)arguments + row->offset;
}

static const void *field_of_const(const struct option *row, const void *arguments)
{
    return (const char *)arguments + row->offset;
}

static char letter_of(char c)
{
    return c == '_' ? '-' : c;
}

bool option_name_equal(const char *a, size_t length, const char *b)
{
    for (size_t i = 0; i < length; i++)
        if (letter_of(a[i]) != letter_of(b[i])) /* also where b ends */
            return false;
    return b[length] == '\0';
}

/* A range from zero to zero means any value; an infinite end is no end. */
static bool in_range(const struct option *row, double value)
{
    return (row->min == 0 && row->max == 0) || (value >= row->min && value <= row->max);
}

static struct status describe_range(const struct option *row, struct buffer *text)
{
    if (row->min == 0 && row->max == 0)
        return OK;
    if (row->max >= 1e15) /* a ceiling that nobody meets */
        return buffer_append_text(text, " of at least %.15g", row->min);
    if (isinf(row->min))
        return buffer_append_text(text, " of at most %.15g", row->max);
    return buffer_append_text(text, " from %.15g to %.15g", row->min, row->max);
}

static struct status describe_names(const struct option *row, struct buffer *text)
{
    for (size_t i = 0; row->names[i]; i++)
        TRY(buffer_append_text(text, "%s%s", i ? ", " : "one of ", row->names[i]));
    return OK;
}

struct status option_value_describe(const struct option *row, struct buffer *text)
{
    switch (row->type) {
    case OPT_INT:
        TRY(buffer_append_text(text, "a whole number"));
        return describe_range(row, text);
    case OPT_SIZE:
        TRY(buffer_append_text(text, "a size in bytes (such as 512M or 1Gi)"));
        return describe_range(row, text);
    case OPT_REAL:
        TRY(buffer_append_text(text, "a number"));
        return describe_range(row, text);
    case OPT_ENUM:
        return describe_names(row, text);
    case OPT_LIST:
        return buffer_append_text(text, "values with commas between them");
    default:
        return buffer_append_text(text, "%s", row->value ? row->value : "a text");
    }
}

static struct status value_refused(const struct option *row, const char *found)
{
    CLEANUP(buffer_done) struct buffer accepted = {0};
    const char *accepted_text;
    TRY(option_value_describe(row, &accepted));
    TRY(buffer_text(&accepted, &accepted_text));

    struct nearest nearest = nearest_begin(found);
    for (size_t i = 0; row->type == OPT_ENUM && row->names[i]; i++)
        nearest_offer(&nearest, row->names[i]);
    const char *suggestion = nearest_found(&nearest);
    if (suggestion)
        FAIL(STATUS_USAGE, "--%s: expected %s, found '%s'; did you mean '%s'?", row->name,
             accepted_text, found, suggestion);
    FAIL(STATUS_USAGE, "--%s: expected %s, found '%s'", row->name, accepted_text, found);
}

static struct status set_integer(const struct option *row, const char *text, void *arguments)
{
    int64_t value;
    if (!number_parse_i64(text, &value) || !in_range(row, (double)value))
        return value_refused(row, text);
    memcpy(field_of(row, arguments), &value, sizeof value);
    return OK;
}

static struct status set_size(const struct option *row, const char *text, void *arguments)
{
    uint64_t value;
    if (!number_parse_size(text, &value) || value > INT64_MAX || !in_range(row, (double)value))
        return value_refused(row, text);
    memcpy(field_of(row, arguments), &value, sizeof value);
    return OK;
}

static struct status set_real(const struct option *row, const char *text, void *arguments)
{
    double value;
    if (!number_parse_real(text, &value) || !in_range(row, value))
        return value_refused(row, text);
    memcpy(field_of(row, arguments), &value, sizeof value);
    return OK;
}

static struct status set_enum(const struct option *row, const char *text, void *arguments)
{
    for (int i = 0; row->names[i]; i++) {
        if (option_name_equal(text, strlen(text), row->names[i])) {
            memcpy(field_of(row, arguments), &i, sizeof i);
            return OK;
        }
    }
    return value_refused(row, text);
}

static struct status list_append(struct option_list *list, const char *value)
{
    TRY(memory_resize(list->count + 1, sizeof *list->values, &list->values));
    list->values[list->count++] = value;
    return OK;
}

static struct status set_list(const struct option *row, char *text, bool append, void *arguments)
{
    struct option_list *list = field_of(row, arguments);
    if (!append)
        option_list_done(list);
    char *rest = NULL;
    for (char *item = strtok_r(text, ",", &rest); item; item = strtok_r(NULL, ",", &rest))
        TRY(list_append(list, item));
    return OK;
}

struct status option_value_parse(const struct option *row, char *text, bool append, void *arguments)
{
    switch (row->type) {
    case OPT_INT:
        return set_integer(row, text, arguments);
    case OPT_SIZE:
        return set_size(row, text, arguments);
    case OPT_REAL:
        return set_real(row, text, arguments);
    case OPT_ENUM:
        return set_enum(row, text, arguments);
    case OPT_LIST:
        return set_list(row, text, append, arguments);
    default:
        memcpy(field_of(row, arguments), &(const char *){text}, sizeof text);
        return OK;
    }
}

void option_value_set_flag(const struct option *row, bool value, void *arguments)
{
    *(bool *)field_of(row, arguments) = value;
}

static struct status print_size(uint64_t value, struct buffer *text)
{
    static const struct {
        uint64_t bytes;
        const char *suffix;
    } units[] = {
        {1000000000000, "T"}, {(uint64_t)1 << 40, "Ti"}, {1000000000, "G"}, {1 << 30, "Gi"},
        {1000000, "M"},       {1 << 20, "Mi"},           {1000, "k"},       {1 << 10, "Ki"},
    };
    for (size_t i = 0; value && i < ARRAY_LENGTH(units); i++)
        if (value % units[i].bytes == 0)
            return buffer_append_text(text, "%" PRIu64 "%s", value / units[i].bytes,
                                      units[i].suffix);
    return buffer_append_text(text, "%" PRIu64, value);
}

static struct status print_list(const struct option_list *list, struct buffer *text)
{
    for (size_t i = 0; i < list->count; i++)
        TRY(buffer_append_text(text, "%s%s", i ? "," : "", list->values[i]));
    return list->count ? OK : buffer_append_text(text, "none");
}

struct status option_value_print(const struct option *row, const void *arguments,
                                 struct buffer *text)
{
    const void *field = field_of_const(row, arguments);
    const char *string;
    switch (row->type) {
    case OPT_FLAG:
        return buffer_append_text(text, "%s", *(const bool *)field ? "on" : "off");
    case OPT_INT:
        return buffer_append_text(text, "%" PRId64, *(const int64_t *)field);
    case OPT_SIZE:
        return print_size(*(const uint64_t *)field, text);
    case OPT_REAL:
        return buffer_append_text(text, "%.15g", *(const double *)field);
    case OPT_ENUM:
        return buffer_append_text(text, "%s", row->names[*(const int *)field]);
    case OPT_LIST:
        return print_list(field, text);
    default:
        string = *(const char *const *)field;
        return buffer_append_text(text, "%s", string ? string : "none");
    }
}

static void store_list(const struct option *row, const struct option_list *list,
                       struct json *object)
{
    struct json *array = json_array_new();
    for (size_t i = 0; i < list->count; i++)
        json_append_string(array, list->values[i]);
    json_set(object, row->name, array);
}

void option_value_store(const struct option *row, const void *arguments, struct json *object)
{
    const void *field = field_of_const(row, arguments);
    uint64_t size_bytes;
    switch (row->type) {
    case OPT_FLAG:
        json_set_boolean(object, row->name, *(const bool *)field);
        return;
    case OPT_INT:
        json_set_integer(object, row->name, *(const int64_t *)field);
        return;
    case OPT_SIZE:
        size_bytes = *(const uint64_t *)field;
        json_set_integer(object, row->name,
                         size_bytes < INT64_MAX ? (int64_t)size_bytes : INT64_MAX);
        return;
    case OPT_REAL:
        json_set_real(object, row->name, *(const double *)field);
        return;
    case OPT_ENUM:
        json_set_string(object, row->name, row->names[*(const int *)field]);
        return;
    case OPT_LIST:
        store_list(row, field, object);
        return;
    default:
        json_set_string(object, row->name, *(const char *const *)field);
    }
}

static struct status restore_number(const struct option *row, const struct json *value,
                                    void *arguments)
{
    double real;
    int64_t integer;
    TRY(json_as_real(value, &real));
    if (row->type != OPT_REAL)
        TRY(json_as_integer(value, &integer));
    if (!in_range(row, real) || (row->type == OPT_SIZE && real < 0))
        FAIL(STATUS_CORRUPT, "%.15g is out of range", real);
    if (row->type == OPT_REAL)
        memcpy(field_of(row, arguments), &real, sizeof real);
    else
        memcpy(field_of(row, arguments), &integer, sizeof integer);
    return OK;
}

static struct status restore_list(const struct option *row, const struct json *value,
                                  void *arguments)
{
    struct option_list *list = field_of(row, arguments);
    size_t count;
    TRY(json_as_array(value, &count));
    option_list_done(list);
    for (size_t i = 0; i < count; i++) {
        const char *item;
        TRY(json_as_string(json_at(value, i), &item));
        TRY(list_append(list, item));
    }
    return OK;
}

static struct status restore_text(const struct option *row, const struct json *value,
                                  void *arguments)
{
    const char *text = NULL;
    if (row->type == OPT_ENUM || !json_is_nothing(value))
        TRY(json_as_string(value, &text));
    if (row->type == OPT_ENUM)
        return set_enum(row, text, arguments);
    memcpy(field_of(row, arguments), &text, sizeof text);
    return OK;
}

static struct status restore_any(const struct option *row, const struct json *value,
                                 void *arguments)
{
    switch (row->type) {
    case OPT_FLAG:
        return json_as_boolean(value, field_of(row, arguments));
    case OPT_INT:
    case OPT_SIZE:
    case OPT_REAL:
        return restore_number(row, value, arguments);
    case OPT_LIST:
        return restore_list(row, value, arguments);
    default:
        return restore_text(row, value, arguments);
    }
}

struct status option_value_restore(const struct option *row, const struct json *value,
                                   void *arguments)
{
    struct status status = restore_any(row, value, arguments);
    if (status.code == STATUS_USAGE)
        status.code = STATUS_CORRUPT;
    return status_context(status, "stored option \"%s\"", row->name);
}

void option_list_done(struct option_list *list)
{
    memory_free(list->values);
    *list = (struct option_list){0};
}
