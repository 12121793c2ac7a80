/* URLs as text, and the heads of answers. */

#include "tests/test.h"

#include "index/http_head.h"
#include "index/url.h"

static void check(struct status status, char *url, const char *expected)
{
    assert_ok(status);
    assert_string_equal(url, expected);
    memory_free(url);
}

static void test_url_join(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"https://h/a/b.idx", "b-00000.shard", "https://h/a/b-00000.shard"},
        {"https://h/a/b.idx?x=/y", "sub/c d#e?%.tar", "https://h/a/sub/c%20d%23e%3F%25.tar"},
        {"HTTP://h", "c", "HTTP://h/c"},
        {"http://h?q/r", "c", "http://h/c"},
        {"s3://bucket/a?/b.idx", "c d", "s3://bucket/a?/c d"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *url = NULL;
        struct status status = url_join(cases[i][0], cases[i][1], &url);
        check(status, url, cases[i][2]);
    }
}

static void test_origin(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"https://Host/a", "https://host:443"},       {"HTTP://h?x", "http://h:80"},
        {"http://h:8080/a:b", "http://h:8080"},       {"https://[::1]/a", "https://[::1]:443"},
        {"https://[::1]:8443", "https://[::1]:8443"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *url = NULL;
        struct status status = url_origin(cases[i][0], &url);
        check(status, url, cases[i][1]);
    }
}

static void test_s3(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {"s3://b/k", NULL, "eu-x", "https://b.s3.eu-x.amazonaws.com/k"},
        {"s3://b.c/a b+c", NULL, "eu-x", "https://s3.eu-x.amazonaws.com/b.c/a%20b%2Bc"},
        {"s3://b/k/l?", "http://127.0.0.1:9000/", "eu-x", "http://127.0.0.1:9000/b/k/l%3F"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *url = NULL;
        struct status status = url_of_s3(cases[i][0], cases[i][1], cases[i][2], &url);
        check(status, url, cases[i][3]);
    }
}

static void test_check(void **state)
{
    (void)state;
    char *url;
    assert_true(url_is("HTTPS://h/x") && url_is("s3://b/k") && !url_is("/a/http://x"));
    assert_ok(url_check("https://h/x?y@z"));
    assert_ok(url_check("https://[::1]:65535/x%40y?z"));
    assert_ok(url_check("s3://b/a b@c"));
    assert_fails(url_check("https://u:p@w@h/x"), STATUS_USAGE, "'https://h/x' holds a user");
    assert_fails(url_check("http://"), STATUS_USAGE, "no host");
    assert_fails(url_check("http://h/a\nb"), STATUS_USAGE, "%0A");
    assert_ok(url_name("https://h/x?signature=1", &url));
    check(OK, url, "https://h/x");
    assert_ok(url_replace_host("https://h:1/x?y", "other:2", &url));
    check(OK, url, "https://other:2/x?y");
}

/* What may be a password is refused and not shown, wherever its author forgot to escape what, and
 * so is a query. */
static void test_secrets_are_not_shown(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"https://us:sEcReT@h/x", "https://h/x"},
        {"HTTP://us:sE/cReT@h:1/x?sEcReT", "HTTP://h:1/x?…"},
        {"http://us:sE#cReT@h/x", "http://h/x"},
        {"http://us:sE@cReT@h/x", "http://h/x"},
        {"http://us:12/34sEcReT@h/x", "http://h/x"},
        {"http://us:sE?cReT@h/x", "http://"},
        {"http://us:p@h/x?a=b@sEcReT", "http://"},
        {"http://u s:sEcReT@h/x", "http://h/x"},
        {"s3://AK:sE/cReT@bucket/s.idx", "s3://bucket/s.idx"},
        {"ftp://us:sEcReT@h/x", "ftp://h/x"},
        {" http://us:sEcReT@h/x", " http://h/x"},
        {"http:/us:sEcReT@h/x", "http:/h/x"},
        {"http:us:sEcReT@h/x", "http:h/x"},
        {"https//us:sEcReT@h/x", "https//h/x"},
        {"us:sEcReT@h/x", "h/x"},
        {"https://h/x?X-Amz-Signature=sEcReT", "https://h/x?…"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *shown = NULL;
        struct status status = url_shown(cases[i][0], &shown);
        check(status, shown, cases[i][1]);
        assert_int_equal(url_lacks_query(cases[i][1]), strstr(cases[i][1], "?…") != NULL);
        assert_false(url_lacks_query(cases[i][0]));
        assert_true(url_is_like(cases[i][0]));
        status = url_is(cases[i][0]) ? url_check(cases[i][0]) : url_refuse_kind(cases[i][0]);
        assert_true((status.code == STATUS_USAGE) == url_has_credentials(cases[i][0]));
        assert_null(strstr(status_message(&status), "cReT"));
        status_clear(&status);
    }
    static const char *const paths[] = {"a@b/c?d", "data//x.idx", "/a/http://x", "http", "s3/x"};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        char *shown = NULL;
        struct status status = url_shown(paths[i], &shown);
        check(status, shown, paths[i]);
        assert_false(url_is_like(paths[i]));
    }
}

static void test_bad_hosts(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"http://h:99999/x", "the port of 'http://h:…' is none"},
        {"http://h:/x", "the port of 'http://h:…' is none"},
        {"http://us:sEcReT/x", "the port of 'http://us:…' is none"},
        {"http://[::1]:0/x", "the port of 'http://[::1]:…' is none"},
        {"http://::1:80/x", "in brackets"},
        {"http://[::1/x", "a bracket without"},
        {"http://[::1]80/x", "something behind it"},
        {"http://h/x?y z", "'http://h/x?…' has a character that has to be written as %20"},
        {"s3://b/k?X-Amz-Signature=y", "'s3://b…' is a key with what signs"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_fails(url_check(cases[i][0]), STATUS_USAGE, cases[i][1]);
}

static struct http_head head_take(const char *const *lines)
{
    struct http_head head = {0};
    for (; *lines; lines++)
        http_head_take(&head, *lines, strlen(*lines));
    return head;
}

static void test_head(void **state)
{
    (void)state;
    struct http_head head = head_take(
        (const char *[]){"HTTP/1.1 302 Found\r\n", "ETag: \"page\"\r\n", "\r\n", "HTTP/2 206 \r\n",
                         "content-length:500\r\n", "Content-Range: bytes 0-499/1234\r\n",
                         "Last-Modified: Tue, 01 Dec 2026 00:00:00 GMT\r\n", "\r\n", NULL});
    assert_int_equal(head.status, 206);
    assert_true(head.has_length && head.length_bytes == 500);
    assert_true(head.has_range && head.first == 0 && head.last == 499);
    assert_true(head.has_total && head.total_bytes == 1234);
    assert_string_equal(http_version_text(&head.version), "Tue, 01 Dec 2026 00:00:00 GMT");
    http_head_take(&head, "etag: W/\"x\" \r\n", 13);
    assert_string_equal(http_version_text(&head.version), "W/\"x\"");
}

/* ETags decide where both have one, to their ends; else times. */
static void test_versions(void **state)
{
    (void)state;
    static const char xs[300] = {[0 ... 298] = 'x'};
    static const struct {
        const char *now, *before;
        bool differs;
    } cases[] = {
        {"ETag: 1", "ETag: 1", false},
        {"ETag: 1", "ETag: 2", true},
        {"ETag: 1\nLast-Modified: a", "ETag: 1\nLast-Modified: b", false},
        {"Last-Modified: a", "ETag: 1\nLast-Modified: b", true},
        {"Last-Modified: a", "ETag: 1", false},
        {"X: a", "ETag: 1", false},
        {"ETag: %s1", "ETag: %s2", true},
        {"ETag: %s1", "ETag: %s1", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_head heads[2] = {0};
        const char *before;
        for (int one = 0; one < 2; one++) {
            char text[400], *rest = text;
            const char *format = one ? cases[i].before : cases[i].now;
            const char *place = strstr(format, "%s");
            snprintf(text, sizeof text, "%.*s%s%s", (int)(place ? place - format : 400), format,
                     place ? xs : "", place ? place + 2 : "");
            for (const char *line; (line = strsep(&rest, "\n"));)
                http_head_take(&heads[one], line, strlen(line));
        }
        assert_int_equal(http_version_differs(&heads[0].version, &heads[1].version, &before) !=
                             NULL,
                         cases[i].differs);
    }
}

static void test_bad_heads(void **state)
{
    (void)state;
    static const char *const ranges[] = {
        "bytes 5-4/10",
        "bytes 0-10/10",
        "bytes 0-4/",
        "bytes 0-4/10x",
        "bytes -4/10",
        "lines 0-4/10",
        "bytes 0-4",
        "bytes 18446744073709551616-18446744073709551617/18446744073709551618",
        "",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(ranges); i++) {
        char line[128];
        snprintf(line, sizeof line, "Content-Range: %s\r\n", ranges[i]);
        struct http_head head = head_take((const char *[]){"HTTP/1.1 206", line, NULL});
        assert_false(head.has_range || head.has_total);
    }
    struct http_head head =
        head_take((const char *[]){"HTTP/1.1 416", "Content-Range: bytes */77",
                                   "Content-Length: 1e3", "Content-Length", NULL});
    assert_true(!head.has_range && head.has_total && head.total_bytes == 77 && !head.has_length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url_join),
        cmocka_unit_test(test_origin),
        cmocka_unit_test(test_s3),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_secrets_are_not_shown),
        cmocka_unit_test(test_bad_hosts),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_bad_heads),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
