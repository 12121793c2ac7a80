#include "tests/test.h"

#include <fcntl.h>
#include <pthread.h>
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

/* A flag is of the thread that follows it. */
static void *check_elsewhere(void *context)
{
    (void)context;
    assert_false(stop_is_closing());
    assert_ok(stop_check());
    return NULL;
}

static void threads_follow_a_flag(void **state)
{
    (void)state;
    static atomic_bool closing;
    pthread_t thread;
    stop_follow(&closing);
    assert_ok(stop_check());
    closing = true;
    assert_true(stop_is_closing());
    assert_false(stop_requested());
    assert_fails(stop_check(), STATUS_STOPPED, "stopped on request");
    assert_int_equal(pthread_create(&thread, NULL, check_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    stop_follow(NULL);
    assert_ok(stop_check());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_ask_for_a_stop),
        cmocka_unit_test(second_interrupt_ends_at_once),
        cmocka_unit_test(threads_follow_a_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
