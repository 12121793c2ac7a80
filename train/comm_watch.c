#include "train/comm_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"

/* A message: type (1), zero (1), length of what follows (2, little-endian), then
 * BEAT: calls begun (8), calls ended (8) · GIVE_UP: whether it was used wrongly (1), text · LOST:
 * the same · BYE: rank (4) · STOP: nothing. */
enum message_type { MESSAGE_BEAT = 1, MESSAGE_GIVE_UP, MESSAGE_LOST, MESSAGE_BYE, MESSAGE_STOP };
enum { HEADER_BYTES = 4, TEXT_BYTES = 1024, MESSAGE_BYTES = HEADER_BYTES + TEXT_BYTES };

/* Beats per silence limit; the longest and the shortest pause between two. */
enum { BEATS = 6, LONGEST_BEAT_MS = 1000, SHORTEST_BEAT_MS = 10 };
/* For the watch to find out why a connection broke; for the last messages to get out; at least so
 * long for the training thread to come to its end. */
enum { EXPLAIN_MS = 3000, LOOK_MS = 20, FAREWELL_MS = 1000, OVERDUE_MS = 5000 };

/* The other end of one connection. */
struct peer {
    unsigned rank;
    int *fd; /* in the links; -1 once closed */
    int64_t heard_ms;
    uint64_t begun, ended; /* collective calls */
    size_t in_length, out_length;
    uint8_t in[MESSAGE_BYTES], out[4 * MESSAGE_BYTES];
};

/* What ends the ranks: all end with STATUS_USAGE where one was used wrongly. */
struct verdict {
    bool is_usage;
    char text[TEXT_BYTES - 1]; /* "": none */
};

struct watch {
    struct links *links;
    int64_t silence_ms, stall_ms, beat_ms;
    pthread_t thread;
    int control;       /* eventfd: wakes the thread */
    int verdict_event; /* eventfd: readable from the verdict on */
    atomic_uint_fast64_t begun, ended;
    atomic_bool has_verdict, starting, leaving, stopping;
    atomic_bool *left; /* by rank */

    pthread_mutex_t lock;           /* guards what follows */
    struct verdict verdict, reason; /* the first one; why this rank gives up */

    /* The thread's own. */
    struct peer *peers;
    unsigned peer_count;
    struct pollfd *entries; /* the control descriptor, then each peer's */
    bool told, said_bye, told_stop;
    int64_t beaten_ms;   /* when the last beat was sent */
    int64_t progress_ms; /* rank 0: when a call last began or ended anywhere */
    uint64_t progress;   /* calls begun and ended until then, of all ranks */
    int64_t verdict_ms;
};

static void event_set(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0)
        return; /* full: it is readable already */
}

/* --- Verdicts --- */

/* The first one stays. */
static void verdict_set(struct watch *watch, const struct verdict *verdict)
{
    pthread_mutex_lock(&watch->lock);
    if (!watch->verdict.text[0])
        watch->verdict = *verdict;
    pthread_mutex_unlock(&watch->lock);
    if (!atomic_exchange(&watch->has_verdict, true))
        event_set(watch->verdict_event);
}

static void verdict_name_why(struct watch *watch, unsigned rank, bool is_usage, const char *why)
{
    struct verdict verdict = {.is_usage = is_usage};
    snprintf(verdict.text, sizeof verdict.text, "rank %u on %s %.800s", rank,
             watch->links->members[rank].host, why);
    verdict_set(watch, &verdict);
}

PRINTF_LIKE(3, 4)
static void verdict_name(struct watch *watch, unsigned rank, const char *format, ...)
{
    char why[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    verdict_name_why(watch, rank, false, why);
}

/* A rank gave up, by itself. */
static void verdict_pass_on(struct watch *watch, unsigned rank, const struct verdict *reason)
{
    char why[TEXT_BYTES];
    snprintf(why, sizeof why, "gave up: %.800s", reason->text);
    verdict_name_why(watch, rank, reason->is_usage, why);
}

static struct verdict verdict_copy(struct watch *watch, const struct verdict *verdict)
{
    pthread_mutex_lock(&watch->lock);
    struct verdict copy = *verdict;
    pthread_mutex_unlock(&watch->lock);
    return copy;
}

static enum status_code verdict_code(const struct verdict *verdict)
{
    return verdict->is_usage ? STATUS_USAGE : STATUS_FAILED;
}

struct status watch_check(struct watch *watch)
{
    if (!atomic_load(&watch->has_verdict))
        return atomic_load(&watch->starting) && stop_requested() ? stop_fail() : OK;
    const struct verdict verdict = verdict_copy(watch, &watch->verdict);
    return status_make(verdict_code(&verdict), "%s", verdict.text);
}

void watch_start_ends(struct watch *watch)
{
    atomic_store(&watch->starting, false);
}

int watch_look_ms(const struct watch *watch)
{
    return atomic_load(&watch->starting) ? LOOK_MS : -1;
}

int watch_descriptor(const struct watch *watch)
{
    return watch->verdict_event;
}

bool watch_has_verdict(const struct watch *watch)
{
    return atomic_load_explicit(&watch->has_verdict, memory_order_relaxed);
}

bool watch_has_left(const struct watch *watch, unsigned rank)
{
    return atomic_load(&watch->left[rank]);
}

void watch_give_up(struct watch *watch, enum status_code code, const char *reason)
{
    pthread_mutex_lock(&watch->lock);
    if (!watch->reason.text[0]) {
        watch->reason.is_usage = code == STATUS_USAGE;
        snprintf(watch->reason.text, sizeof watch->reason.text, "%s",
                 reason && *reason ? reason : "it gave no reason");
    }
    pthread_mutex_unlock(&watch->lock);
    event_set(watch->control);
}

struct status watch_explain(struct watch *watch, unsigned rank, const char *reason)
{
    struct pollfd entry = {.fd = watch->verdict_event, .events = POLLIN};
    int64_t until_ms = clock_ms() + EXPLAIN_MS;
    while (clock_ms() < until_ms && !watch_has_left(watch, rank))
        if (poll(&entry, 1, LOOK_MS) > 0)
            break;
    if (!atomic_load(&watch->has_verdict)) {
        if (watch_has_left(watch, rank) && stop_requested())
            return stop_fail();
        if (watch_has_left(watch, rank))
            reason = "has left, though others still need it";
        verdict_name(watch, rank, "%s", reason);
        const struct verdict verdict = verdict_copy(watch, &watch->verdict);
        watch_give_up(watch, verdict_code(&verdict), verdict.text);
    }
    return watch_check(watch);
}

void watch_call_begins(struct watch *watch)
{
    atomic_fetch_add(&watch->begun, 1);
}

void watch_call_ends(struct watch *watch)
{
    atomic_fetch_add(&watch->ended, 1);
}

/* --- Messages, in the thread --- */

static void peer_close(struct peer *peer)
{
    socket_close(*peer->fd);
    *peer->fd = -1;
    peer->out_length = 0;
}

static void peer_flush(struct peer *peer)
{
    while (*peer->fd >= 0 && peer->out_length > 0) {
        ssize_t sent = send(*peer->fd, peer->out, peer->out_length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return; /* full, or gone: then reading tells */
        peer->out_length -= (size_t)sent;
        memmove(peer->out, peer->out + sent, peer->out_length);
    }
}

/* A message that finds no room is dropped: its reader has read nothing for as long as hundreds of
 * beats fill a socket. */
static void peer_send(struct peer *peer, enum message_type type, const void *bytes, size_t length)
{
    if (*peer->fd < 0 || peer->out_length + HEADER_BYTES + length > sizeof peer->out)
        return;
    uint8_t *at = peer->out + peer->out_length;
    at[0] = (uint8_t)type;
    at[1] = 0;
    store_le16(at + 2, (uint16_t)length);
    if (length)
        memcpy(at + HEADER_BYTES, bytes, length);
    peer->out_length += HEADER_BYTES + length;
    peer_flush(peer);
}

static void all_send(struct watch *watch, enum message_type type, const void *bytes, size_t length)
{
    for (unsigned i = 0; i < watch->peer_count; i++)
        peer_send(&watch->peers[i], type, bytes, length);
}

static void verdict_send(struct watch *watch, enum message_type type, const struct verdict *verdict)
{
    uint8_t bytes[TEXT_BYTES];
    const size_t length = strlen(verdict->text);
    bytes[0] = verdict->is_usage;
    memcpy(bytes + 1, verdict->text, length);
    all_send(watch, type, bytes, 1 + length);
}

static struct verdict verdict_take(const uint8_t *bytes, size_t length)
{
    struct verdict verdict = {.is_usage = length > 0 && bytes[0] != 0};
    if (length > 0)
        snprintf(verdict.text, sizeof verdict.text, "%.*s", (int)length - 1,
                 (const char *)bytes + 1);
    return verdict;
}

static void bye_pass_on(struct watch *watch, unsigned rank)
{
    uint8_t number[4];
    store_le32(number, rank);
    all_send(watch, MESSAGE_BYE, number, sizeof number);
}

/* Who is to stop tells the others, which may be waiting for something that never comes. */
static void stop_pass_on(struct watch *watch)
{
    if (watch->told_stop || !stop_requested())
        return;
    watch->told_stop = true;
    all_send(watch, MESSAGE_STOP, NULL, 0);
}

static void message_take(struct watch *watch, struct peer *peer, enum message_type type,
                         const uint8_t *bytes, size_t length)
{
    if (type == MESSAGE_BEAT && length == 16) {
        peer->begun = load_le64(bytes);
        peer->ended = load_le64(bytes + 8);
    } else if (type == MESSAGE_GIVE_UP) {
        const struct verdict reason = verdict_take(bytes, length);
        verdict_pass_on(watch, peer->rank, &reason);
    } else if (type == MESSAGE_LOST && watch->links->rank != 0) {
        const struct verdict verdict = verdict_take(bytes, length);
        verdict_set(watch, &verdict);
    } else if (type == MESSAGE_BYE && length == 4 && load_le32(bytes) < watch->links->size) {
        atomic_store(&watch->left[load_le32(bytes)], true);
        if (watch->links->rank == 0)
            bye_pass_on(watch, peer->rank);
    } else if (type == MESSAGE_STOP) {
        stop_request();
        stop_pass_on(watch);
    }
}

/* Takes the whole messages that have come. False for bytes that are none. */
static bool messages_take(struct watch *watch, struct peer *peer)
{
    size_t at = 0;
    while (peer->in_length - at >= HEADER_BYTES) {
        const uint8_t *header = peer->in + at;
        size_t length = load_le16(header + 2);
        if (length > TEXT_BYTES)
            return false;
        if (peer->in_length - at < HEADER_BYTES + length)
            break;
        message_take(watch, peer, header[0], header + HEADER_BYTES, length);
        at += HEADER_BYTES + length;
    }
    peer->in_length -= at;
    memmove(peer->in, peer->in + at, peer->in_length);
    return true;
}

static void peer_read(struct watch *watch, struct peer *peer)
{
    for (;;) {
        ssize_t got = recv(*peer->fd, peer->in + peer->in_length, sizeof peer->in - peer->in_length,
                           MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0)
            break;
        peer->in_length += (size_t)got;
        peer->heard_ms = clock_ms();
        if (!messages_take(watch, peer))
            break;
    }
    peer_close(peer);
    /* Who is told goodbye may close at once. */
    if (!atomic_load(&watch->left[peer->rank]) && !atomic_load(&watch->stopping))
        verdict_name(watch, peer->rank,
                     "is lost: its connection closed without a word, as when a process is killed "
                     "or crashes; see its own output");
}

/* --- What rank 0 and the others look for --- */

static void silence_check(struct watch *watch, int64_t now_ms)
{
    for (unsigned i = 0; i < watch->peer_count; i++) {
        const struct peer *peer = &watch->peers[i];
        int64_t silent_ms = now_ms - peer->heard_ms;
        if (*peer->fd >= 0 && !atomic_load(&watch->left[peer->rank]) &&
            silent_ms > watch->silence_ms)
            verdict_name(watch, peer->rank,
                         "is lost: nothing was heard of it for %.1f s; it is stopped, or its "
                         "machine or the network is down",
                         (double)silent_ms / 1000);
    }
}

/* Some rank is in a call, and nowhere has one begun or ended for too long: the one that has begun
 * the fewest keeps the others. */
static void stall_check(struct watch *watch, int64_t now_ms)
{
    uint64_t begun = atomic_load(&watch->begun), ended = atomic_load(&watch->ended);
    uint64_t progress = begun + ended, fewest = begun, most = begun;
    unsigned latest = 0;
    bool in_call = begun > ended;
    for (unsigned i = 0; i < watch->peer_count; i++) {
        const struct peer *peer = &watch->peers[i];
        progress += peer->begun + peer->ended;
        in_call = in_call || peer->begun > peer->ended;
        most = peer->begun > most ? peer->begun : most;
        if (peer->begun < fewest) {
            fewest = peer->begun;
            latest = peer->rank;
        }
    }
    int64_t stalled_ms = now_ms - watch->progress_ms;
    if (!in_call || progress != watch->progress) {
        watch->progress = progress;
        watch->progress_ms = now_ms;
    } else if (stalled_ms > watch->stall_ms && fewest < most) {
        verdict_name(watch, latest,
                     "hangs: it lives, but for %.1f s it has not come to collective call %" PRIu64
                     ", in which others wait",
                     (double)stalled_ms / 1000, fewest + 1);
    } else if (stalled_ms > watch->stall_ms) {
        verdict_name(watch, 0,
                     "and all others are in collective call %" PRIu64
                     ", and nothing has come through for %.1f s: see whether the network between "
                     "the machines carries large messages",
                     most, (double)stalled_ms / 1000);
    }
}

static void beat_send(struct watch *watch, int64_t now_ms)
{
    uint8_t counts[16];
    store_le64(counts, atomic_load(&watch->begun));
    store_le64(counts + 8, atomic_load(&watch->ended));
    all_send(watch, MESSAGE_BEAT, counts, sizeof counts);
    watch->beaten_ms = now_ms;
}

/* Passes on what this process knows: a verdict, and that it gives up. */
static void verdict_tell(struct watch *watch, int64_t now_ms)
{
    const struct verdict reason = verdict_copy(watch, &watch->reason);
    if (reason.text[0] && !atomic_load(&watch->has_verdict))
        verdict_pass_on(watch, watch->links->rank, &reason);
    if (!atomic_load(&watch->has_verdict) || watch->told)
        return;
    const struct verdict verdict = verdict_copy(watch, &watch->verdict);
    if (watch->links->rank == 0)
        verdict_send(watch, MESSAGE_LOST, &verdict);
    else if (reason.text[0])
        verdict_send(watch, MESSAGE_GIVE_UP, &reason);
    watch->told = true;
    watch->verdict_ms = now_ms;
}

/* No rank outlives its job, whatever its training thread waits for. */
static void overdue_end(struct watch *watch, int64_t now_ms)
{
    int64_t allowed_ms = watch->silence_ms > OVERDUE_MS ? watch->silence_ms : OVERDUE_MS;
    if (!watch->told || now_ms - watch->verdict_ms <= allowed_ms)
        return;
    const struct verdict verdict = verdict_copy(watch, &watch->verdict);
    log_error("%s; rank %u leaves too", verdict.text, watch->links->rank);
    _exit(status_exit_code(verdict_code(&verdict)));
}

static int64_t thread_wait(struct watch *watch)
{
    watch->entries[0] = (struct pollfd){.fd = watch->control, .events = POLLIN};
    for (unsigned i = 0; i < watch->peer_count; i++) {
        const struct peer *peer = &watch->peers[i];
        short events = peer->out_length ? POLLIN | POLLOUT : POLLIN;
        watch->entries[i + 1] = (struct pollfd){.fd = *peer->fd, .events = events};
    }
    int64_t left_ms = watch->beaten_ms + watch->beat_ms - clock_ms();
    if (atomic_load(&watch->stopping) && left_ms > SHORTEST_BEAT_MS)
        left_ms = SHORTEST_BEAT_MS;
    if (poll(watch->entries, watch->peer_count + 1, left_ms < 0 ? 0 : (int)left_ms) > 0) {
        uint64_t count;
        if (watch->entries[0].revents && read(watch->control, &count, sizeof count) < 0)
            return clock_ms(); /* somebody else has read it */
        for (unsigned i = 0; i < watch->peer_count; i++) {
            if (watch->entries[i + 1].revents & POLLOUT)
                peer_flush(&watch->peers[i]);
            if (watch->entries[i + 1].revents & ~POLLOUT)
                peer_read(watch, &watch->peers[i]);
        }
    }
    return clock_ms();
}

static void bye_say(struct watch *watch)
{
    if (!watch->said_bye && !atomic_load(&watch->has_verdict))
        bye_pass_on(watch, watch->links->rank);
    watch->said_bye = true;
}

/* Closes for writing when all is out, then reads until the others have closed too: a socket that is
 * closed over unread bytes may take back what it sent. */
static bool farewell_ended(struct watch *watch)
{
    bool open = false;
    for (unsigned i = 0; i < watch->peer_count; i++) {
        struct peer *peer = &watch->peers[i];
        if (*peer->fd >= 0 && peer->out_length == 0)
            shutdown(*peer->fd, SHUT_WR);
        if (*peer->fd >= 0 && atomic_load(&watch->left[peer->rank]))
            peer_close(peer);
        open = open || *peer->fd >= 0;
    }
    return !open;
}

static void *thread_run(void *context)
{
    struct watch *watch = context;
    int64_t now_ms = clock_ms(), farewell_ms = 0;
    watch->progress_ms = now_ms;
    for (unsigned i = 0; i < watch->peer_count; i++)
        watch->peers[i].heard_ms = now_ms;
    for (;;) {
        if (now_ms - watch->beaten_ms >= watch->beat_ms)
            beat_send(watch, now_ms);
        now_ms = thread_wait(watch);
        verdict_tell(watch, now_ms);
        stop_pass_on(watch);
        if (atomic_load(&watch->leaving))
            bye_say(watch);
        if (atomic_load(&watch->stopping)) {
            farewell_ms = farewell_ms ? farewell_ms : now_ms + FAREWELL_MS;
            if (farewell_ended(watch) || now_ms > farewell_ms)
                return NULL;
            continue;
        }
        silence_check(watch, now_ms);
        if (watch->links->rank == 0)
            stall_check(watch, now_ms);
        verdict_tell(watch, now_ms);
        overdue_end(watch, now_ms);
    }
}

/* --- Its life --- */

static void watch_free(struct watch *watch)
{
    socket_close(watch->control);
    socket_close(watch->verdict_event);
    pthread_mutex_destroy(&watch->lock);
    memory_free(watch->left);
    memory_free(watch->peers);
    memory_free(watch->entries);
    memory_free(watch);
}

static struct status watch_prepare(struct watch *watch, struct links *links)
{
    unsigned count = links->rank == 0 ? links->size - 1 : 1;
    watch->links = links;
    atomic_store(&watch->starting, true);
    pthread_mutex_init(&watch->lock, NULL);
    watch->control = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->verdict_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->control < 0 || watch->verdict_event < 0)
        return status_errno(errno, "cannot make an event descriptor");
    TRY(memory_alloc(links->size, sizeof *watch->left, &watch->left));
    TRY(memory_alloc(count, sizeof *watch->peers, &watch->peers));
    TRY(memory_alloc(count + 1, sizeof *watch->entries, &watch->entries));
    watch->peer_count = count;
    for (unsigned i = 0; i < count; i++) {
        unsigned rank = links->rank == 0 ? i + 1 : 0;
        watch->peers[i] = (struct peer){.rank = rank, .fd = &links->watch[rank]};
    }
    return OK;
}

struct status watch_start(struct links *links, unsigned silence_s, unsigned stall_s,
                          struct watch **ret_watch)
{
    struct watch *watch;
    TRY(memory_alloc(1, sizeof *watch, &watch));
    struct status status = watch_prepare(watch, links);
    watch->silence_ms = (int64_t)silence_s * 1000;
    watch->stall_ms = (int64_t)stall_s * 1000;
    watch->beat_ms = watch->silence_ms / BEATS;
    if (watch->beat_ms > LONGEST_BEAT_MS)
        watch->beat_ms = LONGEST_BEAT_MS;
    if (watch->beat_ms < SHORTEST_BEAT_MS)
        watch->beat_ms = SHORTEST_BEAT_MS;
    if (status.code == STATUS_DONE) {
        /* Signals are for the training thread. */
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        int error = pthread_create(&watch->thread, NULL, thread_run, watch);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error)
            status = status_errno(error, "cannot start a thread");
    }
    if (status.code != STATUS_DONE) {
        watch_free(watch);
        return status;
    }
    *ret_watch = watch;
    return OK;
}

void watch_leave(struct watch *watch)
{
    atomic_store(&watch->leaving, true);
    event_set(watch->control);
}

void watch_stop(struct watch *watch)
{
    if (!watch)
        return;
    watch_leave(watch);
    atomic_store(&watch->stopping, true);
    event_set(watch->control);
    pthread_join(watch->thread, NULL);
    watch_free(watch);
}
