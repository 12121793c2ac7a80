#include "tests/support/ranks.h"

#include <sys/wait.h>

#include "tests/test.h"

static void number_set(const char *name, unsigned value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

static const char *message_path(const struct ranks *ranks, unsigned rank)
{
    char name[96];
    snprintf(name, sizeof name, "%s-rank-%u", ranks->id, rank);
    return test_path(name);
}

void ranks_begin(struct ranks *ranks, unsigned size, struct comm_options options)
{
    static unsigned jobs;
    *ranks = (struct ranks){.options = options, .size = size};
    snprintf(ranks->id, sizeof ranks->id, "test-%ld-%u", (long)getpid(), jobs++);
    setenv("TORCHELASTIC_RUN_ID", ranks->id, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
    unsetenv("HEADRACE_PORT");
}

static struct status rank_run(const struct ranks *ranks, rank_fn *fn)
{
    CLEANUP(comm_close) struct comm *comm = NULL;
    TRY(comm_open(&ranks->options, &comm));
    return fn(comm);
}

void ranks_start(struct ranks *ranks, unsigned rank, unsigned world, rank_fn *fn)
{
    const char *path = message_path(ranks, rank);
    number_set("RANK", rank);
    number_set("WORLD_SIZE", world);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assertion ends the rank, not its test */
        struct status status = rank_run(ranks, fn);
        const char *message = status_message(&status);
        status_ignore(file_write_atomic(path, message, strlen(message)));
        _exit(status_exit_code(status.code));
    }
    ranks->pids[rank] = child;
}

void ranks_start_all(struct ranks *ranks, rank_fn *fn)
{
    for (unsigned rank = 0; rank < ranks->size; rank++)
        ranks_start(ranks, rank, ranks->size, fn);
}

struct rank_end ranks_wait(struct ranks *ranks, unsigned rank)
{
    struct rank_end end = {0};
    CLEANUP(buffer_done) struct buffer message = {0};
    int result;
    assert_int_equal(waitpid(ranks->pids[rank], &result, 0), ranks->pids[rank]);
    end.status = WIFSIGNALED(result) ? -WTERMSIG(result) : WEXITSTATUS(result);
    if (path_exists(message_path(ranks, rank))) {
        assert_ok(file_read_all(message_path(ranks, rank), sizeof end.message - 1, &message));
        memcpy(end.message, message.data, message.length);
    }
    return end;
}
