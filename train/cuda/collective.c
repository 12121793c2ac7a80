#include "train/cuda/collective.h"

#include <nccl.h>
#include <string.h>

#include "base/memory.h"

struct collective {
    ncclComm_t comm; /* NULL: aborted */
};

static struct status nccl_failure(ncclResult_t result, const char *call, ncclComm_t comm)
{
    const char *detail = ncclGetLastError(comm);
    FAIL(STATUS_FAILED, "%.*s: %s%s%s", (int)strcspn(call, "("), call, ncclGetErrorString(result),
         detail && *detail ? ": " : "", detail ? detail : "");
}

#define TRY_NCCL(call, comm)                                                                       \
    do {                                                                                           \
        ncclResult_t try_nccl_ = (call);                                                           \
        if (try_nccl_ != ncclSuccess)                                                              \
            return nccl_failure(try_nccl_, #call, comm);                                           \
    } while (0)

struct status collective_name(char ret_id[COLLECTIVE_ID_BYTES])
{
    ncclUniqueId id;
    _Static_assert(sizeof id == COLLECTIVE_ID_BYTES, "NCCL's ids have this size");
    TRY_NCCL(ncclGetUniqueId(&id), NULL);
    memcpy(ret_id, &id, sizeof id);
    return OK;
}

struct status collective_open(const char id[COLLECTIVE_ID_BYTES], unsigned rank, unsigned size,
                              struct collective **ret_collective)
{
    CLEANUP(collective_close) struct collective *collective = NULL;
    ncclUniqueId unique;
    memcpy(&unique, id, sizeof unique);
    TRY(memory_alloc(1, sizeof *collective, &collective));
    TRY_NCCL(ncclCommInitRank(&collective->comm, (int)size, unique, (int)rank), NULL);
    *ret_collective = MOVE(collective);
    return OK;
}

void collective_close(struct collective *collective)
{
    if (!collective)
        return;
    if (collective->comm)
        ncclCommDestroy(collective->comm);
    memory_free(collective);
}

void collective_abort(struct collective *collective)
{
    if (collective->comm)
        ncclCommAbort(collective->comm);
    collective->comm = NULL;
}

struct status collective_check(struct collective *collective)
{
    ncclResult_t result = ncclSuccess;
    if (!collective->comm)
        FAIL(STATUS_FAILED, "the sums over the devices were ended");
    TRY_NCCL(ncclCommGetAsyncError(collective->comm, &result), collective->comm);
    if (result != ncclSuccess && result != ncclInProgress)
        return nccl_failure(result, "a sum over the devices", collective->comm);
    return OK;
}

struct status collective_sum(struct collective *collective, const struct summand *summands,
                             size_t count, cudaStream_t stream)
{
    ncclResult_t result = ncclSuccess;
    TRY_NCCL(ncclGroupStart(), collective->comm);
    for (size_t i = 0; i < count && result == ncclSuccess; i++)
        result = ncclAllReduce(summands[i].from, summands[i].to, summands[i].count, ncclFloat32,
                               ncclSum, collective->comm, stream);
    const ncclResult_t ended = ncclGroupEnd(); /* whatever came before: a group is the thread's */
    if (result == ncclSuccess)
        result = ended;
    return result == ncclSuccess ? OK : nccl_failure(result, "ncclAllReduce", collective->comm);
}

struct status collective_version(int *ret_major, int *ret_minor, int *ret_patch)
{
    int version = 0;
    TRY_NCCL(ncclGetVersion(&version), NULL);
    *ret_major = version / 10000;
    *ret_minor = version / 100 % 100;
    *ret_patch = version % 100;
    return OK;
}
