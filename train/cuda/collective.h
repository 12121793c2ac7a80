#ifndef HEADRACE_TRAIN_CUDA_COLLECTIVE_H
#define HEADRACE_TRAIN_CUDA_COLLECTIVE_H

/* Sums over all devices of all processes: NCCL, behind one file. */

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "base/scope.h"
#include "base/status.h"

enum { COLLECTIVE_ID_BYTES = 128 };

/* A new name for a set of devices: made by one, given to all. */
struct status collective_name(char ret_id[COLLECTIVE_ID_BYTES]);

/* One device's end. */
struct collective;
/* Joins the `size` devices of `id` as number `rank`; returns when all have. For the current device.
 */
struct status collective_open(const char id[COLLECTIVE_ID_BYTES], unsigned rank, unsigned size,
                              struct collective **ret_collective);
/* Leaves; all work on it must be done. */
void collective_close(struct collective *collective);
CLEANUP_POINTER(collective_close, struct collective)
/* Ends what runs on this device without the others; only collective_close may follow. */
void collective_abort(struct collective *collective);
/* Fails when NCCL has noticed that another device or the network failed, or after an abort; waits
 * for nothing. */
struct status collective_check(struct collective *collective);

/* `count` floats that become to = the sum of `from` over all devices; both are device memory and
 * may be the same. */
struct summand {
    const float *from;
    float *to;
    size_t count;
};
/* Puts `count` sums on `stream`, which NCCL makes in one go. May be captured. */
struct status collective_sum(struct collective *collective, const struct summand *summands,
                             size_t count, cudaStream_t stream);

/* "NCCL 2.28.9" */
struct status collective_version(int *ret_major, int *ret_minor, int *ret_patch);

#endif
