#ifndef HEADRACE_TRAIN_COMM_JOIN_H
#define HEADRACE_TRAIN_COMM_JOIN_H

/* How the processes of a job find each other over TCP, and what connections they keep.
 *
 * Rank 0 listens; the others call. Whoever accepts a call speaks first: a banner with the job, the
 * build and the number of ranks, so that a caller who reached a stranger sends nothing and goes on
 * looking. The caller answers with the same and with who it is, and is acknowledged. When all are
 * there, rank 0 sends everyone the table of ranks, and each calls its successor in the ring.
 * Everything has a fixed size, and a stranger who calls is dropped after a few seconds. */

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "train/comm_socket.h"
#include "train/launch.h"

enum { COMM_HOST_BYTES = 64 };

/* One process, as the table of ranks has it. */
struct member {
    char host[COMM_HOST_BYTES]; /* its machine's name */
    int32_t local_rank;         /* as its launcher said, -1: nothing was said */
};

struct join_config {
    unsigned rank, size; /* size > 1 */
    const char *job;     /* the same in all processes; its hash is what they show each other */
    int32_t local_rank;  /* -1: unknown */
    /* Where rank 0 may be met: each name at each port, in turn. Of rank 0 itself, ports[0] is where
     * it listens. */
    const char *const *hosts;
    size_t host_count;
    const uint16_t *ports;
    unsigned port_count;
    bool this_machine; /* listen to callers of this machine only */
    bool with_data;    /* star and ring too; else only what the watch needs */
    unsigned timeout_s;
    unsigned notice_ms; /* who waits longer says so once, on stderr */
};

/* Connections; -1 where there is none. */
struct links {
    unsigned rank, size;
    int *watch; /* of rank 0: by rank; of the others: [0], to rank 0 */
    int *star;  /* the same, for small things */
    int next, previous;
    struct member *members; /* by rank */
};

/* Rank 0's listening socket, at the first free one of the ports (port 0: any). Fails with
 * STATUS_IO, naming the ports, when none is free. */
struct status join_listen(const struct join_config *config, int *ret_listener, uint16_t *ret_port);

/* Joins; `listener` is rank 0's (-1 for the others), borrowed. *ret_links is ended with links_done.
 * A name that no resolver knows is warned of at once: it may become known yet.
 * Fails with STATUS_USAGE when processes contradict each other, STATUS_FAILED when some do not
 * come in time: the message names the ranks that are missing. */
struct status join_run(const struct join_config *config, int listener, struct links *ret_links);
void links_done(struct links *links);
CLEANUP_VALUE(links_done, struct links)

/* The name of this machine; what does not fit is cut. */
void join_host_name(char ret_name[COMM_HOST_BYTES]);

#endif
