#include "train/options.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "index/loader.h"
#include "index/url.h"
#include "train/backend.h"
#include "train/launch.h"
#include "train/module.h"
#include "train/network.h"

#define FIELD(name) offsetof(struct train_options, name)

/* Sizes and counts that no machine reaches; they keep later products far from overflow. */
#define MAX_PIXELS 16384
#define MAX_COUNT 1e9

const struct option train_option_table[] = {
    {"data", 0, OPT_STRING, FIELD(data), .value = "DIR",
     .help =
         "a folder or URL with train.idx and val.idx, or a folder with class folders train/ and "
         "val/"},
    {"train", 0, OPT_STRING, FIELD(train), .value = "INDEX",
     .help = "training set: an index (file or URL) or class folders"},
    {"val", 0, OPT_STRING, FIELD(val), .value = "INDEX",
     .help = "validation set: an index (file or URL) or class folders"},
    {"arch", 'a', OPT_ENUM, FIELD(arch), .names = network_names, .help = "network (default %d)"},
    {"epochs", 0, OPT_INT, FIELD(epochs), 0, MAX_COUNT, .value = "N",
     .help = "epochs in all (default %d)"},
    {"batch-size", 'b', OPT_INT, FIELD(batch_size), 1, TRAIN_BATCH_MAX, .value = "N",
     .help = "global batch over all devices (default %d)"},
    {"accumulate", 0, OPT_INT, FIELD(accumulate), 1, 512, .value = "K",
     .help = "micro-batches that a step's batch is computed in, one after the other (default %d)"},
    {"lr", 0, OPT_REAL, FIELD(lr), 0, 1e6, .alias = "learning-rate", .value = "X",
     .help = "learning rate, not scaled with the batch (default %d)"},
    {"momentum", 0, OPT_REAL, FIELD(momentum), 0, 1, .value = "X", .help = "momentum (default %d)"},
    {"weight-decay", 0, OPT_REAL, FIELD(weight_decay), 0, 1e6, .alias = "wd", .value = "X",
     .help = "weight decay (default %d)"},
    {"decay-norm", 0, OPT_FLAG, FIELD(decay_norm),
     .help = "decay normalisation and bias parameters too"},
    {"optimizer", 0, OPT_ENUM, FIELD(optimizer), .names = optimizer_names,
     .help = "sgd, or lars, which gives each weight tensor a rate of its own (default %d)"},
    {"lars-eta", 0, OPT_REAL, FIELD(lars_eta), 0, 1e6, .value = "X",
     .help = "lars: a tensor's rate as a share of its norm over its gradient's (default %d)"},
    {"lars-epsilon", 0, OPT_REAL, FIELD(lars_epsilon), 0, 1e6, .value = "X",
     .help = "lars: added to the gradient's norm (default %d)"},
    {"nesterov", 0, OPT_FLAG, FIELD(nesterov), .help = "Nesterov's momentum"},
    {"label-smoothing", 0, OPT_REAL, FIELD(label_smoothing), 0, .999, .value = "X",
     .help = "label smoothing (default %d)"},
    {"ema", 0, OPT_REAL, FIELD(ema), 0, 1, .value = "DECAY",
     .help = "keep an average of the weights too, as torchvision's reference training does with "
             "0.99998 (rescaled by batch and epochs); 0: do not"},
    {"ema-steps", 0, OPT_INT, FIELD(ema_steps), 1, MAX_COUNT, .value = "N",
     .help = "steps between two moves of the average (default %d)"},
    {"mixup", 0, OPT_REAL, FIELD(mixup), 0, 1e3, .value = "ALPHA",
     .help = "mix each image and its target with its neighbour's, by a share from Beta(ALPHA, "
             "ALPHA); 0: do not"},
    {"loss-scale", 0, OPT_STRING, FIELD(loss_scale), .value = "X|dynamic",
     .help =
         "what losses are multiplied with so that gradients fit into 16 bits; without it dynamic "
         "for fp16, else 1"},
    {"schedule", 0, OPT_ENUM, FIELD(schedule), .names = schedule_shape_names,
     .help = "shape of the learning rate (default %d)"},
    {"schedule-unit", 0, OPT_ENUM, FIELD(schedule_unit), .names = schedule_unit_names,
     .help = "when the rate changes; auto: each epoch, for linear each step"},
    {"warmup-epochs", 0, OPT_REAL, FIELD(warmup_epochs), 0, 1e6, .value = "N",
     .help = "linear warm-up (default %d)"},
    {"lr-step-epochs", 0, OPT_REAL, FIELD(lr_step_epochs), 1e-3, 1e6, .value = "N",
     .help = "epochs between two drops of --schedule step (default %d)"},
    {"lr-end", 0, OPT_REAL, FIELD(lr_end), 0, 1e6, .value = "X",
     .help = "rate that --schedule polynomial falls to (default %d)"},
    {"lr-factor", 0, OPT_REAL, FIELD(lr_factor), 0, 1e6, .value = "X",
     .help = "what a drop multiplies the rate with (default %d)"},
    {"zero-gamma", 0, OPT_FLAG, FIELD(zero_gamma), .help = "residual branches start at zero"},
    {"recipe", 0, OPT_STRING, FIELD(recipe), .value = "FILE|NAME",
     .help =
         "a file of flags, or one that comes with the program, which the command line overrides",
     .not_stored = true},
    {"image-size", 0, OPT_INT, FIELD(image_size), 1, MAX_PIXELS, .value = "N",
     .help = "side of the training crop (default %d)"},
    {"image-size-start", 0, OPT_INT, FIELD(image_size_start), 0, MAX_PIXELS, .value = "N",
     .help = "side of the training crop in the first epochs, growing to --image-size; 0: the same "
             "in all"},
    {"ramp-start", 0, OPT_INT, FIELD(ramp_start), 0, MAX_COUNT, .value = "EPOCH",
     .help = "up to this epoch crops have --image-size-start"},
    {"ramp-end", 0, OPT_INT, FIELD(ramp_end), 0, MAX_COUNT, .value = "EPOCH",
     .help = "from this epoch on they have --image-size; between, the multiple of 32 next to a "
             "straight line"},
    {"crop-scale", 0, OPT_REAL, FIELD(crop_scale), .001, 1, .value = "X",
     .help = "training crops cover at least this share of an image's area (default %d)"},
    {"val-resize", 0, OPT_INT, FIELD(val_resize), 0, MAX_PIXELS, .value = "N",
     .help = "evaluation: short side; 0: 8/7 of --val-crop"},
    {"val-crop", 0, OPT_INT, FIELD(val_crop), 0, MAX_PIXELS, .value = "N",
     .help = "evaluation: centre crop; 0: --image-size"},
    {"val-flip", 0, OPT_FLAG, FIELD(val_flip),
     .help = "evaluation: add the logits of the mirrored image"},
    {"pixels", 0, OPT_ENUM, FIELD(pixels), .names = pixels_names,
     .help = "bit for bit Pillow's up to version 12, those of 13, or close to them and faster "
             "(default %d)"},
    {"drop-last", 0, OPT_FLAG, FIELD(drop_last),
     .help = "leave out an epoch's incomplete last batch"},
    {"on-error", 0, OPT_ENUM, FIELD(on_error), .names = loader_on_error_names,
     .help = "what an unreadable image does (default %d)"},
    {"order", 0, OPT_ENUM, FIELD(order), .names = order_kind_names,
     .help = "training images: all shuffled; shuffled within windows of chunks of neighbours, for "
             "disks and networks that want long reads; or as they stand (default %d)"},
    {"window", 0, OPT_INT, FIELD(window), 1, MAX_COUNT, .value = "N",
     .help = "images that --order window shuffles at a time (default %d)"},
    {"seed", 0, OPT_INT, FIELD(seed), 0, 9e15, .value = "N",
     .help = "order, crops and weights (default %d)"},
    {"synthetic", 0, OPT_FLAG, FIELD(synthetic), .help = "train on random images, without data"},
    {"synthetic-images", 0, OPT_INT, FIELD(synthetic_images), 1, MAX_COUNT, .value = "N",
     .help = "random images an epoch (default %d)"},
    {"synthetic-classes", 0, OPT_INT, FIELD(synthetic_classes), 1, 1e6, .value = "N",
     .help = "their classes (default %d)"},
    {"device", 0, OPT_ENUM, FIELD(device), .names = device_names,
     .help = "where to compute (default %d)"},
    {"gpus", 0, OPT_INT, FIELD(gpus), 0, 64, .value = "N",
     .help =
         "GPUs of this process; 0: all it sees, or one where several processes share a machine"},
    {"deterministic", 0, OPT_FLAG, FIELD(deterministic),
     .help =
         "only GPU algorithms that give the same bits run after run, kept in RUN_DIR/plans; the "
         "CPU's all do"},
    {"tune", 0, OPT_FLAG, FIELD(tune),
     .help = "time the GPU's algorithms at the start instead of trusting the library's choice"},
    {"dtype", 0, OPT_ENUM, FIELD(dtype), .names = train_dtype_names,
     .help = "arithmetic (default %d)"},
    {"threads", 0, OPT_INT, FIELD(threads), 0, 1024, .value = "N",
     .help = "threads that compute; 0: the cores of this process"},
    {"sync-bn", 0, OPT_FLAG, FIELD(sync_bn),
     .help = "normalise over the batch of all processes and GPUs, not of each"},
    {"launcher", 0, OPT_ENUM, FIELD(launcher), .names = launcher_names,
     .help = "who starts the processes that train together; auto: what the environment says",
     .not_stored = true},
    {"rank-timeout", 0, OPT_INT, FIELD(rank_timeout), 0, 86400, .value = "SECONDS",
     .help = "a process unheard for so long ends the others; 0: 30", .not_stored = true},
    {"workers", 'j', OPT_INT, FIELD(workers), 0, 1024, .value = "N",
     .help = "threads that load images; 0: the cores of this process"},
    {"memory", 0, OPT_SIZE, FIELD(memory), .value = "BYTES",
     .help = "ceiling of each set's batches and scratch, beyond the page cache; 0: what three "
             "batches and the threads usually need"},
    CACHE_OPTIONS(cache),
    ACCESS_OPTIONS(access),
    {"out", 0, OPT_STRING, FIELD(out), .value = "RUN_DIR",
     .help = "folder of checkpoints and log (default %d)", .not_stored = true},
    {"resume", 0, OPT_STRING, FIELD(resume), .value = "PATH|auto",
     .help = "continue from a checkpoint; auto: from RUN_DIR's, if there is one",
     .not_stored = true},
    {"weights", 0, OPT_STRING, FIELD(weights), .value = "FILE",
     .help = "start from a torchvision state_dict (safetensors)", .not_stored = true},
    {"force-dtype", 0, OPT_FLAG, FIELD(force_dtype),
     .help = "let --resume go on with another --dtype", .not_stored = true},
    {"checkpoint-steps", 0, OPT_INT, FIELD(checkpoint_steps), 0, MAX_COUNT, .value = "N",
     .help = "checkpoint every N steps too; 0: after each epoch only"},
    {"start-epoch", 0, OPT_INT, FIELD(start_epoch), 0, MAX_COUNT, .value = "N",
     .help = "number of the first epoch (default %d)", .not_stored = true},
    {"steps", 0, OPT_INT, FIELD(steps), 0, MAX_COUNT, .value = "N",
     .help = "stop after that many steps in all; 0: no limit", .not_stored = true},
    {"evaluate", 'e', OPT_FLAG, FIELD(evaluate),
     .help = "only measure the accuracy on the validation set", .not_stored = true},
    {"plan", 0, OPT_FLAG, FIELD(plan),
     .help = "train nothing: print each layer's shape, what would compute it, memory by kind, and "
             "the largest batch that fits",
     .not_stored = true},
    {"plan-device", 0, OPT_STRING, FIELD(plan_device), .value = "NAME",
     .help = "with --plan: the GPU to plan for, such as h100, which need not be here",
     .not_stored = true},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "with --plan: print one JSON object",
     .not_stored = true},
    {"print-freq", 'p', OPT_INT, FIELD(print_freq), 1, MAX_COUNT, .value = "N",
     .help = "steps between two lines (default %d)"},
    {"pretrained", 0, OPT_FLAG, FIELD(pretrained), .hidden = true, .not_stored = true},
    {0},
};

void train_options_init(struct train_options *options)
{
    *options = (struct train_options){
        .synthetic_images = 1281167,
        .synthetic_classes = 1000,
        .image_size = 224,
        .crop_scale = crop_options_default.scale_min,
        .batch_size = 256,
        .accumulate = 1,
        .epochs = 90,
        .lr = .1,
        .momentum = .9,
        .weight_decay = 1e-4,
        .decay_norm = true,
        .window = ORDER_WINDOW_RECORDS,
        .lr_step_epochs = 30,
        .lr_factor = .1,
        .lr_end = 1e-4,
        .ema_steps = 32,
        .lars_eta = 1e-3,
        .out = "run",
        .print_freq = 10,
    };
    access_options_init(&options->access);
}

struct status train_options_check(const struct train_options *options)
{
    uint32_t resize, crop;
    struct loss_scale scale;
    train_options_geometry(options, &resize, &crop);
    TRY(train_options_loss_scale(options, DTYPE_F32, &scale));
    if (options->pretrained)
        FAIL(STATUS_USAGE, "--pretrained downloads nothing here: give the weights with --weights "
                           "FILE, a torchvision state_dict saved as safetensors");
    if (resize < crop)
        FAIL(STATUS_USAGE, "--val-resize %u is smaller than --val-crop %u", resize, crop);
    if (options->synthetic && (options->data || options->train || options->val))
        FAIL(STATUS_USAGE, "--synthetic takes no data: leave out either of them");
    if (!options->plan && (options->plan_device || options->json))
        FAIL(STATUS_USAGE, "%s belongs to --plan: add it, or leave this out",
             options->json ? "--json" : "--plan-device");
    if (options->plan && options->evaluate)
        FAIL(STATUS_USAGE, "--plan prints what training takes: leave out --evaluate");
    if (options->plan_device && options->device != DEVICE_AUTO && options->device != DEVICE_CUDA)
        FAIL(STATUS_USAGE,
             "--plan-device names a GPU, which --device %s does not use: leave out "
             "either of them",
             device_names[options->device]);
    if (options->resume && (options->weights || options->start_epoch))
        FAIL(STATUS_USAGE, "--resume takes weights and epoch from the checkpoint: leave out "
                           "--weights and --start-epoch");
    if (options->image_size_start > options->image_size)
        FAIL(STATUS_USAGE, "--image-size-start %lld is larger than --image-size %lld",
             (long long)options->image_size_start, (long long)options->image_size);
    if (options->image_size_start && options->ramp_start >= options->ramp_end)
        FAIL(STATUS_USAGE,
             "--image-size-start needs --ramp-start and a later --ramp-end: between epochs %lld "
             "and %lld nothing can grow",
             (long long)options->ramp_start, (long long)options->ramp_end);
    if (options->warmup_epochs > (double)options->epochs && options->epochs > 0)
        FAIL(STATUS_USAGE, "--warmup-epochs %g is longer than the %lld epochs of the run",
             options->warmup_epochs, (long long)options->epochs);
    return OK;
}

/* A URL as it may be stored, on the heap; paths, which may look like one, stay. */
static struct status set_shown(const char *set, char **ret_shown)
{
    if (!set)
        return OK;
    return url_is(set) ? url_shown(set, ret_shown) : string_copy(set, ret_shown);
}

struct status train_options_store(const struct train_options *options, struct json *object)
{
    CLEANUP(memory_free) char *data = NULL, *train = NULL, *val = NULL;
    struct train_options shown = *options;
    TRY(set_shown(options->data, &data));
    TRY(set_shown(options->train, &train));
    TRY(set_shown(options->val, &val));
    shown.data = data;
    shown.train = train;
    shown.val = val;
    return option_store(train_option_table, &shown, object);
}

const char *train_options_arch(const struct train_options *options)
{
    return network_names[options->arch];
}

void train_options_geometry(const struct train_options *options, uint32_t *ret_resize,
                            uint32_t *ret_crop)
{
    int64_t crop = options->val_crop ? options->val_crop : options->image_size;
    int64_t resize = options->val_resize ? options->val_resize : llround((double)crop * 8 / 7);
    *ret_crop = (uint32_t)crop;
    *ret_resize = (uint32_t)resize;
}

struct status train_options_loss_scale(const struct train_options *options, enum train_dtype dtype,
                                       struct loss_scale *ret_scale)
{
    const char *text = options->loss_scale;
    /* PyTorch's GradScaler starts and grows so. */
    *ret_scale = (struct loss_scale){.value = 65536, .dynamic = true, .grow_after = 2000};
    if (text ? strcmp(text, "dynamic") == 0 : dtype == DTYPE_FP16)
        return OK;
    *ret_scale = (struct loss_scale){.value = 1};
    if (text && (!number_parse_real(text, &ret_scale->value) || ret_scale->value < FLT_MIN ||
                 ret_scale->value > (double)FLT_MAX))
        FAIL(STATUS_USAGE,
             "--loss-scale %s: \"dynamic\" or a number that f32 holds, such as 128, was expected",
             text);
    return OK;
}

struct backend_config train_options_backend(const struct train_options *options, struct comm *comm)
{
    return (struct backend_config){
        .dtype = (enum train_dtype)options->dtype,
        .threads = (unsigned)options->threads,
        .comm = comm,
        .sync_bn = options->sync_bn,
        .devices = (unsigned)options->gpus,
        .deterministic = options->deterministic,
    };
}

struct update_rule train_options_rule(const struct train_options *options)
{
    return (struct update_rule){
        .kind = (enum optimizer)options->optimizer,
        .lars_eta = options->lars_eta,
        .lars_epsilon = options->lars_epsilon,
        .momentum = options->momentum,
        .weight_decay = options->weight_decay,
        .decay_norm_and_bias = options->decay_norm,
        .nesterov = options->nesterov,
    };
}

struct schedule train_options_schedule(const struct train_options *options,
                                       uint64_t steps_per_epoch)
{
    return (struct schedule){
        .shape = (enum schedule_shape)options->schedule,
        .unit = (enum schedule_unit)options->schedule_unit,
        .base_lr = options->lr,
        .end_lr = options->lr_end,
        .warmup_epochs = options->warmup_epochs,
        .step_epochs = options->lr_step_epochs,
        .step_factor = options->lr_factor,
        .epochs = (uint64_t)options->epochs,
        .steps_per_epoch = steps_per_epoch,
    };
}

struct ramp train_options_ramp(const struct train_options *options)
{
    int64_t first = options->image_size_start ? options->image_size_start : options->image_size;
    return (struct ramp){
        .first_size = (uint32_t)first,
        .last_size = (uint32_t)options->image_size,
        .first_epoch = (uint64_t)options->ramp_start,
        .last_epoch = (uint64_t)options->ramp_end,
    };
}

struct ema train_options_ema(const struct train_options *options)
{
    return (struct ema){
        .decay = options->ema,
        .every = (uint64_t)options->ema_steps,
        .batch = (uint64_t)options->batch_size,
        .epochs = (uint64_t)options->epochs,
        .warmup_epochs = options->warmup_epochs,
    };
}
