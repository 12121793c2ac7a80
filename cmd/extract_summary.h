#ifndef HEADRACE_CMD_EXTRACT_SUMMARY_H
#define HEADRACE_CMD_EXTRACT_SUMMARY_H

#include "prep/extract.h"

/* One line on stdout about what was extracted to `dest`. */
void extract_summary_print(const struct extract_result *result, const char *dest);

#endif
