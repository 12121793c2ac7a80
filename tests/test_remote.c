/* Indexes and shards behind URLs, from a server that has every fault that one can have: a read
 * gives the right bytes, or one clear error. */

#include <sys/wait.h>

#include "tests/test.h"

#include "base/crc32c.h"
#include "base/pool.h"
#include "base/progress.h"
#include "index/access.h"
#include "index/index.h"
#include "index/loader.h"
#include "index/pack.h"
#include "index/url.h"
#include "index/writer.h"
#include "tests/support/fault_server.h"
#include "tests/support/index_set.h"
#include "tests/support/jpeg_folder.h"

/* The set that is served: set/ has data.tar with records in two of which of three a CRC is known,
 * and packed shards. */
static const char *set_folder(void)
{
    static const char *folder;
    CLEANUP(source_free) struct source *tar = NULL;
    CLEANUP(source_free) struct source *images = NULL;
    CLEANUP(pack_report_done) struct pack_report report = {0};
    const struct pack_options options = {.threads = 2, .shard_bytes = 20000};
    if (folder)
        return folder;
    folder = test_path("served");
    assert_ok(folder_create(folder));
    assert_ok(folder_create(test_path("served/set")));
    tar = index_set_make(test_path("served/set/data x+y.tar"), 200, 5);
    assert_ok(index_write(tar, "{}", test_path("served/set/tar.idx")));
    jpeg_folder_make(test_path("images"));
    images = jpeg_folder_open(test_path("images"));
    assert_ok(pack_run(images, test_path("served/set/packed.idx"), &options, &report));
    assert_true(report.shards > 2);
    return folder;
}

/* Deadlines that no healthy server exceeds, however busy the machine is. */
static struct access_options patient_options(void)
{
    struct access_options options;
    access_options_init(&options);
    options.idle_timeout = 5;
    options.timeout = 60;
    return options;
}

/* Short ones, so that what cannot succeed ends soon. */
static struct access_options hasty_options(void)
{
    struct access_options options = patient_options();
    options.idle_timeout = 1;
    options.timeout = 2;
    return options;
}

/* A checksum over the bytes of all records. */
static struct status checksum_read(struct index *index, uint32_t *ret_crc)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    *ret_crc = 0;
    for (uint64_t i = 0; i < index_count(index); i++) {
        TRY(index_read_stored(index, i, &bytes));
        *ret_crc = crc32c_update(*ret_crc, bytes.data, bytes.length);
    }
    return OK;
}

static uint32_t local_checksum(const char *name)
{
    CLEANUP(index_close) struct index *index = NULL;
    uint32_t crc;
    assert_ok(index_open(test_join(set_folder(), name), &index));
    assert_ok(checksum_read(index, &crc));
    return crc;
}

/* Opens an index behind a URL and reads all of it. */
static struct status url_read(const char *url, const struct access_options *options,
                              uint32_t *ret_crc)
{
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    TRY(access_open(options, &access));
    TRY(index_open_with(url, access, &index));
    return checksum_read(index, ret_crc);
}

static struct status fault_read(const struct fault_server *server, const char *fault,
                                const struct access_options *options, uint32_t *ret_crc)
{
    char path[128];
    print_message("%s\n", fault);
    snprintf(path, sizeof path, "%s/set/packed.idx", fault);
    return url_read(fault_server_url(server, path), options, ret_crc);
}

/* What stands on a server is what stands in the folder: packed shards, an archive with characters
 * that URLs do not have, and a single shard in the place of an index. */
static void test_same_as_local(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    const struct access_options options = patient_options();
    const char *const names[] = {"set/packed.idx", "set/tar.idx", "set/packed-00001.shard"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        uint32_t crc;
        assert_ok(url_read(fault_server_url(&server, test_join("fine", names[i])), &options, &crc));
        assert_int_equal(crc, local_checksum(names[i]));
    }
}

/* Without options: what the environment says. */
static void test_plain_open(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    CLEANUP(index_close) struct index *index = NULL;
    const char *url = fault_server_url(&server, "fine/set/tar.idx?signature=secret");
    uint32_t crc;
    assert_ok(index_open(url, &index));
    assert_string_equal(index_path(index), fault_server_url(&server, "fine/set/tar.idx"));
    assert_string_equal(index_shard(index, 0)->path,
                        fault_server_url(&server, "fine/set/data%20x%2By.tar"));
    assert_ok(checksum_read(index, &crc));
    assert_int_equal(crc, local_checksum("set/tar.idx"));
}

/* What passes by itself is tried again. */
static void test_passing_faults(void **state)
{
    (void)state;
    const char *const faults[] = {
        "fine",  "busy", "all-busy", "cut-once",    "corrupt-once",      "all-moved",
        "moved", "slow", "flaky",    "alternating", "whole-now-and-then"};
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    const struct access_options options = patient_options();
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        uint32_t crc = 0;
        assert_ok(fault_read(&server, faults[i], &options, &crc));
        assert_int_equal(crc, local_checksum("set/packed.idx"));
    }
}

/* What does not pass is one error, which names the file and says why. */
static void test_lasting_faults(void **state)
{
    (void)state;
    static const struct {
        const char *fault;
        enum status_code code;
        const char *reason;
    } cases[] = {
        {"missing", STATUS_NOT_FOUND, "packed-00000.shard': the "},
        {"missing", STATUS_NOT_FOUND, "it is not there (the server answers 404)"},
        {"all-missing", STATUS_NOT_FOUND, "packed.idx': the 64 bytes at offset 0: it is not there"},
        {"range", STATUS_CORRUPT, "bytes (the server answers 416): it was changed"},
        {"away", STATUS_IO, "the server answers 503, and asks to wait 3600 s; others may have"},
        {"away-for-days", STATUS_IO, "the server answers 503, and asks to wait 86400 s"},
        {"ill", STATUS_IO, "the server answers 500; its log says why"},
        {"nothing", STATUS_IO, "the server answers 204, expected 206 with bytes of a file"},
        {"proxy", STATUS_FAILED, "the proxy asks who we are (407): http_proxy and"},
        {"endless-head", STATUS_IO, "the head of the answer is too long"},
        {"endless-line", STATUS_IO, "the head of the answer is too long"},
        {"long-etag", STATUS_CORRUPT, "the file was changed since it was first read"},
        {"cut", STATUS_IO, "tried "},
        {"long", STATUS_IO, "more bytes came"},
        {"drop", STATUS_IO, "Empty reply"},
        {"drop", STATUS_IO, "; is that a server of HTTP, and what does its log say?"},
        {"silent", STATUS_IO, "tried "},
        {"trickle", STATUS_IO, "tried "},
        {"grown", STATUS_CORRUPT, "were recorded: it was changed or replaced; pack it again"},
        {"changes", STATUS_CORRUPT, "it is \"two\" now and was \"one\""},
        {"modified", STATUS_CORRUPT, "the file was changed since it was first read"},
        {"corrupt", STATUS_CORRUPT, "they are damaged: their CRC is "},
        {"whole", STATUS_UNSUPPORTED, "does not know byte ranges"},
        {"all-whole", STATUS_UNSUPPORTED, "does not know byte ranges"},
        {"shifted", STATUS_CORRUPT, "were recorded"},
        {"rangeless", STATUS_UNSUPPORTED, "does not say which bytes"},
        {"encoded", STATUS_UNSUPPORTED, "compresses"},
        {"all-round", STATUS_IO, "Maximum (5) redirects followed; is the URL right?"},
        {"ftp", STATUS_IO, "Protocol \"ftp\" not supported or disabled"},
        {"basic", STATUS_FAILED, "the server asks who we are (401): give --user"},
    };
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    const struct access_options options = hasty_options();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint32_t crc;
        assert_fails(fault_read(&server, cases[i].fault, &options, &crc), cases[i].code,
                     cases[i].reason);
    }
}

/* Nobody listens. */
static void test_no_server(void **state)
{
    (void)state;
    struct fault_server server = fault_server_start(set_folder(), NULL);
    const char *url = fault_server_url(&server, "fine/set/tar.idx");
    const struct access_options options = patient_options();
    uint32_t crc;
    fault_server_stop(&server);
    assert_fails(url_read(url, &options, &crc), STATUS_IO, "tried 4 times: Failed to connect");
    assert_fails(url_read(url, &options, &crc), STATUS_IO,
                 "; is the server running, and are its name and port right?");
}

static void test_credentials(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    const char *basic = fault_server_url(&server, "basic/set/tar.idx");
    const char *bearer = fault_server_url(&server, "bearer/set/tar.idx");
    struct access_options options = patient_options();
    uint32_t crc = 0, local = local_checksum("set/tar.idx");

    options.user = "reader";
    options.password = "s3cret:with colon";
    assert_ok(url_read(basic, &options, &crc));
    assert_int_equal(crc, local);
    options.password = "wrong";
    assert_fails(url_read(basic, &options, &crc), STATUS_FAILED,
                 "the server refuses the user 'reader' with this password (401)");
    options.password = NULL;
    assert_ok(file_write_plain(test_path("password"), "s3cret:with colon\n", 18));
    options.password_file = test_path("password");
    assert_ok(url_read(basic, &options, &crc));
    options.user = NULL;
    assert_fails(url_read(basic, &options, &crc), STATUS_USAGE, "there is a password, but no user");

    options = patient_options();
    options.token = "bearer-0123";
    assert_ok(url_read(bearer, &options, &crc));
    options.token = "bearer-4567";
    assert_fails(url_read(bearer, &options, &crc), STATUS_FAILED, "refuses the token (401)");

    options = patient_options();
    static const char netrc[] = "machine 127.0.0.1 login reader password \"s3cret:with colon\"\n";
    assert_ok(file_write_plain(test_path("netrc"), netrc, sizeof netrc - 1));
    options.netrc = test_path("netrc");
    assert_ok(url_read(basic, &options, &crc));
    assert_int_equal(crc, local);
}

/* Nothing that could end a line of a request's head is sent, nor shown. */
static void test_credentials_refused(void **state)
{
    (void)state;
    static const struct {
        const char *user, *password, *token, *message;
    } cases[] = {
        {"us:er", "p", NULL, "the user holds a colon"},
        {"us\ner", "p", NULL, "the user holds a character that cannot be sent"},
        {"user", "p\rw", NULL, "the password holds a character"},
        {NULL, NULL, "t\r\nX-Evil: 1", "the token holds a character"},
    };
    struct access_options options = patient_options();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(access_close) struct access *access = NULL;
        options.user = cases[i].user;
        options.password = cases[i].password;
        options.token = cases[i].token;
        assert_fails(access_open(&options, &access), STATUS_USAGE, cases[i].message);
    }
}

/* How often `what` stands in a server's log. */
static size_t log_count(const char *path, const char *what)
{
    CLEANUP(buffer_done) struct buffer content = {0};
    const char *text;
    size_t count = 0;
    assert_ok(file_read_all(path, 1 << 24, &content));
    assert_ok(buffer_text(&content, &text));
    while ((text = strstr(text, what))) {
        text += strlen(what);
        count++;
    }
    return count;
}

/* Passwords go to the servers that were named, and to no other that these point to. */
static void test_credentials_stay(void **state)
{
    (void)state;
    const char *log = test_path("other.log"), *first_log = test_path("first.log");
    CLEANUP(fault_server_stop)
    struct fault_server other =
        fault_server_start(set_folder(), (const char *[]){"--log", log, NULL});
    const char *base = fault_server_url(&other, "");
    CLEANUP(memory_free) char *target = NULL;
    assert_ok(string_format(&target, "%.*s", (int)strlen(base) - 1, base));
    CLEANUP(fault_server_stop)
    struct fault_server server =
        fault_server_start(set_folder(),
                           (const char *[]){"--other", target, "--log", first_log, NULL});
    struct access_options options = patient_options();
    uint32_t crc;
    for (int with_token = 0; with_token < 2; with_token++) {
        options.user = with_token ? NULL : "reader";
        options.password = with_token ? NULL : "s3cret";
        options.token = with_token ? "token" : NULL;
        assert_ok(url_read(fault_server_url(&server, "elsewhere/set/packed.idx"), &options, &crc));
        assert_int_equal(crc, local_checksum("set/packed.idx"));
    }
    assert_true(log_count(first_log, " Basic\n") > 40);
    assert_true(log_count(first_log, " Bearer\n") > 40);
    assert_true(log_count(log, "\n") > 40);
    assert_int_equal(log_count(log, "\n"), log_count(log, " -\n"));
}

/* An index of ours may name shards anywhere; one from a server cannot send our password on. */
static void test_shards_elsewhere(void **state)
{
    (void)state;
    const char *log = test_path("elsewhere.log");
    CLEANUP(fault_server_stop)
    struct fault_server other =
        fault_server_start(set_folder(), (const char *[]){"--log", log, NULL});
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(test_folder(), NULL);
    CLEANUP(source_free)
    struct source *source = index_set_open(test_join(set_folder(), "set/tar.idx"));
    struct access_options options = patient_options();
    uint32_t crc;
    memory_free(source->shards[0].path);
    assert_ok(string_copy(fault_server_url(&other, "fine/set/data%20x%2By.tar"),
                          &source->shards[0].path));
    assert_ok(index_write(source, "{}", test_path("pointer.idx")));
    options.user = "reader";
    options.password = "s3cret";
    assert_ok(url_read(test_path("pointer.idx"), &options, &crc));
    assert_int_equal(crc, local_checksum("set/tar.idx"));
    assert_int_equal(log_count(log, "\n"), log_count(log, " Basic\n"));
    size_t before = log_count(log, " Basic\n");
    assert_ok(url_read(fault_server_url(&server, "fine/pointer.idx"), &options, &crc));
    assert_int_equal(log_count(log, " Basic\n"), before);
    assert_int_equal(log_count(log, " -\n"), before);

    memory_free(source->shards[0].path);
    assert_ok(string_copy("http://me:secret@127.0.0.1/x.tar", &source->shards[0].path));
    assert_fails(index_write(source, "{}", test_path("secret.idx")), STATUS_USAGE,
                 "'http://127.0.0.1/x.tar' holds a user or a password");
}

/* Two origins as options have them. */
static char *two_origins(const struct fault_server *a, const char *path_a,
                         const struct fault_server *b, const char *path_b)
{
    char *text;
    assert_ok(
        string_format(&text, "%s,%s/", fault_server_url(a, path_a), fault_server_url(b, path_b)));
    return text;
}

/* Shards are spread over the origins; where one fails, or says no, the other one is asked. */
static void test_origins(void **state)
{
    (void)state;
    const char *const faults[] = {"fine",    "missing", "range", "cut",   "drop",
                                  "corrupt", "whole",   "grown", "basic", "changes"};
    const char *log = test_path("origins.log");
    CLEANUP(fault_server_stop)
    struct fault_server good =
        fault_server_start(set_folder(), (const char *[]){"--log", log, NULL});
    CLEANUP(fault_server_stop)
    struct fault_server bad = fault_server_start(set_folder(), NULL);
    struct access_options options = patient_options();
    size_t before = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        CLEANUP(memory_free) char *origins = NULL;
        char path[64];
        uint32_t crc = 0;
        print_message("%s\n", faults[i]);
        snprintf(path, sizeof path, "%s/set", faults[i]);
        origins = two_origins(&bad, path, &good, "fine/set");
        options.origins = origins;
        assert_ok(url_read(test_join(set_folder(), "set/packed.idx"), &options, &crc));
        assert_int_equal(crc, local_checksum("set/packed.idx"));
        size_t asked = log_count(log, "\n") - before;
        assert_true(i == 0 ? asked > 10 && asked < 30 : asked >= 20);
        before += asked;
    }
}

/* An index behind a URL with hosts for origins, as KSpeed has them: its own URL's host may be gone.
 */
static void test_origins_by_host(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop)
    struct fault_server a = fault_server_start(set_folder(), NULL);
    struct fault_server b = fault_server_start(set_folder(), NULL);
    struct access_options options = patient_options();
    char hosts[64];
    uint32_t crc;
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", b.port, a.port);
    options.origins = hosts;
    fault_server_stop(&b);
    assert_ok(url_read(fault_server_url(&b, "fine/set/packed.idx"), &options, &crc));
    assert_int_equal(crc, local_checksum("set/packed.idx"));
    assert_fails(url_read(test_join(set_folder(), "set/packed.idx"), &options, &crc), STATUS_USAGE,
                 "give --origins as URLs");
    options.origins = "http://a/b,c";
    assert_fails(url_read("http://127.0.0.1/x", &options, &crc), STATUS_USAGE, "mixed");
}

/* One of two origins ends in the middle; another one is away for a while and comes back. */
static void test_origin_ends(void **state)
{
    (void)state;
    static const char *const faults[][3] = {{"--die-after", "10", NULL}, {"--ill", "5-9", NULL}};
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        CLEANUP(memory_free) char *origins = NULL;
        CLEANUP(fault_server_stop)
        struct fault_server a = fault_server_start(set_folder(), faults[i]);
        CLEANUP(fault_server_stop)
        struct fault_server b = fault_server_start(set_folder(), NULL);
        struct access_options options = patient_options();
        uint32_t crc;
        origins = two_origins(&a, "fine/set", &b, "fine/set");
        options.origins = origins;
        assert_ok(url_read(test_join(set_folder(), "set/packed.idx"), &options, &crc));
        assert_int_equal(crc, local_checksum("set/packed.idx"));
    }
}

struct crowd {
    struct index *url, *local;
};

static struct status crowd_read(uint64_t item, unsigned thread, void *context)
{
    struct crowd *crowd = context;
    CLEANUP(buffer_done) struct buffer far = {0};
    CLEANUP(buffer_done) struct buffer near = {0};
    (void)thread;
    uint64_t i = item % index_count(crowd->url);
    TRY(index_read_stored(crowd->url, i, &far));
    TRY(index_read_stored(crowd->local, i, &near));
    if (far.length != near.length || memcmp(far.data, near.data, near.length) != 0)
        FAIL(STATUS_FAILED, "record %d differs", (int)i);
    return OK;
}

/* Dozens of threads read at once, from a server that is slow and sometimes fails. */
static void test_many_threads(void **state)
{
    (void)state;
    const char *const faults[] = {"slow/set/packed.idx", "flaky/set/packed.idx"};
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    CLEANUP(pool_close) struct pool *pool = NULL;
    assert_ok(pool_open(40, &pool));
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        CLEANUP(index_close) struct index *url = NULL;
        CLEANUP(index_close) struct index *local = NULL;
        assert_ok(index_open(fault_server_url(&server, faults[i]), &url));
        assert_ok(index_open(test_join(set_folder(), "set/packed.idx"), &local));
        struct crowd crowd = {url, local};
        assert_ok(pool_run(pool, 400, crowd_read, &crowd));
    }
}

/* A checksum over the pixels, labels and records of two epochs. */
static struct status batches_checksum(struct index *index, uint32_t *ret_crc)
{
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options;
    struct batch *batch;
    uint32_t crc = 0;
    loader_options_init(&options);
    options.global_batch = 8;
    options.image_size = 24;
    options.threads = 4;
    TRY(loader_open(index, &options, &loader));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        TRY(loader_start(loader, epoch, 0));
        for (uint64_t step = 0; step < loader_steps(loader); step++) {
            TRY(loader_next(loader, &batch));
            crc = crc32c_update(crc, batch->images, (size_t)8 * 24 * 24 * 3 * sizeof(float));
            crc = crc32c_update(crc, batch->labels, 8 * sizeof *batch->labels);
            for (uint32_t i = 0; i < batch->count; i++)
                crc = crc32c_update(crc, &batch->samples[i].record, sizeof(uint64_t));
            batch_release(batch);
        }
    }
    *ret_crc = crc;
    return OK;
}

/* Batches are those from local files, whatever the servers do meanwhile: one is slow, one fails now
 * and then, one ends for good. */
static void test_same_batches(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop)
    struct fault_server slow = fault_server_start(set_folder(), NULL);
    CLEANUP(fault_server_stop)
    struct fault_server dying =
        fault_server_start(set_folder(), (const char *[]){"--die-after", "15", NULL});
    CLEANUP(index_close) struct index *local = NULL;
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *url = NULL;
    CLEANUP(memory_free) char *origins = two_origins(&dying, "flaky/set", &slow, "slow/set");
    struct access_options options = patient_options();
    uint32_t expected, crc;
    options.origins = origins;
    assert_ok(access_open(&options, &access));
    assert_ok(index_open(test_join(set_folder(), "set/packed.idx"), &local));
    assert_ok(index_open_with(fault_server_url(&slow, "fine/set/packed.idx"), access, &url));
    assert_ok(batches_checksum(local, &expected));
    assert_ok(batches_checksum(url, &crc));
    assert_int_equal(crc, expected);
}

/* Children of fork, as PyTorch's DataLoader makes them, read on as their parent does. */
static void test_fork(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not follow threads that a child starts */
#endif
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    CLEANUP(index_close) struct index *index = NULL;
    uint32_t crc, expected = local_checksum("set/packed.idx");
    assert_ok(index_open(fault_server_url(&server, "fine/set/packed.idx"), &index));
    assert_ok(checksum_read(index, &crc));
    pid_t children[4];
    for (size_t i = 0; i < ARRAY_LENGTH(children); i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct status status = checksum_read(index, &crc);
            index_close(index);
            _exit(status.code != STATUS_DONE || crc != expected);
        }
        assert_ok(checksum_read(index, &crc));
        assert_int_equal(crc, expected);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(children); i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void test_s3(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    const struct access_options options = patient_options();
    uint32_t crc;
    setenv("AWS_ENDPOINT_URL", fault_server_url(&server, ""), 1);
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCY", 1);
    setenv("AWS_SESSION_TOKEN", "session==/1", 1);
    setenv("AWS_REGION", "eu-test-1", 1);
    assert_ok(url_read("s3://s3/set/tar.idx", &options, &crc)); /* the bucket is the fault's name */
    assert_int_equal(crc, local_checksum("set/tar.idx"));
    assert_fails(url_read("s3://all-region/set/tar.idx", &options, &crc), STATUS_FAILED,
                 "is the bucket in another region than 'eu-test-1'? Set AWS_REGION");
    setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
    assert_fails(url_read("s3://s3/set/tar.idx", &options, &crc), STATUS_FAILED,
                 "the server refuses (403): is the key right");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    assert_fails(url_read("s3://s3/set/tar.idx", &options, &crc), STATUS_USAGE, "no secret");

    /* The files of Amazon's tools. */
    static const char keys[] =
        "[other]\naws_access_key_id = x\naws_secret_access_key = y\n"
        "[default]\naws_access_key_id = AKIDEXAMPLE\n"
        "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG+bPxRfiCY\naws_session_token = session==/1\n";
    static const char config[] = "[default]\nregion = eu-test-1\n";
    assert_ok(file_write_plain(test_path("credentials"), keys, sizeof keys - 1));
    assert_ok(file_write_plain(test_path("config"), config, sizeof config - 1));
    setenv("AWS_SHARED_CREDENTIALS_FILE", test_path("credentials"), 1);
    setenv("AWS_CONFIG_FILE", test_path("config"), 1);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SESSION_TOKEN");
    unsetenv("AWS_REGION");
    assert_ok(url_read("s3://s3/set/tar.idx", &options, &crc));
    assert_int_equal(crc, local_checksum("set/tar.idx"));
}

static void test_urls_refused(void **state)
{
    (void)state;
    const struct access_options options = patient_options();
    uint32_t crc;
    assert_fails(url_read("https://me:secret@127.0.0.1/x.idx", &options, &crc), STATUS_USAGE,
                 "'https://127.0.0.1/x.idx' holds a user or a password");
    assert_fails(url_read("http:///x.idx", &options, &crc), STATUS_USAGE, "names no host");
    assert_fails(url_read("http://127.0.0.1/a b.idx", &options, &crc), STATUS_USAGE, "%20");
    assert_fails(url_read("s3://bucket", &options, &crc), STATUS_USAGE, "s3://BUCKET/KEY");
    setenv("AWS_ENDPOINT_URL", "http://us:sEcReT@127.0.0.1:9", 1);
    assert_fails(url_read("s3://bucket/key", &options, &crc), STATUS_USAGE,
                 "AWS_ENDPOINT_URL is 'http://127.0.0.1:9' with a user or a password");
    setenv("AWS_ENDPOINT_URL", "ftp://127.0.0.1:9?sEcReT", 1);
    assert_fails(url_read("s3://bucket/key", &options, &crc), STATUS_USAGE,
                 "AWS_ENDPOINT_URL is 'ftp://127.0.0.1:9?…', expected");
    unsetenv("AWS_ENDPOINT_URL");
}

/* Hosts and URLs of origins are held to the same, and their passwords not shown. */
static void test_origins_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"us:sEcReT@h", "the origin 'h' is neither"},
        {"us:sE/cReT@h", "the origin 'h' is neither"},
        {"http://us:sE,cReT@h", "the port of 'http://us:…' is none"},
        {"ftp://us:sEcReT@h/x", "the origin 'ftp://h/x' is neither"},
        {"h?sEcReT", "the origin 'h' is neither"},
        {"::1", "in brackets"},
        {"h:99999", "the port of 'http://h:…' is none"},
    };
    struct access_options options = patient_options();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(access_close) struct access *access = NULL;
        options.origins = cases[i][0];
        assert_fails(access_open(&options, &access), STATUS_USAGE, cases[i][1]);
    }
}

/* A loader is closed, and an epoch left, however long the server takes: an hour, here. */
static void test_closing(void **state)
{
    (void)state;
    CLEANUP(fault_server_stop)
    struct fault_server server = fault_server_start(set_folder(), NULL);
    struct access_options options = patient_options();
    options.idle_timeout = options.timeout = 3600;
    const char *url = fault_server_url(&server, "silent/set/packed.idx");
    for (int way = 0; way < 6; way++) {
        CLEANUP(access_close) struct access *access = NULL;
        CLEANUP(index_close) struct index *index = NULL;
        CLEANUP(cache_close) struct cache *cache = NULL;
        CLEANUP(loader_close) struct loader *loader = NULL;
        struct loader_options loading;
        bool ready;
        loader_options_init(&loading);
        loading.global_batch = 4;
        loading.threads = 3;
        loading.on_error = way % 2 ? LOADER_SKIP : LOADER_FAIL;
        assert_ok(access_open(&options, &access));
        assert_ok(index_open_with(url, access, &index));
        if (way >= 4)
            assert_ok(cache_open(test_path("closing"), 2 << 20, &cache));
        loading.cache = cache;
        assert_ok(loader_open(index, &loading, &loader));
        assert_ok(loader_start(loader, 0, 0));
        assert_ok(loader_wait(loader, 50 * (unsigned)way, &ready));
        assert_false(ready);
        loader_stop(loader);
        struct batch *batch;
        assert_fails(loader_next(loader, &batch), STATUS_STOPPED, "was closed");
        struct loader_statistics statistics;
        loader_statistics(loader, &statistics);
        assert_int_equal(statistics.bad_records, 0);
    }
}

int main(void)
{
    /* Nothing of the machine's own settings. */
    static const char *const variables[] = {"http_proxy",         "https_proxy",
                                            "all_proxy",          "HTTP_PROXY",
                                            "HTTPS_PROXY",        "ALL_PROXY",
                                            "HEADRACE_ORIGINS",   "HEADRACE_USER",
                                            "HEADRACE_TOKEN",     "AWS_PROFILE",
                                            "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3",
                                            "HEADRACE_CA_FILE",   "HEADRACE_PASSWORD"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_local),
        cmocka_unit_test(test_plain_open),
        cmocka_unit_test(test_passing_faults),
        cmocka_unit_test(test_lasting_faults),
        cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_credentials_refused),
        cmocka_unit_test(test_credentials_stay),
        cmocka_unit_test(test_shards_elsewhere),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_origins_by_host),
        cmocka_unit_test(test_origin_ends),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_same_batches),
        cmocka_unit_test(test_s3),
        cmocka_unit_test(test_urls_refused),
        cmocka_unit_test(test_origins_refused),
        cmocka_unit_test(test_closing),
    };
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", test_folder(), 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
