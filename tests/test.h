#ifndef HEADRACE_TESTS_TEST_H
#define HEADRACE_TESTS_TEST_H

/* What every test includes first: cmocka, assertions on statuses, a temporary folder, the data
 * folder. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

#define TEST_HELPER __attribute__((unused)) static

TEST_HELPER void test_check_ok(struct status status, const char *call, const char *file, int line)
{
    if (status.code == STATUS_DONE)
        return;
    print_error("%s failed with code %d: %s\n", call, (int)status.code, status_message(&status));
    status_clear(&status);
    _fail(file, line);
}

TEST_HELPER void test_check_fails(struct status status, enum status_code code, const char *part,
                                  const char *call, const char *file, int line)
{
    if (status.code == code && strstr(status_message(&status), part)) {
        status_clear(&status);
        return;
    }
    print_error("%s gave code %d: '%s'\nexpected code %d and '%s'\n", call, (int)status.code,
                status_message(&status), (int)code, part);
    status_clear(&status);
    _fail(file, line);
}

/* The call succeeds. */
#define assert_ok(call) test_check_ok((call), #call, __FILE__, __LINE__)
/* The call fails with this code, and its message contains `part`. */
#define assert_fails(call, code, part)                                                             \
    test_check_fails((call), (code), (part), #call, __FILE__, __LINE__)

static char test_folder_path[256];
static pid_t test_folder_owner;

TEST_HELPER void test_folder_remove(void)
{
    if (getpid() == test_folder_owner)
        status_ignore(folder_remove(test_folder_path));
}

/* A temporary folder of this process, made on first use and removed at exit. */
TEST_HELPER const char *test_folder(void)
{
    if (test_folder_path[0])
        return test_folder_path;
    const char *parent = getenv("TMPDIR"), *made = getenv("HEADRACE_TEST_FOLDER");
    snprintf(test_folder_path, sizeof test_folder_path, "%s/headrace-test-%ld",
             parent ? parent : "/tmp", (long)getpid());
    if (made && strcmp(made, test_folder_path) == 0)
        return test_folder_path; /* another source file of this program has made it */
    test_folder_owner = getpid();
    setenv("HEADRACE_TEST_FOLDER", test_folder_path, 1);
    assert_ok(folder_remove(test_folder_path)); /* of a killed process that had this number */
    assert_ok(folder_create(test_folder_path));
    atexit(test_folder_remove);
    return test_folder_path;
}

/* Holds the results of test_path and test_data_path to the end of the process. */
static struct arena test_strings;

TEST_HELPER const char *test_join(const char *folder, const char *name)
{
    char path[1024];
    const char *kept = "";
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(length > 0 && (size_t)length < sizeof path);
    assert_ok(arena_copy(&test_strings, path, (size_t)length, &kept));
    return kept;
}

/* Puts the temporary folder into memory where there is room: for tests that sync hundreds of
 * megabytes. To be called before the folder is made. */
TEST_HELPER void test_folder_in_memory(void)
{
    struct status status = folder_require_space("/dev/shm", (uint64_t)3 << 30);
    if (status.code == STATUS_DONE)
        setenv("TMPDIR", "/dev/shm", 0);
    status_ignore(status);
}

/* A path in the temporary folder. */
TEST_HELPER const char *test_path(const char *name)
{
    return test_join(test_folder(), name);
}

TEST_HELPER void assert_same_file(const char *a, const char *b)
{
    CLEANUP(buffer_done) struct buffer left = {0};
    CLEANUP(buffer_done) struct buffer right = {0};
    assert_ok(file_read_all(a, (size_t)1 << 30, &left));
    assert_ok(file_read_all(b, (size_t)1 << 30, &right));
    assert_int_equal(left.length, right.length);
    assert_memory_equal(left.data, right.data, left.length);
}

/* A path in the data folder (HEADRACE_DATA, else ../shared/data). Where it is missing the test is
 * skipped, or fails when HEADRACE_REQUIRE_DATA=1. */
TEST_HELPER const char *test_data_path(const char *name)
{
    const char *folder = getenv("HEADRACE_DATA");
    const char *path = test_join(folder ? folder : "../shared/data", name);
    if (path_exists(path))
        return path;
    const char *required = getenv("HEADRACE_REQUIRE_DATA");
    if (required && strcmp(required, "1") == 0)
        fail_msg("%s is missing and HEADRACE_REQUIRE_DATA is set", path);
    print_message("%s is missing: skipped\n", path);
    skip();
    return path;
}

#endif
