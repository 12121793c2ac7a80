/* The module headrace-mpi.so: bytes between ranks by MPI's messages. Which rank is alive is the
 * watch's to know, over TCP: MPI itself would wait for a lost one for ever. */

#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "base/memory.h"
#include "base/stop.h"
#include "train/comm_internal.h"

struct transport {
    struct watch *watch;
    unsigned rank, size;
};

enum { TAG_RING = 1, TAG_STAR };
/* What one message holds at most: MPI counts in int. */
enum { MESSAGE_BYTES = 1 << 30 };

static struct status mpi_status(int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (error == MPI_SUCCESS)
        return OK;
    MPI_Error_string(error, text, &length);
    FAIL(STATUS_FAILED, "MPI cannot %s: %s", what, text);
}
#define TRY_MPI(call, what) TRY(mpi_status((call), (what)))

static struct status mpi_start(unsigned *ret_rank, unsigned *ret_size)
{
    int provided, rank, size;
    TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "start");
    TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start");
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "number the ranks");
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size), "count the ranks");
    *ret_rank = (unsigned)rank;
    *ret_size = (unsigned)size;
    return OK;
}

/* Between two looks: the first ones at once, as the other end is mostly as far; then the core is
 * left to others, who may be what is waited for. */
static void pause_between_looks(unsigned look)
{
    enum { EAGER_LOOKS = 2000, PAUSE_NS = 50000 };
    if (look < EAGER_LOOKS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static struct status mpi_share(void *bytes, size_t count, unsigned timeout_s)
{
    MPI_Request request;
    int64_t deadline_ms = clock_ms() + (int64_t)timeout_s * 1000;
    TRY_MPI(MPI_Ibcast(bytes, (int)count, MPI_BYTE, 0, MPI_COMM_WORLD, &request), "send to all");
    for (unsigned look = 0;; look++) {
        int done;
        TRY_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "send to all");
        if (done)
            return OK;
        TRY(stop_check());
        if (clock_ms() > deadline_ms)
            FAIL(STATUS_FAILED, "not all ranks joined over MPI within %u s: see their own output",
                 timeout_s);
        pause_between_looks(look);
    }
}

/* One direction of a transfer. */
struct half {
    unsigned peer;
    MPI_Request request; /* MPI_REQUEST_NULL once done */
};

static bool waits_for_one_who_left(const struct transport *transport, const struct half *half)
{
    return half->request != MPI_REQUEST_NULL && watch_has_left(transport->watch, half->peer);
}

/* Waits for both halves. After a failure they stay unfinished: MPI is not used any more. */
static struct status halves_wait(struct transport *transport, struct half *out, struct half *in)
{
    enum { UNDER_WAY_MS = 1000 }; /* what was sent before a goodbye may come after it */
    int64_t left_ms = 0;
    for (unsigned look = 0;; look++) {
        int sent, come;
        TRY_MPI(MPI_Test(&out->request, &sent, MPI_STATUS_IGNORE), "send");
        TRY_MPI(MPI_Test(&in->request, &come, MPI_STATUS_IGNORE), "receive");
        if (sent && come)
            return OK;
        TRY(watch_check(transport->watch));
        const struct half *gone = waits_for_one_who_left(transport, in)    ? in
                                  : waits_for_one_who_left(transport, out) ? out
                                                                           : NULL;
        if (gone && left_ms == 0)
            left_ms = clock_ms();
        if (gone && clock_ms() - left_ms > UNDER_WAY_MS)
            return watch_explain(transport->watch, gone->peer, "is lost");
        pause_between_looks(look);
    }
}

static struct status transfer(struct transport *transport, int tag, unsigned to, const void *out,
                              size_t out_bytes, unsigned from, void *in, size_t in_bytes)
{
    struct half sent = {to, MPI_REQUEST_NULL}, come = {from, MPI_REQUEST_NULL};
    if (in_bytes)
        TRY_MPI(MPI_Irecv(in, (int)in_bytes, MPI_BYTE, (int)from, tag, MPI_COMM_WORLD,
                          &come.request),
                "receive");
    if (out_bytes)
        TRY_MPI(MPI_Isend(out, (int)out_bytes, MPI_BYTE, (int)to, tag, MPI_COMM_WORLD,
                          &sent.request),
                "send");
    return halves_wait(transport, &sent, &come);
}

static struct status mpi_shift(struct transport *transport, const void *out, size_t out_bytes,
                               void *in, size_t in_bytes)
{
    unsigned next = (transport->rank + 1) % transport->size;
    unsigned previous = (transport->rank + transport->size - 1) % transport->size;
    return transfer(transport, TAG_RING, next, out, out_bytes, previous, in, in_bytes);
}

static struct status mpi_send(struct transport *transport, unsigned peer, const void *bytes,
                              size_t count)
{
    for (size_t now; count > 0; count -= now, bytes = (const uint8_t *)bytes + now) {
        now = count < MESSAGE_BYTES ? count : MESSAGE_BYTES;
        TRY(transfer(transport, TAG_STAR, peer, bytes, now, 0, NULL, 0));
    }
    return OK;
}

static struct status mpi_receive(struct transport *transport, unsigned peer, void *bytes,
                                 size_t count)
{
    for (size_t now; count > 0; count -= now, bytes = (uint8_t *)bytes + now) {
        now = count < MESSAGE_BYTES ? count : MESSAGE_BYTES;
        TRY(transfer(transport, TAG_STAR, 0, NULL, 0, peer, bytes, now));
    }
    return OK;
}

/* MPI ends on all ranks together, so all have to have come here; after a failure it is left as it
 * is, and the launcher ends what is still there. */
static void mpi_close(struct transport *transport)
{
    enum { LOOK_MS = 2 };
    watch_leave(transport->watch);
    for (unsigned rank = 0; rank < transport->size && !watch_has_verdict(transport->watch);)
        if (rank == transport->rank || watch_has_left(transport->watch, rank))
            rank++;
        else
            poll(NULL, 0, LOOK_MS);
    if (!watch_has_verdict(transport->watch))
        MPI_Finalize();
    memory_free(transport);
}

static struct status mpi_open(struct watch *watch, unsigned rank, unsigned size,
                              const struct transport_ops **ret_ops,
                              struct transport **ret_transport)
{
    static const struct transport_ops ops = {.shift = mpi_shift,
                                             .send = mpi_send,
                                             .receive = mpi_receive,
                                             .close = mpi_close};
    TRY(memory_alloc(1, sizeof **ret_transport, ret_transport));
    **ret_transport = (struct transport){.watch = watch, .rank = rank, .size = size};
    *ret_ops = &ops;
    return OK;
}

__attribute__((visibility("default"))) const struct mpi_module *headrace_mpi_module(void)
{
    static const struct mpi_module module = {.build_id = HEADRACE_BUILD_ID,
                                             .start = mpi_start,
                                             .share = mpi_share,
                                             .open = mpi_open};
    return &module;
}
