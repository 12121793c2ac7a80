#ifndef HEADRACE_TRAIN_COMM_INTERNAL_H
#define HEADRACE_TRAIN_COMM_INTERNAL_H

/* Private to train/comm*.c and train/mpi/: what carries bytes between ranks.
 *
 * train/comm_collective.c makes every collective call of two patterns, so that sums have the same
 * order over TCP and over MPI: a ring (each rank sends to the next while it receives from the one
 * before) for what is large, a star around rank 0 for what is small. */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "train/comm.h"
#include "train/comm_watch.h"

struct transport;

/* Each call waits until its bytes have come through or the watch has a verdict, which it returns.
 */
struct transport_ops {
    /* To the next rank and from the one before, at the same time; 0 bytes leave a half out. */
    struct status (*shift)(struct transport *transport, const void *out, size_t out_bytes, void *in,
                           size_t in_bytes);
    /* Between rank 0 and another one; `peer` is the other end. */
    struct status (*send)(struct transport *transport, unsigned peer, const void *bytes,
                          size_t count);
    struct status (*receive)(struct transport *transport, unsigned peer, void *bytes, size_t count);
    /* Frees the transport. */
    void (*close)(struct transport *transport);
};

struct comm {
    unsigned rank, size, local_rank, local_size, nodes;
    char description[64];
    struct links links;  /* none when alone */
    struct watch *watch; /* NULL when alone */
    const struct transport_ops *ops;
    struct transport *transport;
    uint8_t *scratch; /* COMM_PIECE_BYTES: what has come from the rank before */
};

/* What goes through the ring at a time: fits into a core's cache. */
enum { COMM_PIECE_BYTES = 512 << 10 };

/* Over TCP, on the connections of `links` and with the verdicts of `watch`, both borrowed. */
struct status transport_tcp_open(const struct links *links, struct watch *watch,
                                 const struct transport_ops **ret_ops,
                                 struct transport **ret_transport);

/* headrace-mpi.so (train/mpi/), which is opened only where MPI started the process. */
struct mpi_module {
    const char *build_id; /* HEADRACE_BUILD_ID of its build */
    /* Starts MPI and says which rank this is. */
    struct status (*start)(unsigned *ret_rank, unsigned *ret_size);
    /* `count` bytes of rank 0, below 2^31, to all: for finding each other, before there is a watch.
     */
    struct status (*share)(void *bytes, size_t count, unsigned timeout_s);
    struct status (*open)(struct watch *watch, unsigned rank, unsigned size,
                          const struct transport_ops **ret_ops, struct transport **ret_transport);
};
typedef const struct mpi_module *mpi_entry_fn(void);
#define MPI_ENTRY_SYMBOL "headrace_mpi_module"
mpi_entry_fn headrace_mpi_module;

/* Starts MPI and joins the watch: rank and size in `comm` are MPI's then. */
struct status comm_open_mpi(struct comm *comm, const struct launch *launch,
                            const struct mpi_module *module, const struct comm_options *options);

#endif
