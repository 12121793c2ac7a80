#include "tests/test.h"

#include "base/random.h"
#include "train/cuda/bucket.h"
#include "train/cuda/layout.h"
#include "train/cuda/param_map.h"
#include "train/cuda/program.h"

/* What the CUDA backend decides on the host: operations, memory, places of parameters, buckets. */

struct opened {
    struct network *network;
    struct program *program;
};

/* The ways to train and to evaluate. */
static const struct program_config configs[] = {
    {PLAN_TRAIN, false, 0, 8, 224, 224}, {PLAN_TRAIN, true, 0, 8, 224, 224},
    {PLAN_TRAIN, false, 2, 8, 224, 224}, {PLAN_TRAIN, true, 2, 8, 224, 224},
    {PLAN_EVAL, false, 0, 8, 224, 224},
};
enum { PLAIN = 0, FUSED, JOINED, JOINED_FUSED, EVALUATION };

static void open_arch(struct opened *opened, const char *arch, size_t config)
{
    assert_ok(network_open(arch, 1000, &opened->network));
    assert_ok(program_open(opened->network, &configs[config], &opened->program));
}

static void close_arch(struct opened *opened)
{
    program_close(opened->program);
    network_close(opened->network);
}

static size_t count_kind(const struct program *program, enum op_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < program->op_count; i++)
        count += program->ops[i].kind == kind;
    return count;
}

static size_t count_pattern(const struct program *program, enum pattern pattern)
{
    size_t count = 0;
    for (size_t i = 0; i < program->op_count; i++)
        count += program->ops[i].kind == OP_PATTERN &&
                 program->plans[program->ops[i].plan].pattern == pattern;
    return count;
}

/* Whether an op writes its operand. What the forward pass makes, the backward pass reads. */
static bool op_writes(const struct program *program, size_t op, enum plan_tensor tensor)
{
    const enum pattern pattern = program->plans[program->ops[op].plan].pattern;
    const bool finalize = program->ops[op].kind == OP_PATTERN && pattern == PATTERN_BN_FINALIZE;
    const bool scales = tensor == TENSOR_EQ_SCALE || tensor == TENSOR_EQ_BIAS;
    const bool statistics = tensor == TENSOR_MEAN || tensor == TENSOR_INVSTD;
    const bool sums = tensor == TENSOR_SUM || tensor == TENSOR_SQUARE_SUM;
    if (program->ops[op].kind == OP_BLUR)
        return tensor == TENSOR_Y;
    if (program->ops[op].kind == OP_SYNC_BN_BACKWARD || program->ops[op].kind == OP_SYNC_DBN_APPLY)
        return tensor == TENSOR_DX || tensor == TENSOR_DZ || sums;
    if (program->ops[op].kind == OP_SYNC_SUMS)
        return false; /* in place */
    if (op < program->backward_begin)
        return tensor == TENSOR_Y || tensor == TENSOR_DX || tensor == TENSOR_MASK ||
               tensor == TENSOR_INDEX || statistics || (finalize ? scales : sums);
    if (tensor == TENSOR_DZ)
        return pattern == PATTERN_BN_ADD_RELU_BACKWARD;
    return tensor == TENSOR_DX || tensor == TENSOR_DW ||
           (pattern == PATTERN_DGRAD_DRELU_DBN &&
            (tensor == TENSOR_EQ_DY || tensor == TENSOR_EQ_X || tensor == TENSOR_EQ_DBIAS));
}

/* Every tensor is written once, before it is read, and every trained parameter gets one gradient.
 */
static void check_program(const struct opened *opened)
{
    const struct program *program = opened->program;
    unsigned *writes, *gradients;
    assert_ok(memory_alloc(program->tensor_count, sizeof *writes, &writes));
    assert_ok(memory_alloc(opened->network->param_count, sizeof *gradients, &gradients));
    writes[program->input] = 1;
    for (size_t i = 0; i < program->op_count; i++) {
        const struct op *op = &program->ops[i];
        for (int t = 0; t < TENSOR_COUNT; t++)
            if (op->operands[t].place == PLACE_TENSOR && !op_writes(program, i, t))
                assert_int_equal(writes[op->operands[t].index], 1);
        for (int t = 0; t < TENSOR_COUNT; t++) {
            if (op->operands[t].place == PLACE_TENSOR && op_writes(program, i, t))
                assert_int_equal(writes[op->operands[t].index]++, 0);
            if (op->operands[t].place == PLACE_GRADIENT && op->kind != OP_SYNC_DBN_APPLY)
                gradients[op->operands[t].index]++;
        }
    }
    for (size_t i = 0; i < opened->network->param_count; i++)
        assert_int_equal(gradients[i], program->config.mode == PLAN_TRAIN &&
                                           param_is_trained(&opened->network->params[i]));
    memory_free(writes);
    memory_free(gradients);
}

static void test_programs(void **state)
{
    (void)state;
    for (size_t i = 0; network_names[i]; i++)
        for (size_t config = 0; config < ARRAY_LENGTH(configs); config++) {
            struct opened opened;
            open_arch(&opened, network_names[i], config);
            check_program(&opened);
            close_arch(&opened);
        }
}

/* ResNet-50 by hand: 53 convolutions, 16 blocks, 4 of them with a convolution as shortcut. */
static void test_resnet50(void **state)
{
    (void)state;
    struct opened train, fused, joined, eval;
    open_arch(&train, "resnet50", PLAIN);
    open_arch(&fused, "resnet50", FUSED);
    open_arch(&joined, "resnet50", JOINED);
    open_arch(&eval, "resnet50", EVALUATION);
    const struct {
        const struct program *program;
        enum pattern pattern;
        size_t count;
    } cases[] = {
        {train.program, PATTERN_CONV, 53},
        {train.program, PATTERN_CONV_WGRAD, 53},
        {train.program, PATTERN_CONV_DGRAD, 52 - 16},
        {train.program, PATTERN_CONV_DGRAD_ADD, 16},
        {train.program, PATTERN_BN, 4},
        {train.program, PATTERN_BN_RELU, 33},
        {train.program, PATTERN_BN_ADD_RELU, 16},
        {train.program, PATTERN_BN_BACKWARD, 4},
        {train.program, PATTERN_BN_RELU_BACKWARD, 33},
        {train.program, PATTERN_BN_ADD_RELU_BACKWARD, 16},
        {train.program, PATTERN_MAX_POOL_BACKWARD, 1},
        {train.program, PATTERN_FC_WGRAD, 1},
        /* Fused: the second and third convolution of each block take BN and ReLU along. */
        {fused.program, PATTERN_CONV_STATS, 53 - 32},
        {fused.program, PATTERN_SBR_CONV_STATS, 32},
        {fused.program, PATTERN_BN_FINALIZE, 53},
        {fused.program, PATTERN_SCALE_BIAS_RELU, 1},
        {fused.program, PATTERN_SCALE_BIAS_ADD_RELU, 12},
        {fused.program, PATTERN_SCALE_BIAS_DUAL_ADD_RELU, 4},
        {fused.program, PATTERN_RELU_BACKWARD, 16},
        {fused.program, PATTERN_BN_BACKWARD, 20},
        {fused.program, PATTERN_BN_RELU_BACKWARD, 1},
        {fused.program, PATTERN_DGRAD_DRELU_DBN, 32},
        {fused.program, PATTERN_DBN_APPLY, 32},
        {fused.program, PATTERN_SBR_WGRAD, 32},
        {fused.program, PATTERN_CONV_WGRAD, 53 - 32},
        {fused.program, PATTERN_CONV_DGRAD, 4},
        {fused.program, PATTERN_CONV_DGRAD_ADD, 16},
        /* No BN of cuDNN's is left where devices normalise together. */
        {joined.program, PATTERN_CONV, 53},
        {joined.program, PATTERN_CONV_DGRAD_ADD, 16},
        {joined.program, PATTERN_BN, 0},
        {joined.program, PATTERN_BN_RELU, 0},
        {joined.program, PATTERN_BN_ADD_RELU, 0},
        {joined.program, PATTERN_BN_BACKWARD, 0},
        {joined.program, PATTERN_BN_RELU_BACKWARD, 0},
        {joined.program, PATTERN_BN_ADD_RELU_BACKWARD, 0},
        {eval.program, PATTERN_CONV_BIAS, 4},
        {eval.program, PATTERN_CONV_BIAS_RELU, 33},
        {eval.program, PATTERN_CONV_BIAS_ADD_RELU, 16},
        {eval.program, PATTERN_MAX_POOL, 1},
        {eval.program, PATTERN_FC, 1},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(count_pattern(cases[i].program, cases[i].pattern), cases[i].count);
    assert_int_equal(count_kind(joined.program, OP_SYNC_BN), 53);
    assert_int_equal(count_kind(joined.program, OP_SYNC_BN_BACKWARD), 53);
    assert_int_equal(eval.program->fold_count, 53);
    close_arch(&train);
    close_arch(&fused);
    close_arch(&joined);
    close_arch(&eval);
}

/* Fused as without joined statistics, but for what needs the sums of all on the way back. */
static void test_resnet50_joined(void **state)
{
    (void)state;
    struct opened joined;
    open_arch(&joined, "resnet50", JOINED_FUSED);
    const struct {
        enum pattern pattern;
        size_t count;
    } cases[] = {
        {PATTERN_CONV_STATS, 53 - 32},     {PATTERN_SBR_CONV_STATS, 32},
        {PATTERN_BN_FINALIZE, 53},         {PATTERN_SCALE_BIAS_RELU, 1},
        {PATTERN_SCALE_BIAS_ADD_RELU, 12}, {PATTERN_SCALE_BIAS_DUAL_ADD_RELU, 4},
        {PATTERN_RELU_BACKWARD, 16},       {PATTERN_DGRAD_DRELU_DBN, 32},
        {PATTERN_SBR_WGRAD, 32},           {PATTERN_BN_BACKWARD, 0},
        {PATTERN_BN_RELU_BACKWARD, 0},     {PATTERN_DBN_APPLY, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(count_pattern(joined.program, cases[i].pattern), cases[i].count);
    assert_int_equal(count_kind(joined.program, OP_SYNC_SUMS), 53);
    assert_int_equal(count_kind(joined.program, OP_SYNC_BN), 0);
    assert_int_equal(count_kind(joined.program, OP_SYNC_BN_BACKWARD), 21);
    assert_int_equal(count_kind(joined.program, OP_SYNC_DBN_APPLY), 32);
    close_arch(&joined);
}

/* Asserts that no two tensors alive at the same time share a byte, and that all lie in the block.
 */
static void check_layout(const struct tensor_life *lives, size_t count, uint64_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(lives[i].offset % LAYOUT_ALIGNMENT, 0);
        assert_true(lives[i].offset + lives[i].bytes <= bytes);
        for (size_t j = 0; j < i; j++) {
            bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
            bool apart = lives[i].offset + lives[i].bytes <= lives[j].offset ||
                         lives[j].offset + lives[j].bytes <= lives[i].offset;
            assert_true(!together || apart || !lives[i].bytes || !lives[j].bytes);
        }
    }
}

/* The most bytes that are alive at one time: no layout needs less. */
static uint64_t most_alive(const struct tensor_life *lives, size_t count, size_t ops)
{
    uint64_t most = 0;
    for (size_t op = 0; op <= ops; op++) {
        uint64_t alive = 0;
        for (size_t i = 0; i < count; i++)
            if (lives[i].first <= op && op <= lives[i].last)
                alive += lives[i].bytes;
        if (alive > most)
            most = alive;
    }
    return most;
}

static void test_layout_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
        struct tensor_life lives[40] = {0};
        size_t count = 1 + random_below(&stream, ARRAY_LENGTH(lives));
        for (size_t i = 0; i < count; i++) {
            lives[i].bytes = random_below(&stream, 3000);
            lives[i].first = random_below(&stream, 30);
            lives[i].last = lives[i].first + random_below(&stream, 12);
        }
        uint64_t bytes;
        assert_ok(layout_assign(lives, count, &bytes));
        check_layout(lives, count, bytes);
    }
}

/* Of a whole network, each tensor of the size of its convolution's output or so. */
static void test_layout_network(void **state)
{
    (void)state;
    const size_t ways[] = {PLAIN, EVALUATION};
    for (size_t m = 0; m < ARRAY_LENGTH(ways); m++) {
        struct opened opened;
        struct tensor_life *lives;
        open_arch(&opened, "resnet50", ways[m]);
        const struct program *program = opened.program;
        assert_ok(memory_alloc(program->tensor_count, sizeof *lives, &lives));
        program_lives(program, lives);
        for (size_t i = 0; i < program->op_count; i++)
            for (int t = 0; t < TENSOR_COUNT; t++)
                if (program->ops[i].operands[t].place == PLACE_TENSOR) {
                    const struct pattern_shape *shape = &program->plans[program->ops[i].plan].shape;
                    lives[program->ops[i].operands[t].index].bytes =
                        (uint64_t)(shape->batch * shape->height * shape->width * shape->in);
                }
        uint64_t bytes, least = most_alive(lives, program->tensor_count, program->op_count);
        assert_ok(layout_assign(lives, program->tensor_count, &bytes));
        check_layout(lives, program->tensor_count, bytes);
        print_message("%s: %.2f times the least\n", m ? "evaluation" : "training",
                      (double)bytes / (double)least);
        assert_true(bytes < least + least / 10 + program->tensor_count * LAYOUT_ALIGNMENT);
        memory_free(lives);
        close_arch(&opened);
    }
}

static void test_param_map(void **state)
{
    (void)state;
    struct network *network;
    struct param_map *map;
    assert_ok(network_open("resnet18", 13, &network));
    assert_ok(param_map_open(network, &map));
    for (size_t i = 0; i < network->param_count; i++) {
        const struct param *param = &network->params[i];
        const struct param_place *place = &map->params[i];
        if (param->kind == PARAM_COUNTER)
            continue;
        assert_int_equal(place->offset % KERNEL_BLOCK, 0);
        assert_true(place->offset + place->count <=
                    (param_is_trained(param) ? map->trained : map->total));
        assert_true(param_is_trained(param) || place->offset >= map->trained);
        double *values, *back;
        float *packed;
        assert_ok(memory_alloc(param->count, sizeof *values, &values));
        assert_ok(memory_alloc(param->count, sizeof *back, &back));
        assert_ok(memory_alloc(place->count, sizeof *packed, &packed));
        for (size_t j = 0; j < param->count; j++)
            values[j] = (double)(j + 1);
        param_map_pack(map, i, values, packed);
        param_map_unpack(map, i, packed, back);
        assert_memory_equal(values, back, param->count * sizeof *values);
        size_t padding = 0;
        for (size_t j = 0; j < place->count; j++)
            padding += packed[j] == 0;
        assert_int_equal(padding, place->count - param->count);
        memory_free(values);
        memory_free(back);
        memory_free(packed);
    }
    /* The images' convolution: (out, kernel, kernel, 4). */
    const struct param_place *stem = &map->params[network_find_param(network, "conv1.weight")];
    assert_int_equal(stem->count, 64 * 7 * 7 * 4);
    const struct param_place *head = &map->params[network_find_param(network, "fc.weight")];
    assert_int_equal(head->count, 16 * 512);
    assert_int_equal(head->offset, 0);
    param_map_close(map);
    network_close(network);
}

/* Buckets cover the arena without a gap, and none is summed before its last gradient is there. */
static void check_buckets(const struct opened *opened)
{
    struct param_map *map;
    struct bucket_list list;
    assert_ok(param_map_open(opened->network, &map));
    assert_ok(bucket_list_make(opened->program, map, &list));
    uint64_t covered = 0;
    for (size_t b = 0; b < list.count; b++) {
        const struct bucket *bucket = &list.buckets[b];
        covered += bucket->end - bucket->begin;
        assert_true(b == 0 || bucket->last_op >= list.buckets[b - 1].last_op);
        for (size_t i = bucket->last_op + 1; i < opened->program->op_count; i++)
            for (int t = 0; t < TENSOR_COUNT; t++) {
                const struct operand *operand = &opened->program->ops[i].operands[t];
                if (operand->place != PLACE_GRADIENT)
                    continue;
                uint64_t at = map->params[operand->index].offset;
                assert_true(at < bucket->begin || at >= bucket->end);
            }
    }
    assert_int_equal(covered, map->trained);
    assert_true(list.count >= 5);
    bucket_list_done(&list);
    param_map_close(map);
}

static void test_buckets(void **state)
{
    (void)state;
    for (size_t n = 0; network_names[n]; n++)
        for (size_t config = PLAIN; config < EVALUATION; config++) {
            struct opened opened;
            open_arch(&opened, network_names[n], config);
            check_buckets(&opened);
            close_arch(&opened);
        }
}

/* A form of network that no pattern computes is refused by name. */
static void test_refused(void **state)
{
    (void)state;
    struct network *network;
    struct program *program = NULL;
    assert_ok(network_open("resnet18", 10, &network));
    network->nodes[3].kind = NODE_ADD; /* the stem's ReLU */
    const struct program_config config = {PLAN_TRAIN, false, 0, 1, 64, 64};
    assert_fails(program_open(network, &config, &program), STATUS_UNSUPPORTED, "resnet18");
    assert_null(program);
    network_close(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),        cmocka_unit_test(test_resnet50),
        cmocka_unit_test(test_resnet50_joined), cmocka_unit_test(test_layout_random),
        cmocka_unit_test(test_layout_network),  cmocka_unit_test(test_param_map),
        cmocka_unit_test(test_buckets),         cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
