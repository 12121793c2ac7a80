#include "cmd/problems.h"

#include "base/log.h"

void problems_warn(const struct problem_list *problems, const char *what)
{
    const size_t most = 20;
    for (size_t i = 0; i < problems->count && i < most; i++)
        log_warning("%s %s: %s", what, problems->items[i].record, problems->items[i].reason);
    if (problems->count > most)
        log_warning("… and %zu more", problems->count - most);
}

void problems_store(const struct problem_list *problems, struct json *object)
{
    struct json *array = json_array_new();
    for (size_t i = 0; i < problems->count; i++) {
        struct json *problem = json_object_new();
        json_set_string(problem, "record", problems->items[i].record);
        json_set_string(problem, "reason", problems->items[i].reason);
        json_append(array, problem);
    }
    json_set(object, "problems", array);
}
