#ifndef HEADRACE_TRAIN_LAUNCH_H
#define HEADRACE_TRAIN_LAUNCH_H

/* How this process was started, as its environment says: alone, or as one of N by a launcher.
 *
 * | launcher       | variables                                                                    |
 * |----------------|------------------------------------------------------------------------------|
 * | torchrun       | RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; LOCAL_RANK, LOCAL_WORLD_SIZE     |
 * | mpirun         | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (Open MPI)             |
 * | mpiexec        | PMI_RANK, PMI_SIZE (MPICH and its relatives)                                 |
 * | srun           | SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_NODELIST       |
 *
 * The innermost one counts: torchrun under srun, mpirun in a batch script. MASTER_ADDR, where set,
 * overrides the host of rank 0; HEADRACE_PORT names the port to meet at. */

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

enum launcher {
    LAUNCHER_AUTO = 0, /* what the environment shows */
    LAUNCHER_ALONE,
    LAUNCHER_TORCHRUN, /* RANK and WORLD_SIZE, whoever sets them */
    LAUNCHER_MPI,
    LAUNCHER_SLURM, /* srun, without MPI */
};
extern const char *const launcher_names[]; /* by value; ends in NULL */

/* The most processes of one job: rank 0 holds two connections to each. */
enum { LAUNCH_MAX_SIZE = 4096 };
/* Ports that the processes may meet at, tried in turn. */
enum { LAUNCH_MAX_PORTS = 8 };

struct launch {
    enum launcher launcher;     /* not LAUNCHER_AUTO */
    const char *description;    /* "torchrun", "Open MPI's mpirun", …; a constant */
    const char *rank_variable;  /* that `rank` was read from; a constant, NULL when alone */
    const char *size_variable;  /* the same for `size` */
    unsigned rank, size;        /* rank < size */
    int local_rank, local_size; /* -1: the launcher does not say */
    char *host;                 /* of rank 0, owned; NULL: unknown */
    char *job;                  /* names the job, the same in all its processes, owned */
    uint16_t ports[LAUNCH_MAX_PORTS];
    unsigned port_count;
};

/* Reads the environment. `wanted` other than LAUNCHER_AUTO takes that launcher's variables and no
 * other's. Fails with STATUS_USAGE, naming the variable, where one is missing, is no number or out
 * of range, and where a launcher was told of several tasks but did not start this process. */
struct status launch_detect(enum launcher wanted, struct launch *ret_launch);
void launch_done(struct launch *launch);
CLEANUP_VALUE(launch_done, struct launch)

/* The first host of a Slurm node list such as "gpu[03-05,7],login1"; on the heap. Fails with
 * STATUS_USAGE for text that is no such list. */
struct status launch_first_node(const char *list, char **ret_host);

#endif
