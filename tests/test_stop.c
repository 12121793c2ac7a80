#include "tests/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/stop.h"

/* How a child ends that gets these signals (zero-terminated): 75 when it saw the request, −N when
 * signal N killed it. */
static int end_after(const int *signals)
{
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        stop_install();
        struct status before = stop_check();
        for (; *signals; signals++)
            raise(*signals);
        struct status after = stop_check();
        if (before.code != STATUS_DONE || stop_requested() != (after.code == STATUS_STOPPED))
            _exit(1);
        _exit(status_exit_code(after.code));
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFSIGNALED(result) ? -WTERMSIG(result) : WEXITSTATUS(result);
}

static void signals_ask_for_a_stop(void **state)
{
    (void)state;
    assert_int_equal(end_after((int[]){0}), 0);
    assert_int_equal(end_after((int[]){SIGINT, 0}), 75);
    assert_int_equal(end_after((int[]){SIGTERM, 0}), 75);
    assert_int_equal(end_after((int[]){SIGUSR1, SIGUSR1, SIGTERM, SIGTERM, SIGINT, 0}), 75);
}

static void second_interrupt_ends_at_once(void **state)
{
    (void)state;
    assert_int_equal(end_after((int[]){SIGINT, SIGINT, 0}), -SIGINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_ask_for_a_stop),
        cmocka_unit_test(second_interrupt_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
