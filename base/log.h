#ifndef HEADRACE_BASE_LOG_H
#define HEADRACE_BASE_LOG_H

/* Messages for people, on stderr: one line each, whole even when several threads speak, never
 * through a progress bar. */

#include "base/status.h"

/* "headrace: note: …" */
void log_note(const char *format, ...) PRINTF_LIKE(1, 2);
/* "headrace: warning: …" */
void log_warning(const char *format, ...) PRINTF_LIKE(1, 2);
/* "headrace: error: …" */
void log_error(const char *format, ...) PRINTF_LIKE(1, 2);

/* For one of several processes that do the same: `name` (borrowed) stands in front of its warnings
 * and errors, and it gives no notes, which the first process gives for all. NULL: as ever. */
void log_speak_as(const char *name);

#endif
