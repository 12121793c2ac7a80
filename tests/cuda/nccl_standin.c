/* NCCL between the threads of one process, for tests: the symbols that train/cuda/collective.c
 * uses. A sum runs when all ranks have come to it in their streams; until then none of them blocks
 * a thread. Ranks are added in their order. */

#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudart_standin.h"

enum { MOST_RANKS = 16 };

struct sum_work {
    struct world *world;
    int rank;
    float *values;
    size_t count;
};

/* The ranks of one id. All but the list and `joined` is touched by work only, which runs one piece
 * at a time. */
struct world {
    struct world *next;
    uint64_t id;
    int size, joined, left;
    const struct sum_work *posted[MOST_RANKS];   /* by rank: come, waiting for others */
    const struct sum_work *finished[MOST_RANKS]; /* by rank: done, to be noticed */
};

struct ncclComm {
    struct world *world;
    int rank, device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t joining = PTHREAD_COND_INITIALIZER;
static struct world *worlds;
static uint64_t ids;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "nccl_standin: %s\n", what);
    abort();
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "an error of the stand-in";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&lock);
    ids++;
    memcpy(id->internal, &ids, sizeof ids);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* Called with the lock held. */
static struct world *world_find(uint64_t id, int size)
{
    for (struct world *world = worlds; world; world = world->next)
        if (world->id == id)
            return world;
    struct world *world = calloc(1, sizeof *world);
    require(world != NULL, "no memory");
    world->id = id;
    world->size = size;
    world->next = worlds;
    worlds = world;
    return world;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    uint64_t number;
    memcpy(&number, id.internal, sizeof number);
    if (nranks < 1 || nranks > MOST_RANKS || rank < 0 || rank >= nranks)
        return ncclInvalidArgument;
    struct ncclComm *made = calloc(1, sizeof *made);
    require(made != NULL, "no memory");
    require(cudaGetDevice(&made->device) == cudaSuccess, "there is no current device");
    pthread_mutex_lock(&lock);
    struct world *world = world_find(number, nranks);
    require(world->size == nranks, "the ranks of one id disagree about their number");
    made->world = world;
    made->rank = rank;
    world->joined++;
    pthread_cond_broadcast(&joining);
    while (world->joined < world->size)
        pthread_cond_wait(&joining, &lock);
    pthread_mutex_unlock(&lock);
    *comm = made;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    struct world *world = comm->world;
    if (++world->left == world->size) {
        struct world **link = &worlds;
        while (*link != world)
            link = &(*link)->next;
        *link = world->next;
        free(world);
    }
    pthread_mutex_unlock(&lock);
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    (void)comm;
    *error = ncclSuccess;
    return ncclSuccess;
}

static bool all_posted(const struct world *world)
{
    for (int r = 0; r < world->size; r++)
        if (!world->posted[r])
            return false;
    return true;
}

static void sum_all(struct world *world)
{
    const size_t count = world->posted[0]->count;
    for (int r = 1; r < world->size; r++)
        require(world->posted[r]->count == count, "the ranks of a sum disagree about its size");
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < world->size; r++)
            sum += world->posted[r]->values[i];
        for (int r = 0; r < world->size; r++)
            world->posted[r]->values[i] = sum;
    }
    for (int r = 0; r < world->size; r++) {
        world->finished[r] = world->posted[r];
        world->posted[r] = NULL;
    }
}

static bool sum_try(void *context)
{
    const struct sum_work *work = context;
    struct world *world = work->world;
    if (!world->finished[work->rank] && !world->posted[work->rank])
        world->posted[work->rank] = work;
    if (all_posted(world))
        sum_all(world);
    if (world->finished[work->rank] != work)
        return false;
    world->finished[work->rank] = NULL;
    return true;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    int device = -1;
    require(sendbuff == recvbuff && datatype == ncclFloat32 && op == ncclSum,
            "only sums of floats in place are known");
    require(standin_is_device_memory(recvbuff, &device) && device == comm->device,
            "the values of a sum are not on the communicator's device");
    struct sum_work *work = calloc(1, sizeof *work);
    require(work != NULL, "no memory");
    *work = (struct sum_work){comm->world, comm->rank, recvbuff, count};
    const struct standin_work queued = {
        .label = "sum over the devices",
        .bytes = count * sizeof(float),
        .try_run = sum_try,
        .context = work,
        .release = free,
    };
    return standin_enqueue(stream, &queued) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
