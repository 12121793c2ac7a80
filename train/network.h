#ifndef HEADRACE_TRAIN_NETWORK_H
#define HEADRACE_TRAIN_NETWORK_H

/* A network as data: a list of nodes in the order of evaluation and a table of parameters. Nothing
 * here computes; backends plan it (backend.h). Activations are (N, H, W, C). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

enum node_kind {
    NODE_INPUT = 0,       /* (N, H, W, 3) */
    NODE_CONV,            /* (N, H, W, in) -> (N, H', W', out), no bias, zero padding */
    NODE_BN,              /* over N, H, W for each channel; eps 1e-5, momentum .1 (PyTorch's) */
    NODE_RELU,            /* inputs[0] */
    NODE_ADD,             /* inputs[0] + inputs[1] */
    NODE_MAX_POOL,        /* kernel, stride, padding; padding never wins */
    NODE_GLOBAL_AVG_POOL, /* (N, H, W, C) -> (N, 1, 1, C) */
    NODE_BLUR, /* each channel with the binomial filter (1 2 1)ᵀ(1 2 1)/16, zero padding */
    NODE_FC,   /* (N, 1, 1, in) -> (N, 1, 1, out), with bias */
    NODE_LOSS, /* softmax cross-entropy over (N, 1, 1, classes); always last */
};

#define BN_EPSILON 1e-5
#define BN_MOMENTUM .1 /* running = .9 running + .1 batch; variance unbiased in the running one */

struct node {
    enum node_kind kind;
    int inputs[2];   /* earlier nodes; -1: none */
    int first_param; /* into the parameters; -1: none. CONV: weight. BN: weight, bias, running_mean,
                      * running_var, num_batches_tracked. FC: weight, bias. */
    uint32_t channels_in, channels_out;
    uint32_t kernel, stride, padding;
};

enum param_kind {
    PARAM_CONV_WEIGHT = 0, /* (out, in, kernel, kernel) */
    PARAM_BN_WEIGHT,       /* (channels): γ */
    PARAM_BN_BIAS,         /* (channels): β */
    PARAM_FC_WEIGHT,       /* (out, in) */
    PARAM_FC_BIAS,         /* (out) */
    PARAM_RUNNING_MEAN,    /* (channels), a buffer: not trained */
    PARAM_RUNNING_VAR,     /* (channels), a buffer */
    PARAM_COUNTER, /* (), int64: num_batches_tracked; kept by the trainer, never by a backend */
};

struct param {
    char name[64]; /* torchvision's: "layer1.0.conv1.weight" */
    enum param_kind kind;
    unsigned rank;
    uint64_t shape[4];
    uint64_t count; /* product of the shape */
    bool zero_init; /* the last BN of a residual branch: γ starts at 0 when that is asked for */
};

struct network {
    char arch[16]; /* "resnet50" */
    uint32_t classes;
    bool blurs; /* before convolutions with a stride */
    struct node *nodes;
    size_t node_count, node_capacity;
    struct param *params; /* in the order of torchvision's state_dict */
    size_t param_count, param_capacity;
};

/* ResNet-18, 34, 50, 101, 152 v1.5 (stride in the 3x3 convolution of a bottleneck), as torchvision
 * builds them: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016.
 * With "-blur" behind the name, a blur stands before each convolution with a stride and 16
 * input channels or more, as FFCV's ImageNet recipes have it; the parameters are the same. After
 * Zhang, "Making convolutional networks shift-invariant again", ICML 2019. Fails with STATUS_USAGE,
 * listing the names. */
struct status network_open(const char *arch, uint32_t classes, struct network **ret_network);
void network_close(struct network *network);
CLEANUP_POINTER(network_close, struct network)

/* The names network_open takes; ends in NULL. */
extern const char *const network_names[];

/* "a convolution": for messages. */
const char *node_kind_name(enum node_kind kind);
/* Whether a parameter is trained (has a gradient). */
bool param_is_trained(const struct param *param);
/* Whether it is the weight of a convolution or of a fully connected layer. */
bool param_is_weight(enum param_kind kind);
/* The parameter of a name, or -1. */
int network_find_param(const struct network *network, const char *name);

/* Output height and width of each node for an input of height x width; ret_sizes has node_count
 * entries of {height, width}. Fails with STATUS_USAGE when a size would reach 0. */
struct status network_sizes(const struct network *network, uint32_t height, uint32_t width,
                            uint32_t (*ret_sizes)[2]);

#endif
