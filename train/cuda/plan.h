#ifndef HEADRACE_TRAIN_CUDA_PLAN_H
#define HEADRACE_TRAIN_CUDA_PLAN_H

/* A network planned for one batch shape.
 *
 *     plan ── program (program.h): what is computed, the same on each device
 *        └── replica, one a device: cuDNN's plans, memory, slots of batches, captured graphs
 *
 * A step of a replica, on its streams:
 *
 *     host     wait for a free slot, fill its pinned memory
 *     copy     [consumed of this slot's last batch] ── to the device ── (copied)
 *     compute  [copied] ── images to activations, labels and header aside ── (consumed)
 *              ── graph: forward, loss, (forwarded), backward, (ready) of each bucket … [reduced]
 *     reduce            in the graph: [forwarded] ── mean of running statistics
 *              ── [ready] ── sum of the bucket ── … ── (reduced)
 *
 * With --sync-bn each normalisation also waits for a sum on the reduce stream, both ways, and
 * running statistics need no mean: they are the same everywhere.
 *
 * where (x) is the record of an event and [x] the wait for it. */

#include "train/cuda/bucket.h"
#include "train/cuda/layout.h"
#include "train/cuda/program.h"
#include "train/cuda/store.h"

/* What a call may do with the gradients: ways to run the program, each with a graph of its own. */
enum variant {
    VARIANT_PLAIN = 0,
    VARIANT_ADDS = 1,    /* micro-batch gradients are added to those there */
    VARIANT_REDUCES = 2, /* … and summed over the devices */
    VARIANT_COUNT = 4,
};

enum { SLOT_COUNT = 3 };

/* One batch on its way: header, labels, images. */
struct slot {
    uint8_t *pinned, *device;
    cudaEvent_t copied, consumed;
};

struct plan_replica {
    struct cudnn_plan **plans; /* by the program's plans */
    uint64_t *offsets;         /* by tensor, into the block */
    uint64_t block_bytes, workspace_bytes;
    uint8_t *block;
    void *workspace, *loss_workspace;
    struct slot slots[SLOT_COUNT];
    uint8_t *step_data; /* header and labels of the step that runs */
    struct kernel_ring *ring;
    struct bn_fold *folds; /* evaluation only */
    cudaEvent_t *ready;    /* by bucket */
    cudaEvent_t forwarded, reduced;
    cudaGraphExec_t graphs[VARIANT_COUNT]; /* NULL: not captured yet */
    bool has_run[VARIANT_COUNT];
};

struct plan {
    struct backend *backend;
    struct store *store;
    struct plan_config config;
    uint32_t share; /* images of one device */
    size_t labels_at, images_at, slot_bytes;
    struct program *program;
    char *slow_reason;          /* why there are no fused patterns; NULL: there are, or never are */
    struct bucket_list buckets; /* training only */
    struct plan_replica *replicas;
    uint64_t calls;            /* so far */
    uint64_t metrics_read;     /* of the calls */
    struct step_header header; /* of this call */
};

/* A replica's memory, plans and slots; for the current device. */
struct status replica_plan_open(struct plan *plan, struct device *device, unsigned index);
void replica_plan_close(struct plan *plan, unsigned index);

/* Puts this device's share of a batch on its way: from a slot to the program's input, labels and
 * header to step_data. */
struct status replica_feed(struct plan *plan, struct device *device, unsigned index,
                           const struct step_input *input);
/* Puts the program on the compute stream, from a graph as soon as the variant ran once. */
struct status replica_run(struct plan *plan, struct device *device, unsigned index,
                          unsigned variant);

#endif
