#ifndef HEADRACE_TRAIN_BACKEND_H
#define HEADRACE_TRAIN_BACKEND_H

/* What a device must do for the trainer. Coarse on purpose: a backend gets the whole node list and
 * plans it with fusions of its own; no call here is about one operation.
 *
 *     backend ── store (parameters, gradients, momentum: one layout, the backend's own)
 *                  ├── plan (TRAIN, batch, height, width)
 *                  └── plan (EVAL, …)      plans share the store
 *
 * A training step is plan_forward_backward for each of its micro-batches (gradients replace the
 * old ones or add to them; running statistics move), then store_update. Calls may return before the
 * work is done; the reading ones (store_read, store_progress, plan_metrics, plan_logits) wait. All
 * calls on one backend come from one thread.
 *
 * Of several processes each has its backend and its part of the global batch; the backends exchange
 * gradients among themselves over `comm`, so that every process ends a step with the same weights.
 *
 * A backend is reached through its module: a table of functions, found by train/module.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "image/tensor.h"
#include "train/network.h"

enum train_dtype {
    DTYPE_AUTO = 0, /* what is fastest without loss of accuracy on this device */
    DTYPE_F32,
    DTYPE_TF32,
    DTYPE_BF16, /* activations and their gradients; weights, statistics and sums stay f32 */
    DTYPE_FP16,
};
extern const char *const train_dtype_names[]; /* by value; ends in NULL */

struct comm; /* train/comm.h */

/* What memory is for. */
enum memory_kind {
    MEMORY_PARAMETERS = 0, /* and copies of them as plans want them */
    MEMORY_GRADIENTS,      /* of parameters */
    MEMORY_OPTIMIZER,
    MEMORY_AVERAGE,     /* of parameters over steps */
    MEMORY_ACTIVATIONS, /* and the gradients at them */
    MEMORY_WORKSPACE,   /* of the libraries' operations */
    MEMORY_BATCHES,     /* on their way to the device */
    MEMORY_OTHER,
    MEMORY_KIND_COUNT,
};
extern const char *const memory_kind_names[]; /* by value: "parameters"; ends in NULL */

struct memory_use {
    uint64_t bytes[MEMORY_KIND_COUNT]; /* of the first device; all take as much */
    uint64_t pinned_bytes;             /* of the host, for each device */
    uint64_t capacity_bytes;           /* of a device; 0: not known */
    uint64_t reserved_bytes;           /* of that, for what nobody here allocates */
    bool on_host;                      /* the device's memory is the machine's */
};

/* What computes a part of a plan. */
struct plan_choice {
    const char *text; /* operation, shape, implementation; borrowed for the call */
    unsigned uses;    /* in the plan */
    uint64_t workspace_bytes;
};
typedef struct status plan_choice_fn(const struct plan_choice *choice, void *context);

struct backend_config {
    enum train_dtype dtype;
    unsigned threads;  /* CPU threads; 0: cores_available() */
    unsigned devices;  /* that this process drives; 0: the backend's choice */
    int first_device;  /* ordinal of the first, for devices that come in numbers */
    struct comm *comm; /* borrowed; NULL: this process is alone */
    bool sync_bn;      /* training statistics over all replicas of all processes */
    bool deterministic;
    bool tune;              /* time the plans that are to choose from */
    const char *plan_cache; /* folder of plans made before, borrowed for the call; NULL: none */
    bool in_turn; /* of several processes, which all open the same plans, rank 0 makes them first,
                   * and the others find in plan_cache what it chose */
    /* The backend is only asked what training would take: nothing is allocated on the device,
     * computed or compiled there, so that none needs to be. Only those functions may be called that
     * open and close, store_begin, store_average, memory, plan_slow_reason and plan_choices. */
    bool forecast;
    const char *forecast_device; /* a device by name, borrowed for the call; NULL: the first one
                                    that is there */
};

/* One parameter has up to four tensors of its shape. */
enum param_role {
    ROLE_VALUE = 0, /* the f32 (or wider) master copy; buffers too */
    ROLE_GRADIENT,  /* times the loss scale */
    ROLE_MOMENTUM,  /* struct update_rule's v */
    ROLE_AVERAGE,   /* store_average's; buffers too */
};

enum plan_mode { PLAN_TRAIN = 0, PLAN_EVAL };

struct plan_config {
    enum plan_mode mode;
    uint32_t batch, height, width;
    float label_smoothing; /* training loss only */
    bool adds, mixes;      /* some micro-batches' gradients will be added to others'; images will be
                              mixed: memory for that is provided as the plan is opened */
};

struct step_input {
    const void *images;    /* (batch, H, W, 3), or as input_format says; borrowed for the call */
    const int32_t *labels; /* (batch); -1: this slot counts for nothing */
    uint32_t valid;        /* labels >= 0 */

    /* TRAIN plans only */
    uint64_t divisor; /* valid images of the whole global batch: over its micro-batches and all
                         processes; the loss gradient is divided by it */
    bool adds;        /* gradients add to those that are there: not the first micro-batch */
    bool completes;   /* the last micro-batch: gradients are summed over all processes */

    /* Mixup: the share, up to a half, of its partner in each image, as the network takes it, and in
     * its target; 0: none. Each replica's part of the batch is even then. Top-k counts by an
     * image's own label. */
    float mixed_in;
};

/* What image i of such a batch is mixed with: its neighbour, or itself where one of the two has no
 * label: it stays as it is then. */
static inline uint32_t step_partner(const int32_t *labels, float mixed_in, uint32_t i)
{
    return mixed_in > 0 && labels[i] >= 0 && labels[i ^ 1] >= 0 ? i ^ 1 : i;
}

/* Fails with STATUS_USAGE for a label of a batch that is neither −1 nor a class. */
struct status step_check_labels(const int32_t *labels, uint32_t batch, uint32_t classes);

/* Sums over the valid images of one micro-batch of this process. Loss without label smoothing in
 * PLAN_EVAL, with it in PLAN_TRAIN (as printed by the usual trainers). */
struct step_metrics {
    double loss_sum;
    uint32_t top1,
        top5; /* a label's logit among the 1 or 5 largest; of equal ones the lower class wins */
    uint32_t count;

    /* TRAIN plans only */
    bool completes;       /* the last micro-batch of its step */
    bool applied;         /* with completes: the step's update was made; false where there was none
                             yet, or it was skipped for gradients that are not finite */
    double learning_rate; /* of the step, whether applied or not */
    double loss_scale;    /* that its gradients were made with */
};

/* What gradients are multiplied with while they are made, so that small ones do not vanish in 16
 * bits. A dynamic one doubles after `grow_after` applied steps in a row and halves with each
 * skipped step. */
struct loss_scale {
    double value; /* 1: none */
    bool dynamic;
    uint32_t grow_after;
    uint32_t clean_steps; /* applied since the last change */
};

enum optimizer { OPTIMIZER_SGD = 0, OPTIMIZER_LARS };
extern const char *const optimizer_names[]; /* by value; ends in NULL */

/* How store_update moves weights. SGD in PyTorch's form: g += decay·w; v = momentum·v + g;
 * w -= rate·(nesterov ? g + momentum·v : v), where v starts at 0.
 *
 * LARS (You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017) in the form
 * of MLPerf's reference, with the rate inside v: s = rate·eta·|w| / (|g| + decay·|w| + epsilon) for
 * each tensor, with g as it came; or s = rate where a norm is 0, and for norms and biases.
 * v = momentum·v + s·(g + decay·w); w -= nesterov ? s·(g + decay·w) + momentum·v : v. */
struct update_rule {
    enum optimizer kind;
    double lars_eta, lars_epsilon;
    double momentum;
    double weight_decay;
    bool decay_norm_and_bias; /* PyTorch's default is to decay every parameter */
    bool nesterov;
    /* rates[i] is for the step that is applied after `applied + i` others; later ones take the
     * last. Skipped steps do not count: they hold the schedule back. */
    const double *rates;
    uint64_t rate_count; /* >= 1 */
    uint64_t applied;    /* steps applied so far */
    struct loss_scale scale;
};

struct backend; /* each module defines its own */
struct store;
struct plan;

struct backend_ops {
    /* Fails with STATUS_UNSUPPORTED for a dtype that this device does not have. */
    struct status (*open)(const struct backend_config *config, struct backend **ret_backend);
    void (*close)(struct backend *backend);
    /* The dtype in use (never DTYPE_AUTO). */
    enum train_dtype (*dtype)(const struct backend *backend);
    /* Copies of the network that this process trains, one a device; a training batch divides into
     * as many equal parts. */
    unsigned (*replicas)(const struct backend *backend);
    /* One line for people: "cpu: 2 threads, bf16 (AMX), oneDNN 3.2". */
    struct status (*describe)(const struct backend *backend, struct buffer *text);
    /* Type and layout in which plans take images; mean and std are left alone. */
    void (*input_format)(const struct backend *backend, struct tensor_format *format);

    /* `network` is borrowed and must outlive the store. Values, gradients and momentum start at 0.
     */
    struct status (*store_open)(struct backend *backend, const struct network *network,
                                struct store **ret_store);
    void (*store_close)(struct store *store);
    /* Running statistics are the same on all replicas of all processes whenever anyone asks for
     * them (store_read, EVAL plans): the means of what each has seen. With several processes all
     * make the same calls that read values or evaluate.
     *
     * One tensor, whole, in torchvision's layout as doubles, which hold every f32 exactly: a read
     * after a write gives the same values. GRADIENT and MOMENTUM exist for trained parameters only;
     * PARAM_COUNTER is never asked for. */
    struct status (*store_write)(struct store *store, enum param_role role, size_t param,
                                 const double *values);
    struct status (*store_read)(struct store *store, enum param_role role, size_t param,
                                double *ret_values);
    /* Says how updates are made from now on: before training and again for each epoch. The rule and
     * its rates are copied; rate_count is the same each time. Without it the loss scale is 1. */
    struct status (*store_begin)(struct store *store, const struct update_rule *rule);
    /* w and v of every trained parameter from its gradient, if all gradients are finite; else the
     * step is skipped: nothing changes but the loss scale. */
    struct status (*store_update)(struct store *store);
    /* average = decay·average + (1 − decay)·value, f32, of every parameter, running statistics too;
     * with decay 0 it becomes the values. NULL: this backend keeps no average, since the host can
     * as well (weights_average), and has no ROLE_AVERAGE. */
    struct status (*store_average)(struct store *store, double decay);
    /* Where the updates stand: for checkpoints and the next store_begin. */
    struct status (*store_progress)(struct store *store, uint64_t *ret_applied,
                                    struct loss_scale *ret_scale);

    /* Plans the network for one batch shape; all memory is allocated and touched here. EVAL plans
     * fold BN into convolutions, anew whenever the store's values changed. */
    struct status (*plan_open)(struct store *store, const struct plan_config *config,
                               struct plan **ret_plan);
    void (*plan_close)(struct plan *plan);
    /* TRAIN plans only. With several processes all make the same calls in the same order. */
    struct status (*plan_forward_backward)(struct plan *plan, const struct step_input *input);
    /* EVAL plans only. */
    struct status (*plan_forward)(struct plan *plan, const struct step_input *input);
    /* Metrics of the micro-batches since the last call, oldest first, at most `capacity` (>= 1; at
     * least 1024 are kept). */
    struct status (*plan_metrics)(struct plan *plan, struct step_metrics *ret_metrics,
                                  size_t capacity, size_t *ret_count);
    /* (batch, classes) logits of the last step. */
    struct status (*plan_logits)(struct plan *plan, float *ret_logits);
    /* Bytes held by the plan and store, for the log. */
    uint64_t (*plan_bytes)(const struct plan *plan);
    /* Why operations were planned that are slower than the usual ones, borrowed from the plan;
     * NULL: they were not. The function may be NULL, too: they never are. */
    const char *(*plan_slow_reason)(const struct plan *plan);

    /* For forecasts; NULL: this backend makes none. */
    /* What the stores and plans opened so far would hold. */
    void (*memory)(const struct backend *backend, struct memory_use *ret_use);
    /* Calls fn for each choice of the plan. */
    struct status (*plan_choices)(const struct plan *plan, plan_choice_fn *fn, void *context);
};

/* plan_slow_reason of any backend. */
static inline const char *backend_slow_reason(const struct backend_ops *ops,
                                              const struct plan *plan)
{
    return ops->plan_slow_reason ? ops->plan_slow_reason(plan) : NULL;
}

/* What a module's one entry symbol returns. */
struct backend_module {
    const char *build_id; /* HEADRACE_BUILD_ID of the module's build; must equal the program's */
    const char *name;     /* "cpu" */
    const struct backend_ops *ops;
};
typedef const struct backend_module *backend_entry_fn(void);
#define BACKEND_ENTRY_SYMBOL "headrace_backend_module"

#endif
