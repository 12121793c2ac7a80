#include "train/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "train/comm_join.h"

/* Where a process runs. */
struct place {
    char host[COMM_HOST_BYTES];
    cpu_set_t cores; /* that it may run on */
};

static bool place_is_on(const struct place *place, const char *host, int core)
{
    return strcmp(place->host, host) == 0 && CPU_ISSET(core, &place->cores);
}

/* This process's part of the cores it may run on, each divided by the processes that may run there.
 */
static unsigned share_of(const struct place *own, const struct place *places, unsigned count)
{
    double share = 0;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        unsigned users = 0;
        for (unsigned i = 0; i < count; i++)
            users += place_is_on(&places[i], own->host, core);
        if (CPU_ISSET(core, &own->cores))
            share += 1.0 / users;
    }
    return share < 1 ? 1 : (unsigned)(share + 1e-6);
}

static struct status cores_divide(struct comm *comm)
{
    CLEANUP(memory_free) struct place *places = NULL;
    const unsigned size = comm_size(comm);
    struct place own = {0};
    TRY(memory_alloc(size, sizeof *places, &places));
    join_host_name(own.host);
    if (sched_getaffinity(0, sizeof own.cores, &own.cores) != 0)
        memset(&own.cores, 0xff, sizeof own.cores); /* a machine with more cores than that */
    TRY(comm_gather(comm, &own, sizeof own, places));
    unsigned share = share_of(&own, places, size), cores = cores_available();
    /* A quota below the cores of the mask is one for all processes of the machine. */
    if (cores < (unsigned)CPU_COUNT(&own.cores)) {
        unsigned of_quota = cores / comm_local_size(comm);
        share = of_quota < share ? of_quota : share;
    }
    cores_limit(share ? share : 1);
    return OK;
}

struct status ranks_settle(struct comm *comm)
{
    static char name[32];
    if (comm_size(comm) == 1)
        return OK;
    snprintf(name, sizeof name, "rank %u", comm_rank(comm));
    log_speak_as(comm_rank(comm) ? name : NULL);
    return cores_divide(comm);
}

struct status ranks_agree(struct comm *comm, const char *what, const char *text)
{
    enum { TEXT_BYTES = 256 };
    CLEANUP(memory_free) char(*texts)[TEXT_BYTES] = NULL;
    char own[TEXT_BYTES] = {0};
    TRY(memory_alloc(comm_size(comm), sizeof *texts, &texts));
    snprintf(own, sizeof own, "%s", text);
    TRY(comm_gather(comm, own, sizeof own, texts));
    for (unsigned rank = 1; rank < comm_size(comm); rank++)
        if (strcmp(texts[rank], texts[0]) != 0)
            FAIL(STATUS_FAILED,
                 "%s of rank %u is not that of rank 0: %s, expected %s; start all ranks with the "
                 "same program, options and data",
                 what, rank, texts[rank], texts[0]);
    return OK;
}

struct status ranks_vote(struct comm *comm, bool yes, bool *ret_any)
{
    uint64_t vote = yes;
    TRY(comm_max_u64(comm, &vote, 1));
    *ret_any = vote != 0;
    return OK;
}

struct status ranks_vote_stop(struct comm *comm, bool yes, struct status waited, bool *ret_stopping)
{
    bool stopped = waited.code == STATUS_STOPPED;
    if (!stopped)
        TRY(waited);
    status_clear(&waited);
    return ranks_vote(comm, yes || stopped, ret_stopping);
}

struct status sums_join(struct comm *comm, struct metric_sums *sums, size_t count)
{
    CLEANUP(memory_free) double(*numbers)[4] = NULL;
    if (comm_size(comm) == 1)
        return OK;
    TRY(memory_alloc(count, sizeof *numbers, &numbers));
    for (size_t i = 0; i < count; i++) {
        numbers[i][0] = sums[i].loss;
        numbers[i][1] = (double)sums[i].top1;
        numbers[i][2] = (double)sums[i].top5;
        numbers[i][3] = (double)sums[i].count;
    }
    TRY(comm_sum_f64(comm, *numbers, 4 * count));
    for (size_t i = 0; i < count; i++)
        sums[i] = (struct metric_sums){
            .loss = numbers[i][0],
            .top1 = (uint64_t)numbers[i][1],
            .top5 = (uint64_t)numbers[i][2],
            .count = (uint64_t)numbers[i][3],
        };
    return OK;
}

struct status ranks_share_text(struct comm *comm, char **text)
{
    uint64_t length = *text ? strlen(*text) : 0;
    TRY(comm_broadcast(comm, &length, sizeof length, 0));
    if (comm_rank(comm))
        TRY(memory_alloc(length + 1, 1, text));
    return comm_broadcast(comm, *text, length, 0);
}

static struct status document_share(struct comm *comm, struct checkpoint *checkpoint)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    CLEANUP(memory_free) char *received = NULL;
    if (comm_rank(comm) == 0) {
        TRY(json_write(checkpoint->document, false, &buffer));
        TRY(buffer_append_u8(&buffer, '\0'));
        char *text = (char *)buffer.data;
        return ranks_share_text(comm, &text);
    }
    TRY(ranks_share_text(comm, &received));
    return json_parse(received, strlen(received), "rank 0's checkpoint", &checkpoint->document);
}

static struct status weights_share(struct comm *comm, struct weights *weights)
{
    const struct network *network = weights->network;
    uint8_t has_average = weights->average != NULL;
    TRY(comm_broadcast(comm, &has_average, sizeof has_average, 0));
    if (has_average)
        TRY(weights_open_average(weights));
    for (size_t p = 0; p < network->param_count; p++) {
        size_t bytes = network->params[p].count * sizeof(float);
        if (weights->values[p])
            TRY(comm_broadcast(comm, weights->values[p], bytes, 0));
        if (weights->momentum[p])
            TRY(comm_broadcast(comm, weights->momentum[p], bytes, 0));
        if (has_average && weights->average[p])
            TRY(comm_broadcast(comm, weights->average[p], bytes, 0));
    }
    return comm_broadcast(comm, weights->counters, network->param_count * sizeof *weights->counters,
                          0);
}

/* The empty checkpoint of another rank becomes that of rank 0. */
static struct status checkpoint_receive(struct comm *comm, struct checkpoint *checkpoint)
{
    TRY(ranks_share_text(comm, &checkpoint->folder));
    TRY(document_share(comm, checkpoint));
    TRY(checkpoint_prepare(checkpoint));
    return weights_share(comm, checkpoint->weights);
}

struct status ranks_share_checkpoint(struct comm *comm, struct checkpoint **checkpoint)
{
    uint8_t there = *checkpoint != NULL;
    if (comm_size(comm) == 1)
        return OK;
    TRY(comm_broadcast(comm, &there, sizeof there, 0));
    if (!there)
        return OK;
    if (comm_rank(comm) == 0) {
        TRY(ranks_share_text(comm, &(*checkpoint)->folder));
        TRY(document_share(comm, *checkpoint));
        return weights_share(comm, (*checkpoint)->weights);
    }
    CLEANUP(checkpoint_free) struct checkpoint *received = NULL;
    TRY(memory_alloc(1, sizeof *received, &received));
    TRY(checkpoint_receive(comm, received));
    *checkpoint = MOVE(received);
    return OK;
}
