#include "train/comm_join.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"

enum link_kind { LINK_WATCH = 1, LINK_STAR, LINK_RING };

/* banner: magic (8), job (16), build (16), size (4)
 * hello:  banner, rank (4), kind (4), port of its ring listener (4), local rank (4), host (64)
 * entry of the table: address (64), port (4), local rank (4), host (64)
 * Numbers are little-endian, texts filled up with zeros. */
static const char magic[8] = "HRJOIN1";
enum {
    JOB_BYTES = 16,
    BUILD_BYTES = 16,
    BANNER_BYTES = sizeof magic + JOB_BYTES + BUILD_BYTES + 4,
    HELLO_BYTES = BANNER_BYTES + 16 + COMM_HOST_BYTES,
    ENTRY_BYTES = SOCKET_ADDRESS_BYTES + 8 + COMM_HOST_BYTES,
    ACKNOWLEDGED = 'K',
};

/* How long a caller may take over its hello. Who waits for a banner waits longer, so that a
 * stranger ahead of it does not send it away. For the connections to ranks that are known to be
 * there; between two calls. */
enum { HELLO_MS = 3000, BANNER_MS = 5000, LINK_MS = 30000, RETRY_MS = 50 };
/* Between two questions for the address of a host that nobody knows yet. */
enum { UNKNOWN_RETRY_MS = 500 };

/* How long is waited for others, and when it is said that it is. */
struct patience {
    int64_t notice_ms; /* INT64_MAX: not, or it was said */
    int64_t deadline_ms;
};

struct hello {
    unsigned size, rank, kind;
    uint16_t port;
    int32_t local_rank;
    char host[COMM_HOST_BYTES];
};

/* What rank 0 tells of one rank. */
struct entry {
    char address[SOCKET_ADDRESS_BYTES];
    uint16_t port; /* of its ring listener */
    struct member member;
};

void join_host_name(char ret_name[COMM_HOST_BYTES])
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) < 0 || !name[0])
        snprintf(name, sizeof name, "a machine without a name");
    snprintf(ret_name, COMM_HOST_BYTES, "%.*s", COMM_HOST_BYTES - 1, name);
}

static int64_t earlier_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether it is time to say who is waited for; only once. */
static bool notice_is_due(struct patience *patience)
{
    if (clock_ms() < patience->notice_ms)
        return false;
    patience->notice_ms = INT64_MAX;
    return true;
}

static unsigned left_s(const struct patience *patience)
{
    int64_t left_ms = patience->deadline_ms - clock_ms();
    return left_ms < 0 ? 0 : (unsigned)((left_ms + 999) / 1000);
}

static void wait_say(const struct patience *patience, const char *who)
{
    log_note("%s; it goes on waiting for %u s, Ctrl-C ends that", who, left_s(patience));
}

static void banner_write(const struct join_config *config, uint8_t banner[BANNER_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    digest_sha256_bytes(config->job, strlen(config->job), digest);
    memset(banner, 0, BANNER_BYTES);
    memcpy(banner, magic, sizeof magic);
    memcpy(banner + sizeof magic, digest, JOB_BYTES);
    memcpy(banner + sizeof magic + JOB_BYTES, HEADRACE_BUILD_ID,
           strnlen(HEADRACE_BUILD_ID, BUILD_BYTES));
    store_le32(banner + BANNER_BYTES - 4, config->size);
}

/* Whether the other end belongs to this job. STATUS_USAGE when it does, but contradicts. */
static struct status banner_check(const struct join_config *config,
                                  const uint8_t banner[BANNER_BYTES], const char *who,
                                  bool *ret_same_job)
{
    uint8_t own[BANNER_BYTES];
    banner_write(config, own);
    *ret_same_job = memcmp(own, banner, sizeof magic + JOB_BYTES) == 0;
    if (!*ret_same_job)
        return OK;
    const uint8_t *build = banner + sizeof magic + JOB_BYTES;
    if (memcmp(own + sizeof magic + JOB_BYTES, build, BUILD_BYTES) != 0)
        FAIL(STATUS_USAGE,
             "%s runs another build of headrace than rank %u: install the same one on all machines",
             who, config->rank);
    uint32_t size = load_le32(banner + BANNER_BYTES - 4);
    if (size != config->size)
        FAIL(STATUS_USAGE,
             "%s was told that the job has %" PRIu32
             " processes, but rank %u was told %u: start all with the same number",
             who, size, config->rank, config->size);
    return OK;
}

/* --- Whoever is called --- */

static struct status hello_parse(const struct join_config *config, const uint8_t *bytes,
                                 struct hello *ret_hello, bool *ret_same_job)
{
    struct reader reader = reader_make(bytes + BANNER_BYTES, HELLO_BYTES - BANNER_BYTES);
    *ret_hello = (struct hello){.rank = reader_le32(&reader),
                                .kind = reader_le32(&reader),
                                .port = (uint16_t)reader_le32(&reader),
                                .local_rank = (int32_t)reader_le32(&reader)};
    memcpy(ret_hello->host, reader_take(&reader, COMM_HOST_BYTES), COMM_HOST_BYTES - 1);
    char who[COMM_HOST_BYTES + 32];
    snprintf(who, sizeof who, "rank %u on %s", ret_hello->rank, ret_hello->host);
    TRY(banner_check(config, bytes, who, ret_same_job));
    if (*ret_same_job && (ret_hello->rank >= config->size || ret_hello->rank == config->rank))
        FAIL(STATUS_USAGE, "a process on %s says that it is rank %u, as rank %u of %u does here",
             ret_hello->host, ret_hello->rank, config->rank, config->size);
    return OK;
}

/* Greets one caller. *ret_fd stays -1 for a stranger, or one who is gone. */
static struct status caller_greet(const struct join_config *config, int fd, int64_t deadline_ms,
                                  struct hello *ret_hello, int *ret_fd)
{
    uint8_t banner[BANNER_BYTES], bytes[HELLO_BYTES];
    bool same_job = false;
    banner_write(config, banner);
    deadline_ms = earlier_ms(deadline_ms, clock_ms() + HELLO_MS);
    struct status status = socket_write(fd, banner, sizeof banner, deadline_ms, "a greeting");
    if (status.code == STATUS_DONE)
        status = socket_read(fd, bytes, sizeof bytes, deadline_ms, "a greeting");
    bool understood = status.code == STATUS_DONE;
    if (understood)
        status = hello_parse(config, bytes, ret_hello, &same_job);
    if (status.code == STATUS_DONE && same_job)
        status = socket_write(fd, &(uint8_t){ACKNOWLEDGED}, 1, deadline_ms, "an acknowledgement");
    if (status.code == STATUS_DONE && same_job) {
        *ret_fd = fd;
        return OK;
    }
    socket_close(fd);
    if (status.code == STATUS_STOPPED || status.code == STATUS_USAGE)
        return status;
    status_ignore(status);
    return OK;
}

/* Waits for the next caller of this job; *ret_fd is -1 where none came in time. */
static struct status caller_await(const struct join_config *config, int listener,
                                  int64_t deadline_ms, struct hello *ret_hello, int *ret_fd)
{
    *ret_fd = -1;
    while (*ret_fd < 0 && clock_ms() < deadline_ms) {
        int fd;
        TRY(socket_accept(listener, deadline_ms, &fd));
        if (fd >= 0)
            TRY(caller_greet(config, fd, deadline_ms, ret_hello, ret_fd));
    }
    return OK;
}

/* --- Whoever calls --- */

/* Calls one address. *ret_fd stays -1 where nobody of this job answers; why is put into `reason`.
 */
static struct status host_call(const struct join_config *config, const struct hello *hello,
                               const char *host, uint16_t port, int64_t deadline_ms,
                               struct status *reason, int *ret_fd)
{
    uint8_t bytes[HELLO_BYTES] = {0}, banner[BANNER_BYTES], answer = 0;
    char who[COMM_HOST_BYTES + 300];
    snprintf(who, sizeof who, "the process at %.255s, port %u", host, (unsigned)port);
    int64_t banner_ms = earlier_ms(deadline_ms, clock_ms() + BANNER_MS);
    int fd = -1;
    bool same_job = false;
    struct status status = socket_connect(host, port, banner_ms, &fd);
    if (status.code == STATUS_DONE)
        status = socket_read(fd, banner, sizeof banner, banner_ms, "its greeting");
    struct status contradiction = OK;
    if (status.code == STATUS_DONE)
        contradiction = banner_check(config, banner, who, &same_job);
    if (status.code == STATUS_DONE && !same_job)
        status = status_make(STATUS_FAILED, "another program or another job listens there");
    if (status.code == STATUS_DONE) {
        banner_write(config, bytes);
        store_le32(bytes + BANNER_BYTES, hello->rank);
        store_le32(bytes + BANNER_BYTES + 4, hello->kind);
        store_le32(bytes + BANNER_BYTES + 8, hello->port);
        store_le32(bytes + BANNER_BYTES + 12, (uint32_t)hello->local_rank);
        memcpy(bytes + BANNER_BYTES + 16, hello->host, COMM_HOST_BYTES);
        status = socket_write(fd, bytes, sizeof bytes, deadline_ms, "a greeting");
    }
    if (status.code == STATUS_DONE && contradiction.code == STATUS_DONE)
        status = socket_read(fd, &answer, 1, deadline_ms, "its acknowledgement");
    if (contradiction.code != STATUS_DONE || status.code != STATUS_DONE || answer != ACKNOWLEDGED) {
        socket_close(fd);
        fd = -1;
    }
    if (contradiction.code != STATUS_DONE || status.code == STATUS_STOPPED) {
        struct status fatal = contradiction.code != STATUS_DONE ? contradiction : status;
        status_ignore(contradiction.code != STATUS_DONE ? status : OK);
        return fatal;
    }
    status_ignore(*reason);
    *reason = status_context(status, "%.255s, port %u", host, (unsigned)port);
    *ret_fd = fd;
    return OK;
}

/* Where somebody may be met: each host at each port. */
struct places {
    const char *const *hosts;
    size_t host_count;
    const uint16_t *ports;
    size_t port_count;
};

/* Says who is called in vain, and what came of the last call. */
static struct status call_say(const struct join_config *config, const struct hello *hello,
                              const struct places *places, const struct status *reason,
                              const struct patience *patience)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *who;
    const uint16_t first = places->ports[0], last = places->ports[places->port_count - 1];
    TRY(buffer_append_text(&text, "rank %u on %s waits for rank 0, which it calls at ",
                           config->rank, hello->host));
    for (size_t i = 0; i < places->host_count; i++)
        TRY(buffer_append_text(&text, "%s%s", i ? ", " : "", places->hosts[i]));
    TRY(buffer_append_text(&text, ", port %u", first));
    if (first != last)
        TRY(buffer_append_text(&text, " to %u", last));
    TRY(buffer_append_text(&text, " (%s)", status_message(reason)));
    TRY(buffer_text(&text, &who));
    wait_say(patience, who);
    return OK;
}

/* A name may become known late, where machines start one after the other; a misspelt one never
 * does. Said only where there is no other place. */
static void unknown_say(const struct join_config *config, const struct hello *hello,
                        const struct status *reason, const struct patience *patience)
{
    log_warning("rank %u on %s cannot call rank 0: %s; it tries again for %u s; MASTER_ADDR is to "
                "name the machine of rank 0",
                config->rank, hello->host, status_message(reason), left_s(patience));
}

/* Calls each place once, until someone of this job answers; why nobody did is put into `reason`. */
static struct status places_call_once(const struct join_config *config, const struct hello *hello,
                                      struct places *places, struct patience *patience,
                                      struct status *reason, int *ret_fd)
{
    const size_t count = places->host_count * places->port_count;
    for (size_t i = 0; i < count; i++) {
        const char *const *host = &places->hosts[i / places->port_count];
        const uint16_t *port = &places->ports[i % places->port_count];
        TRY(host_call(config, hello, *host, *port, patience->deadline_ms, reason, ret_fd));
        if (*ret_fd >= 0) {
            *places = (struct places){host, 1, port, 1};
            return OK;
        }
        if (notice_is_due(patience))
            TRY(call_say(config, hello, places, reason, patience));
    }
    return OK;
}

/* Calls all places in turn until someone of this job answers, and narrows them to that one. */
static struct status places_call(const struct join_config *config, const struct hello *hello,
                                 struct places *places, struct patience *patience, int *ret_fd)
{
    bool said_unknown = false;
    *ret_fd = -1;
    for (;;) {
        struct status reason = OK;
        struct status fatal = places_call_once(config, hello, places, patience, &reason, ret_fd);
        if (fatal.code != STATUS_DONE || *ret_fd >= 0) {
            status_ignore(reason);
            return fatal;
        }
        if (clock_ms() >= patience->deadline_ms)
            return reason;
        bool unknown = reason.code == STATUS_NOT_FOUND && places->host_count == 1;
        if (unknown && !said_unknown)
            unknown_say(config, hello, &reason, patience);
        said_unknown = said_unknown || unknown;
        status_ignore(reason);
        poll(NULL, 0, unknown ? UNKNOWN_RETRY_MS : RETRY_MS);
        TRY(stop_check());
    }
}

/* --- Rank 0 --- */

struct status join_listen(const struct join_config *config, int *ret_listener, uint16_t *ret_port)
{
    struct status status = OK;
    for (unsigned i = 0; i < config->port_count; i++) {
        status_ignore(status);
        status = socket_listen(config->this_machine, config->ports[i], ret_listener, ret_port);
        if (status.code == STATUS_DONE)
            return OK;
    }
    const unsigned first = config->ports[0], last = config->ports[config->port_count - 1];
    static const char advice[] = "set HEADRACE_PORT to a free one, the same for all processes";
    if (first == last)
        return status_context(status, "rank 0 cannot be met at port %u; %s", first, advice);
    return status_context(status, "rank 0 can be met at none of the ports %u to %u; %s", first,
                          last, advice);
}

/* Whether the other end has closed; nothing is expected to be sent yet. */
static bool is_closed(int fd)
{
    uint8_t byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* Keeps a caller's connection and counts it. Two of one rank are an error in how the processes were
 * started, unless the first one was given up by its caller, who calls again. */
static struct status caller_keep(const struct hello *hello, int fd, struct links *links,
                                 struct entry *entries, unsigned *kept)
{
    int *slot = hello->kind == LINK_WATCH                 ? &links->watch[hello->rank]
                : hello->kind == LINK_STAR && links->star ? &links->star[hello->rank]
                                                          : NULL;
    struct entry *entry = &entries[hello->rank];
    if (!slot) {
        socket_close(fd);
        return OK;
    }
    if (*slot >= 0 && is_closed(*slot)) {
        socket_close(*slot);
        *slot = -1;
        --*kept;
    }
    if (*slot >= 0) {
        socket_close(fd);
        FAIL(STATUS_USAGE,
             "two processes say that they are rank %u, on %s and on %s: give each process a rank "
             "of its own",
             hello->rank, entry->member.host, hello->host);
    }
    *slot = fd;
    ++*kept;
    entry->port = hello->port;
    entry->member.local_rank = hello->local_rank;
    memcpy(entry->member.host, hello->host, COMM_HOST_BYTES);
    return socket_caller(fd, entry->address);
}

/* "2, 3": the ranks that have not come; of many only the first. */
static struct status missing_list(const struct links *links, struct buffer *text,
                                  unsigned *ret_count)
{
    enum { NAMED = 8 };
    unsigned missing = 0;
    for (unsigned rank = 1; rank < links->size; rank++)
        if ((links->watch[rank] < 0 || (links->star && links->star[rank] < 0)) &&
            ++missing <= NAMED)
            TRY(buffer_append_text(text, "%s%u", missing > 1 ? ", " : "", rank));
    *ret_count = missing;
    return buffer_append_text(text, "%s", missing > NAMED ? ", …" : "");
}

static struct status missing_fail(const struct links *links, unsigned timeout_s)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    unsigned missing = 0;
    const char *ranks;
    TRY(missing_list(links, &text, &missing));
    TRY(buffer_text(&text, &ranks));
    FAIL(STATUS_FAILED,
         "%u of %u ranks did not come within %u s: rank %s; see their own output, and whether "
         "their machines reach this one",
         missing, links->size, timeout_s, ranks);
}

static struct status missing_say(const struct join_config *config, const struct links *links,
                                 const struct patience *patience)
{
    CLEANUP(buffer_done) struct buffer list = {0};
    CLEANUP(memory_free) char *who = NULL;
    unsigned missing = 0;
    const char *ranks;
    TRY(missing_list(links, &list, &missing));
    TRY(buffer_text(&list, &ranks));
    TRY(string_format(&who, "rank 0 on %s waits at port %u for %u of %u ranks: rank %s",
                      links->members[0].host, (unsigned)config->ports[0], missing, links->size,
                      ranks));
    wait_say(patience, who);
    return OK;
}

static void entry_write(const struct entry *entry, uint8_t *bytes)
{
    memset(bytes, 0, ENTRY_BYTES);
    memcpy(bytes, entry->address, SOCKET_ADDRESS_BYTES);
    store_le32(bytes + SOCKET_ADDRESS_BYTES, entry->port);
    store_le32(bytes + SOCKET_ADDRESS_BYTES + 4, (uint32_t)entry->member.local_rank);
    memcpy(bytes + SOCKET_ADDRESS_BYTES + 8, entry->member.host, COMM_HOST_BYTES);
}

static void entry_read(const uint8_t *bytes, struct entry *entry)
{
    memcpy(entry->address, bytes, SOCKET_ADDRESS_BYTES - 1);
    entry->port = (uint16_t)load_le32(bytes + SOCKET_ADDRESS_BYTES);
    entry->member.local_rank = (int32_t)load_le32(bytes + SOCKET_ADDRESS_BYTES + 4);
    memcpy(entry->member.host, bytes + SOCKET_ADDRESS_BYTES + 8, COMM_HOST_BYTES - 1);
}

/* Receives everyone and tells everyone about all. */
static struct status ranks_gather(const struct join_config *config, int listener, uint16_t port,
                                  struct patience *patience, struct links *links,
                                  struct entry *entries)
{
    const int64_t deadline_ms = patience->deadline_ms;
    entries[0] = (struct entry){.port = port, .member = links->members[0]};
    unsigned expected = (config->size - 1) * (links->star ? 2 : 1);
    for (unsigned kept = 0; kept < expected;) {
        struct hello hello;
        int fd;
        TRY(caller_await(config, listener, earlier_ms(deadline_ms, patience->notice_ms), &hello,
                         &fd));
        if (fd >= 0)
            TRY(caller_keep(&hello, fd, links, entries, &kept));
        else if (clock_ms() >= deadline_ms)
            return missing_fail(links, config->timeout_s);
        if (kept < expected && notice_is_due(patience))
            TRY(missing_say(config, links, patience));
    }
    CLEANUP(memory_free) uint8_t *table = NULL;
    TRY(memory_alloc(config->size, ENTRY_BYTES, &table));
    for (unsigned rank = 0; rank < config->size; rank++)
        entry_write(&entries[rank], table + (size_t)rank * ENTRY_BYTES);
    for (unsigned rank = 1; rank < config->size; rank++)
        TRY(status_context(socket_write(links->watch[rank], table,
                                        (size_t)config->size * ENTRY_BYTES, deadline_ms,
                                        "the table of ranks"),
                           "rank %u on %s", rank, entries[rank].member.host));
    return OK;
}

/* --- The others --- */

/* Calls rank 0, for the first time or for the star. */
static struct status rank_0_call(const struct join_config *config, const struct hello *hello,
                                 struct places *places, struct patience *patience, int *ret_fd)
{
    struct status status = places_call(config, hello, places, patience, ret_fd);
    if (status.code == STATUS_STOPPED || status.code == STATUS_USAGE) /* which say it all */
        return status;
    if (hello->kind == LINK_STAR)
        return status_context(status, "rank %u on %s lost rank 0 again", config->rank, hello->host);
    return status_context(status, "rank %u on %s did not find rank 0 within %u s", config->rank,
                          hello->host, config->timeout_s);
}

/* Receives the table of ranks, for which rank 0 waits until all are there. */
static struct status table_receive(const struct join_config *config, const char *own_host, int fd,
                                   struct patience *patience, uint8_t *ret_table)
{
    static const char what[] = "the table of ranks";
    /* Rank 0 says itself who is missing: it gets the time to. */
    const int64_t deadline_ms = patience->deadline_ms + BANNER_MS;
    struct status early =
        socket_wait(fd, POLLIN, earlier_ms(deadline_ms, patience->notice_ms), what);
    if (early.code == STATUS_STOPPED)
        return early;
    status_ignore(early);
    if (early.code != STATUS_DONE && notice_is_due(patience)) {
        CLEANUP(memory_free) char *who = NULL;
        TRY(string_format(&who,
                          "rank %u on %s has reached rank 0 and waits for other ranks, which rank "
                          "0 names",
                          config->rank, own_host));
        wait_say(patience, who);
    }
    return status_context(socket_read(fd, ret_table, (size_t)config->size * ENTRY_BYTES,
                                      deadline_ms, what),
                          "rank %u on %s waited for all ranks to join", config->rank, own_host);
}

static struct status rank_0_reach(const struct join_config *config, uint16_t ring_port,
                                  struct patience *patience, struct links *links,
                                  struct entry *entries)
{
    struct hello hello = {.rank = config->rank,
                          .kind = LINK_WATCH,
                          .port = ring_port,
                          .local_rank = config->local_rank};
    join_host_name(hello.host);
    struct places places = {config->hosts, config->host_count, config->ports, config->port_count};
    TRY(rank_0_call(config, &hello, &places, patience, &links->watch[0]));
    hello.kind = LINK_STAR;
    struct patience soon = {INT64_MAX, earlier_ms(patience->deadline_ms, clock_ms() + LINK_MS)};
    if (links->star)
        TRY(rank_0_call(config, &hello, &places, &soon, &links->star[0]));
    CLEANUP(memory_free) uint8_t *table = NULL;
    TRY(memory_alloc(config->size, ENTRY_BYTES, &table));
    TRY(table_receive(config, hello.host, links->watch[0], patience, table));
    for (unsigned rank = 0; rank < config->size; rank++)
        entry_read(table + (size_t)rank * ENTRY_BYTES, &entries[rank]);
    /* A rank on rank 0's own machine may have called it at a loopback address, which means
     * something else elsewhere: such a rank is where rank 0 is, and rank 0 is who was called. */
    char rank_0[SOCKET_ADDRESS_BYTES];
    TRY(socket_caller(links->watch[0], rank_0));
    for (unsigned rank = 0; rank < config->size; rank++)
        if (rank == 0 || socket_address_is_loopback(entries[rank].address))
            memcpy(entries[rank].address, rank_0, sizeof rank_0);
    return OK;
}

/* Each rank calls the next, then is called by the one before. A call is accepted by the system
 * before the program looks, but its greeting waits for the callee: so the even ranks call first. */
static struct status ring_close(const struct join_config *config, int listener,
                                const struct entry *entries, int64_t deadline_ms,
                                struct links *links)
{
    unsigned next = (config->rank + 1) % config->size;
    unsigned previous = (config->rank + config->size - 1) % config->size;
    struct hello hello = {.rank = config->rank, .kind = LINK_RING};
    join_host_name(hello.host);
    const char *address = entries[next].address;
    struct patience soon = {INT64_MAX, deadline_ms};
    for (unsigned turn = 0; turn < 2; turn++) {
        if ((turn == 0) == (config->rank % 2 == 0)) {
            struct places places = {&address, 1, &entries[next].port, 1};
            TRY(status_context(places_call(config, &hello, &places, &soon, &links->next),
                               "rank %u on %s did not reach rank %u on %s", config->rank,
                               hello.host, next, entries[next].member.host));
            continue;
        }
        while (links->previous < 0) {
            struct hello caller;
            int fd;
            TRY(caller_await(config, listener, deadline_ms, &caller, &fd));
            if (fd < 0)
                FAIL(STATUS_FAILED, "rank %u on %s did not call rank %u on %s", previous,
                     entries[previous].member.host, config->rank, hello.host);
            if (caller.rank == previous && caller.kind == LINK_RING)
                links->previous = fd;
            else
                socket_close(fd);
        }
    }
    return OK;
}

static struct status links_init(const struct join_config *config, struct links *links)
{
    *links = (struct links){.rank = config->rank, .size = config->size, .next = -1, .previous = -1};
    TRY(memory_alloc(config->size, sizeof *links->members, &links->members));
    TRY(memory_alloc(config->size, sizeof *links->watch, &links->watch));
    if (config->with_data)
        TRY(memory_alloc(config->size, sizeof *links->star, &links->star));
    for (unsigned rank = 0; rank < config->size; rank++) {
        links->watch[rank] = -1;
        if (links->star)
            links->star[rank] = -1;
    }
    links->members[config->rank].local_rank = config->local_rank;
    join_host_name(links->members[config->rank].host);
    return OK;
}

struct status join_run(const struct join_config *config, int listener, struct links *ret_links)
{
    CLEANUP(links_done) struct links links = {.next = -1, .previous = -1};
    CLEANUP(memory_free) struct entry *entries = NULL;
    const int64_t now_ms = clock_ms();
    struct patience patience = {now_ms + config->notice_ms,
                                now_ms + (int64_t)config->timeout_s * 1000};
    int ring_listener = -1;
    uint16_t ring_port = 0;
    TRY(links_init(config, &links));
    TRY(memory_alloc(config->size, sizeof *entries, &entries));
    if (config->with_data)
        TRY(socket_listen(config->this_machine, 0, &ring_listener, &ring_port));
    struct status status =
        config->rank == 0 ? ranks_gather(config, listener, ring_port, &patience, &links, entries)
                          : rank_0_reach(config, ring_port, &patience, &links, entries);
    if (status.code == STATUS_DONE && config->with_data)
        status = ring_close(config, ring_listener, entries, clock_ms() + LINK_MS, &links);
    socket_close(ring_listener);
    if (status.code == STATUS_IO || status.code == STATUS_NOT_FOUND)
        status.code = STATUS_FAILED;
    if (status.code == STATUS_FAILED && stop_requested()) { /* as those who left before were */
        status_ignore(status);
        return stop_fail();
    }
    TRY(status);
    for (unsigned rank = 0; rank < config->size; rank++)
        links.members[rank] = entries[rank].member;
    *ret_links = links;
    links = (struct links){.next = -1, .previous = -1};
    return OK;
}

void links_done(struct links *links)
{
    for (unsigned rank = 0; links->watch && rank < links->size; rank++)
        socket_close(links->watch[rank]);
    for (unsigned rank = 0; links->star && rank < links->size; rank++)
        socket_close(links->star[rank]);
    socket_close(links->next);
    socket_close(links->previous);
    memory_free(links->watch);
    memory_free(links->star);
    memory_free(links->members);
    *links = (struct links){.next = -1, .previous = -1};
}
