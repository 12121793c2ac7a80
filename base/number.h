#ifndef HEADRACE_BASE_NUMBER_H
#define HEADRACE_BASE_NUMBER_H

/* Numbers from text. The whole text has to be the number: no spaces, no leading `+`, no
 * hexadecimal, and a point whatever the locale. False, and *ret_value untouched, for anything else
 * and for what does not fit the type. */

#include <stdbool.h>
#include <stdint.h>

bool number_parse_i64(const char *text, int64_t *ret_value);
bool number_parse_u64(const char *text, uint64_t *ret_value);
/* Finite values only. */
bool number_parse_real(const char *text, double *ret_value);
/* Bytes: digits, then nothing or k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (of 1024); a `B` may
 * follow. */
bool number_parse_size(const char *text, uint64_t *ret_size_bytes);

#endif
