#ifndef HEADRACE_TRAIN_OPTIONS_H
#define HEADRACE_TRAIN_OPTIONS_H

/* The options of training: what the command line, a recipe and a checkpoint hold. Names and
 * defaults are those of the PyTorch ImageNet trainer that the TencentOS guide uses. */

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "base/status.h"
#include "index/access.h"
#include "index/cache.h"
#include "train/backend.h"
#include "train/ema.h"
#include "train/ramp.h"
#include "train/schedule.h"

struct train_options {
    /* Data */
    const char *data, *train, *val; /* NULL: not given */
    bool synthetic;
    int64_t synthetic_images, synthetic_classes;
    int64_t image_size, val_resize, val_crop; /* pixels; the last two 0: from image_size */
    int64_t image_size_start;                 /* of the first epochs; 0: image_size */
    double crop_scale;            /* least share of an image that a training crop covers */
    int64_t ramp_start, ramp_end; /* epochs between which it grows */
    bool val_flip;                /* evaluation with the mirrored image too */
    int64_t batch_size;           /* global */
    int64_t accumulate;           /* micro-batches of a step */
    int pixels;                   /* enum pixels */
    bool drop_last;
    int on_error;   /* enum loader_on_error */
    int order;      /* enum order_kind */
    int64_t window; /* records */
    int64_t seed;
    int64_t workers; /* loader threads; 0: cores */
    uint64_t memory; /* bytes of the loader; 0: as usual */
    struct access_options access;
    struct cache_options cache;

    /* Network and device */
    int arch; /* index into network_names */
    bool zero_gamma;
    const char *weights;
    bool pretrained;
    int device;   /* index into device_names */
    int64_t gpus; /* 0: the backend's choice */
    bool deterministic, tune;
    int dtype; /* enum train_dtype */
    bool force_dtype;
    int64_t threads; /* of the backend; 0: cores */
    bool sync_bn;
    int launcher;         /* enum launcher */
    int64_t rank_timeout; /* seconds; 0: as usual */

    /* Recipe */
    const char *recipe;
    int64_t epochs, start_epoch, steps; /* steps 0: no limit */
    double lr, momentum, weight_decay, label_smoothing;
    bool decay_norm, nesterov;
    const char *loss_scale;      /* NULL: dynamic for fp16, else none */
    int schedule, schedule_unit; /* enum schedule_shape, schedule_unit */
    double warmup_epochs, lr_step_epochs, lr_factor, lr_end;
    int optimizer; /* enum optimizer */
    double ema;    /* decay; 0: no average */
    int64_t ema_steps;
    double mixup; /* alpha; 0: none */
    double lars_eta, lars_epsilon;

    /* Run */
    const char *out, *resume;
    int64_t checkpoint_steps; /* 0: at the end of each epoch only */
    int64_t print_freq;
    bool evaluate;
    bool plan, json;         /* print what a run would take, and end */
    const char *plan_device; /* NULL: the one that is there */
};

/* Images of a global batch, at most. */
#define TRAIN_BATCH_MAX (1 << 20)

extern const struct option train_option_table[];

void train_options_init(struct train_options *options);
/* What the table's ranges cannot say. Fails with STATUS_USAGE. */
struct status train_options_check(const struct train_options *options);
/* The options as a checkpoint and a log keep them: of a set's URL without the query, which may hold
 * a signature; dataset_open asks for it again. */
struct status train_options_store(const struct train_options *options, struct json *object);
const char *train_options_arch(const struct train_options *options);
/* Evaluation geometry with the defaults filled in: short side and centre crop, in pixels. A network
 * that trains at 224 is evaluated at 256 and 224, another size in the same proportion. */
void train_options_geometry(const struct train_options *options, uint32_t *ret_resize,
                            uint32_t *ret_crop);
/* The loss scale that training with `dtype` begins with. Fails with STATUS_USAGE. */
struct status train_options_loss_scale(const struct train_options *options, enum train_dtype dtype,
                                       struct loss_scale *ret_scale);
/* What a backend is opened with, whether it is to train or to forecast. `comm` is borrowed. */
struct backend_config train_options_backend(const struct train_options *options, struct comm *comm);
/* The optimiser, without rates, position and loss scale. */
struct update_rule train_options_rule(const struct train_options *options);
struct schedule train_options_schedule(const struct train_options *options,
                                       uint64_t steps_per_epoch);
struct ema train_options_ema(const struct train_options *options);
struct ramp train_options_ramp(const struct train_options *options);

#endif
