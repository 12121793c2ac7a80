#include "tests/support/shell.h"

#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

int test_shell(const char *command)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}
