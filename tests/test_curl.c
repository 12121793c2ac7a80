/* Requests at once: none waits for another that is not answered, nor past its own deadline. */

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/test.h"

#include "index/curl.h"
#include "tests/support/fault_server.h"

enum { CONNECTIONS = 32, LENGTH = 10 }; /* that many a client has to one server; bytes of a range */

static struct fault_server server;
static struct http_client *client;
static const char *url, *log_path;
static atomic_int ended;

static int setup(void **state)
{
    static char content[CONNECTIONS * LENGTH];
    (void)state;
    assert_ok(file_write_plain(test_path("file"), content, sizeof content));
    log_path = test_path("log");
    server = fault_server_start(test_folder(), (const char *[]){"--log", log_path, NULL});
    assert_ok(http_client_open(&client));
    atomic_store(&ended, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_client_close(client);
    fault_server_stop(&server);
    return 0;
}

static struct status accept_all(void *context, const struct http_head *head)
{
    (void)context, (void)head;
    return OK;
}

static enum http_outcome range_get(const char *at, uint64_t number, unsigned total_ms)
{
    uint8_t bytes[LENGTH];
    struct http_sink sink = {.bytes = bytes, .capacity_bytes = sizeof bytes};
    struct http_response response;
    const struct http_request request = {
        .url = at,
        .offset = number * LENGTH,
        .length = LENGTH,
        .connect_ms = total_ms,
        .idle_s = total_ms / 1000 + 1,
        .total_ms = total_ms,
        .accept = accept_all,
    };
    http_client_get(client, &request, &sink, &response);
    atomic_fetch_add(&ended, 1);
    return response.outcome;
}

static void *thread_get(void *number)
{
    return (void *)(intptr_t)range_get(url, (uint64_t)(uintptr_t)number, 60000);
}

static void threads_start(pthread_t *threads, uintptr_t count)
{
    for (uintptr_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_get, (void *)i), 0);
}

/* How many of `count` threads had an answer. */
static int threads_join(const pthread_t *threads, size_t count)
{
    int answered = 0;
    for (size_t i = 0; i < count; i++) {
        void *outcome;
        assert_int_equal(pthread_join(threads[i], &outcome), 0);
        answered += (intptr_t)outcome == HTTP_ANSWERED;
    }
    return answered;
}

/* Of a server that answers nobody before all have asked. */
static void test_none_waits_for_another(void **state)
{
    (void)state;
    pthread_t threads[16];
    url = fault_server_url(&server, "gate/file");
    threads_start(threads, ARRAY_LENGTH(threads));
    assert_int_equal(threads_join(threads, ARRAY_LENGTH(threads)), 16);
}

static size_t lines_count(const struct buffer *text)
{
    size_t count = 0;
    for (size_t i = 0; i < text->length; i++)
        count += text->data[i] == '\n';
    return count;
}

/* Waits until so many requests came to the server. */
static void requests_await(size_t count)
{
    CLEANUP(buffer_done) struct buffer log = {0};
    while (lines_count(&log) < count) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        if (path_exists(log_path))
            assert_ok(file_read_all(log_path, 1 << 20, &log));
    }
}

/* All connections are taken by requests that wait for a silent server: one more waits for a free
 * connection, as long as it is told and no longer. */
static void test_a_wait_for_a_connection_ends(void **state)
{
    (void)state;
    pthread_t threads[CONNECTIONS];
    url = fault_server_url(&server, "silent/file");
    threads_start(threads, CONNECTIONS);
    requests_await(CONNECTIONS);
    assert_int_equal(range_get(url, 0, 500), HTTP_BROKEN);
    assert_int_equal(atomic_load(&ended), 1);
    fault_server_stop(&server);
    assert_int_equal(threads_join(threads, CONNECTIONS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_none_waits_for_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_wait_for_a_connection_ends, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
