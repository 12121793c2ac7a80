#include "train/launch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/number.h"

const char *const launcher_names[] = {"auto", "alone", "torchrun", "mpi", "slurm", NULL};

/* Where a launcher writes what; NULL: it does not say. */
struct source {
    enum launcher launcher;
    const char *description;
    const char
        *marks[2]; /* variables whose presence means that this launcher started the process */
    const char *rank, *size, *local_rank, *local_size;
};

/* The innermost first: a launcher's variables stay visible in what its processes start. */
static const struct source sources[] = {
    {LAUNCHER_TORCHRUN,
     "torchrun",
     {"TORCHELASTIC_RUN_ID", "RANK"},
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE"},
    {LAUNCHER_MPI,
     "Open MPI's mpirun",
     {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {LAUNCHER_TORCHRUN,
     "RANK and WORLD_SIZE",
     {"RANK", "WORLD_SIZE"},
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE"},
    {LAUNCHER_MPI,
     "srun --mpi=pmix",
     {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL},
    {LAUNCHER_SLURM,
     "srun",
     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     NULL},
    {LAUNCHER_SLURM,
     "srun",
     {"SLURM_PROCID", "SLURM_STEP_ID"},
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL},
    {LAUNCHER_MPI,
     "mpiexec",
     {"PMI_RANK", "PMI_SIZE"},
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS"},
};

/* The value of a variable; one that is set to nothing counts as not set. */
static const char *variable(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

static bool source_present(const struct source *source)
{
    for (size_t i = 0; i < ARRAY_LENGTH(source->marks) && source->marks[i]; i++)
        if (!variable(source->marks[i]))
            return false;
    return true;
}

/* NULL where none is present. */
static const struct source *source_find(enum launcher wanted)
{
    for (size_t i = 0; i < ARRAY_LENGTH(sources); i++)
        if ((wanted == LAUNCHER_AUTO || wanted == sources[i].launcher) &&
            source_present(&sources[i]))
            return &sources[i];
    return NULL;
}

/* A variable that has to be set, to a whole number in [low, high]. */
static struct status number_read(const char *name, const char *description, uint64_t low,
                                 uint64_t high, unsigned *ret_value)
{
    const char *text = variable(name);
    if (!text)
        FAIL(STATUS_USAGE,
             "%s is not set, though other variables say that %s started this process: set it, or "
             "train in this process alone with --launcher alone",
             name, description);
    uint64_t value;
    if (!number_parse_u64(text, &value) || value < low || value > high)
        FAIL(STATUS_USAGE, "%s is '%s', but a whole number from %llu to %llu was expected (%s)",
             name, text, (unsigned long long)low, (unsigned long long)high, description);
    *ret_value = (unsigned)value;
    return OK;
}

/* The same for one that may be missing: -1. */
static struct status optional_read(const char *name, const char *description, uint64_t low,
                                   uint64_t high, int *ret_value)
{
    unsigned value = 0;
    *ret_value = -1;
    if (!variable(name))
        return OK;
    TRY(number_read(name, description, low, high, &value));
    *ret_value = (int)value;
    return OK;
}

static struct status source_read(const struct source *source, struct launch *launch)
{
    const char *who = source->description;
    launch->launcher = source->launcher;
    launch->description = who;
    launch->rank_variable = source->rank;
    launch->size_variable = source->size;
    TRY(number_read(source->size, who, 1, LAUNCH_MAX_SIZE, &launch->size));
    TRY(number_read(source->rank, who, 0, launch->size - 1, &launch->rank));
    TRY(optional_read(source->local_size, who, 1, launch->size, &launch->local_size));
    unsigned local = launch->local_size > 0 ? (unsigned)launch->local_size : launch->size;
    return optional_read(source->local_rank, who, 0, local - 1, &launch->local_rank);
}

/* The value of a variable that promises other tasks, being above that of one alone; else NULL. */
static const char *promise_of(const char *name, uint64_t alone)
{
    const char *text = variable(name);
    uint64_t value;
    return text && (!number_parse_u64(text, &value) || value > alone) ? text : NULL;
}

static struct status slurm_refuse(const char *name)
{
    const char *text = promise_of(name, 1);
    if (text)
        FAIL(STATUS_USAGE,
             "%s says %s tasks, but this process was not started by srun and is the only one: "
             "start it with srun, or train in it alone with --launcher alone",
             name, text);
    return OK;
}

/* Variables that promise other tasks, and what is missing to tell who is who; `alone` is 1 of those
 * that count tasks, 0 of those that number them. */
static const struct promise {
    const char *name;
    uint64_t alone;
    const char *missing, *launcher;
} promises[] = {
    {"WORLD_SIZE", 1, "RANK is not set", "torchrun"},
    {"RANK", 0, "WORLD_SIZE is not set", "torchrun"},
    {"LOCAL_WORLD_SIZE", 1, "RANK is not set", "torchrun"},
    {"LOCAL_RANK", 0, "RANK is not set", "torchrun"},
    {"OMPI_COMM_WORLD_RANK", 0, "OMPI_COMM_WORLD_SIZE is not set", "mpirun"},
    {"MV2_COMM_WORLD_SIZE", 1, "no module here is built for MVAPICH2", "torchrun"},
    {"MV2_COMM_WORLD_RANK", 0, "no module here is built for MVAPICH2", "torchrun"},
    {"PMI_SIZE", 1, "PMI_RANK is not set", "mpirun"},
    {"PMI_RANK", 0, "PMI_SIZE is not set", "mpirun"},
    {"PMIX_RANK", 0, "no size is set beside it", "mpirun"},
};

/* Refuses variables of a launcher that did not start this process, or left some out. */
static struct status promises_refuse(void)
{
    TRY(slurm_refuse("SLURM_NTASKS"));
    TRY(slurm_refuse("SLURM_NPROCS"));
    for (size_t i = 0; i < ARRAY_LENGTH(promises); i++) {
        const struct promise *promise = &promises[i];
        const char *text = promise_of(promise->name, promise->alone);
        if (text)
            FAIL(STATUS_USAGE,
                 "%s is '%s', but %s: set for each process what %s sets, or train in this process "
                 "alone with --launcher alone",
                 promise->name, text, promise->missing, promise->launcher);
    }
    return OK;
}

/* Where rank 0 is. The launcher may leave that open (NULL) where MPI brings the processes together.
 */
static struct status host_find(struct launch *launch)
{
    const char *master = variable("MASTER_ADDR");
    const char *nodes = variable("SLURM_STEP_NODELIST");
    if (!nodes)
        nodes = variable("SLURM_JOB_NODELIST");
    const char *node_count = variable("SLURM_STEP_NUM_NODES");
    if (launch->size == 1)
        return OK;
    if (master)
        return string_copy(master, &launch->host);
    if (launch->local_size == (int)launch->size)
        return string_copy("127.0.0.1", &launch->host);
    if (launch->launcher == LAUNCHER_TORCHRUN)
        FAIL(STATUS_USAGE,
             "MASTER_ADDR is not set, but %s says that there are %u processes: set it to the host "
             "name of rank 0",
             launch->size_variable, launch->size);
    if (launch->launcher != LAUNCHER_SLURM)
        return OK;
    if (node_count && strcmp(node_count, "1") == 0)
        return string_copy("127.0.0.1", &launch->host);
    if (!nodes)
        FAIL(STATUS_USAGE,
             "neither SLURM_STEP_NODELIST nor MASTER_ADDR is set, so the host of rank 0 is "
             "unknown: set MASTER_ADDR to its name");
    return status_context(launch_first_node(nodes, &launch->host),
                          "in the list of nodes that Slurm set");
}

static const char *variable_or_empty(const char *name)
{
    const char *value = variable(name);
    return value ? value : "";
}

static struct status job_name(struct launch *launch)
{
    switch (launch->launcher) {
    case LAUNCHER_TORCHRUN:
        return string_format(&launch->job, "torchrun %s %s %s",
                             variable_or_empty("TORCHELASTIC_RUN_ID"),
                             variable_or_empty("TORCHELASTIC_RESTART_COUNT"),
                             variable_or_empty("MASTER_PORT"));
    case LAUNCHER_SLURM:
        return string_format(&launch->job, "slurm %s %s", variable_or_empty("SLURM_JOB_ID"),
                             variable_or_empty("SLURM_STEP_ID"));
    default:
        return string_format(&launch->job, "mpi %s %s", variable_or_empty("PMIX_NAMESPACE"),
                             variable_or_empty("MASTER_PORT"));
    }
}

/* Ports below those that systems give to outgoing connections, which start at 32768 (Linux) or
 * later; other jobs on the same machine begin elsewhere. MASTER_PORT is the launcher's own:
 * torchrun's agent listens there. */
static struct status ports_choose(struct launch *launch)
{
    enum { FIRST_PORT = 20000, PORT_RANGE = 12000 };
    int master = -1, chosen = -1;
    TRY(optional_read("MASTER_PORT", "torchrun", 1, UINT16_MAX, &master));
    TRY(optional_read("HEADRACE_PORT", "the user", 1, UINT16_MAX, &chosen));
    if (chosen > 0) {
        if (chosen == master)
            FAIL(STATUS_USAGE,
                 "HEADRACE_PORT and MASTER_PORT are both %d, but MASTER_PORT belongs to the "
                 "launcher: set HEADRACE_PORT to another port, or unset it",
                 chosen);
        launch->ports[0] = (uint16_t)chosen;
        launch->port_count = 1;
        return OK;
    }
    uint8_t digest[SHA256_BYTES];
    digest_sha256_bytes(launch->job, strlen(launch->job), digest);
    uint32_t first = FIRST_PORT + load_le32(digest) % PORT_RANGE;
    for (uint32_t port = first; launch->port_count < LAUNCH_MAX_PORTS; port++)
        if ((int)port != master)
            launch->ports[launch->port_count++] = (uint16_t)port;
    return OK;
}

struct status launch_detect(enum launcher wanted, struct launch *ret_launch)
{
    CLEANUP(launch_done)
    struct launch launch = {.launcher = LAUNCHER_ALONE,
                            .description = "alone",
                            .size = 1,
                            .local_rank = -1,
                            .local_size = -1};
    const struct source *source = wanted == LAUNCHER_ALONE ? NULL : source_find(wanted);
    if (!source && wanted > LAUNCHER_ALONE)
        FAIL(STATUS_USAGE,
             "--launcher %s was asked for, but its variables are not set: start the program with "
             "it, or leave the option out",
             launcher_names[wanted]);
    if (!source && wanted == LAUNCHER_AUTO)
        TRY(promises_refuse());
    if (source) {
        TRY(source_read(source, &launch));
        TRY(host_find(&launch));
        TRY(job_name(&launch));
        TRY(ports_choose(&launch));
    }
    *ret_launch = launch;
    launch.host = launch.job = NULL;
    return OK;
}

void launch_done(struct launch *launch)
{
    memory_free(launch->host);
    memory_free(launch->job);
    launch->host = launch->job = NULL;
}

static bool is_host_letter(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

struct status launch_first_node(const char *list, char **ret_host)
{
    char host[256];
    size_t length = 0;
    const char *at = list;
    while (*at && *at != ',') {
        bool bracket = *at == '[';
        at += bracket;
        /* In brackets, the first number ends at the hyphen of its range. */
        for (; is_host_letter(*at) && !(bracket && *at == '-'); at++) {
            if (length + 1 == sizeof host)
                FAIL(STATUS_USAGE, "'%.64s…' begins with a host name of more than %zu letters",
                     list, sizeof host - 1);
            host[length++] = *at;
        }
        if (bracket)
            at += strcspn(at, "]");
        if (bracket && *at)
            at++;
        else if (bracket || (*at && *at != ',' && *at != '['))
            FAIL(STATUS_USAGE, "'%.64s' is no list of hosts such as gpu[01-04,7]", list);
    }
    host[length] = 0;
    if (length == 0)
        FAIL(STATUS_USAGE, "'%.64s' is no list of hosts such as gpu[01-04,7]", list);
    return string_copy(host, ret_host);
}
