#include "index/problem.h"

#include <stdlib.h>

#include "base/memory.h"

struct status problem_list_add(struct problem_list *list, uint64_t number, const char *class_name,
                               const char *name, const char *reason)
{
    TRY(memory_grow(list->count + 1, sizeof *list->items, &list->items, &list->capacity));
    CLEANUP(memory_free) char *record = NULL;
    struct problem *problem = &list->items[list->count];
    TRY(string_format(&record, "%s/%s", class_name, name));
    TRY(string_copy(reason, &problem->reason));
    problem->record = MOVE(record);
    problem->number = number;
    list->count++;
    return OK;
}

static int problem_compare(const void *a, const void *b)
{
    uint64_t first = ((const struct problem *)a)->number;
    uint64_t second = ((const struct problem *)b)->number;
    return (first > second) - (first < second);
}

void problem_list_sort(struct problem_list *list)
{
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, problem_compare);
}

void problem_list_done(struct problem_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        memory_free(list->items[i].record);
        memory_free(list->items[i].reason);
    }
    memory_free(list->items);
    *list = (struct problem_list){0};
}
