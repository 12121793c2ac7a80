#include "train/comm_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"

/* The longest wait without a look at whether a stop was asked for. */
enum { LOOK_MS = 200 };

int64_t clock_ms(void)
{
    return (int64_t)(clock_seconds() * 1000);
}

static void socket_tune(int fd)
{
    int on = 1;
    /* Messages are small or sent whole: nothing is gained by waiting for more bytes. Not there on
     * other kinds of sockets, where it does not matter. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

struct status socket_listen(bool this_machine, uint16_t port, int *ret_fd, uint16_t *ret_port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                               .sin6_port = htons(port),
                               .sin6_addr = in6addr_any};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    any4.sin_addr.s_addr = htonl(this_machine ? INADDR_LOOPBACK : INADDR_ANY);
    int on = 1, off = 0;
    const int flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd = this_machine ? -1 : socket(AF_INET6, flags, 0);
    bool six = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
    if (!six) {
        socket_close(fd);
        fd = socket(AF_INET, flags, 0);
    }
    if (fd < 0)
        return status_errno(errno, "cannot make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const struct sockaddr *address = six ? (void *)&any : (void *)&any4;
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    if (bind(fd, address, six ? sizeof any : sizeof any4) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (void *)&bound, &length) < 0) {
        int error = errno;
        socket_close(fd);
        return status_errno(error, "cannot listen at port %u", (unsigned)port);
    }
    *ret_fd = fd;
    *ret_port = ntohs(six ? ((struct sockaddr_in6 *)&bound)->sin6_port
                          : ((struct sockaddr_in *)&bound)->sin_port);
    return OK;
}

struct status socket_wait(int fd, short events, int64_t deadline_ms, const char *what)
{
    for (;;) {
        int64_t left = deadline_ms - clock_ms();
        struct pollfd entry = {.fd = fd, .events = events};
        int ready = poll(&entry, 1, left < 0 ? 0 : left < LOOK_MS ? (int)left : LOOK_MS);
        if (ready > 0)
            return OK;
        if (ready < 0 && errno != EINTR)
            return status_errno(errno, "cannot wait for %s", what);
        TRY(stop_check());
        if (left <= 0)
            return status_errno(ETIMEDOUT, "%s did not come", what);
    }
}

static struct status address_connect(const struct addrinfo *address, int64_t deadline_ms,
                                     int *ret_fd)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return status_errno(errno, "cannot make a socket");
    struct status status = OK;
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
        int error = errno;
        socklen_t length = sizeof error;
        if (error == EINPROGRESS) {
            status = socket_wait(fd, POLLOUT, deadline_ms, "the connection");
            if (status.code == STATUS_DONE)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
        }
        if (status.code == STATUS_DONE && error)
            status = status_errno(error, "no connection");
    }
    if (status.code != STATUS_DONE) {
        socket_close(fd);
        return status;
    }
    socket_tune(fd);
    *ret_fd = fd;
    return OK;
}

struct status socket_connect(const char *host, uint16_t port, int64_t deadline_ms, int *ret_fd)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int error = getaddrinfo(host, service, &hints, &addresses);
    if (error == EAI_NONAME)
        FAIL(STATUS_NOT_FOUND, "'%s' is the name of no host", host);
    if (error)
        FAIL(STATUS_IO, "cannot find the address of '%s': %s", host, gai_strerror(error));
    struct status status = OK;
    for (const struct addrinfo *at = addresses; at; at = at->ai_next) {
        status_ignore(status);
        status = address_connect(at, deadline_ms, ret_fd);
        if (status.code == STATUS_DONE || status.code == STATUS_STOPPED)
            break;
    }
    freeaddrinfo(addresses);
    return status;
}

struct status socket_accept(int listener, int64_t deadline_ms, int *ret_fd)
{
    *ret_fd = -1;
    struct status waited = socket_wait(listener, POLLIN, deadline_ms, "a caller");
    if (waited.code == STATUS_STOPPED)
        return waited;
    status_ignore(waited);
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return status_errno(errno, "cannot accept one more process (raise `ulimit -n`)");
    if (fd >= 0)
        socket_tune(fd);
    *ret_fd = fd; /* any other failure belongs to a caller who is gone */
    return OK;
}

struct status socket_write(int fd, const void *bytes, size_t count, int64_t deadline_ms,
                           const char *what)
{
    for (const uint8_t *at = bytes; count > 0;) {
        ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return status_errno(errno, "cannot send %s", what);
        if (sent < 0) {
            TRY(socket_wait(fd, POLLOUT, deadline_ms, what));
            continue;
        }
        at += sent;
        count -= (size_t)sent;
    }
    return OK;
}

struct status socket_read(int fd, void *ret_bytes, size_t count, int64_t deadline_ms,
                          const char *what)
{
    for (uint8_t *at = ret_bytes; count > 0;) {
        ssize_t got = recv(fd, at, count, 0);
        if (got == 0)
            FAIL(STATUS_IO, "the connection closed before %s came", what);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return status_errno(errno, "cannot receive %s", what);
        if (got < 0) {
            TRY(socket_wait(fd, POLLIN, deadline_ms, what));
            continue;
        }
        at += got;
        count -= (size_t)got;
    }
    return OK;
}

struct status socket_caller(int fd, char ret_address[SOCKET_ADDRESS_BYTES])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getpeername(fd, (void *)&address, &length) < 0)
        return status_errno(errno, "cannot tell who called");
    char text[SOCKET_ADDRESS_BYTES];
    int error = getnameinfo((void *)&address, length, text, sizeof text, NULL, 0, NI_NUMERICHOST);
    if (error)
        FAIL(STATUS_IO, "cannot tell who called: %s", gai_strerror(error));
    /* An IPv4 caller of a socket for both kinds. */
    const char *plain = strncmp(text, "::ffff:", 7) == 0 ? text + 7 : text;
    snprintf(ret_address, SOCKET_ADDRESS_BYTES, "%s", plain);
    return OK;
}

bool socket_address_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

void socket_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
