#ifndef HEADRACE_TRAIN_CPU_CPU_H
#define HEADRACE_TRAIN_CPU_CPU_H

/* What the parts of this backend share. */

#include <stddef.h>
#include <stdint.h>

#include "train/backend_module.h"
#include "train/comm.h"
#include "train/cpu/kernels.h"
#include "train/cpu/onednn.h"

struct backend {
    enum train_dtype dtype; /* DTYPE_F32 or DTYPE_BF16 */
    unsigned threads;
    struct onednn *onednn;
    const struct kernels *kernels;
    struct comm *comm; /* borrowed; NULL: alone */
    bool sync_bn;
    bool forecast; /* plans allocate nothing */
    struct memory_use use;
};

static inline size_t element_bytes(const struct backend *backend)
{
    return backend->dtype == DTYPE_BF16 ? 2 : 4;
}

/* To be called before oneDNN is: it takes the calling thread's OpenMP setting. */
void backend_enter(const struct backend *backend);

/* The share of part `part` of `parts` in [0, count), cut at multiples of `unit`. */
struct span {
    size_t begin, end;
};
static inline struct span span_part(size_t count, size_t unit, unsigned part, unsigned parts)
{
    size_t units = (count + unit - 1) / unit;
    size_t begin = units * part / parts * unit, end = units * (part + 1) / parts * unit;
    return (struct span){begin < count ? begin : count, end < count ? end : count};
}

/* Runs the statement or block after it for each part in [0, parts), a thread each. */
#define PRAGMA(text) _Pragma(#text)
#define FOR_PARTS(part, parts)                                                                     \
    PRAGMA(omp parallel for schedule(static) num_threads(parts))                                   \
    for (unsigned part = 0; part < (parts); part++)

#endif
