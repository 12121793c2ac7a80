#include "tests/test.h"

#include <errno.h>

static struct status fails(void)
{
    FAIL(STATUS_CORRUPT, "record %d is %s", 7, "bad");
}

static struct status tries(int *reached)
{
    TRY(OK);
    *reached = 1;
    TRY(fails());
    *reached = 2;
    return OK;
}

static void try_returns_the_first_failure(void **state)
{
    (void)state;
    int reached = 0;
    assert_fails(tries(&reached), STATUS_CORRUPT, "record 7 is bad");
    assert_int_equal(reached, 1);
}

static void context_goes_before_the_message(void **state)
{
    (void)state;
    struct status status = status_context(fails(), "shard %d", 3);
    assert_string_equal(status_message(&status), "shard 3: record 7 is bad");
    assert_int_equal(status.code, STATUS_CORRUPT);
    status_clear(&status);
    assert_string_equal(status_message(&status), "");
    assert_ok(status);
    assert_ok(status_context(OK, "nothing"));
}

static void advice_goes_behind_the_message(void **state)
{
    (void)state;
    assert_fails(status_advise(fails(), "leave it out"), STATUS_CORRUPT,
                 "record 7 is bad; leave it out");
    assert_ok(status_advise(OK, "nothing"));
}

static void errno_becomes_a_code_and_a_reason(void **state)
{
    (void)state;
    assert_fails(status_errno(ENOSPC, "cannot write 'x'"), STATUS_NO_SPACE,
                 "cannot write 'x': No space");
    assert_fails(status_errno(EDQUOT, "x"), STATUS_NO_SPACE, "uota");
    assert_fails(status_errno(ENOENT, "x"), STATUS_NOT_FOUND, "No such file");
    assert_fails(status_errno(ENOMEM, "x"), STATUS_NO_MEMORY, "memory");
    assert_fails(status_errno(EACCES, "x"), STATUS_IO, "Permission denied");
}

static void exit_codes_are_those_of_the_manual(void **state)
{
    (void)state;
    assert_int_equal(status_exit_code(STATUS_DONE), 0);
    assert_int_equal(status_exit_code(STATUS_FAILED), 1);
    assert_int_equal(status_exit_code(STATUS_NO_SPACE), 1);
    assert_int_equal(status_exit_code(STATUS_USAGE), 2);
    assert_int_equal(status_exit_code(STATUS_FOUND), 3);
    assert_int_equal(status_exit_code(STATUS_STOPPED), 75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(try_returns_the_first_failure),
        cmocka_unit_test(context_goes_before_the_message),
        cmocka_unit_test(advice_goes_behind_the_message),
        cmocka_unit_test(errno_becomes_a_code_and_a_reason),
        cmocka_unit_test(exit_codes_are_those_of_the_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
