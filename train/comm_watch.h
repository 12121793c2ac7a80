#ifndef HEADRACE_TRAIN_COMM_WATCH_H
#define HEADRACE_TRAIN_COMM_WATCH_H

/* A thread in each process that knows whether the others are alive.
 *
 * Every rank holds one connection to rank 0 and sends a beat over it several times per silence
 * limit, with how many collective calls it has begun and ended. Rank 0 sees who closed without a
 * word (died), who is silent (stopped, or cut off) and who lives but does not come to a call that
 * the others wait in; it tells all, once. The others watch rank 0 the same way. The first verdict
 * stays. A process that is asked to stop (stop.h) asks all others. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "train/comm_join.h"

struct watch;

/* Starts the thread. `links` is borrowed to the end; its watch connections are the thread's. */
struct status watch_start(struct links *links, unsigned silence_s, unsigned stall_s,
                          struct watch **ret_watch);

/* Says goodbye, and goes on watching. From any thread. */
void watch_leave(struct watch *watch);

/* Says goodbye, waits until what has to be told is told, and ends the thread. NULL is fine. */
void watch_stop(struct watch *watch);
CLEANUP_POINTER(watch_stop, struct watch)

/* The ranks agree on stops among themselves from now on. */
void watch_start_ends(struct watch *watch);

/* STATUS_FAILED, or STATUS_USAGE where a rank gave up with that, with the verdict when one has been
 * reached; up to watch_start_ends STATUS_STOPPED
 * when a stop was asked for. From any thread. */
struct status watch_check(struct watch *watch);
/* A descriptor that is readable from the moment of the verdict on. */
int watch_descriptor(const struct watch *watch);
/* Whether a verdict has been reached: cheap enough for loops that wait. */
bool watch_has_verdict(const struct watch *watch);
/* How long may be waited for a descriptor without watch_check, -1 for as long as it takes. */
int watch_look_ms(const struct watch *watch);
/* Whether a rank said goodbye. */
bool watch_has_left(const struct watch *watch, unsigned rank);

/* This rank gives up; the others learn why, and fail alike where that is STATUS_USAGE: what is
 * wrong with one's command line or place is wrong with all. From any thread. */
void watch_give_up(struct watch *watch, enum status_code code, const char *reason);

/* For a connection to `rank` that broke: gives the watch a moment to find out why, gives up with
 * `reason` where it does not, and returns the failure: STATUS_STOPPED where the rank has left and
 * all are to stop. */
struct status watch_explain(struct watch *watch, unsigned rank, const char *reason);

/* Around each collective call. */
void watch_call_begins(struct watch *watch);
void watch_call_ends(struct watch *watch);

#endif
