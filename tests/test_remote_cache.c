/* The node's cache in front of servers: who brings a record, what was published anew, and that many
 * epochs leave nothing behind. */

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/test.h"

#include "base/crc32c.h"
#include "index/access.h"
#include "index/cache_fetch.h"
#include "index/cache_reader.h"
#include "index/loader.h"
#include "index/pack.h"
#include "index/writer.h"
#include "tests/support/fault_server.h"
#include "tests/support/index_set.h"
#include "tests/support/jpeg_folder.h"
#include "tests/support/process.h"

enum { IMAGES = 40, PROCESSES = 3, BUDGET = 4 << 20 };
/* Epochs of a loader, of which the first ones make what stays; more images than its cache has room
 * for; most connections that its client keeps. */
enum {
    EPOCHS = 60,
    FIRST_EPOCHS = 20,
    MANY_IMAGES = 240,
    SMALL_BUDGET = 1100000,
    CONNECTIONS = 32
};

/* An index of so many images, `first` …, in served/NAME.idx, in the place of what is there. */
static void images_publish(const char *name, unsigned first, unsigned count)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(memory_free) char *index = NULL;
    const struct pack_options options = {.threads = 1, .force = true};
    char file[32];
    assert_ok(folder_create(test_path("served")));
    assert_ok(folder_remove(test_path("images")));
    for (unsigned i = 0; i < count; i++) {
        snprintf(file, sizeof file, "x_%03u.JPEG", i);
        jpeg_folder_image(first + i, &bytes);
        jpeg_folder_add(test_path("images"), i % 2 ? "a" : "b", file, &bytes);
    }
    source = jpeg_folder_open(test_path("images"));
    assert_ok(string_format(&index, "%s/%s.idx", test_path("served"), name));
    assert_ok(pack_run(source, index, &options, &report));
}

/* An index of so many records of an archive, served/NAME.idx and NAME.tar; no cache yet. */
static void tar_publish(const char *name, size_t count)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(memory_free) char *tar = NULL;
    CLEANUP(memory_free) char *index = NULL;
    assert_ok(folder_create(test_path("served")));
    assert_ok(folder_remove(test_path("cache")));
    assert_ok(string_format(&tar, "%s/%s.tar", test_path("served"), name));
    assert_ok(string_format(&index, "%s/%s.idx", test_path("served"), name));
    source = index_set_make(tar, count, 5);
    assert_ok(index_write(source, "{}", index));
}

/* A data set that is read through a cache. */
struct reading {
    struct access *access;
    struct index *index;
    struct cache *cache;
    struct cache_reader *reader;
};

static void reading_done(struct reading *reading)
{
    cache_reader_close(reading->reader);
    cache_close(reading->cache);
    index_close(reading->index);
    access_close(reading->access);
}
CLEANUP_VALUE(reading_done, struct reading)

static struct status reading_open(const char *path, struct reading *reading)
{
    struct access_options options;
    access_options_init(&options);
    options.connect_timeout = options.idle_timeout = options.timeout = 60;
    TRY(access_open(&options, &reading->access));
    TRY(index_open_with(path, reading->access, &reading->index));
    TRY(cache_open(test_path("cache"), BUDGET, &reading->cache));
    return cache_reader_open(reading->index, reading->cache, &reading->reader);
}

static struct status record_read(struct reading *reading, uint64_t i, struct buffer *bytes)
{
    uint8_t encoding;
    return cache_reader_read(reading->reader, i, bytes, &encoding);
}

/* A checksum over the records `first` … `last` - 1, through the cache or, where there is none, from
 * the index. */
static struct status checksum_read(struct reading *reading, uint64_t first, uint64_t last,
                                   uint32_t *ret_crc)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    *ret_crc = 0;
    for (uint64_t i = first; i < last; i++) {
        TRY(reading->reader ? record_read(reading, i, &bytes)
                            : index_read(reading->index, i, &bytes));
        *ret_crc = crc32c_update(*ret_crc, bytes.data, bytes.length);
    }
    return OK;
}

/* That of the files in served/. */
static uint32_t local_checksum(const char *name, uint64_t first, uint64_t last)
{
    CLEANUP(reading_done) struct reading local = {0};
    uint32_t crc;
    assert_ok(index_open(test_join(test_path("served"), name), &local.index));
    assert_ok(checksum_read(&local, first, last, &crc));
    return crc;
}

static void assert_same(struct reading *reading, const char *name)
{
    uint32_t crc;
    uint64_t count = index_count(reading->index);
    assert_ok(checksum_read(reading, 0, count, &crc));
    assert_int_equal(crc, local_checksum(name, 0, count));
}

/* Lines of a server's log that ask for a shard. */
static size_t requests_count(const char *log)
{
    FILE *file = fopen(log, "r");
    char line[512];
    size_t count = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, ".shard ") != NULL;
    assert_int_equal(fclose(file), 0);
    return count;
}

/* Reads the whole set when `gate` ends, as the others do, and leaves with 0 when it was right. */
static void process_run(const char *url, int gate, uint32_t expected)
{
    struct reading reading = {0};
    char byte;
    uint32_t crc = 0;
    struct status status = reading_open(url, &reading);
    if (status.code == STATUS_DONE && read(gate, &byte, 1) == 0)
        status = checksum_read(&reading, 0, IMAGES, &crc);
    if (status.code != STATUS_DONE)
        fprintf(stderr, "%s\n", status_message(&status));
    _exit(status.code != STATUS_DONE || crc != expected);
}

/* Processes that want the same records at the same time: each is brought once, and right. */
static void test_at_once(void **state)
{
    (void)state;
    const char *log = test_path("once.log");
    int gate[2];
    pid_t processes[PROCESSES];
    assert_ok(folder_remove(test_path("cache")));
    images_publish("once", 0, IMAGES);
    CLEANUP(fault_server_stop)
    struct fault_server server =
        fault_server_start(test_path("served"), (const char *[]){"--log", log, NULL});
    const char *url = fault_server_url(&server, "slow/once.idx");
    uint32_t expected = local_checksum("once.idx", 0, IMAGES);
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    for (int i = 0; i < PROCESSES; i++) {
        processes[i] = fork();
        assert_true(processes[i] >= 0);
        if (processes[i] == 0) {
            close(gate[1]);
            process_run(url, gate[0], expected);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(processes[i], &status, 0), processes[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(requests_count(log), IMAGES);
    CLEANUP(cache_close) struct cache *cache = NULL;
    assert_ok(cache_open(test_path("cache"), 0, &cache));
    assert_int_equal(cache_statistics(cache).records, IMAGES);
}

/* A set that is published anew under its URL: who opens it reads the new one, whatever the cache
 * holds of the old; who has the old one open gets what the cache holds of it, or an error. */
static void test_published_anew(void **state)
{
    (void)state;
    const char *log = test_path("anew.log");
    CLEANUP(reading_done) struct reading old = {0};
    CLEANUP(reading_done) struct reading new = {0};
    CLEANUP(reading_done) struct reading again = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    uint32_t half, crc;
    assert_ok(folder_remove(test_path("cache")));
    images_publish("anew", 0, IMAGES);
    CLEANUP(fault_server_stop)
    struct fault_server server =
        fault_server_start(test_path("served"), (const char *[]){"--log", log, NULL});
    const char *url = fault_server_url(&server, "versioned/anew.idx");
    assert_ok(reading_open(url, &old));
    assert_ok(checksum_read(&old, 0, IMAGES / 2, &half));
    assert_int_equal(half, local_checksum("anew.idx", 0, IMAGES / 2));
    images_publish("anew", IMAGES, IMAGES);
    assert_ok(reading_open(url, &new));
    assert_same(&new, "anew.idx");
    assert_ok(checksum_read(&old, 0, IMAGES / 2, &crc));
    assert_int_equal(crc, half);
    for (uint64_t i = IMAGES / 2; i < IMAGES; i++)
        assert_fails(record_read(&old, i, &bytes), STATUS_CORRUPT, "changed");

    /* What the cache has of it is there when the old one comes back. */
    images_publish("anew", 0, IMAGES);
    size_t before = requests_count(log);
    assert_ok(reading_open(url, &again));
    assert_same(&again, "anew.idx");
    assert_int_equal(requests_count(log) - before, IMAGES / 2);
}

/* Flips a bit of every byte of the records whose CRC is known, or is not, in the one shard. */
static void records_change(const char *index_path, bool crc_known)
{
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(buffer_done) struct buffer content = {0};
    assert_ok(index_open(index_path, &index));
    const char *shard = index_shard(index, 0)->path;
    assert_ok(file_read_all(shard, 1 << 20, &content));
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        assert_ok(index_record(index, i, &record));
        for (uint64_t at = 0; record.crc_known == crc_known && at < record.length; at++)
            content.data[record.offset + at] ^= 1;
    }
    FILE *file = fopen(shard, "r+b");
    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.length, file), content.length);
    assert_int_equal(fclose(file), 0);
}

/* A file of the same size and layout with other bytes, whose CRCs the index does not know all: the
 * server's ETag tells it from the old one. One whose CRCs do not hold is an error. */
static void test_changed_under_an_index(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(fault_server_stop) struct fault_server server = {0};
    const char *path = test_path("served/tar.idx");
    uint32_t crc;
    tar_publish("tar", 200);
    server = fault_server_start(test_path("served"), NULL);
    const char *url = fault_server_url(&server, "versioned/tar.idx");
    CLEANUP(reading_done) struct reading old = {0};
    CLEANUP(reading_done) struct reading changed = {0};
    CLEANUP(reading_done) struct reading damaged = {0};
    assert_ok(reading_open(url, &old));
    assert_ok(checksum_read(&old, 0, 100, &crc));
    assert_int_equal(crc, local_checksum("tar.idx", 0, 100));
    records_change(path, false);
    assert_fails(record_read(&old, 150, &bytes), STATUS_CORRUPT,
                 "the file was changed since it was first read");
    assert_ok(checksum_read(&old, 0, 100, &crc));
    assert_int_not_equal(crc, local_checksum("tar.idx", 0, 100));
    assert_ok(reading_open(url, &changed));
    assert_same(&changed, "tar.idx");
    records_change(path, true);
    assert_ok(reading_open(url, &damaged));
    for (uint64_t i = 100; i < 120; i++) {
        struct record record;
        assert_ok(index_record(damaged.index, i, &record));
        struct status status = record_read(&damaged, i, &bytes);
        if (record.crc_known)
            assert_fails(status, STATUS_CORRUPT, "they are damaged: their CRC is");
        else
            assert_ok(status);
    }
}

/* The same from a server that tells no version: nothing is kept for later. */
static void test_server_without_versions(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop) struct fault_server server = {0};
    const char *path = test_path("served/blind.idx");
    const struct cache_fetch_options options = {.parts = 1, .threads = 2};
    struct cache_fetch_report report;
    uint32_t crc;
    tar_publish("blind", 60);
    server = fault_server_start(test_path("served"), NULL);
    const char *url = fault_server_url(&server, "unversioned/blind.idx");
    CLEANUP(reading_done) struct reading old = {0};
    CLEANUP(reading_done) struct reading changed = {0};
    assert_ok(reading_open(url, &old));
    assert_same(&old, "blind.idx");
    uint32_t before = local_checksum("blind.idx", 0, 60);
    assert_fails(cache_fetch(old.index, old.cache, &options, NULL, &report), STATUS_UNSUPPORTED,
                 "could not be told from another version later");
    records_change(path, false);
    assert_int_not_equal(local_checksum("blind.idx", 0, 60), before);
    assert_ok(reading_open(url, &changed));
    assert_same(&changed, "blind.idx");
    assert_ok(checksum_read(&old, 0, 60, &crc)); /* all of it is in the cache as it was */
    assert_int_equal(crc, before);
}

/* A file's time is set to what it was, as copying programs do. */
static void time_restore(const char *path, const struct stat *before)
{
    const struct timespec times[] = {before->st_atim, before->st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Times of files go in steps of some milliseconds: waits for the next one. */
static void time_pass(const struct stat *before)
{
    struct stat now = *before;
    while (now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before->st_mtim.tv_nsec) {
        assert_ok(file_write_plain(test_path("served/clock"), "", 0));
        assert_int_equal(stat(test_path("served/clock"), &now), 0);
    }
}

/* Archives of this machine that are written to, or replaced by others of the same time and size:
 * who has one open gets what it was, or an error, and who opens it later what it is. */
static void test_archive_is_changed(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(buffer_done) struct buffer content = {0};
    const char *data = test_path("served/here.tar"), *path = test_path("served/here.idx");
    struct stat before;
    uint32_t crc;
    tar_publish("here", 60);
    assert_int_equal(stat(data, &before), 0);
    CLEANUP(reading_done) struct reading old = {0};
    CLEANUP(reading_done) struct reading written = {0};
    CLEANUP(reading_done) struct reading replaced = {0};
    assert_ok(reading_open(path, &old));
    assert_ok(checksum_read(&old, 0, 30, &crc));
    assert_int_equal(crc, local_checksum("here.idx", 0, 30));
    time_pass(&before);
    records_change(path, false);
    for (uint64_t i = 30; i < 60; i++) {
        struct record record;
        assert_ok(index_record(old.index, i, &record));
        struct status status = record_read(&old, i, &bytes);
        if (record.crc_known)
            assert_ok(status);
        else
            assert_fails(status, STATUS_CORRUPT, "was written to since it was first read");
    }
    time_restore(data, &before);
    assert_ok(reading_open(path, &written));
    assert_same(&written, "here.idx");

    assert_ok(file_read_all(data, 1 << 20, &content));
    assert_ok(file_write_plain(test_path("served/new"), content.data, content.length));
    assert_ok(file_rename(data, test_path("served/kept")));
    assert_ok(file_rename(test_path("served/new"), data));
    records_change(path, false);
    time_restore(data, &before);
    assert_ok(reading_open(path, &replaced));
    assert_same(&replaced, "here.idx");
    assert_ok(checksum_read(&written, 0, 60, &crc)); /* its file, whatever its name is now */
    assert_int_not_equal(crc, local_checksum("here.idx", 0, 60));
}

/* Epochs `first` … `end` - 1, of which each third is left in the middle. */
static void epochs_run(struct loader *loader, uint64_t first, uint64_t end)
{
    for (uint64_t epoch = first; epoch < end; epoch++) {
        struct batch *batch = NULL;
        assert_ok(loader_start(loader, epoch, 0));
        do {
            assert_ok(loader_next(loader, &batch));
            if (batch)
                batch_release(batch);
        } while (batch && (epoch % 3 || batch->step < loader_steps(loader) / 2));
    }
}

/* Opens a loader on a URL, through the cache of a folder or, NULL, with one of its own in memory,
 * both smaller than the set, and runs epochs. *ret_growth_bytes: of the memory in those behind the
 * first ones, in which threads and descriptors stay as many. */
static void loader_live(const char *url, const char *folder, uint64_t epochs,
                        int64_t *ret_growth_bytes)
{
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct access_options reaching;
    struct loader_options options;
    access_options_init(&reaching);
    loader_options_init(&options);
    options.global_batch = 16;
    options.image_size = 16;
    options.threads = 2;
    if (folder)
        assert_ok(cache_open(folder, SMALL_BUDGET, &cache));
    else
        options.memory_bytes = 4 * SMALL_BUDGET;
    options.cache = cache;
    assert_ok(access_open(&reaching, &access));
    assert_ok(index_open_with(url, access, &index));
    assert_ok(loader_open(index, &options, &loader));
    epochs_run(loader, 0, FIRST_EPOCHS);
    size_t threads = process_threads(), descriptors = process_descriptors();
    uint64_t bytes = process_resident_bytes();
    epochs_run(loader, FIRST_EPOCHS, epochs);
    *ret_growth_bytes = (int64_t)(process_resident_bytes() - bytes);
    assert_int_equal(process_threads(), threads);
    assert_true(process_descriptors() <= descriptors + CONNECTIONS);
}

static void test_epochs_leave_nothing(void **state)
{
    (void)state;
    const int64_t most_bytes = 4 << 20;
    const char *log = test_path("epochs.log");
    assert_ok(folder_remove(test_path("cache")));
    images_publish("epochs", 0, MANY_IMAGES);
    CLEANUP(fault_server_stop)
    struct fault_server server =
        fault_server_start(test_path("served"), (const char *[]){"--log", log, NULL});
    const char *url = fault_server_url(&server, "fine/epochs.idx");
    const char *const folders[] = {NULL, test_path("cache")};
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++) {
        int64_t growth_bytes;
        loader_live(url, folders[i], FIRST_EPOCHS, &growth_bytes);
        size_t threads = process_threads(), descriptors = process_descriptors();
        size_t requests = requests_count(log);
        loader_live(url, folders[i], EPOCHS, &growth_bytes);
        assert_true(requests_count(log) > requests + 10 * EPOCHS); /* it did not all fit */
        assert_int_equal(process_threads(), threads);
        assert_int_equal(process_descriptors(), descriptors);
        print_message("%zu requests, %lld bytes more\n", requests_count(log) - requests,
                      (long long)growth_bytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        assert_true(growth_bytes < most_bytes);
#else
        (void)most_bytes; /* sanitizers keep what was freed */
#endif
    }
}

int main(void)
{
    static const char *const variables[] = {"http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY",
                                            "HEADRACE_ORIGINS"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_published_anew),
        cmocka_unit_test(test_changed_under_an_index),
        cmocka_unit_test(test_server_without_versions),
        cmocka_unit_test(test_archive_is_changed),
        cmocka_unit_test(test_epochs_leave_nothing),
    };
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", test_folder(), 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
