#ifndef HEADRACE_BASE_PROGRESS_H
#define HEADRACE_BASE_PROGRESS_H

/* Progress on stderr: a bar that redraws itself on a terminal, a plain line now and then elsewhere.
 * Shows items, bytes, rate and time left. Thread-safe: any thread may add. */

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "base/scope.h"
#include "base/status.h"

struct progress;

/* `what` (for instance "extract", "images") is borrowed. A total of 0 is unknown. Quiet ones cost
 * nothing and print nothing. */
struct status progress_open(const char *what, const char *unit, uint64_t total_items,
                            uint64_t total_bytes, struct progress **ret_progress);
/* Adds done items and bytes. NULL is fine. */
void progress_add(struct progress *progress, uint64_t items, uint64_t bytes);
void progress_set_total(struct progress *progress, uint64_t total_items, uint64_t total_bytes);
/* Draws the last state and ends the line. NULL is fine. */
void progress_close(struct progress *progress);
CLEANUP_POINTER(progress_close, struct progress)

/* Silences all progress (option --quiet). */
void progress_set_quiet(int quiet);

/* "1.2 GB", "37.4 MB": decimal units; into a caller's buffer of 16 bytes. */
const char *format_bytes(uint64_t bytes, char text[16]);
/* "1:02:03" or "4:05". */
const char *format_seconds(double seconds, char text[16]);
/* Seconds of a clock that never goes back. */
double clock_seconds(void);
/* A condition for pthread_cond_timedwait until a moment of the same clock: somebody who sets the
 * time of day makes no wait longer. */
void clock_cond_init(pthread_cond_t *cond);
/* The moment in so many milliseconds. */
struct timespec clock_after_ms(unsigned wait_ms);

#endif
