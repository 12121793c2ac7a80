#ifndef HEADRACE_INDEX_SELECT_H
#define HEADRACE_INDEX_SELECT_H

/* Subsets, splits, unions and relabellings of data sets: new lists of records over the same shards.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text_list.h"
#include "image/source.h"

/* The records of several sources as one. Classes are united by key; words and counts come from the
 * first source that has them. Shards with the same path become one. The same name twice in a class
 * fails with STATUS_CORRUPT. */
struct status select_merge(struct source *const *sources, size_t count, struct source **ret_merged);

/* Gives classes new keys: lines "KEY NEWKEY" or "KEY NEWKEY WORDS…". Classes that get the same key
 * become one; those not named stay as they are. A key that the source does not have fails with
 * STATUS_NOT_FOUND and the line, two new keys for one with STATUS_CORRUPT. */
struct status select_relabel(const struct source *source, const struct text_list *relabel,
                             const char *list_name, struct source **ret_relabelled);

/* Which records to take. They are applied in this order, each to what the ones before left; NULL
 * and 0 take all. */
struct select_options {
    const struct text_list *classes; /* keys */
    const char *classes_name;        /* where the list comes from, for messages */
    bool keep_classes; /* the other classes stay in the class table, so that labels stay as they are
                        */
    const struct text_list *names; /* CLASS/NAME, or NAME in whatever class */
    const char *names_name;
    uint64_t every;     /* records 0, n, 2n, … */
    uint64_t per_class; /* the first n of each class */
    double split;       /* this share of each class, drawn at random */
    uint64_t seed;      /* of the split */
};

/* The records that are selected, and (where ret_rest is not NULL) all others, as new sources.
 * Classes and names that are not there fail with STATUS_NOT_FOUND; so does an empty selection.
 * Labels are renumbered when `classes` leaves classes out, unless keep_classes. */
struct status select_run(const struct source *source, const struct select_options *options,
                         struct source **ret_selected, struct source **ret_rest);

#endif
