#ifndef HEADRACE_TESTS_SUPPORT_RANKS_H
#define HEADRACE_TESTS_SUPPORT_RANKS_H

/* Runs a function in several processes that find each other as torchrun's do. */

#include <sys/types.h>

#include "train/comm.h"

enum { RANKS_MAX = 4 };

typedef struct status rank_fn(struct comm *comm);

struct ranks {
    struct comm_options options;
    unsigned size;
    pid_t pids[RANKS_MAX];
    char id[64]; /* names the job */
};

/* How a process ended. */
struct rank_end {
    int status;         /* exit status; minus the signal that ended it */
    char message[1024]; /* of the failure, "" for none */
};

/* Names a job of so many ranks, in the environment too. Starts nothing. */
void ranks_begin(struct ranks *ranks, unsigned size, struct comm_options options);
/* Starts a process that joins as `rank` of `world` and runs `fn`. It ends with status 0 when that
 * succeeds, 2 for STATUS_USAGE, else 1. */
void ranks_start(struct ranks *ranks, unsigned rank, unsigned world, rank_fn *fn);
void ranks_start_all(struct ranks *ranks, rank_fn *fn);
struct rank_end ranks_wait(struct ranks *ranks, unsigned rank);

#endif
