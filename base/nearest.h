#ifndef HEADRACE_BASE_NEAREST_H
#define HEADRACE_BASE_NEAREST_H

/* "Did you mean …?" for names typed wrong. */

#include <stddef.h>

/* How many letters have to be inserted, removed, replaced or swapped with their neighbour to get
 * from one word to the other;
 * `_` equals `-`. Only the first 31 letters count. */
unsigned nearest_distance(const char *a, const char *b);

/* Whether `distance` is small enough for a name of that length to be worth suggesting. */
int nearest_is_close(unsigned distance, const char *typed);

/* The nearest of the names offered so far; one that begins with all that was typed is near too.
 * `typed` and the names are borrowed. */
struct nearest {
    const char *typed;
    const char *name;
    unsigned distance;
};
struct nearest nearest_begin(const char *typed);
void nearest_offer(struct nearest *nearest, const char *name);
/* The nearest name if it is worth suggesting, else NULL. */
const char *nearest_found(const struct nearest *nearest);

#endif
