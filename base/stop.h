#ifndef HEADRACE_BASE_STOP_H
#define HEADRACE_BASE_STOP_H

/* Stopping on request. The first SIGINT, SIGTERM or SIGUSR1 asks for a clean stop, which long loops
 * poll; a second SIGINT ends the process at once. */

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"

/* Installs the handlers; called once by main. A write above the file size limit (SIGXFSZ) becomes
 * an error of that write. */
void stop_install(void);
/* From now on whoever reads this process's output may leave: that is a failed write, not the end.
 */
void stop_outlive_readers(void);
/* Asks for a stop, as a signal does. */
void stop_request(void);
bool stop_requested(void);
/* OK, or STATUS_STOPPED once a stop was asked for. */
struct status stop_check(void);
/* STATUS_STOPPED. */
struct status stop_fail(void);

/* What this thread does is wanted only until *closing is set (borrowed): stop_check fails from then
 * on, and stop_is_closing says so to whoever waits for something that may never come. */
void stop_follow(const atomic_bool *closing);
bool stop_is_closing(void);

#endif
