#include "tests/cuda/nccl_standin.h"

#include <fcntl.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda/cudart_standin.h"

enum { MOST_RANKS = 16, NAME_BYTES = 16 };
/* Of one sum of one rank: twice a bucket of gradients. The file is sparse. */
static const size_t room_bytes = 64 << 20;

/* What a rank tells the others. */
struct seat {
    atomic_int pid;
    atomic_uint_fast64_t posted; /* sums that it has come to */
    atomic_size_t counts[2];     /* of its last sums, by parity */
};

/* The ranks of one id, in memory that all their processes share; behind it two rooms a rank, by the
 * parity of the sum: who comes to a sum has read all of the last but one. */
struct world {
    atomic_int size, joined;
    struct seat seats[MOST_RANKS];
};
enum { HEADER_BYTES = 4096 };
_Static_assert(sizeof(struct world) <= HEADER_BYTES, "rooms begin behind the header");

/* Held by its owner and by each sum that is still queued or in a graph. */
struct ncclComm {
    struct world *world;
    int rank, device;
    bool has_foreign; /* ranks in other processes */
    uint64_t sums;    /* done; touched by work only */
    bool is_posted;   /* the next one is */
    atomic_bool aborted;
    atomic_int references;
};

struct sum_work {
    struct ncclComm *comm;
    const float *from;
    float *to;
    size_t count;
};

static atomic_bool broken;

void standin_nccl_break(void)
{
    atomic_store(&broken, true);
}

void standin_nccl_mend(void)
{
    atomic_store(&broken, false);
}

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
    return result == ncclSuccess       ? "no error"
           : result == ncclRemoteError ? "remote process exited or there was a network error"
                                       : "an error of the stand-in";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    require(getrandom(id->internal, NAME_BYTES, 0) == NAME_BYTES, "there are no random numbers");
    return ncclSuccess;
}

/* --- Worlds
 * --------------------------------------------------------------------------------------- */

static size_t world_bytes(void)
{
    return HEADER_BYTES + 2 * MOST_RANKS * room_bytes;
}

static void world_path(const ncclUniqueId *id, char ret_path[256])
{
    const char *folder = getenv("TMPDIR");
    int length = snprintf(ret_path, 200, "%s/nccl_standin-", folder ? folder : "/tmp");
    require(length > 0 && length < 200, "TMPDIR is too long");
    for (int i = 0; i < NAME_BYTES; i++)
        snprintf(ret_path + length + 2 * i, 3, "%02x", (unsigned char)id->internal[i]);
}

static struct world *world_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0 && ftruncate(fd, (off_t)world_bytes()) == 0, "cannot make the ranks' file");
    void *memory = mmap(NULL, world_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    require(memory != MAP_FAILED, "cannot map the ranks' file");
    close(fd);
    return memory;
}

/* Returns when all have joined. */
static void world_join(struct world *world, const char *path, int rank, int size)
{
    static const struct timespec pause = {.tv_nsec = 200000};
    int first = 0;
    if (!atomic_compare_exchange_strong(&world->size, &first, size))
        require(first == size, "the ranks of one id disagree about their number");
    require(atomic_exchange(&world->seats[rank].pid, (int)getpid()) == 0, "two ranks are the same");
    if (atomic_fetch_add(&world->joined, 1) + 1 == size)
        unlink(path);
    while (atomic_load(&world->joined) < size)
        nanosleep(&pause, NULL);
}

static float *room_of(struct world *world, int rank, uint64_t sum)
{
    char *rooms = (char *)world + HEADER_BYTES;
    return (float *)(rooms + (2 * (size_t)rank + sum % 2) * room_bytes);
}

/* --- Communicators
 * --------------------------------------------------------------------------------------- */

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    char path[256];
    if (nranks < 1 || nranks > MOST_RANKS || rank < 0 || rank >= nranks)
        return ncclInvalidArgument;
    struct ncclComm *made = calloc(1, sizeof *made);
    require(made != NULL, "no memory");
    require(cudaGetDevice(&made->device) == cudaSuccess, "there is no current device");
    world_path(&id, path);
    made->world = world_open(path);
    made->rank = rank;
    made->references = 1;
    world_join(made->world, path, rank, nranks);
    for (int r = 0; r < nranks; r++)
        made->has_foreign |= atomic_load(&made->world->seats[r].pid) != (int)getpid();
    *comm = made;
    return ncclSuccess;
}

static void comm_release(struct ncclComm *comm)
{
    if (atomic_fetch_sub(&comm->references, 1) > 1)
        return;
    munmap(comm->world, world_bytes());
    free(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    comm_release(comm);
    return ncclSuccess;
}

/* What is queued ends, without its sums. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    atomic_store(&comm->aborted, true);
    comm_release(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!comm)
        return ncclInvalidArgument;
    *error = atomic_load(&broken) ? ncclRemoteError : ncclSuccess;
    return ncclSuccess;
}

/* --- Sums
 * --------------------------------------------------------------------------------------- */

static void sum_post(const struct sum_work *work)
{
    struct ncclComm *comm = work->comm;
    struct seat *seat = &comm->world->seats[comm->rank];
    memcpy(room_of(comm->world, comm->rank, comm->sums), work->from,
           work->count * sizeof *work->from);
    atomic_store(&seat->counts[comm->sums % 2], work->count);
    atomic_store(&seat->posted, comm->sums + 1);
    comm->is_posted = true;
}

static bool all_posted(struct ncclComm *comm)
{
    for (int r = 0; r < comm->world->size; r++)
        if (atomic_load(&comm->world->seats[r].posted) <= comm->sums)
            return false;
    return true;
}

static void sum_take(const struct sum_work *work)
{
    struct ncclComm *comm = work->comm;
    memset(work->to, 0, work->count * sizeof *work->to);
    for (int r = 0; r < comm->world->size; r++) {
        const float *theirs = room_of(comm->world, r, comm->sums);
        require(atomic_load(&comm->world->seats[r].counts[comm->sums % 2]) == work->count,
                "the ranks of a sum disagree about its size");
        for (size_t i = 0; i < work->count; i++)
            work->to[i] += theirs[i];
    }
    comm->sums++;
    comm->is_posted = false;
}

static bool sum_try(void *context)
{
    const struct sum_work *work = context;
    if (atomic_load(&work->comm->aborted))
        return true;
    if (atomic_load(&broken))
        return false;
    if (!work->comm->is_posted)
        sum_post(work);
    if (!all_posted(work->comm))
        return false;
    sum_take(work);
    return true;
}

static void sum_release(void *context)
{
    struct sum_work *work = context;
    comm_release(work->comm);
    free(work);
}

/* What a thread has begun as a group is queued when it ends: work that has to come after it, and
 * was put on the stream before that, would be found out. */
enum { MOST_GROUPED = 8 };
static _Thread_local struct {
    bool is_open;
    size_t count;
    struct {
        struct sum_work *work;
        cudaStream_t stream;
    } sums[MOST_GROUPED];
} group;

static ncclResult_t sum_queue(struct sum_work *work, cudaStream_t stream)
{
    const struct standin_work queued = {
        .label = "sum over the devices",
        .bytes = work->count * sizeof(float),
        .try_run = sum_try,
        .foreign = work->comm->has_foreign,
        .context = work,
        .release = sum_release,
    };
    return standin_enqueue(stream, &queued) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* nccl.h leaves open what these take. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    require(!group.is_open, "a group within a group");
    group.is_open = true;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    require(group.is_open, "the end of a group that was not begun");
    for (size_t i = 0; i < group.count; i++) {
        ncclResult_t queued = sum_queue(group.sums[i].work, group.sums[i].stream);
        if (result == ncclSuccess)
            result = queued;
    }
    group.is_open = false;
    group.count = 0;
    return result;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    int device = -1;
    require(comm != NULL, "a sum without a communicator");
    require(datatype == ncclFloat32 && op == ncclSum, "only sums of floats are known");
    require(count * sizeof(float) <= room_bytes, "a sum is too large");
    require(standin_is_device_memory(sendbuff, &device) && device == comm->device &&
                standin_is_device_memory(recvbuff, &device) && device == comm->device,
            "the values of a sum are not on the communicator's device");
    struct sum_work *work = calloc(1, sizeof *work);
    require(work != NULL, "no memory");
    *work = (struct sum_work){comm, sendbuff, recvbuff, count};
    atomic_fetch_add(&comm->references, 1);
    if (!group.is_open)
        return sum_queue(work, stream);
    require(group.count < MOST_GROUPED, "a group of too many sums");
    group.sums[group.count].work = work;
    group.sums[group.count++].stream = stream;
    return ncclSuccess;
}
