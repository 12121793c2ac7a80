/* Packing into `dct` and unpacking are killed, stopped, run twice at once and let down by the disk
 * all over their runs: nothing half-written ever stands under a final name, and run again they end
 * in the same bytes. */

#include "tests/test.h"

#include "base/progress.h"
#include "index/pack.h"
#include "index/unpack.h"
#include "tests/support/faults.h"
#include "tests/support/jpeg_folder.h"

static struct source *source;

static const struct pack_options dct_options = {.encoding = ENCODING_DCT,
                                                .shard_bytes = 65536,
                                                .threads = 2};
/* What is replaced: more shards, of other bytes. */
static const struct pack_options old_options = {.encoding = ENCODING_JPEG,
                                                .shard_bytes = 16384,
                                                .threads = 2};

static struct status pack_into(const char *folder, struct pack_options options, bool force)
{
    CLEANUP(pack_report_done) struct pack_report report = {0};
    options.force = force;
    return pack_run(source, test_join(test_path(folder), "x.idx"), &options, &report);
}

static bool is_same(const char *a, const char *b)
{
    CLEANUP(buffer_done) struct buffer left = {0};
    CLEANUP(buffer_done) struct buffer right = {0};
    if (!path_exists(a) || !path_exists(b))
        return false;
    assert_ok(file_read_all(a, 1 << 24, &left));
    assert_ok(file_read_all(b, 1 << 24, &right));
    return left.length == right.length && memcmp(left.data, right.data, left.length) == 0;
}

static void list(const char *folder, struct folder_list *files)
{
    assert_ok(folder_list_read(test_path(folder), files));
}

/* out/ has the files of another folder, no more and no less. */
static bool out_is(const char *folder)
{
    CLEANUP(folder_list_done) struct folder_list expected = {0};
    CLEANUP(folder_list_done) struct folder_list files = {0};
    list(folder, &expected);
    list("out", &files);
    bool is = files.count == expected.count;
    for (size_t i = 0; is && i < files.count; i++) {
        const char *name = files.entries[i].name;
        is = is_same(test_join(test_path("out"), name), test_join(test_path(folder), name));
    }
    return is;
}

static void out_clear(void)
{
    assert_ok(folder_remove(test_path("out")));
    assert_ok(folder_create(test_path("out")));
}

/* Every file of out/ with a final name is the one of `first` or of `second`; an index has all
 * shards of its set. */
static void out_check_whole(const char *first, const char *second)
{
    const char *const folders[] = {first, second};
    CLEANUP(folder_list_done) struct folder_list files = {0};
    list("out", &files);
    for (size_t i = 0; i < files.count; i++) {
        const char *name = files.entries[i].name;
        const char *path = test_join(test_path("out"), name);
        if (name[0] != '.' && !is_same(path, test_join(test_path(first), name)) &&
            !is_same(path, test_join(test_path(second), name)))
            fail_msg("%s is half-written", name);
    }
    for (size_t f = 0; f < ARRAY_LENGTH(folders); f++) {
        CLEANUP(folder_list_done) struct folder_list set = {0};
        list(folders[f], &set);
        if (!is_same(test_path("out/x.idx"), test_join(test_path(folders[f]), "x.idx")))
            continue;
        for (size_t i = 0; i < set.count; i++)
            assert_true(is_same(test_join(test_path("out"), set.entries[i].name),
                                test_join(test_path(folders[f]), set.entries[i].name)));
    }
}

/* --- Packing anew --- */

static struct status pack_anew(void)
{
    return pack_into("out", dct_options, false);
}

static void anew_check_unfinished(void)
{
    out_check_whole("new", "new");
}

static void pack_check(void)
{
    assert_true(out_is("new"));
}

static void check_nothing(void)
{
    CLEANUP(folder_list_done) struct folder_list files = {0};
    list("out", &files);
    assert_int_equal(files.count, 0);
}

static const struct fault_scenario anew = {out_clear, pack_anew, anew_check_unfinished, pack_check,
                                           40};

static void packing_survives_faults(void **state)
{
    (void)state;
    faults_run(&anew);
}

static void packing_survives_kills_at_any_moment(void **state)
{
    (void)state;
    faults_run_signals(&anew, SIGKILL, NULL);
}

static void packing_stops_on_request(void **state)
{
    (void)state;
    faults_run_signals(&anew, SIGTERM, check_nothing);
    faults_run_signals(&anew, SIGINT, check_nothing);
}

static void one_packs_at_a_time(void **state)
{
    (void)state;
    faults_run_together(&anew);
}

/* --- Replacing an index --- */

static void replace_prepare(void)
{
    out_clear();
    assert_ok(pack_into("out", old_options, false));
}

static struct status replace(void)
{
    return pack_into("out", dct_options, true);
}

static void replace_check_unfinished(void)
{
    out_check_whole("old", "new");
}

static void check_old(void)
{
    assert_true(out_is("old"));
}

static const struct fault_scenario replacing = {replace_prepare, replace, replace_check_unfinished,
                                                pack_check, 20};

static void replacing_survives_faults(void **state)
{
    (void)state;
    faults_run(&replacing);
}

static void replacing_survives_signals(void **state)
{
    (void)state;
    faults_run_signals(&replacing, SIGKILL, NULL);
    faults_run_signals(&replacing, SIGTERM, check_old);
}

/* --- Unpacking --- */

static struct status unpack(void)
{
    CLEANUP(index_close) struct index *index = NULL;
    const struct unpack_options unpacking = {.threads = 2};
    CLEANUP(unpack_report_done) struct unpack_report report = {0};
    TRY(index_open(test_path("new/x.idx"), &index));
    return index_unpack(index, test_path("out"), &unpacking, &report);
}

/* Every image below out/ is whole; with `is_all` there are all of them, and nothing else. */
static void images_check(bool is_all)
{
    CLEANUP(folder_list_done) struct folder_list classes = {0};
    size_t images = 0;
    list("out", &classes);
    for (size_t c = 0; c < classes.count; c++) {
        CLEANUP(folder_list_done) struct folder_list files = {0};
        const char *class_name = classes.entries[c].name;
        if (class_name[0] == '.') {
            assert_false(is_all);
            continue;
        }
        const char *there = test_join(test_path("out"), class_name);
        assert_ok(folder_list_read(there, &files));
        images += files.count;
        for (size_t i = 0; i < files.count; i++)
            assert_true(is_same(test_join(there, files.entries[i].name),
                                test_join(test_join(test_path("images"), class_name),
                                          files.entries[i].name)));
    }
    if (is_all)
        assert_int_equal(images, source->item_count);
}

static void unpack_check_unfinished(void)
{
    images_check(false);
}

static void unpack_check(void)
{
    images_check(true);
}

static const struct fault_scenario unpacking = {out_clear, unpack, unpack_check_unfinished,
                                                unpack_check, 20};

static void unpacking_survives_faults(void **state)
{
    (void)state;
    faults_run(&unpacking);
}

static void unpacking_survives_signals(void **state)
{
    (void)state;
    faults_run_signals(&unpacking, SIGKILL, NULL);
    faults_run_signals(&unpacking, SIGTERM, unpack_check_unfinished);
    faults_run_together(&unpacking);
}

int main(void)
{
    progress_set_quiet(1);
    test_folder_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_survives_faults),
        cmocka_unit_test(packing_survives_kills_at_any_moment),
        cmocka_unit_test(packing_stops_on_request),
        cmocka_unit_test(one_packs_at_a_time),
        cmocka_unit_test(replacing_survives_faults),
        cmocka_unit_test(replacing_survives_signals),
        cmocka_unit_test(unpacking_survives_faults),
        cmocka_unit_test(unpacking_survives_signals),
    };
    jpeg_folder_make(test_path("images"));
    source = jpeg_folder_open(test_path("images"));
    assert_ok(folder_create(test_path("new")));
    assert_ok(folder_create(test_path("old")));
    assert_ok(pack_into("new", dct_options, false));
    assert_ok(pack_into("old", old_options, false));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    source_free(source);
    return failed;
}
