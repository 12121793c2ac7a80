#ifndef HEADRACE_BINDING_INTERNAL_H
#define HEADRACE_BINDING_INTERNAL_H

/* private to binding/: what both of its files use. */

#include "base/status.h"

/* Ends the status: keeps its message for binding_message and returns its code. */
int binding_end(struct status status);

/* The number of a word in a list that ends in NULL. Fails with STATUS_USAGE, naming all. */
struct status binding_word_find(const char *option, const char *const *names, const char *word,
                                int *ret_number);

#endif
