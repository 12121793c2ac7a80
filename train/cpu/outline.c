#include "train/cpu/outline.h"

#include "base/memory.h"

/* A walk over the node list. */
struct walk {
    const struct network *network;
    uint32_t (*sizes)[2];
    size_t at; /* the next node */
    struct outline *outline;
};

static const struct node *walk_node(const struct walk *walk)
{
    return &walk->network->nodes[walk->at];
}

static bool walk_sees(const struct walk *walk, enum node_kind kind)
{
    return walk->at < walk->network->node_count && walk_node(walk)->kind == kind;
}

/* Passes a node of `kind` whose first input is node `input`; *ret_node is its number. */
static struct status walk_pass(struct walk *walk, enum node_kind kind, int input, int *ret_node)
{
    const struct network *network = walk->network;
    if (walk->at >= network->node_count)
        FAIL(STATUS_UNSUPPORTED, "%s ends where the cpu backend expects %s", network->arch,
             node_kind_name(kind));
    const struct node *node = walk_node(walk);
    if (node->kind != kind || node->inputs[0] != input)
        FAIL(
            STATUS_UNSUPPORTED,
            "the cpu backend cannot plan node %zu of %s: it expects %s of node %d there, not %s of "
            "node %d",
            walk->at, network->arch, node_kind_name(kind), input, node_kind_name(node->kind),
            node->inputs[0]);
    *ret_node = (int)walk->at++;
    return OK;
}

/* Whether a convolution comes next, blurred or not. */
static bool walk_sees_conv(const struct walk *walk)
{
    return walk_sees(walk, NODE_CONV) || walk_sees(walk, NODE_BLUR);
}

/* Passes a convolution of node `*at` (a blur, if `blurs`) and its normalisation, which becomes *at.
 */
static struct status walk_conv_bn(struct walk *walk, bool blurs, int *at)
{
    const int input = *at;
    int conv_node = -1;
    TRY(walk_pass(walk, NODE_CONV, input, &conv_node));
    TRY(walk_pass(walk, NODE_BN, conv_node, at));
    const struct node *conv = &walk->network->nodes[conv_node];
    if (conv->channels_out % KERNEL_LANES != 0)
        FAIL(STATUS_UNSUPPORTED,
             "the cpu backend cannot plan node %d of %s: %u channels are not a multiple of %d",
             conv_node, walk->network->arch, conv->channels_out, KERNEL_LANES);
    walk->outline->convs[walk->outline->conv_count++] = (struct conv_bn){
        .shape =
            {
                .batch = walk->outline->batch,
                .height = walk->sizes[input][0],
                .width = walk->sizes[input][1],
                .channels_in = conv->channels_in,
                .out_height = walk->sizes[conv_node][0],
                .out_width = walk->sizes[conv_node][1],
                .channels_out = conv->channels_out,
                .kernel = conv->kernel,
                .stride = conv->stride,
                .padding = conv->padding,
            },
        .blurs = blurs,
        .weight_param = (size_t)conv->first_param,
        .bn_param = (size_t)walk->network->nodes[*at].first_param,
    };
    return OK;
}

/* The same inside a block, with the blur before it if there is one. */
static struct status walk_block_conv(struct walk *walk, int *at)
{
    const bool blurs = walk_sees(walk, NODE_BLUR);
    if (blurs)
        TRY(walk_pass(walk, NODE_BLUR, *at, at));
    return walk_conv_bn(walk, blurs, at);
}

static struct status walk_stem(struct walk *walk, int *at)
{
    TRY(walk_pass(walk, NODE_INPUT, -1, at));
    TRY(walk_conv_bn(walk, false, at));
    TRY(walk_pass(walk, NODE_RELU, *at, at));
    int pooled = *at;
    TRY(walk_pass(walk, NODE_MAX_POOL, pooled, at));
    const struct node *pool = &walk->network->nodes[*at];
    if (pool->kernel * pool->kernel > POOL_NONE || pool->padding >= pool->kernel)
        FAIL(STATUS_UNSUPPORTED, "the cpu backend cannot plan a max pool of kernel %u, padding %u",
             pool->kernel, pool->padding);
    walk->outline->pool = (struct pool_shape){
        .height = walk->sizes[pooled][0],
        .width = walk->sizes[pooled][1],
        .out_height = walk->sizes[*at][0],
        .out_width = walk->sizes[*at][1],
        .channels = pool->channels_out,
        .kernel = pool->kernel,
        .stride = pool->stride,
        .padding = pool->padding,
    };
    return OK;
}

/* Passes the addition of `branch` and `shortcut`, in either order, and its ReLU, which becomes
 * *ret_at. */
static struct status walk_add_relu(struct walk *walk, int branch, int shortcut, int *ret_at)
{
    bool swapped = walk_sees(walk, NODE_ADD) && walk_node(walk)->inputs[0] == shortcut;
    int first = swapped ? shortcut : branch, second = swapped ? branch : shortcut, sum;
    if (walk_sees(walk, NODE_ADD) && walk_node(walk)->inputs[1] != second)
        FAIL(STATUS_UNSUPPORTED,
             "the cpu backend cannot plan node %zu of %s: it adds node %d, not %d", walk->at,
             walk->network->arch, walk_node(walk)->inputs[1], second);
    TRY(walk_pass(walk, NODE_ADD, first, &sum));
    return walk_pass(walk, NODE_RELU, sum, ret_at);
}

static struct status walk_block(struct walk *walk, int *at)
{
    struct outline *outline = walk->outline;
    struct block *block = &outline->blocks[outline->block_count++];
    int branch = *at, shortcut = *at;
    block->first = outline->conv_count;
    TRY(walk_block_conv(walk, &branch));
    while (walk_sees(walk, NODE_RELU)) {
        TRY(walk_pass(walk, NODE_RELU, branch, &branch));
        TRY(walk_block_conv(walk, &branch));
    }
    block->length = outline->conv_count - block->first;
    block->has_shortcut = walk_sees_conv(walk);
    if (block->has_shortcut) {
        block->shortcut = outline->conv_count;
        TRY(walk_block_conv(walk, &shortcut));
    }
    return walk_add_relu(walk, branch, shortcut, at);
}

static struct status walk_head(struct walk *walk, int at)
{
    struct outline *outline = walk->outline;
    outline->head_pixels = walk->sizes[at][0] * walk->sizes[at][1];
    outline->head_channels = walk->network->nodes[at].channels_out;
    TRY(walk_pass(walk, NODE_GLOBAL_AVG_POOL, at, &at));
    TRY(walk_pass(walk, NODE_FC, at, &at));
    outline->classes = walk->network->nodes[at].channels_out;
    outline->fc_param = (size_t)walk->network->nodes[at].first_param;
    TRY(walk_pass(walk, NODE_LOSS, at, &at));
    if (walk->at != walk->network->node_count)
        FAIL(STATUS_UNSUPPORTED, "%s goes on after its loss, which the cpu backend cannot plan",
             walk->network->arch);
    return OK;
}

static struct status walk_network(struct walk *walk)
{
    int at = -1;
    TRY(walk_stem(walk, &at));
    while (walk_sees_conv(walk))
        TRY(walk_block(walk, &at));
    return walk_head(walk, at);
}

struct status outline_open(const struct network *network, uint32_t batch, uint32_t height,
                           uint32_t width, struct outline **ret_outline)
{
    CLEANUP(outline_close) struct outline *outline = NULL;
    CLEANUP(memory_free) void *sizes = NULL;
    TRY(memory_alloc(1, sizeof *outline, &outline));
    TRY(memory_alloc(network->node_count, sizeof *outline->convs, &outline->convs));
    TRY(memory_alloc(network->node_count, sizeof *outline->blocks, &outline->blocks));
    TRY(memory_alloc(network->node_count, sizeof(uint32_t[2]), &sizes));
    TRY(network_sizes(network, height, width, sizes));
    outline->batch = batch;
    struct walk walk = {.network = network, .sizes = sizes, .outline = outline};
    TRY(walk_network(&walk));
    *ret_outline = MOVE(outline);
    return OK;
}

void outline_close(struct outline *outline)
{
    if (!outline)
        return;
    memory_free(outline->convs);
    memory_free(outline->blocks);
    memory_free(outline);
}
