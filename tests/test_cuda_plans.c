#include "tests/test.h"

#include <dlfcn.h>

#include "base/path.h"
#include "tests/cuda/known_patterns.h"
#include "train/cuda/device_table.h"
#include "train/cuda/patterns.h"
#include "train/cuda/plan_cache.h"
#include "train/network.h"

/* The real cuDNN makes the backend's plans for devices that are only described. HEADRACE_PLANS=all
 * makes all there are, which takes half an hour. */

enum { BATCH = 64, SIZE = 224, CLASSES = 1000 };

/* cuDNN loads and unloads a compiler for each plan, which leaves memory behind that nobody owns. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* cuDNN looks for the driver when it first needs one; ours has no devices. */
static int load_driver(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *path = NULL;
    assert_ok(path_program_folder(&folder));
    assert_ok(path_join(folder, "../headrace-nodriver.so", &path));
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? 0 : -1;
}

static struct planner *open_planner_as(const char *device, const struct planner_config *how)
{
    CLEANUP(buffer_done) struct buffer json = {0};
    const struct device_entry *entry;
    struct planner *planner;
    assert_ok(device_table_find(device, &entry));
    assert_ok(device_entry_json(entry, &json));
    struct planner_config config = *how;
    config.device_name = entry->title;
    assert_ok(buffer_text(&json, &config.device_json));
    assert_ok(planner_open(&config, &planner));
    return planner;
}

static struct planner *open_planner(const char *device, enum train_dtype dtype,
                                    uint64_t workspace_limit, const char *cache_folder)
{
    const struct planner_config how = {.dtype = dtype,
                                       .workspace_limit = workspace_limit,
                                       .cache_folder = cache_folder};
    return open_planner_as(device, &how);
}

/* One that makes forecasts. */
static struct planner *open_forecaster(const char *device, enum train_dtype dtype,
                                       uint64_t workspace_limit)
{
    const struct planner_config how = {.dtype = dtype,
                                       .workspace_limit = workspace_limit,
                                       .uncompiled = true};
    return open_planner_as(device, &how);
}

/* --- The layers of the networks --------------------------------------------------------------- */

struct layers {
    struct pattern_shape shapes[128];
    size_t count;
};

static void add_layer(struct layers *layers, const struct pattern_shape *shape)
{
    for (size_t i = 0; i < layers->count; i++)
        if (memcmp(&layers->shapes[i], shape, sizeof *shape) == 0)
            return;
    assert_in_range(layers->count, 0, ARRAY_LENGTH(layers->shapes) - 1);
    layers->shapes[layers->count++] = *shape;
}

/* The distinct layers of one kind of all networks; the stem's images have a fourth channel of 0. */
static void collect_layers(enum node_kind kind, struct layers *layers)
{
    *layers = (struct layers){.count = 0};
    for (size_t a = 0; network_names[a]; a++) {
        CLEANUP(network_close) struct network *network = NULL;
        CLEANUP(memory_free) uint32_t(*sizes)[2] = NULL;
        assert_ok(network_open(network_names[a], CLASSES, &network));
        assert_ok(memory_alloc(network->node_count, sizeof *sizes, &sizes));
        assert_ok(network_sizes(network, SIZE, SIZE, sizes));
        for (size_t n = 0; n < network->node_count; n++) {
            const struct node *node = &network->nodes[n];
            if (node->kind != kind)
                continue;
            const uint32_t *size = sizes[node->inputs[0]];
            struct pattern_shape shape = {.batch = BATCH,
                                          .height = size[0],
                                          .width = size[1],
                                          .in = node->channels_in == 3 ? 4 : node->channels_in,
                                          .out = node->channels_out,
                                          .kernel = node->kernel,
                                          .stride = node->stride,
                                          .padding = node->padding};
            add_layer(layers, &shape);
        }
    }
}

/* --- Which plans there are -------------------------------------------------------------------- */

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

static void make_plan(struct planner *planner, enum pattern pattern,
                      const struct pattern_shape *shape)
{
    CLEANUP(cudnn_plan_close) struct cudnn_plan *plan = NULL;
    assert_ok(cudnn_plan_open(planner, pattern, shape, &plan));
    assert_ptr_equal(strstr(cudnn_plan_tag(plan), pattern_names[pattern]), cudnn_plan_tag(plan));
}

/* A forecast chooses the same engine with the same workspace as what makes the plan. */
static void make_plan_twice(struct planner *planner, struct planner *forecaster,
                            enum pattern pattern, const struct pattern_shape *shape)
{
    CLEANUP(cudnn_plan_close) struct cudnn_plan *plan = NULL;
    CLEANUP(cudnn_plan_close) struct cudnn_plan *forecast = NULL;
    assert_ok(cudnn_plan_open(planner, pattern, shape, &plan));
    assert_ok(cudnn_plan_open(forecaster, pattern, shape, &forecast));
    assert_ptr_equal(strstr(cudnn_plan_tag(plan), pattern_names[pattern]), cudnn_plan_tag(plan));
    assert_string_equal(cudnn_plan_tag(forecast), cudnn_plan_tag(plan));
}

/* Whether a layer of the first convolution, which has no relu before it and no gradient at its
 * input, makes sense for a pattern. */
static bool takes_stem(enum pattern pattern)
{
    return pattern != PATTERN_CONV_DGRAD && pattern != PATTERN_CONV_DGRAD_ADD &&
           pattern != PATTERN_SBR_CONV_STATS && pattern != PATTERN_DGRAD_DRELU_DBN &&
           pattern != PATTERN_SBR_WGRAD;
}

/* Convolutions that cuDNN has compiled already take some milliseconds each, so all shapes are made.
 * The workspace shows a layout that cuDNN does not like: it then copies whole tensors there. */
static const struct {
    enum pattern pattern;
    uint64_t a100_limit, h200_limit; /* bytes of workspace */
} ready_made[] = {
    {PATTERN_CONV, MIB(4), MIB(4)},        {PATTERN_CONV_DGRAD, KIB(64), KIB(64)},
    {PATTERN_CONV_STATS, MIB(4), MIB(4)},  {PATTERN_SBR_CONV_STATS, MIB(4), MIB(4)},
    {PATTERN_SBR_WGRAD, MIB(16), MIB(16)}, {PATTERN_DGRAD_DRELU_DBN, MIB(200), MIB(4)},
};

static void check_convolutions(const char *device, bool is_a100)
{
    struct layers layers;
    collect_layers(NODE_CONV, &layers);
    assert_in_range(layers.count, 25, 40);
    for (size_t p = 0; p < ARRAY_LENGTH(ready_made); p++) {
        CLEANUP(planner_close)
        struct planner *planner =
            open_planner(device, DTYPE_FP16,
                         is_a100 ? ready_made[p].a100_limit : ready_made[p].h200_limit, NULL);
        for (size_t i = 0; i < layers.count; i++)
            if (takes_stem(ready_made[p].pattern) || layers.shapes[i].in > 4)
                make_plan(planner, ready_made[p].pattern, &layers.shapes[i]);
    }
}

static void test_convolutions_a100(void **state)
{
    (void)state;
    check_convolutions("a100", true);
}

static void test_convolutions_h200(void **state)
{
    (void)state;
    check_convolutions("h200", false);
}

/* BN whose sums are those of eight devices. */
static void check_joined(struct planner *planner, struct planner *forecaster,
                         const struct pattern_shape *shape)
{
    struct pattern_shape joined = *shape;
    joined.statistics_count = 8 * shape->batch * shape->height * shape->width;
    make_plan_twice(planner, forecaster, PATTERN_BN_FINALIZE, &joined);
}

/* Some layers, or all, for every pattern of one type. */
static void check_patterns(const char *device, enum train_dtype dtype, size_t layers_each)
{
    CLEANUP(planner_close) struct planner *planner = open_planner(device, dtype, MIB(256), NULL);
    CLEANUP(planner_close)
    struct planner *forecaster = open_forecaster(device, dtype, MIB(256));
    for (unsigned p = 0; p < PATTERN_COUNT; p++) {
        struct layers layers;
        collect_layers(pattern_node(p), &layers);
        size_t made = 0;
        for (size_t i = 0; i < layers.count && made < layers_each; i++) {
            const struct pattern_shape *shape = &layers.shapes[i];
            if (shape->in == 4 && !takes_stem(p))
                continue;
            made++;
            struct cudnn_plan *none = NULL;
            if (pattern_is_missing(p, dtype))
                assert_fails(cudnn_plan_open(planner, p, shape, &none), STATUS_UNSUPPORTED,
                             pattern_names[p]);
            else
                make_plan_twice(planner, forecaster, p, shape);
            if (p == PATTERN_BN_FINALIZE)
                check_joined(planner, forecaster, shape);
        }
        assert_true(made > 0);
    }
}

static void test_patterns_a100(void **state)
{
    (void)state;
    check_patterns("a100", DTYPE_FP16, 1);
}

static void test_patterns_h200(void **state)
{
    (void)state;
    check_patterns("h200", DTYPE_FP16, 1);
}

static void test_all_plans(void **state)
{
    (void)state;
    static const enum train_dtype dtypes[] = {DTYPE_FP16, DTYPE_BF16, DTYPE_TF32, DTYPE_F32};
    const char *wish = getenv("HEADRACE_PLANS");
    if (!wish || strcmp(wish, "all") != 0)
        skip();
    for (size_t t = 0; t < ARRAY_LENGTH(dtypes); t++) {
        check_patterns("a100", dtypes[t], SIZE_MAX);
        check_patterns("h200", dtypes[t], SIZE_MAX);
    }
}

/* --- Planner and plan ------------------------------------------------------------------------- */

static const struct pattern_shape block = {.batch = 8,
                                           .height = 14,
                                           .width = 14,
                                           .in = 64,
                                           .out = 128,
                                           .kernel = 3,
                                           .stride = 2,
                                           .padding = 1};

static void assert_layout(const struct cudnn_plan *plan, enum plan_tensor tensor,
                          cudnnDataType_t type, int64_t n, int64_t c, int64_t size, uint64_t bytes,
                          bool written)
{
    const struct plan_layout *layout = cudnn_plan_layout(plan, tensor);
    assert_int_equal(layout->type, type);
    assert_int_equal(layout->dims[0], n);
    assert_int_equal(layout->dims[1], c);
    assert_int_equal(layout->dims[2], size);
    assert_int_equal(layout->dims[3], size);
    assert_int_equal(layout->bytes, bytes);
    assert_int_equal(layout->written, written);
}

static void test_layouts(void **state)
{
    (void)state;
    CLEANUP(planner_close)
    struct planner *planner = open_planner("h200", DTYPE_FP16, MIB(64), NULL);
    CLEANUP(cudnn_plan_close) struct cudnn_plan *fused = NULL;
    CLEANUP(cudnn_plan_close) struct cudnn_plan *pool = NULL;
    assert_ok(cudnn_plan_open(planner, PATTERN_SBR_CONV_STATS, &block, &fused));
    assert_layout(fused, TENSOR_X, CUDNN_DATA_HALF, 8, 64, 14, 8 * 64 * 14 * 14 * 2, false);
    assert_layout(fused, TENSOR_Y, CUDNN_DATA_HALF, 8, 128, 7, 8 * 128 * 7 * 7 * 2, true);
    assert_layout(fused, TENSOR_W, CUDNN_DATA_HALF, 128, 64, 3, 128 * 64 * 9 * 2, false);
    assert_layout(fused, TENSOR_EQ_SCALE, CUDNN_DATA_HALF, 1, 64, 1, 64 * 2, false);
    assert_layout(fused, TENSOR_SUM, CUDNN_DATA_FLOAT, 1, 128, 1, 128 * 4, true);
    assert_int_equal(cudnn_plan_layout(fused, TENSOR_DX)->bytes, 0);
    assert_ok(cudnn_plan_open(planner, PATTERN_MAX_POOL_INDEX, &block, &pool));
    assert_layout(pool, TENSOR_INDEX, CUDNN_DATA_INT8, 8, 64, 7, 8 * 64 * 7 * 7, true);
}

static void test_refusals(void **state)
{
    (void)state;
    CLEANUP(planner_close) struct planner *planner = open_planner("h200", DTYPE_FP16, 0, NULL);
    struct cudnn_plan *plan = NULL;
    struct planner *none = NULL;
    assert_fails(cudnn_plan_open(planner, PATTERN_DGRAD_DRELU_DBN, &block, &plan),
                 STATUS_UNSUPPORTED,
                 "cuDNN: dgrad_drelu_dbn n8 c64 h14 w14 k128 r3 s2 p1: no engine runs it");
    struct pattern_shape empty = block;
    empty.in = 0;
    assert_fails(cudnn_plan_open(planner, PATTERN_CONV, &empty, &plan), STATUS_FAILED,
                 "cudnnBackend");
    const struct planner_config config = {.device_name = "a device", .device_json = "{}"};
    assert_fails(planner_open(&config, &none), STATUS_FAILED, "the description of a device");
    const struct device_entry *entry;
    assert_fails(device_table_find("h20", &entry), STATUS_USAGE, "a100, ");
}

/* cuDNN has no BN for 2^31 elements, compiled or not, and the message says that size is why. */
static void test_too_large(void **state)
{
    (void)state;
    CLEANUP(planner_close)
    struct planner *planner = open_planner("b200", DTYPE_BF16, MIB(64), NULL);
    CLEANUP(planner_close)
    struct planner *forecaster = open_forecaster("b200", DTYPE_BF16, MIB(64));
    struct pattern_shape stem = {.batch = 2674, .height = 112, .width = 112, .in = 64};
    struct cudnn_plan *plan = NULL;
    make_plan_twice(planner, forecaster, PATTERN_BN_RELU, &stem);
    stem.batch++;
    assert_fails(cudnn_plan_open(planner, PATTERN_BN_RELU, &stem, &plan), STATUS_UNSUPPORTED,
                 "a tensor of 2147532800 elements, of 2^31 or more");
    assert_fails(cudnn_plan_open(forecaster, PATTERN_BN_RELU, &stem, &plan), STATUS_UNSUPPORTED,
                 "a tensor of 2147532800 elements, of 2^31 or more");
}

/* All devices that can be named are ones that cuDNN knows. */
static void test_devices(void **state)
{
    (void)state;
    for (const struct device_entry *entry = device_table; entry->name; entry++) {
        CLEANUP(planner_close)
        struct planner *planner = open_planner(entry->name, DTYPE_FP16, MIB(64), NULL);
        make_plan(planner, PATTERN_CONV, &block);
    }
}

/* --- Plans on disk ---------------------------------------------------------------------------- */

/* Tags of the unfused set's plans, made by a planner with this cache. */
static void make_cached(const char *folder, struct buffer *tags)
{
    static const enum pattern patterns[] = {PATTERN_CONV, PATTERN_AVG_POOL};
    CLEANUP(planner_close)
    struct planner *planner = open_planner("h200", DTYPE_FP16, MIB(64), folder);
    tags->length = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(patterns); i++) {
        CLEANUP(cudnn_plan_close) struct cudnn_plan *plan = NULL;
        assert_ok(cudnn_plan_open(planner, patterns[i], &block, &plan));
        assert_ok(buffer_append_text(tags, "%s\n", cudnn_plan_tag(plan)));
    }
}

static size_t count_cached(struct buffer *tags)
{
    const char *text;
    size_t count = 0;
    assert_ok(buffer_text(tags, &text));
    for (; (text = strstr(text, "from the cache")); text++)
        count++;
    return count;
}

static void test_cache(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer tags = {0}, file = {0};
    CLEANUP(folder_list_done) struct folder_list devices = {0}, files = {0};
    const char *folder = test_path("plans");
    make_cached(folder, &tags);
    assert_int_equal(count_cached(&tags), 0);
    make_cached(folder, &tags);
    assert_int_equal(count_cached(&tags), 2);
    assert_ok(folder_list_read(folder, &devices));
    assert_int_equal(devices.count, 1);
    const char *plans = test_join(folder, devices.entries[0].name);
    assert_non_null(strstr(plans, "/NVIDIA-H200-cudnn-9"));
    assert_ok(folder_list_read(plans, &files));
    assert_int_equal(files.count, 2);
    /* A damaged file and one of another version are made anew. */
    const char *first = test_join(plans, files.entries[0].name);
    const char *second = test_join(plans, files.entries[1].name);
    assert_ok(file_read_all(first, MIB(16), &file));
    file.data[file.length - 1] ^= 1;
    assert_ok(file_write_atomic(first, file.data, file.length));
    assert_ok(file_write_atomic(second, "HRPLAN0\n", 8));
    make_cached(folder, &tags);
    assert_int_equal(count_cached(&tags), 0);
    make_cached(folder, &tags);
    assert_int_equal(count_cached(&tags), 2);
}

static void test_cache_files(void **state)
{
    (void)state;
    CLEANUP(plan_cache_close) struct plan_cache *cache = NULL;
    CLEANUP(plan_cache_close) struct plan_cache *other = NULL;
    CLEANUP(buffer_done) struct buffer plan = {0}, read = {0};
    bool tuned = false;
    const char *folder = test_path("cache");
    assert_ok(plan_cache_open(folder, "A device", 91900, &cache));
    assert_ok(plan_cache_open(folder, "A-device", 91900, &other)); /* the same folder */
    assert_fails(plan_cache_read(cache, "key", &tuned, &read), STATUS_NOT_FOUND, "key");
    assert_ok(buffer_append_text(&plan, "{\"a\": \"plan\"}"));
    assert_ok(plan_cache_write(cache, "key", true, &plan));
    assert_ok(plan_cache_read(cache, "key", &tuned, &read));
    assert_true(tuned);
    assert_int_equal(read.length, plan.length);
    assert_memory_equal(read.data, plan.data, plan.length);
    assert_fails(plan_cache_read(other, "key", &tuned, &read), STATUS_NOT_FOUND, "another plan");
    /* No length and no bit of a file is believed without its checksum. */
    CLEANUP(buffer_done) struct buffer file = {0};
    const char *path = test_path("cache/A-device-cudnn-91900/key_plan");
    assert_ok(file_read_all(path, MIB(1), &file));
    for (size_t i = 0; i < file.length; i++) {
        assert_ok(file_write_plain(path, file.data, i));
        assert_fails(plan_cache_read(cache, "key", &tuned, &read),
                     i < 8 ? STATUS_NOT_FOUND : STATUS_CORRUPT, "key_plan");
        file.data[i] ^= 0x40;
        assert_ok(file_write_plain(path, file.data, file.length));
        assert_fails(plan_cache_read(cache, "key", &tuned, &read),
                     i < 8 ? STATUS_NOT_FOUND : STATUS_CORRUPT, "key_plan");
        file.data[i] ^= 0x40;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache_files),       cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_devices),           cmocka_unit_test(test_cache),
        cmocka_unit_test(test_convolutions_a100), cmocka_unit_test(test_convolutions_h200),
        cmocka_unit_test(test_patterns_a100),     cmocka_unit_test(test_patterns_h200),
        cmocka_unit_test(test_all_plans),
    };
    return cmocka_run_group_tests(tests, load_driver, NULL);
}
