#ifndef HEADRACE_BASE_OPTION_VALUE_H
#define HEADRACE_BASE_OPTION_VALUE_H

/* One option's value in an arguments struct: what base/option*.c share. */

#include <stdbool.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/option.h"
#include "base/status.h"

/* Sets a value from text, which a list cuts at its commas and borrows. `append`: a list is
 * continued instead of begun anew. Fails with STATUS_USAGE, saying what is accepted. Not for flags.
 */
struct status option_value_parse(const struct option *row, char *text, bool append,
                                 void *arguments);
void option_value_set_flag(const struct option *row, bool value, void *arguments);

/* Appends what is accepted: "a whole number from 1 to 1024". */
struct status option_value_describe(const struct option *row, struct buffer *text);
/* Appends the value as it could be typed; "none" for an empty string or list, "on" or "off" for a
 * flag. */
struct status option_value_print(const struct option *row, const void *arguments,
                                 struct buffer *text);

void option_value_store(const struct option *row, const void *arguments, struct json *object);
/* Fails with STATUS_CORRUPT, naming the option, if it does not accept the value. */
struct status option_value_restore(const struct option *row, const struct json *value,
                                   void *arguments);

/* Whether two names are equal; `_` and `-` are the same letter. `a` has `length` bytes. */
bool option_name_equal(const char *a, size_t length, const char *b);

#endif
