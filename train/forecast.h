#ifndef HEADRACE_TRAIN_FORECAST_H
#define HEADRACE_TRAIN_FORECAST_H

/* What training would take, before anything is trained: the layers' shapes, what the backend chose
 * to compute them with, memory by kind, and the largest batch that fits. The numbers are those of
 * the backend's own code, which counts in place of allocating. */

#include "base/bytes.h"
#include "base/json.h"
#include "base/scope.h"
#include "train/checkpoint.h"
#include "train/dataset.h"
#include "train/division.h"
#include "train/options.h"

static inline double forecast_gib(uint64_t bytes)
{
    return (double)bytes / 0x1p30;
}

/* When memory is taken. */
enum forecast_part {
    FORECAST_STORE = 0, /* by parameters and their like, as long as the run */
    FORECAST_TRAINING,  /* by the training plan */
    FORECAST_EVALUATION,
    FORECAST_PART_COUNT,
};

struct forecast_memory {
    uint64_t bytes[FORECAST_PART_COUNT][MEMORY_KIND_COUNT]; /* of one device */
    uint64_t device_bytes;   /* all of these, and for a device on the host what follows */
    uint64_t loader_bytes;   /* of this process: batches and scratch of the loader */
    uint64_t pinned_bytes;   /* of this process: batches on their way to the devices */
    uint64_t average_bytes;  /* of this process: what --ema keeps on the host */
    uint64_t mirrored_bytes; /* of this process: the other halves of --val-flip's pairs */
    uint64_t capacity_bytes; /* of the device, less what is reserved; 0: not known */
    uint64_t reserved_bytes;
};

struct forecast_choice {
    char *text;
    unsigned uses;
    uint64_t workspace_bytes;
};
struct forecast_choices {
    struct forecast_choice *all;
    size_t count, capacity;
};

struct forecast {
    struct network *network;
    uint32_t (*sizes)[2];      /* by node: height, width of its output */
    uint32_t image_size_start; /* where crops grow during the run, else image_size */
    uint32_t image_size, val_crop, val_batch;
    bool has_data; /* else 1000 classes, or --synthetic-classes */
    char *device;  /* as the backend describes itself */
    enum train_dtype dtype;
    struct division division;
    struct forecast_memory memory;
    struct forecast_choices training, evaluation;
    char *slow_reason; /* why training was planned with slower operations; NULL: it was not */

    /* The largest batch that fits, to one image a device (two with --mixup): it was planned and so
     * was the next one, which does not fit. */
    uint32_t largest_device_batch; /* images of one device at a time; 0: not even one fits */
    uint64_t largest_batch;        /* the global batch of that */
    uint64_t next_bytes;           /* of a device, that the next one needs; 0: it was not planned */
    char *next_refusal;            /* why it cannot be planned; NULL: it can, or none is larger */
    /* The largest that fits and needs no slower operations; 0: none. */
    uint32_t fast_device_batch;
    uint64_t fast_batch;
    char *fast_end_reason; /* why larger ones do; NULL: the largest of all does not */
};

/* Forecasts `trainer_open` with these options, as setup_make completed them; `checkpoint` may be
 * NULL. Fails as a run would, with STATUS_UNSUPPORTED where the backend makes no forecasts. */
struct status forecast_make(const struct train_options *options, struct comm *comm,
                            const struct checkpoint *checkpoint, struct forecast **ret_forecast);
/* Fails with STATUS_NO_MEMORY, and says what fits, where training on the CPU takes more memory than
 * the machine has free, of which each of its processes gets the same share: the kernel would kill
 * it when it has got that far. */
struct status forecast_check_host(const struct train_options *options, struct comm *comm,
                                  const struct dataset *data, const struct network *network);
void forecast_free(struct forecast *forecast);
CLEANUP_POINTER(forecast_free, struct forecast)

/* Tables for people; one JSON value for programs. */
struct status forecast_append(const struct forecast *forecast, struct buffer *text);
struct json *forecast_json(const struct forecast *forecast);

#endif
