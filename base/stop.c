#include "base/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static atomic_bool requested;

/* Runs in a signal handler: only a lock-free atomic and write(). */
static void stop_handle(int signal_number)
{
    static const char hint[] =
        "\nheadrace: stopping at the next safe point; Ctrl-C again ends at once\n";
    int saved_errno = errno;
    atomic_store(&requested, true);
    if (signal_number == SIGINT && write(STDERR_FILENO, hint, sizeof hint - 1) < 0)
        errno = 0; /* nobody reads: nothing to be done */
    errno = saved_errno;
}

void stop_install(void)
{
    struct sigaction action = {.sa_handler = stop_handle, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file above the size limit is a failed write, not the end */
    action.sa_flags |= (int)SA_RESETHAND; /* the second SIGINT meets the default: the end */
    sigaction(SIGINT, &action, NULL);
}

void stop_outlive_readers(void)
{
    signal(SIGPIPE, SIG_IGN);
}

void stop_request(void)
{
    atomic_store(&requested, true);
}

bool stop_requested(void)
{
    return atomic_load_explicit(&requested, memory_order_relaxed);
}

static _Thread_local const atomic_bool *followed;

void stop_follow(const atomic_bool *closing)
{
    followed = closing;
}

bool stop_is_closing(void)
{
    return followed && atomic_load_explicit(followed, memory_order_relaxed);
}

struct status stop_fail(void)
{
    FAIL(STATUS_STOPPED, "stopped on request; run the same command again to finish");
}

struct status stop_check(void)
{
    return stop_requested() || stop_is_closing() ? stop_fail() : OK;
}
