#ifndef HEADRACE_TRAIN_COMM_H
#define HEADRACE_TRAIN_COMM_H

/* The processes that train together: who they are, and their sums.
 *
 * comm_open finds how this process was started (train/launch.h) and joins the others. All calls but
 * comm_check and comm_abort are made from one thread, by every rank in the same order and with the
 * same counts. Sums have an order of their own, fixed by the number of ranks: the result is the
 * same bits on every rank and does not depend on who came first.
 *
 * Each call is bounded. A rank that dies, falls silent or does not come to a call makes it fail on
 * all others with STATUS_FAILED and a message that names the rank, its host and since when nothing
 * was heard, or with STATUS_STOPPED where a rank has left because all were asked to stop, which
 * each tells the others. After a failure each further call fails the same way; what remains is
 * comm_close. A process that does not come to that within silence_timeout_s is ended with status 1
 * by its watch thread, so that no rank outlives its job. */

#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "train/launch.h"

struct comm;

/* Zeroes are the defaults. */
struct comm_options {
    enum launcher launcher;     /* LAUNCHER_AUTO: found from the environment */
    unsigned join_timeout_s;    /* until all ranks are there; 0: 300 */
    unsigned join_notice_ms;    /* who waits so long for them says so once, on stderr; 0: 10 s */
    unsigned silence_timeout_s; /* a rank unheard for so long counts as dead; 0: 30 */
    unsigned stall_timeout_s;   /* the same for a live rank that the others wait for; 0: 1800 */
};

/* Joins the others; returns when all are there. *ret_comm is the caller's (comm_close), and is
 * untouched on failure. STATUS_USAGE for variables that contradict each other, or a launcher that
 * started N tasks of which this process sees one: the message names the variable and what to do;
 * STATUS_FAILED when a rank does not come in time. */
struct status comm_open(const struct comm_options *options, struct comm **ret_comm);

/* Leaves. The others go on until they need this rank. NULL is fine. */
void comm_close(struct comm *comm);
CLEANUP_POINTER(comm_close, struct comm)

/* Never zero ranks; alone: rank 0 of 1. Local: among the processes of one machine. */
unsigned comm_rank(const struct comm *comm);
unsigned comm_size(const struct comm *comm);
unsigned comm_local_rank(const struct comm *comm);
unsigned comm_local_size(const struct comm *comm);
unsigned comm_nodes(const struct comm *comm);
/* "alone", "TCP (torchrun)", "MPI (Open MPI's mpirun)" …: for the start line. */
const char *comm_description(const struct comm *comm);

/* In place, over all ranks. `values` may lie anywhere in the process's memory. */
struct status comm_sum_f32(struct comm *comm, float *values, size_t count);
struct status comm_sum_f64(struct comm *comm, double *values, size_t count);
struct status comm_max_u64(struct comm *comm, uint64_t *values, size_t count);
/* `count` bytes of rank `root` into the same buffer of each other rank. */
struct status comm_broadcast(struct comm *comm, void *bytes, size_t count, unsigned root);
/* `count` bytes of each rank, in the order of ranks, into `ret_all` (size × count bytes). */
struct status comm_gather(struct comm *comm, const void *bytes, size_t count, void *ret_all);
/* Returns when all ranks have called it. */
struct status comm_barrier(struct comm *comm);

/* Up to here, each call fails with STATUS_STOPPED once this or another rank was asked to stop: a
 * rank that starts has nothing to save. From now on ranks_vote and the like tell all when to. */
void comm_start_ends(struct comm *comm);

/* Fails as soon as another rank is known to be lost; waits for nothing. From any thread: for those
 * who wait for something that a lost rank would have to send (NCCL). */
struct status comm_check(struct comm *comm);

/* Tells the others that this rank gives up: their calls fail with a message that names it and
 * `reason` (a sentence, may be NULL), and with STATUS_USAGE where that is `code`, else with
 * STATUS_FAILED. From any thread. comm_close remains to be called. */
void comm_abort(struct comm *comm, enum status_code code, const char *reason);

#endif
