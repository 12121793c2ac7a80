#ifndef HEADRACE_TRAIN_COMM_SOCKET_H
#define HEADRACE_TRAIN_COMM_SOCKET_H

/* TCP with deadlines, for train/comm*.c. Sockets are non-blocking; each wait ends at a deadline, or
 * with STATUS_STOPPED when the process was asked to stop. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* An address as text: "10.0.0.7", "fe80::1%eth0". */
enum { SOCKET_ADDRESS_BYTES = 64 };

/* Milliseconds since some moment, never backwards. */
int64_t clock_ms(void);

/* Listens at `port` (0: any free one, given back in *ret_port). `this_machine`: at 127.0.0.1 only,
 * else at all addresses. Fails with STATUS_IO, say where the port is in use. */
struct status socket_listen(bool this_machine, uint16_t port, int *ret_fd, uint16_t *ret_port);

/* Connects to a name or an address. STATUS_NOT_FOUND: no host has this name. */
struct status socket_connect(const char *host, uint16_t port, int64_t deadline_ms, int *ret_fd);

/* The next caller of a listening socket; *ret_fd is -1 where none came in time. */
struct status socket_accept(int listener, int64_t deadline_ms, int *ret_fd);

/* Waits until a socket can be read or written, as poll's `events` say. */
struct status socket_wait(int fd, short events, int64_t deadline_ms, const char *what);

/* All `count` bytes; `what` is for messages: "the answer of rank 0". */
struct status socket_write(int fd, const void *bytes, size_t count, int64_t deadline_ms,
                           const char *what);
struct status socket_read(int fd, void *ret_bytes, size_t count, int64_t deadline_ms,
                          const char *what);

/* The caller's address as text. */
struct status socket_caller(int fd, char ret_address[SOCKET_ADDRESS_BYTES]);
bool socket_address_is_loopback(const char *address);

/* Closes a socket; -1 is fine. */
void socket_close(int fd);

#endif
