#ifndef HEADRACE_INDEX_PROBLEM_H
#define HEADRACE_INDEX_PROBLEM_H

/* Images that something is wrong with, kept for a report. */

#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

struct problem {
    uint64_t number; /* of the record, in what was read */
    char *record;    /* CLASS/NAME */
    char *reason;
};
/* Zero it to start. */
struct problem_list {
    struct problem *items;
    size_t count, capacity;
};
struct status problem_list_add(struct problem_list *list, uint64_t number, const char *class_name,
                               const char *name, const char *reason);
void problem_list_sort(struct problem_list *list); /* by number */
void problem_list_done(struct problem_list *list);
CLEANUP_VALUE(problem_list_done, struct problem_list)

#endif
