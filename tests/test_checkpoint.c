#include "tests/test.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "base/json.h"
#include "train/checkpoint.h"

/* One small run whose weights say which version they are. */
struct run {
    struct network *network;
    struct weights *weights;
    struct class_table *classes;
    struct json *options;
    struct run_state state;
};

static struct run run;

static int run_make(void **state)
{
    (void)state;
    const struct class_entry classes[] = {{.wnid = "n01", .words = "ant"},
                                          {.wnid = "n02", .words = "bee \"honey\" é"}};
    assert_ok(network_open("resnet18", 2, &run.network));
    assert_ok(weights_open(run.network, &run.weights));
    assert_ok(class_table_make(classes, 2, &run.classes));
    run.options = json_object_new();
    json_set_real(run.options, "lr", .1);
    run.state = (struct run_state){
        .arch = "resnet18",
        .classes = 2,
        .step = 3,
        .steps_per_epoch = 10,
        .train_images = 1281167,
        .epoch_sums = {.loss = 1 / 3., .top1 = 5, .top5 = 9, .count = 12},
        .best_top1 = 77.89,
        .best_epoch = 119,
        .backend = "reference",
        .dtype = DTYPE_F32,
        .threads = 2,
        .pixels = PIXELS_FAST,
        .val_resize = 256,
        .val_crop = 224,
        .val_flip = true,
        .scale = {.value = 1024, .clean_steps = 7},
    };
    return 0;
}

static int run_free(void **state)
{
    (void)state;
    weights_close(run.weights);
    network_close(run.network);
    class_table_free(run.classes);
    json_free(run.options);
    return 0;
}

/* Marks weights, momentum, counters and state alike. */
static void version_set(unsigned version)
{
    run.state.epoch = version;
    for (size_t i = 0; i < run.network->param_count; i++) {
        run.weights->counters[i] = version;
        if (run.weights->values[i])
            run.weights->values[i][0] = (float)version + .25f;
        if (run.weights->momentum[i])
            run.weights->momentum[i][0] = -(float)version;
    }
}

static struct status save(const char *stem)
{
    return checkpoint_save(stem, run.weights, &run.state, run.classes, run.options);
}

/* The version at `stem`; everything in it has to agree. */
static unsigned version_of(const char *stem)
{
    CLEANUP(checkpoint_free) struct checkpoint *loaded = NULL;
    assert_ok(checkpoint_load(stem, &loaded));
    unsigned version = (unsigned)loaded->state.epoch;
    for (size_t i = 0; i < loaded->network->param_count; i++) {
        if (loaded->weights->values[i])
            assert_true(loaded->weights->values[i][0] == (float)version + .25f);
        if (loaded->weights->momentum[i])
            assert_true(loaded->weights->momentum[i][0] == -(float)version);
        if (loaded->network->params[i].kind == PARAM_COUNTER)
            assert_int_equal(loaded->weights->counters[i], version);
    }
    return version;
}

static size_t files_in(const char *folder)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(folder, &list));
    return list.count;
}

static void test_what_is_saved_is_loaded(void **state)
{
    (void)state;
    CLEANUP(checkpoint_free) struct checkpoint *loaded = NULL;
    const char *stem = test_path("round");
    assert_false(checkpoint_exists(stem));
    assert_fails(checkpoint_load(stem, &loaded), STATUS_NOT_FOUND, "round.state");
    version_set(7);
    assert_ok(save(stem));
    assert_true(checkpoint_exists(stem));
    assert_ok(checkpoint_load(stem, &loaded));
    assert_int_equal(version_of(stem), 7);
    assert_int_equal(loaded->state.step, 3);
    assert_int_equal(loaded->state.train_images, 1281167);
    assert_true(loaded->state.epoch_sums.loss == 1 / 3. && loaded->state.best_top1 == 77.89);
    assert_int_equal(loaded->state.dtype, DTYPE_F32);
    assert_string_equal(loaded->state.backend, "reference");
    assert_string_equal(class_table_at(loaded->classes, 1)->words, "bee \"honey\" é");
    double lr;
    assert_ok(json_get_real(checkpoint_options(loaded), "lr", &lr));
    assert_true(lr == .1);
}

/* The copy stays what it was when the original is replaced. */
static void test_a_copy_is_a_pair_of_its_own(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("copies")));
    version_set(1);
    assert_ok(save(test_path("copies/checkpoint")));
    assert_ok(checkpoint_copy(test_path("copies/checkpoint"), test_path("copies/model_best")));
    version_set(2);
    assert_ok(save(test_path("copies/checkpoint")));
    assert_int_equal(version_of(test_path("copies/model_best")), 1);
    assert_ok(checkpoint_copy(test_path("copies/checkpoint"), test_path("copies/model_best")));
    assert_int_equal(version_of(test_path("copies/model_best")), 2);
    assert_int_equal(files_in(test_path("copies")), 4);
}

static void test_stems(void **state)
{
    (void)state;
    const char *paths[] = {"a/model_best", "a/model_best.state", "a/model_best.safetensors"};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        CLEANUP(memory_free) char *stem = NULL;
        assert_ok(checkpoint_stem(paths[i], "checkpoint", &stem));
        assert_string_equal(stem, "a/model_best");
    }
    CLEANUP(memory_free) char *stem = NULL;
    assert_ok(checkpoint_stem(test_folder(), "checkpoint", &stem));
    assert_string_equal(stem, test_path("checkpoint"));
}

/* Replaces version 1 by 2 in a child that is killed at its K-th call to the disk; false: it was
 * not. */
static bool save_killed(const char *stem, unsigned k)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char fault[32];
        snprintf(fault, sizeof fault, "kill:%u", k);
        disk_set_fault(fault);
        version_set(2);
        struct status status = save(stem);
        _exit(status.code == STATUS_DONE ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    if (WIFSIGNALED(result))
        return true;
    assert_int_equal(WEXITSTATUS(result), 0);
    return false;
}

/* A save makes about 200 calls, nearly all of them writes of a tensor; the last dozen publishes. */
static void test_a_kill_leaves_a_whole_pair(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("kill")));
    char stem[512];
    snprintf(stem, sizeof stem, "%s", test_path("kill/checkpoint"));
    const unsigned early[] = {1, 60, 126};
    bool seen[3] = {false};
    version_set(1);
    assert_ok(save(stem));
    for (unsigned i = 0, k = 0, killed = true; killed; i++) {
        k = i < ARRAY_LENGTH(early) ? early[i] : k < 180 ? 189 : k + 1;
        killed = save_killed(stem, k);
        unsigned version = version_of(stem);
        seen[version] = true;
        assert_ok(checkpoint_recover(stem));
        assert_int_equal(version_of(stem), version);
        assert_int_equal(files_in(test_path("kill")), 2);
        if (version == 1)
            continue;
        assert_true(k > 189);
        version_set(1);
        assert_ok(save(stem));
    }
    assert_true(seen[1] && seen[2]);
}

static void test_a_full_disk_leaves_the_old_pair(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("full")));
    char stem[512];
    snprintf(stem, sizeof stem, "%s", test_path("full/checkpoint"));
    version_set(1);
    assert_ok(save(stem));
    const char *const faults[] = {"ENOSPC:1",   "ENOSPC:20", "EDQUOT:124", "EIO:125",
                                  "ENOSPC:130", "EIO:190",   "ENOSPC:193", "ENOSPC:195"};
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        version_set(2);
        disk_set_fault(faults[i]);
        struct status status = save(stem);
        disk_set_fault(NULL);
        assert_int_not_equal(status.code, STATUS_DONE);
        status_ignore(status);
        assert_ok(checkpoint_recover(stem));
        assert_int_equal(version_of(stem), 1);
        assert_int_equal(files_in(test_path("full")), 2);
    }
}

static void flip_byte(const char *path, bool from_end, uint64_t at)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(file_read_all(path, (size_t)1 << 30, &bytes));
    bytes.data[from_end ? bytes.length - at : at] ^= 1;
    assert_ok(file_write_atomic(path, bytes.data, bytes.length));
}

static void test_damage_is_found(void **state)
{
    (void)state;
    CLEANUP(checkpoint_free) struct checkpoint *loaded = NULL;
    const char *stem = test_path("damaged");
    version_set(1);
    assert_ok(save(stem));
    flip_byte(test_path("damaged.safetensors"), true, 1000);
    assert_fails(checkpoint_load(stem, &loaded), STATUS_CORRUPT, "damaged.safetensors");
    assert_ok(save(stem));
    flip_byte(test_path("damaged.state"), true, 1000);
    assert_fails(checkpoint_load(stem, &loaded), STATUS_CORRUPT, "momentum");
    assert_ok(save(stem));
    assert_ok(file_remove(test_path("damaged.safetensors")));
    assert_fails(checkpoint_load(stem, &loaded), STATUS_NOT_FOUND, "damaged.safetensors");
    assert_ok(save(stem));
    run.state.epoch_sums.count++;
    assert_ok(save(test_path("other")));
    assert_ok(file_rename(test_path("other.safetensors"), test_path("other.state")));
    assert_fails(checkpoint_load(test_path("other"), &loaded), STATUS_CORRUPT, "no state");
}

static struct status sink_buffer(const void *bytes, size_t length, void *context)
{
    return buffer_append(context, bytes, length);
}

/* The weights, described and changed by the test, as torchvision would have saved them. */
static struct status weights_read_changed(const struct safetensor *tensors, size_t count,
                                          bool *ret_stripped)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    TRY(safetensors_write(tensors, count, NULL, sink_buffer, &bytes));
    TRY(safetensors_parse(bytes.data, bytes.length, "w.safetensors", &file));
    return weights_from_safetensors(run.weights, file, "w.safetensors", ret_stripped);
}

static void test_foreign_weights(void **state)
{
    (void)state;
    CLEANUP(memory_free) struct safetensor *tensors = NULL;
    CLEANUP(arena_done) struct arena names = {0};
    size_t count;
    bool stripped = true;
    assert_ok(weights_describe_values(run.weights, &tensors, &count));
    assert_ok(weights_read_changed(tensors, count, &stripped));
    assert_false(stripped);

    struct safetensor first = tensors[0];
    tensors[0].shape[1] = 1;
    tensors[0].count /= 3;
    assert_fails(weights_read_changed(tensors, count, NULL), STATUS_CORRUPT,
                 "'conv1.weight' is (64, 1, 7, 7), the network's is (64, 3, 7, 7)");
    tensors[0] = first;
    tensors[0].name = "stem.weight";
    assert_fails(weights_read_changed(tensors, count, NULL), STATUS_CORRUPT,
                 "missing: 'conv1.weight'; unexpected: 'stem.weight'");
    tensors[0] = first;
    tensors[count - 1].shape[0] = 1;
    tensors[count - 1].count = 1;
    assert_fails(weights_read_changed(tensors, count, NULL), STATUS_CORRUPT, "number of classes");
    tensors[count - 1].shape[0] = tensors[count - 1].count = 2;

    for (size_t i = 0; i < count; i++) {
        char name[80];
        int length = snprintf(name, sizeof name, "module.%s", tensors[i].name);
        assert_ok(arena_copy(&names, name, (size_t)length, &tensors[i].name));
    }
    assert_ok(weights_read_changed(tensors, count, &stripped));
    assert_true(stripped);
}

int main(void)
{
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_saved_is_loaded),
        cmocka_unit_test(test_a_copy_is_a_pair_of_its_own),
        cmocka_unit_test(test_stems),
        cmocka_unit_test(test_a_kill_leaves_a_whole_pair),
        cmocka_unit_test(test_a_full_disk_leaves_the_old_pair),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_foreign_weights),
    };
    return cmocka_run_group_tests(tests, run_make, run_free);
}
