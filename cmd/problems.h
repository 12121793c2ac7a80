#ifndef HEADRACE_CMD_PROBLEMS_H
#define HEADRACE_CMD_PROBLEMS_H

#include "base/json.h"
#include "index/problem.h"

/* Warns of the first images that something is wrong with, and tells how many more there are. `what`
 * became of them: "left out". */
void problems_warn(const struct problem_list *problems, const char *what);
/* Puts all of them into a report as "problems". */
void problems_store(const struct problem_list *problems, struct json *object);

#endif
