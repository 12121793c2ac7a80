#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "train/comm_internal.h"

struct transport {
    const struct links *links;
    struct watch *watch;
};

/* One direction of a transfer. */
struct half {
    unsigned peer;
    int fd;
    uint8_t *bytes; /* not written to by a half that sends */
    size_t left;
};

/* Moves what can be moved without waiting. */
static struct status half_move(struct transport *transport, struct half *half, bool sends)
{
    while (half->left > 0) {
        ssize_t moved = sends ? send(half->fd, half->bytes, half->left, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(half->fd, half->bytes, half->left, MSG_DONTWAIT);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0 && errno == EAGAIN)
            return OK;
        if (moved <= 0)
            return watch_explain(transport->watch, half->peer,
                                 "is lost: the connection to it broke");
        half->bytes += moved;
        half->left -= (size_t)moved;
    }
    return OK;
}

static struct status halves_move(struct transport *transport, struct half *out, struct half *in)
{
    for (;;) {
        TRY(half_move(transport, in, false));
        TRY(half_move(transport, out, true));
        if (!out->left && !in->left)
            return OK;
        struct pollfd entries[] = {
            {.fd = watch_descriptor(transport->watch), .events = POLLIN},
            {.fd = in->left ? in->fd : -1, .events = POLLIN},
            {.fd = out->left ? out->fd : -1, .events = POLLOUT},
        };
        if (poll(entries, ARRAY_LENGTH(entries), watch_look_ms(transport->watch)) < 0 &&
            errno != EINTR)
            return status_errno(errno, "cannot wait for other ranks");
        TRY(watch_check(transport->watch));
    }
}

static struct status tcp_shift(struct transport *transport, const void *out, size_t out_bytes,
                               void *in, size_t in_bytes)
{
    const struct links *links = transport->links;
    struct half to = {.peer = (links->rank + 1) % links->size,
                      .fd = links->next,
                      .bytes = (uint8_t *)out,
                      .left = out_bytes};
    struct half from = {.peer = (links->rank + links->size - 1) % links->size,
                        .fd = links->previous,
                        .bytes = in,
                        .left = in_bytes};
    return halves_move(transport, &to, &from);
}

static struct status tcp_send(struct transport *transport, unsigned peer, const void *bytes,
                              size_t count)
{
    struct half to = {.peer = peer,
                      .fd = transport->links->star[peer],
                      .bytes = (uint8_t *)bytes,
                      .left = count};
    return halves_move(transport, &to, &(struct half){0});
}

static struct status tcp_receive(struct transport *transport, unsigned peer, void *bytes,
                                 size_t count)
{
    struct half from = {.peer = peer,
                        .fd = transport->links->star[peer],
                        .bytes = bytes,
                        .left = count};
    return halves_move(transport, &(struct half){0}, &from);
}

static void tcp_close(struct transport *transport)
{
    memory_free(transport);
}

struct status transport_tcp_open(const struct links *links, struct watch *watch,
                                 const struct transport_ops **ret_ops,
                                 struct transport **ret_transport)
{
    static const struct transport_ops ops = {.shift = tcp_shift,
                                             .send = tcp_send,
                                             .receive = tcp_receive,
                                             .close = tcp_close};
    TRY(memory_alloc(1, sizeof **ret_transport, ret_transport));
    **ret_transport = (struct transport){.links = links, .watch = watch};
    *ret_ops = &ops;
    return OK;
}
