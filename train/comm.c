#include "train/comm.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "train/comm_internal.h"
#include "train/module.h"

enum {
    JOIN_TIMEOUT_S = 300,
    JOIN_NOTICE_MS = 10000,
    SILENCE_TIMEOUT_S = 30,
    STALL_TIMEOUT_S = 1800
};

static struct comm_options options_complete(const struct comm_options *options)
{
    struct comm_options full = *options;
    if (!full.join_timeout_s)
        full.join_timeout_s = JOIN_TIMEOUT_S;
    if (!full.join_notice_ms)
        full.join_notice_ms = JOIN_NOTICE_MS;
    if (!full.silence_timeout_s)
        full.silence_timeout_s = SILENCE_TIMEOUT_S;
    if (!full.stall_timeout_s)
        full.stall_timeout_s = STALL_TIMEOUT_S;
    return full;
}

/* Only this machine's processes can call a host with such a name. */
static bool names_this_machine(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0;
}

static struct status tcp_open(struct comm *comm, const struct launch *launch,
                              const struct comm_options *options)
{
    struct join_config config = {
        .rank = launch->rank,
        .size = launch->size,
        .job = launch->job,
        .local_rank = launch->local_rank,
        .hosts = (const char *const *)&launch->host,
        .host_count = 1,
        .ports = launch->ports,
        .port_count = launch->port_count,
        .this_machine = names_this_machine(launch->host),
        .with_data = true,
        .timeout_s = options->join_timeout_s,
        .notice_ms = options->join_notice_ms,
    };
    int listener = -1;
    uint16_t port;
    if (launch->rank == 0) {
        TRY(join_listen(&config, &listener, &port));
        config.ports = &port;
        config.port_count = 1;
    }
    struct status status = join_run(&config, listener, &comm->links);
    socket_close(listener);
    TRY(status);
    TRY(watch_start(&comm->links, options->silence_timeout_s, options->stall_timeout_s,
                    &comm->watch));
    snprintf(comm->description, sizeof comm->description, "TCP (%s)", launch->description);
    return transport_tcp_open(&comm->links, comm->watch, &comm->ops, &comm->transport);
}

/* Machines are told apart by their names; the place on its machine is what the launcher gave. */
static void places_count(struct comm *comm)
{
    const struct member *members = comm->links.members, *own = &members[comm->rank];
    unsigned before = 0;
    comm->local_size = comm->nodes = 0;
    for (unsigned rank = 0; rank < comm->size; rank++) {
        bool here = strcmp(members[rank].host, own->host) == 0;
        before += here && rank < comm->rank;
        comm->local_size += here;
        unsigned first = 0;
        while (strcmp(members[first].host, members[rank].host) != 0)
            first++;
        comm->nodes += first == rank;
    }
    bool given = own->local_rank >= 0 && (unsigned)own->local_rank < comm->local_size;
    comm->local_rank = given ? (unsigned)own->local_rank : before;
}

static struct status ranks_join(struct comm *comm, const struct launch *launch,
                                const struct comm_options *options)
{
    const struct mpi_module *module = NULL;
    comm->rank = launch->rank;
    comm->size = launch->size;
    TRY(memory_alloc(COMM_PIECE_BYTES, 1, &comm->scratch));
    if (launch->launcher == LAUNCHER_MPI)
        TRY(module_find_mpi(&module));
    if (!module && !launch->host)
        FAIL(STATUS_USAGE,
             "%s started this process, but headrace-mpi.so was not found: build it with "
             "scripts/setup.sh and make, or set MASTER_ADDR to the name of rank 0's machine",
             launch->description);
    TRY(module ? comm_open_mpi(comm, launch, module, options) : tcp_open(comm, launch, options));
    places_count(comm);
    return OK;
}

struct status comm_open(const struct comm_options *options, struct comm **ret_comm)
{
    CLEANUP(comm_close) struct comm *comm = NULL;
    CLEANUP(launch_done) struct launch launch = {0};
    const struct comm_options full = options_complete(options);
    TRY(launch_detect(options->launcher, &launch));
    TRY(memory_alloc(1, sizeof *comm, &comm));
    comm->size = comm->local_size = comm->nodes = 1;
    comm->links.next = comm->links.previous = -1;
    snprintf(comm->description, sizeof comm->description, "alone");
    if (launch.size > 1)
        TRY(ranks_join(comm, &launch, &full));
    *ret_comm = MOVE(comm);
    return OK;
}

void comm_close(struct comm *comm)
{
    if (!comm)
        return;
    if (comm->transport)
        comm->ops->close(comm->transport);
    watch_stop(comm->watch);
    links_done(&comm->links);
    memory_free(comm->scratch);
    memory_free(comm);
}

unsigned comm_rank(const struct comm *comm)
{
    return comm->rank;
}

unsigned comm_size(const struct comm *comm)
{
    return comm->size;
}

unsigned comm_local_rank(const struct comm *comm)
{
    return comm->local_rank;
}

unsigned comm_local_size(const struct comm *comm)
{
    return comm->local_size;
}

unsigned comm_nodes(const struct comm *comm)
{
    return comm->nodes;
}

const char *comm_description(const struct comm *comm)
{
    return comm->description;
}

void comm_start_ends(struct comm *comm)
{
    if (comm->watch)
        watch_start_ends(comm->watch);
}

struct status comm_check(struct comm *comm)
{
    return comm->watch ? watch_check(comm->watch) : OK;
}

void comm_abort(struct comm *comm, enum status_code code, const char *reason)
{
    if (comm->watch)
        watch_give_up(comm->watch, code, reason);
}
