#include "tests/test.h"

#include "base/bytes.h"
#include "train/network.h"

/* The parameters as torchvision's state_dict lists them: tests/golden/state_dict.txt, made by
 * tests/oracle/train_golden.py. */

static void network_describe(const char *arch, struct buffer *text)
{
    CLEANUP(network_close) struct network *network = NULL;
    assert_ok(network_open(arch, 100, &network));
    assert_ok(buffer_append_text(text, "%s\n", arch));
    for (size_t p = 0; p < network->param_count; p++) {
        const struct param *param = &network->params[p];
        uint64_t count = 1;
        assert_ok(buffer_append_text(text, "  %s", param->name));
        for (unsigned i = 0; i < param->rank; i++) {
            assert_ok(buffer_append_text(text, " %llu", (unsigned long long)param->shape[i]));
            count *= param->shape[i];
        }
        assert_ok(buffer_append_text(text, "\n"));
        assert_int_equal(param->count, count);
        assert_int_equal(network_find_param(network, param->name), p);
    }
}

static void test_state_dicts(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer ours = {0}, golden = {0};
    for (size_t i = 0; network_names[i]; i++)
        if (!strchr(network_names[i], '-')) /* torchvision has no blurred ones */
            network_describe(network_names[i], &ours);
    assert_ok(file_read_all("tests/golden/state_dict.txt", 1 << 20, &golden));
    const char *our_text, *golden_text;
    assert_ok(buffer_text(&ours, &our_text));
    assert_ok(buffer_text(&golden, &golden_text));
    assert_string_equal(our_text, golden_text);
}

/* Each node takes what its inputs give, and no node of a branch is left out. */
static void test_nodes_fit(void **state)
{
    (void)state;
    for (size_t i = 0; network_names[i]; i++) {
        CLEANUP(network_close) struct network *network = NULL;
        assert_ok(network_open(network_names[i], 7, &network));
        CLEANUP(memory_free) unsigned *uses = NULL;
        assert_ok(memory_alloc(network->node_count, sizeof *uses, &uses));
        for (size_t n = 0; n < network->node_count; n++) {
            const struct node *node = &network->nodes[n];
            for (int j = 0; j < 2 && node->inputs[j] >= 0; j++) {
                assert_in_range(node->inputs[j], 0, n - 1);
                assert_int_equal(network->nodes[node->inputs[j]].channels_out, node->channels_in);
                uses[node->inputs[j]]++;
            }
            assert_int_equal(node->inputs[1] >= 0, node->kind == NODE_ADD);
        }
        for (size_t n = 0; n + 1 < network->node_count; n++)
            assert_in_range(uses[n], 1, 2);
        assert_int_equal(network->nodes[network->node_count - 1].kind, NODE_LOSS);
    }
}

/* The same parameters, and a blur before each convolution with a stride but the stem. */
static void test_blur(void **state)
{
    (void)state;
    CLEANUP(network_close) struct network *plain = NULL, *blurred = NULL;
    assert_ok(network_open("resnet50", 7, &plain));
    assert_ok(network_open("resnet50-blur", 7, &blurred));
    assert_string_equal(blurred->arch, "resnet50-blur");
    assert_int_equal(blurred->param_count, plain->param_count);
    for (size_t i = 0; i < plain->param_count; i++)
        assert_string_equal(blurred->params[i].name, plain->params[i].name);
    unsigned blurs = 0;
    for (size_t n = 0; n < blurred->node_count; n++) {
        const struct node *node = &blurred->nodes[n];
        bool follows = n > 0 && blurred->nodes[n - 1].kind == NODE_BLUR;
        if (node->kind == NODE_CONV)
            assert_int_equal(follows, node->stride > 1 && node->channels_in > 3);
        blurs += node->kind == NODE_BLUR;
    }
    assert_int_equal(blurs, 6);
    assert_int_equal(blurred->node_count, plain->node_count + blurs);
    assert_fails(network_open("resnet50-blurred", 7, &plain), STATUS_USAGE, "-blur");
}

/* Sizes after the stem, each stage and the global pooling. */
static void check_sizes(uint32_t height, uint32_t width, const uint32_t expected[6][2])
{
    CLEANUP(network_close) struct network *network = NULL;
    assert_ok(network_open("resnet50", 1000, &network));
    CLEANUP(memory_free) uint32_t(*sizes)[2] = NULL;
    assert_ok(memory_alloc(network->node_count, sizeof *sizes, &sizes));
    assert_ok(network_sizes(network, height, width, sizes));
    static const uint32_t stage_channels[4] = {256, 512, 1024, 2048};
    unsigned stage = 0;
    for (size_t n = 0; n < network->node_count; n++) {
        const struct node *node = &network->nodes[n];
        if (node->kind == NODE_ADD) {
            if (node->channels_out != stage_channels[stage])
                stage++;
            assert_int_equal(node->channels_out, stage_channels[stage]);
            assert_memory_equal(sizes[n], expected[1 + stage], sizeof sizes[n]);
        } else if (node->kind == NODE_MAX_POOL) {
            assert_memory_equal(sizes[n], expected[0], sizeof sizes[n]);
        } else if (node->kind == NODE_GLOBAL_AVG_POOL) {
            assert_memory_equal(sizes[n], expected[5], sizeof sizes[n]);
        }
    }
    assert_int_equal(stage, 3);
}

static void test_sizes(void **state)
{
    (void)state;
    const uint32_t usual[6][2] = {{56, 56}, {56, 56}, {28, 28}, {14, 14}, {7, 7}, {1, 1}};
    check_sizes(224, 224, usual);
    const uint32_t odd[6][2] = {{33, 9}, {33, 9}, {17, 5}, {9, 3}, {5, 2}, {1, 1}};
    check_sizes(131, 33, odd);
    const uint32_t smallest[6][2] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    check_sizes(1, 1, smallest);

    CLEANUP(network_close) struct network *network = NULL;
    assert_ok(network_open("resnet18", 1000, &network));
    CLEANUP(memory_free) uint32_t(*sizes)[2] = NULL;
    assert_ok(memory_alloc(network->node_count, sizeof *sizes, &sizes));
    assert_fails(network_sizes(network, 0, 5, sizes), STATUS_USAGE, "0 x 5 pixels");
}

/* γ that may start at 0: one in each residual branch, its last. */
static void test_zero_init_marks(void **state)
{
    (void)state;
    CLEANUP(network_close) struct network *network = NULL;
    assert_ok(network_open("resnet50", 1000, &network));
    unsigned marked = 0;
    for (size_t p = 0; p < network->param_count; p++)
        if (network->params[p].zero_init) {
            assert_non_null(strstr(network->params[p].name, ".bn3.weight"));
            marked++;
        }
    assert_int_equal(marked, 3 + 4 + 6 + 3);
}

static void test_unknown_names(void **state)
{
    (void)state;
    struct network *network = NULL;
    assert_fails(network_open("resnet19", 1000, &network), STATUS_USAGE, "resnet18");
    assert_fails(network_open("resnet18", 0, &network), STATUS_USAGE, "at least one class");
    assert_null(network);
    assert_ok(network_open("resnet18", 10, &network));
    assert_int_equal(network_find_param(network, "layer9.weight"), -1);
    network_close(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_dicts),     cmocka_unit_test(test_blur),
        cmocka_unit_test(test_nodes_fit),       cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_zero_init_marks), cmocka_unit_test(test_unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
