#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "train/comm_internal.h"

/* Up to here the star is quicker than the ring's 2 × (size − 1) steps. */
enum { STAR_BYTES = 64 << 10 };

/* Adds or compares `count` elements of another rank into those here. */
typedef void combine_fn(void *values, const void *others, size_t count);

static void combine_f32(void *values, const void *others, size_t count)
{
    float *restrict to = values;
    const float *restrict from = others;
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

static void combine_f64(void *values, const void *others, size_t count)
{
    double *restrict to = values;
    const double *restrict from = others;
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

static void combine_max_u64(void *values, const void *others, size_t count)
{
    uint64_t *restrict to = values;
    const uint64_t *restrict from = others;
    for (size_t i = 0; i < count; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* --- The star --- */

/* What rank 0 has, to all. */
static struct status star_spread(struct comm *comm, void *bytes, size_t count)
{
    if (comm->rank != 0)
        return comm->ops->receive(comm->transport, 0, bytes, count);
    for (unsigned rank = 1; rank < comm->size; rank++)
        TRY(comm->ops->send(comm->transport, rank, bytes, count));
    return OK;
}

/* Rank 0 combines in the order of ranks, a piece at a time, and spreads the result. */
static struct status star_combine(struct comm *comm, void *values, size_t count, size_t width,
                                  combine_fn *combine)
{
    size_t piece = COMM_PIECE_BYTES / width;
    for (size_t first = 0; first < count; first += piece) {
        uint8_t *at = (uint8_t *)values + first * width;
        size_t now = count - first < piece ? count - first : piece;
        if (comm->rank != 0)
            TRY(comm->ops->send(comm->transport, 0, at, now * width));
        for (unsigned rank = 1; comm->rank == 0 && rank < comm->size; rank++) {
            TRY(comm->ops->receive(comm->transport, rank, comm->scratch, now * width));
            combine(at, comm->scratch, now);
        }
        TRY(star_spread(comm, at, now * width));
    }
    return OK;
}

/* --- The ring --- */

/* A part of the values, as near to equal as can be. */
struct part {
    float *values;
    size_t count;
};

static struct part part_of(const struct comm *comm, float *values, size_t count, unsigned index)
{
    index %= comm->size;
    size_t each = count / comm->size, longer = count % comm->size;
    size_t first = index * each + (index < longer ? index : longer);
    return (struct part){values + first, each + (index < longer)};
}

/* One step: a part goes to the next rank while another comes from the one before, added to what is
 * here or, in the second round, in its place. */
static struct status ring_step(struct comm *comm, struct part out, struct part in, bool adds)
{
    const size_t piece = COMM_PIECE_BYTES / sizeof(float);
    while (out.count || in.count) {
        size_t sent = out.count < piece ? out.count : piece;
        size_t come = in.count < piece ? in.count : piece;
        TRY(comm->ops->shift(comm->transport, out.values, sent * sizeof(float),
                             adds ? comm->scratch : (void *)in.values, come * sizeof(float)));
        if (adds)
            combine_f32(in.values, comm->scratch, come);
        out = (struct part){out.values + sent, out.count - sent};
        in = (struct part){in.values + come, in.count - come};
    }
    return OK;
}

/* Part p starts at rank p and is summed from rank to rank around the ring, then goes around once
 * more, whole (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009). The order of its sum depends on p and the number of ranks alone. */
static struct status ring_sum(struct comm *comm, float *values, size_t count)
{
    const unsigned size = comm->size;
    for (unsigned step = 0; step + 1 < size; step++)
        TRY(ring_step(comm, part_of(comm, values, count, comm->rank + size - step),
                      part_of(comm, values, count, comm->rank + 2 * size - step - 1), true));
    for (unsigned step = 0; step + 1 < size; step++)
        TRY(ring_step(comm, part_of(comm, values, count, comm->rank + 1 + size - step),
                      part_of(comm, values, count, comm->rank + size - step), false));
    return OK;
}

/* From rank to rank: each passes a piece on while it receives the next one. */
static struct status ring_spread(struct comm *comm, uint8_t *bytes, size_t count, unsigned root)
{
    const bool first = comm->rank == root, last = (comm->rank + 1) % comm->size == root;
    size_t come = first ? count : 0, passed = last ? count : 0;
    while (come < count || passed < come) {
        size_t in = count - come < COMM_PIECE_BYTES ? count - come : COMM_PIECE_BYTES;
        size_t ready = come > passed ? come - passed : 0;
        size_t out = ready < COMM_PIECE_BYTES ? ready : COMM_PIECE_BYTES;
        TRY(comm->ops->shift(comm->transport, bytes + passed, out, bytes + come, in));
        come += in;
        passed += out;
    }
    return OK;
}

/* --- The calls --- */

static struct status call_begin(struct comm *comm)
{
    TRY(watch_check(comm->watch));
    watch_call_begins(comm->watch);
    return OK;
}

static struct status call_end(struct comm *comm, struct status status)
{
    watch_call_ends(comm->watch);
    return status;
}

struct status comm_sum_f32(struct comm *comm, float *values, size_t count)
{
    if (comm->size == 1 || count == 0)
        return OK;
    TRY(call_begin(comm));
    return call_end(comm, count * sizeof *values <= STAR_BYTES
                              ? star_combine(comm, values, count, sizeof *values, combine_f32)
                              : ring_sum(comm, values, count));
}

struct status comm_sum_f64(struct comm *comm, double *values, size_t count)
{
    if (comm->size == 1)
        return OK;
    TRY(call_begin(comm));
    return call_end(comm, star_combine(comm, values, count, sizeof *values, combine_f64));
}

struct status comm_max_u64(struct comm *comm, uint64_t *values, size_t count)
{
    if (comm->size == 1)
        return OK;
    TRY(call_begin(comm));
    return call_end(comm, star_combine(comm, values, count, sizeof *values, combine_max_u64));
}

struct status comm_broadcast(struct comm *comm, void *bytes, size_t count, unsigned root)
{
    assert(root < comm->size);
    if (comm->size == 1)
        return OK;
    TRY(call_begin(comm));
    return call_end(comm, root == 0 && count <= STAR_BYTES ? star_spread(comm, bytes, count)
                                                           : ring_spread(comm, bytes, count, root));
}

/* Rank 0 collects and spreads the whole. */
static struct status star_gather(struct comm *comm, const void *bytes, size_t count, uint8_t *all)
{
    if (comm->rank != 0)
        TRY(comm->ops->send(comm->transport, 0, bytes, count));
    for (unsigned rank = 1; comm->rank == 0 && rank < comm->size; rank++)
        TRY(comm->ops->receive(comm->transport, rank, all + rank * count, count));
    return star_spread(comm, all, comm->size * count);
}

struct status comm_gather(struct comm *comm, const void *bytes, size_t count, void *ret_all)
{
    memmove((uint8_t *)ret_all + comm->rank * count, bytes, count);
    if (comm->size == 1)
        return OK;
    TRY(call_begin(comm));
    return call_end(comm, star_gather(comm, bytes, count, ret_all));
}

struct status comm_barrier(struct comm *comm)
{
    uint64_t nothing = 0;
    return comm_max_u64(comm, &nothing, 1);
}
