#ifndef HEADRACE_TRAIN_BACKEND_H
#define HEADRACE_TRAIN_BACKEND_H

/* What a device must do for the trainer. Coarse on purpose: a backend gets the whole node list and
 * plans it with fusions of its own; no call here is about one operation.
 *
 *     backend ── store (parameters, gradients, momentum: one layout, the backend's own)
 *                  ├── plan (TRAIN, batch, height, width)
 *                  └── plan (EVAL, …)      plans share the store
 *
 * A training step is plan_forward_backward (gradients of the mean loss replace the old ones;
 * running statistics move), then store_update. Calls may return before the work is done; the
 * reading ones (store_read, plan_metrics, plan_logits) wait. All calls on one backend come from one
 * thread.
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

struct backend_config {
    enum train_dtype dtype;
    unsigned threads; /* CPU threads; 0: cores_available() */
    int device;       /* ordinal, for devices that come in numbers */
};

/* One parameter has up to three tensors of its shape. */
enum param_role {
    ROLE_VALUE = 0, /* the f32 (or wider) master copy; buffers too */
    ROLE_GRADIENT,
    ROLE_MOMENTUM, /* PyTorch's form: v = momentum·v + g + wd·w; w -= lr·v */
};

enum plan_mode { PLAN_TRAIN = 0, PLAN_EVAL };

struct plan_config {
    enum plan_mode mode;
    uint32_t batch, height, width;
    float label_smoothing; /* training loss only */
};

struct step_input {
    const void *images;    /* (batch, H, W, 3), or as input_format says; borrowed for the call */
    const int32_t *labels; /* (batch); -1: this slot counts for nothing */
    uint32_t valid;        /* labels >= 0 */
};

/* Sums over the valid images of one step. Loss without label smoothing in PLAN_EVAL, with it in
 * PLAN_TRAIN (as printed by the usual trainers). */
struct step_metrics {
    double loss_sum;
    uint32_t top1,
        top5; /* a label's logit among the 1 or 5 largest; of equal ones the lower class wins */
    uint32_t count;
};

struct sgd_update {
    double learning_rate;
    double momentum;
    double weight_decay;
    bool decay_norm_and_bias; /* PyTorch's default is to decay every parameter */
    bool nesterov;
    bool first_step; /* the momentum buffer starts as the gradient itself: with a zeroed buffer that
                        is the same */
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
    /* One line for people: "cpu: 2 threads, bf16 (AMX), oneDNN 3.2". */
    struct status (*describe)(const struct backend *backend, struct buffer *text);
    /* Type and layout in which plans take images; mean and std are left alone. */
    void (*input_format)(const struct backend *backend, struct tensor_format *format);

    /* `network` is borrowed and must outlive the store. Values, gradients and momentum start at 0.
     */
    struct status (*store_open)(struct backend *backend, const struct network *network,
                                struct store **ret_store);
    void (*store_close)(struct store *store);
    /* One tensor, whole, in torchvision's layout as doubles, which hold every f32 exactly: a read
     * after a write gives the same values. GRADIENT and MOMENTUM exist for trained parameters only;
     * PARAM_COUNTER is never asked for. */
    struct status (*store_write)(struct store *store, enum param_role role, size_t param,
                                 const double *values);
    struct status (*store_read)(struct store *store, enum param_role role, size_t param,
                                double *ret_values);
    /* w and v of every trained parameter from its gradient. */
    struct status (*store_update)(struct store *store, const struct sgd_update *update);

    /* Plans the network for one batch shape; all memory is allocated and touched here. EVAL plans
     * fold BN into convolutions, anew whenever the store's values changed. */
    struct status (*plan_open)(struct store *store, const struct plan_config *config,
                               struct plan **ret_plan);
    void (*plan_close)(struct plan *plan);
    /* TRAIN plans only. */
    struct status (*plan_forward_backward)(struct plan *plan, const struct step_input *input);
    /* EVAL plans only. */
    struct status (*plan_forward)(struct plan *plan, const struct step_input *input);
    /* Metrics of the steps since the last call, oldest first, at most `capacity` (>= 1; at least
     * 1024 steps are kept). */
    struct status (*plan_metrics)(struct plan *plan, struct step_metrics *ret_metrics,
                                  size_t capacity, size_t *ret_count);
    /* (batch, classes) logits of the last step. */
    struct status (*plan_logits)(struct plan *plan, float *ret_logits);
    /* Bytes held by the plan and store, for the log. */
    uint64_t (*plan_bytes)(const struct plan *plan);
};

/* What a module's one entry symbol returns. */
struct backend_module {
    const char *build_id; /* HEADRACE_BUILD_ID of the module's build; must equal the program's */
    const char *name;     /* "cpu" */
    const struct backend_ops *ops;
};
typedef const struct backend_module *backend_entry_fn(void);
#define BACKEND_ENTRY_SYMBOL "headrace_backend_module"

#endif
