#include "train/network.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

struct resnet_shape {
    const char *arch;
    bool bottleneck;
    unsigned blocks[4];
};

static const struct resnet_shape resnet_shapes[] = {
    {"resnet18", false, {2, 2, 2, 2}},  {"resnet34", false, {3, 4, 6, 3}},
    {"resnet50", true, {3, 4, 6, 3}},   {"resnet101", true, {3, 4, 23, 3}},
    {"resnet152", true, {3, 8, 36, 3}},
};

static const char blur_suffix[] = "-blur";
enum { BLUR_MIN_CHANNELS = 16 };

const char *const network_names[] = {
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnet18-blur",
    "resnet34-blur",
    "resnet50-blur",
    "resnet101-blur",
    "resnet152-blur",
    NULL,
};

static struct status param_add(struct network *network, const char *prefix, const char *suffix,
                               enum param_kind kind, unsigned rank, const uint64_t shape[4])
{
    TRY(memory_grow(network->param_count + 1, sizeof *network->params, &network->params,
                    &network->param_capacity));
    struct param *param = &network->params[network->param_count++];
    *param = (struct param){.kind = kind, .rank = rank, .count = 1};
    snprintf(param->name, sizeof param->name, "%s.%s", prefix, suffix);
    for (unsigned i = 0; i < rank; i++) {
        param->shape[i] = shape[i];
        param->count *= shape[i];
    }
    return OK;
}

static struct status node_add(struct network *network, struct node node, int *ret_node)
{
    TRY(memory_grow(network->node_count + 1, sizeof *network->nodes, &network->nodes,
                    &network->node_capacity));
    network->nodes[network->node_count] = node;
    *ret_node = (int)network->node_count++;
    return OK;
}

static struct status plain_add(struct network *network, enum node_kind kind, uint32_t channels,
                               int other, int *at)
{
    struct node node = {
        .kind = kind,
        .inputs = {*at, other},
        .first_param = -1,
        .channels_in = channels,
        .channels_out = channels,
    };
    return node_add(network, node, at);
}

/* Adds a convolution that takes the output of node `*at`, which becomes the new node. */
static struct status conv_add(struct network *network, const char *name, uint32_t in, uint32_t out,
                              uint32_t kernel, uint32_t stride, int *at)
{
    if (network->blurs && stride > 1 && in >= BLUR_MIN_CHANNELS)
        TRY(plain_add(network, NODE_BLUR, in, -1, at));
    struct node conv = {
        .kind = NODE_CONV,
        .inputs = {*at, -1},
        .first_param = (int)network->param_count,
        .channels_in = in,
        .channels_out = out,
        .kernel = kernel,
        .stride = stride,
        .padding = kernel / 2,
    };
    TRY(param_add(network, name, "weight", PARAM_CONV_WEIGHT, 4,
                  (const uint64_t[4]){out, in, kernel, kernel}));
    return node_add(network, conv, at);
}

static struct status bn_add(struct network *network, const char *name, uint32_t channels, int *at)
{
    struct node bn = {
        .kind = NODE_BN,
        .inputs = {*at, -1},
        .first_param = (int)network->param_count,
        .channels_in = channels,
        .channels_out = channels,
    };
    const uint64_t shape[4] = {channels};
    TRY(param_add(network, name, "weight", PARAM_BN_WEIGHT, 1, shape));
    TRY(param_add(network, name, "bias", PARAM_BN_BIAS, 1, shape));
    TRY(param_add(network, name, "running_mean", PARAM_RUNNING_MEAN, 1, shape));
    TRY(param_add(network, name, "running_var", PARAM_RUNNING_VAR, 1, shape));
    TRY(param_add(network, name, "num_batches_tracked", PARAM_COUNTER, 0, shape));
    return node_add(network, bn, at);
}

/* One step of a block's main branch: convolution `prefix`.conv`i` and its BN, with ReLU unless it
 * is the last. */
static struct status branch_add(struct network *network, const char *prefix, unsigned i,
                                uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride,
                                bool last, int *at)
{
    char name[48];
    snprintf(name, sizeof name, "%s.conv%u", prefix, i);
    TRY(conv_add(network, name, in, out, kernel, stride, at));
    snprintf(name, sizeof name, "%s.bn%u", prefix, i);
    TRY(bn_add(network, name, out, at));
    if (last)
        network->params[network->nodes[*at].first_param].zero_init = true;
    else
        TRY(plain_add(network, NODE_RELU, out, -1, at));
    return OK;
}

/* A residual block from node `*at`: width `width`, output 4·width for a bottleneck. */
static struct status block_add(struct network *network, const char *prefix, bool bottleneck,
                               uint32_t in, uint32_t width, uint32_t stride, int *at)
{
    int shortcut = *at;
    uint32_t out = bottleneck ? 4 * width : width;
    if (bottleneck) {
        TRY(branch_add(network, prefix, 1, in, width, 1, 1, false, at));
        TRY(branch_add(network, prefix, 2, width, width, 3, stride, false, at));
        TRY(branch_add(network, prefix, 3, width, out, 1, 1, true, at));
    } else {
        TRY(branch_add(network, prefix, 1, in, width, 3, stride, false, at));
        TRY(branch_add(network, prefix, 2, width, out, 3, 1, true, at));
    }
    if (stride != 1 || in != out) {
        char name[48];
        snprintf(name, sizeof name, "%s.downsample.0", prefix);
        TRY(conv_add(network, name, in, out, 1, stride, &shortcut));
        snprintf(name, sizeof name, "%s.downsample.1", prefix);
        TRY(bn_add(network, name, out, &shortcut));
    }
    TRY(plain_add(network, NODE_ADD, out, shortcut, at));
    return plain_add(network, NODE_RELU, out, -1, at);
}

static struct status stages_add(struct network *network, const struct resnet_shape *shape, int *at,
                                uint32_t *ret_channels)
{
    uint32_t channels = 64;
    for (unsigned stage = 0; stage < 4; stage++) {
        uint32_t width = 64u << stage;
        for (unsigned i = 0; i < shape->blocks[stage]; i++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "layer%u.%u", stage + 1, i);
            uint32_t stride = stage > 0 && i == 0 ? 2 : 1;
            TRY(block_add(network, prefix, shape->bottleneck, channels, width, stride, at));
            channels = shape->bottleneck ? 4 * width : width;
        }
    }
    *ret_channels = channels;
    return OK;
}

static struct status resnet_build(struct network *network, const struct resnet_shape *shape)
{
    int at = -1;
    TRY(plain_add(network, NODE_INPUT, 3, -1, &at));
    TRY(conv_add(network, "conv1", 3, 64, 7, 2, &at));
    TRY(bn_add(network, "bn1", 64, &at));
    TRY(plain_add(network, NODE_RELU, 64, -1, &at));
    TRY(plain_add(network, NODE_MAX_POOL, 64, -1, &at));
    network->nodes[at].kernel = 3;
    network->nodes[at].stride = 2;
    network->nodes[at].padding = 1;
    uint32_t channels;
    TRY(stages_add(network, shape, &at, &channels));
    TRY(plain_add(network, NODE_GLOBAL_AVG_POOL, channels, -1, &at));
    struct node fc = {
        .kind = NODE_FC,
        .inputs = {at, -1},
        .first_param = (int)network->param_count,
        .channels_in = channels,
        .channels_out = network->classes,
    };
    TRY(param_add(network, "fc", "weight", PARAM_FC_WEIGHT, 2,
                  (const uint64_t[4]){network->classes, channels}));
    TRY(param_add(network, "fc", "bias", PARAM_FC_BIAS, 1, (const uint64_t[4]){network->classes}));
    TRY(node_add(network, fc, &at));
    return plain_add(network, NODE_LOSS, network->classes, -1, &at);
}

/* NULL: no such name. */
static const struct resnet_shape *shape_find(const char *arch, bool *ret_blurs)
{
    for (size_t i = 0; i < ARRAY_LENGTH(resnet_shapes); i++) {
        size_t length = strlen(resnet_shapes[i].arch);
        if (strncmp(resnet_shapes[i].arch, arch, length) != 0)
            continue;
        *ret_blurs = strcmp(arch + length, blur_suffix) == 0;
        if (*ret_blurs || arch[length] == '\0')
            return &resnet_shapes[i];
    }
    return NULL;
}

struct status network_open(const char *arch, uint32_t classes, struct network **ret_network)
{
    bool blurs;
    const struct resnet_shape *shape = shape_find(arch, &blurs);
    if (!shape)
        FAIL(STATUS_USAGE,
             "unknown architecture '%s': one of resnet18, resnet34, resnet50, resnet101, "
             "resnet152, each with or without \"%s\" behind it, was expected",
             arch, blur_suffix);
    if (classes == 0)
        FAIL(STATUS_USAGE, "a network needs at least one class");
    CLEANUP(network_close) struct network *network = NULL;
    TRY(memory_alloc(1, sizeof *network, &network));
    snprintf(network->arch, sizeof network->arch, "%s", arch);
    network->classes = classes;
    network->blurs = blurs;
    TRY(resnet_build(network, shape));
    *ret_network = MOVE(network);
    return OK;
}

void network_close(struct network *network)
{
    if (!network)
        return;
    memory_free(network->nodes);
    memory_free(network->params);
    memory_free(network);
}

const char *node_kind_name(enum node_kind kind)
{
    static const char *const names[] = {
        [NODE_INPUT] = "an input",
        [NODE_CONV] = "a convolution",
        [NODE_BN] = "a normalisation",
        [NODE_RELU] = "a ReLU",
        [NODE_ADD] = "an addition",
        [NODE_MAX_POOL] = "a max pool",
        [NODE_GLOBAL_AVG_POOL] = "a global average pool",
        [NODE_BLUR] = "a blur",
        [NODE_FC] = "a fully connected layer",
        [NODE_LOSS] = "a loss",
    };
    return (size_t)kind < ARRAY_LENGTH(names) ? names[kind] : "something";
}

bool param_is_trained(const struct param *param)
{
    return param->kind <= PARAM_FC_BIAS;
}

bool param_is_weight(enum param_kind kind)
{
    return kind == PARAM_CONV_WEIGHT || kind == PARAM_FC_WEIGHT;
}

int network_find_param(const struct network *network, const char *name)
{
    for (size_t i = 0; i < network->param_count; i++)
        if (strcmp(network->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

static uint32_t windows_count(uint32_t size, const struct node *node)
{
    uint32_t padded = size + 2 * node->padding;
    return padded < node->kernel ? 0 : (padded - node->kernel) / node->stride + 1;
}

struct status network_sizes(const struct network *network, uint32_t height, uint32_t width,
                            uint32_t (*ret_sizes)[2])
{
    for (size_t i = 0; i < network->node_count; i++) {
        const struct node *node = &network->nodes[i];
        const uint32_t input[2] = {
            node->inputs[0] < 0 ? height : ret_sizes[node->inputs[0]][0],
            node->inputs[0] < 0 ? width : ret_sizes[node->inputs[0]][1],
        };
        for (int axis = 0; axis < 2; axis++) {
            if (node->kind == NODE_CONV || node->kind == NODE_MAX_POOL)
                ret_sizes[i][axis] = windows_count(input[axis], node);
            else if (node->kind == NODE_GLOBAL_AVG_POOL)
                ret_sizes[i][axis] = 1;
            else
                ret_sizes[i][axis] = input[axis];
            if (ret_sizes[i][axis] == 0)
                FAIL(STATUS_USAGE, "an input of %u x %u pixels is too small for %s", height, width,
                     network->arch);
        }
    }
    return OK;
}
