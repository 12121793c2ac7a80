#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "train/comm_internal.h"

/* What rank 0 tells the others over MPI: where its watch is to be met, and a name of the job that
 * nobody else knows. All texts end in a zero. */
enum { MEETING_HOSTS = 8, JOB_HEX_BYTES = 33 };
struct meeting {
    uint16_t port; /* 0: rank 0 could not listen */
    char job[JOB_HEX_BYTES];
    char host[COMM_HOST_BYTES];
    char addresses[MEETING_HOSTS][SOCKET_ADDRESS_BYTES]; /* "" behind the last */
};

/* This machine's addresses as others may call it. */
static void addresses_list(struct meeting *meeting)
{
    struct ifaddrs *interfaces = NULL;
    unsigned count = 0;
    if (getifaddrs(&interfaces) < 0)
        return; /* callers on this machine do without */
    for (const struct ifaddrs *at = interfaces; at && count < MEETING_HOSTS; at = at->ifa_next) {
        int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
        socklen_t length = family == AF_INET    ? sizeof(struct sockaddr_in)
                           : family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                : 0;
        /* Addresses of one link mean nothing without its name there. */
        if (length == 0 || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK) ||
            (family == AF_INET6 &&
             IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)at->ifa_addr)->sin6_addr)))
            continue;
        if (getnameinfo(at->ifa_addr, length, meeting->addresses[count], SOCKET_ADDRESS_BYTES, NULL,
                        0, NI_NUMERICHOST) == 0)
            count++;
    }
    freeifaddrs(interfaces);
}

static struct status job_draw(char ret_job[JOB_HEX_BYTES])
{
    uint8_t bytes[(JOB_HEX_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return status_errno(errno, "cannot draw a random number");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret_job + 2 * i, 3, "%02x", bytes[i]);
    return OK;
}

/* Rank 0 listens and tells the others where, or that it could not. */
static struct status meeting_share(struct comm *comm, const struct mpi_module *module,
                                   struct join_config *config, struct meeting *meeting,
                                   int *ret_listener)
{
    struct status listening = OK;
    if (comm->rank == 0) {
        listening = job_draw(meeting->job);
        join_host_name(meeting->host);
        addresses_list(meeting);
        if (listening.code == STATUS_DONE)
            listening = join_listen(config, ret_listener, &meeting->port);
    }
    struct status shared = module->share(meeting, sizeof *meeting, config->timeout_s);
    if (listening.code != STATUS_DONE) {
        status_ignore(shared);
        return listening;
    }
    TRY(shared);
    if (meeting->port == 0)
        FAIL(STATUS_FAILED, "rank 0 could not listen for the others: see its own output");
    return OK;
}

/* The names to call rank 0 by; those on its machine need no network. */
static size_t hosts_list(const struct meeting *meeting, const char *hosts[MEETING_HOSTS + 2])
{
    char own[COMM_HOST_BYTES];
    size_t count = 0;
    join_host_name(own);
    if (strcmp(own, meeting->host) == 0)
        hosts[count++] = "127.0.0.1";
    for (unsigned i = 0; i < MEETING_HOSTS && meeting->addresses[i][0]; i++)
        hosts[count++] = meeting->addresses[i];
    hosts[count++] = meeting->host;
    return count;
}

static struct status world_check(const struct comm *comm, const struct launch *launch)
{
    if (comm->size == launch->size)
        return OK;
    FAIL(STATUS_USAGE,
         "%s says that there are %u processes, but MPI sees %u: headrace-mpi.so was built for "
         "another MPI than %s belongs to; build it with that one's mpicc, or start the program "
         "with the launcher of its MPI",
         launch->size_variable, launch->size, comm->size, launch->description);
}

struct status comm_open_mpi(struct comm *comm, const struct launch *launch,
                            const struct mpi_module *module, const struct comm_options *options)
{
    struct meeting meeting = {0};
    const char *hosts[MEETING_HOSTS + 2];
    const uint16_t any_port = 0;
    int listener = -1;
    TRY(module->start(&comm->rank, &comm->size));
    TRY(world_check(comm, launch));
    struct join_config config = {
        .rank = comm->rank,
        .size = comm->size,
        .job = meeting.job,
        .local_rank = launch->local_rank,
        .hosts = hosts,
        .ports = &any_port,
        .port_count = 1,
        .this_machine = launch->local_size == (int)launch->size,
        .timeout_s = options->join_timeout_s,
        .notice_ms = options->join_notice_ms,
    };
    TRY(meeting_share(comm, module, &config, &meeting, &listener));
    config.host_count = hosts_list(&meeting, hosts);
    config.ports = &meeting.port;
    struct status status = join_run(&config, listener, &comm->links);
    socket_close(listener);
    TRY(status);
    TRY(watch_start(&comm->links, options->silence_timeout_s, options->stall_timeout_s,
                    &comm->watch));
    snprintf(comm->description, sizeof comm->description, "MPI (%s)", launch->description);
    return module->open(comm->watch, comm->rank, comm->size, &comm->ops, &comm->transport);
}
