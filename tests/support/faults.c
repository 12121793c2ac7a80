#include "tests/support/faults.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/wait.h>
#include <time.h>

#include "base/disk.h"
#include "base/random.h"
#include "base/stop.h"
#include "tests/test.h"

enum { PLACES = 50, TOGETHER = 4, ROUNDS = 12 };
static const uint64_t seed = 20120614;

/* How many calls a whole run makes. */
static uint64_t count_calls(const struct fault_scenario *scenario)
{
    scenario->prepare();
    disk_set_fault("kill:1000000000");
    assert_ok(scenario->run());
    uint64_t calls = disk_fault_calls();
    disk_set_fault(NULL);
    scenario->check();
    assert_true(calls >= 10);
    return calls;
}

/* Each run is a fork, which takes ten times as long with a sanitizer's memory: then a third of
 * them.
 */
static unsigned places_of(const struct fault_scenario *scenario)
{
    unsigned places = scenario->places ? scenario->places : PLACES;
#ifdef __SANITIZE_ADDRESS__
    places = (places + 2) / 3;
#endif
    return places;
}

/* A number of 1 … whole in the i-th of so many equal parts. */
static uint64_t place(struct random_stream *random, unsigned i, unsigned places, uint64_t whole)
{
    return 1 + (uint64_t)(((double)i + random_double(random)) * (double)whole / places);
}

/* An assertion that fails in a child would go on with the next test there, which forks again. */
static pid_t fork_quietly(void)
{
    static pid_t owner;
    owner = owner ? owner : getpid();
    if (owner != getpid())
        _exit(1);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    return child;
}

/* Whether the run did not finish. */
static bool run_with_fault(const struct fault_scenario *scenario, const char *fault)
{
    pid_t child = fork_quietly();
    if (child == 0) {
        disk_set_fault(fault);
        struct status status = scenario->run();
        _exit(status.code == STATUS_DONE ? 0 : status.code == STATUS_NO_SPACE ? 2 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    if (WEXITSTATUS(status) && (strncmp(fault, "ENOSPC", 6) == 0 || strncmp(fault, "EDQ", 3) == 0))
        assert_int_equal(WEXITSTATUS(status), 2);
    return WEXITSTATUS(status) != 0;
}

static void finish(const struct fault_scenario *scenario)
{
    if (scenario->check_unfinished)
        scenario->check_unfinished();
    assert_ok(scenario->run());
    scenario->check();
}

void faults_run(const struct fault_scenario *scenario)
{
    static const char *const whats[] = {"kill", "ENOSPC", "EDQUOT", "EIO", "EACCES"};
    uint64_t calls = count_calls(scenario);
    unsigned places = places_of(scenario);
    for (size_t what = 0; what < ARRAY_LENGTH(whats); what++) {
        struct random_stream random = random_stream_make(seed, RANDOM_TEST, what, 0);
        unsigned unfinished = 0;
        for (unsigned i = 0; i < places; i++) {
            char fault[32];
            uint64_t k = place(&random, i, places, calls);
            snprintf(fault, sizeof fault, "%s:%" PRIu64, whats[what], k);
            scenario->prepare();
            unfinished += run_with_fault(scenario, fault);
            finish(scenario);
        }
        if (unfinished < places * 9 / 10)
            fail_msg("%s (seed %" PRIu64 "): only %u of %u runs ended early", whats[what], seed,
                     unfinished, places);
    }
}

/* --- Signals --- */

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Starts a run; the pipe's end closes when it has begun. */
static pid_t run_start(const struct fault_scenario *scenario)
{
    int begun[2];
    char byte;
    assert_int_equal(pipe(begun), 0);
    pid_t child = fork_quietly();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDERR_FILENO); /* what SIGINT says */
        stop_install();
        close(begun[0]);
        close(begun[1]);
        struct status status = scenario->run();
        _exit(status_exit_code(status.code));
    }
    close(begun[1]);
    assert_int_equal(read(begun[0], &byte, 1), 0);
    close(begun[0]);
    return child;
}

static uint64_t run_measure(const struct fault_scenario *scenario)
{
    int status;
    scenario->prepare();
    uint64_t start = nanoseconds();
    pid_t child = run_start(scenario);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return nanoseconds() - start;
}

void faults_run_signals(const struct fault_scenario *scenario, int signal_number,
                        void (*check_stopped)(void))
{
    struct random_stream random = random_stream_make(seed, RANDOM_TEST, (uint64_t)signal_number, 1);
    uint64_t whole_ns = run_measure(scenario);
    unsigned places = places_of(scenario);
    for (unsigned i = 0; i < places; i++) {
        uint64_t wait_ns = place(&random, i, places, whole_ns);
        int status;
        scenario->prepare();
        pid_t child = run_start(scenario);
        nanosleep(&(struct timespec){.tv_sec = (time_t)(wait_ns / 1000000000),
                                     .tv_nsec = (long)(wait_ns % 1000000000)},
                  NULL);
        kill(child, signal_number);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status)) {
            assert_int_equal(WTERMSIG(status), SIGKILL);
        } else if (WEXITSTATUS(status) != 0) {
            assert_int_equal(WEXITSTATUS(status), status_exit_code(STATUS_STOPPED));
            check_stopped();
        }
        finish(scenario);
    }
}

/* --- Several at once --- */

void faults_run_together(const struct fault_scenario *scenario)
{
    for (int round = 0; round < ROUNDS; round++) {
        pid_t children[TOGETHER];
        scenario->prepare();
        for (size_t i = 0; i < TOGETHER; i++) {
            children[i] = fork_quietly();
            if (children[i] != 0)
                continue;
            struct status status = scenario->run();
            bool is_busy = strstr(status_message(&status), "another headrace is writing") != NULL;
            if (status.code != STATUS_DONE && !is_busy)
                print_error("%s\n", status_message(&status));
            _exit(status.code != STATUS_DONE && !is_busy);
        }
        for (size_t i = 0; i < TOGETHER; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
        finish(scenario);
    }
}
