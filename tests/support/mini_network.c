#include "tests/support/mini_network.h"

#include "base/memory.h"
#include "tests/test.h"

static int node_put(struct network *network, enum node_kind kind, int input, int other, uint32_t in,
                    uint32_t out)
{
    assert_ok(memory_grow(network->node_count + 1, sizeof *network->nodes, &network->nodes,
                          &network->node_capacity));
    network->nodes[network->node_count] = (struct node){
        .kind = kind,
        .inputs = {input, other},
        .first_param = -1,
        .channels_in = in,
        .channels_out = out,
    };
    return (int)network->node_count++;
}

static void param_put(struct network *network, enum param_kind kind, unsigned rank, uint64_t a,
                      uint64_t b, uint64_t c)
{
    assert_ok(memory_grow(network->param_count + 1, sizeof *network->params, &network->params,
                          &network->param_capacity));
    struct param *param = &network->params[network->param_count];
    *param = (struct param){.kind = kind, .rank = rank, .shape = {a, b, c, c}};
    param->count = a * (rank > 1 ? b : 1) * (rank > 2 ? c * c : 1);
    snprintf(param->name, sizeof param->name, "param %zu", network->param_count++);
}

static int conv_bn_put(struct network *network, int input, uint32_t in, uint32_t out,
                       uint32_t kernel, uint32_t stride)
{
    int conv = node_put(network, NODE_CONV, input, -1, in, out);
    network->nodes[conv].kernel = kernel;
    network->nodes[conv].stride = stride;
    network->nodes[conv].padding = kernel / 2;
    network->nodes[conv].first_param = (int)network->param_count;
    param_put(network, PARAM_CONV_WEIGHT, 4, out, in, kernel);
    int bn = node_put(network, NODE_BN, conv, -1, out, out);
    network->nodes[bn].first_param = (int)network->param_count;
    for (int kind = PARAM_BN_WEIGHT; kind <= PARAM_COUNTER; kind++)
        if (kind != PARAM_FC_WEIGHT && kind != PARAM_FC_BIAS)
            param_put(network, (enum param_kind)kind, kind != PARAM_COUNTER, out, 0, 0);
    return bn;
}

static int relu_put(struct network *network, int input, uint32_t channels)
{
    return node_put(network, NODE_RELU, input, -1, channels, channels);
}

static int block_put(struct network *network, const struct mini *mini, int input, uint32_t in,
                     uint32_t out)
{
    int at = input;
    if (mini->bottleneck) {
        at = relu_put(network, conv_bn_put(network, at, in, 16, 1, 1), 16);
        at = relu_put(network, conv_bn_put(network, at, 16, 16, 3, mini->stride), 16);
        at = conv_bn_put(network, at, 16, out, 1, 1);
    } else {
        at = relu_put(network, conv_bn_put(network, at, in, 48, 3, mini->stride), 48);
        at = conv_bn_put(network, at, 48, out, 3, 1);
    }
    int other = mini->shortcut ? conv_bn_put(network, input, in, out, 1, mini->stride) : input;
    return relu_put(network, node_put(network, NODE_ADD, at, other, out, out), out);
}

struct network *mini_open(const struct mini *mini)
{
    struct network *network;
    assert_ok(memory_alloc(1, sizeof *network, &network));
    snprintf(network->arch, sizeof network->arch, "mini");
    network->classes = mini->classes;
    uint32_t out = mini->shortcut ? 64 : 32;
    int at = node_put(network, NODE_INPUT, -1, -1, 3, 3);
    at = relu_put(network, conv_bn_put(network, at, 3, 32, 7, 2), 32);
    at = node_put(network, NODE_MAX_POOL, at, -1, 32, 32);
    network->nodes[at].kernel = 3;
    network->nodes[at].stride = 2;
    network->nodes[at].padding = 1;
    at = block_put(network, mini, at, 32, out);
    at = node_put(network, NODE_GLOBAL_AVG_POOL, at, -1, out, out);
    at = node_put(network, NODE_FC, at, -1, out, mini->classes);
    network->nodes[at].first_param = (int)network->param_count;
    param_put(network, PARAM_FC_WEIGHT, 2, mini->classes, out, 0);
    param_put(network, PARAM_FC_BIAS, 1, mini->classes, 0, 0);
    node_put(network, NODE_LOSS, at, -1, mini->classes, mini->classes);
    return network;
}
