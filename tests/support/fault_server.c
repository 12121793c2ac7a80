#include "tests/support/fault_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/test.h"

enum { MAX_ARGUMENTS = 16 };

static void server_exec(const char *folder, const char *const *arguments, int input, int output)
{
    const char *words[MAX_ARGUMENTS + 4] = {"python3", "tests/support/fault_server.py", folder};
    for (size_t i = 0; i < MAX_ARGUMENTS && arguments && arguments[i]; i++)
        words[3 + i] = arguments[i];
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    execvp(words[0], (char *const *)words);
    _exit(127);
}

static int port_read(int output)
{
    char line[32] = "";
    size_t length = 0;
    while (length < sizeof line - 1 && read(output, line + length, 1) == 1 && line[length] != '\n')
        length++;
    return (int)strtol(line, NULL, 10);
}

struct fault_server fault_server_start(const char *folder, const char *const *arguments)
{
    struct fault_server server = {.input = -1};
    int input[2], output[2];
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    server.process = fork();
    assert_true(server.process >= 0);
    if (server.process == 0)
        server_exec(folder, arguments, input[0], output[1]);
    close(input[0]);
    close(output[1]);
    server.input = input[1];
    server.port = port_read(output[0]);
    close(output[0]);
    if (server.port == 0) {
        fault_server_stop(&server);
        fail_msg("tests/support/fault_server.py does not start");
    }
    return server;
}

void fault_server_stop(struct fault_server *server)
{
    if (server->process <= 0)
        return;
    close(server->input);
    kill(server->process, SIGKILL);
    waitpid(server->process, NULL, 0);
    server->process = 0;
}

const char *fault_server_url(const struct fault_server *server, const char *path)
{
    char base[64];
    snprintf(base, sizeof base, "http://127.0.0.1:%d", server->port);
    return test_join(base, path);
}
